//! The files that a trace needs, made up in a directory.
//!
//! Files are as long as the trace says; only the parts that it reads hold bytes, the rest are holes, or a trace of a
//! few seconds would need the disks of a whole server.

use super::trace::{Before, FileNumber, Operation, Step, Trace};
use crate::LabError;
use crate::experiments::noise::noise;
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Files in a directory.
const DIRECTORY_LEN: u32 = 100;
/// Names that `missing` looks for, one after the other: a search along a path asks for the same again and again.
const MISSING_NAMES: usize = 64;
/// Bytes written at once.
const BLOCK: u64 = 64 * 1024;

/// Where the files of a trace are.
#[derive(Debug, Clone)]
pub(super) struct Tree {
    root: PathBuf,
}

impl Tree {
    /// In a directory that is there.
    pub(super) fn new(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// The root.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// The name of a file or directory.
    pub(super) fn path(&self, file: FileNumber) -> PathBuf {
        self.root.join(format!("{}/{}", file.0 / DIRECTORY_LEN, file.0))
    }

    /// A name that is not there.
    pub(super) fn missing(&self, number: usize) -> PathBuf {
        self.root.join(format!("missing-{}", number % MISSING_NAMES))
    }

    /// Makes everything as it is before the trace; what is there already, and is to be, stays.
    ///
    /// # Errors
    /// [`LabError::Io`] names what could not be made.
    pub(super) fn make(&self, trace: &Trace) -> Result<(), LabError> {
        let used = trace.steps.iter().flat_map(Step::files);
        for file in trace.before.keys().copied().chain(used) {
            let parent = self.root.join((file.0 / DIRECTORY_LEN).to_string());
            fs::create_dir_all(&parent).map_err(LabError::io(format!("make {}", parent.display())))?;
        }
        for file in trace.steps.iter().flat_map(Step::files).filter(|file| !trace.before.contains_key(file)) {
            let path = self.path(file);
            let gone = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
            match gone {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(LabError::io(format!("remove {}", path.display()))(error));
                }
                Err(_) | Ok(()) => {}
            }
        }
        let read = read_parts(trace);
        for (file, before) in &trace.before {
            let path = self.path(*file);
            let parts = read.get(file).map_or(&[][..], Vec::as_slice);
            let made = match before {
                Before::File(len) => make_file(&path, *len, parts, *file),
                Before::Directory(entries) => make_directory(&path, *entries),
            };
            made.map_err(LabError::io(format!("make {}", path.display())))?;
        }
        Ok(())
    }
}

/// Which blocks of each file are read.
fn read_parts(trace: &Trace) -> BTreeMap<FileNumber, Vec<u64>> {
    let mut parts: BTreeMap<FileNumber, Vec<u64>> = BTreeMap::new();
    for step in trace.steps.iter().filter(|step| step.operation == Operation::Read && step.len > 0) {
        let blocks = step.offset / BLOCK..=(step.offset + step.len - 1) / BLOCK;
        parts.entry(step.file).or_default().extend(blocks);
    }
    for blocks in parts.values_mut() {
        blocks.sort_unstable();
        blocks.dedup();
    }
    parts
}

fn make_file(path: &Path, len: u64, blocks: &[u64], number: FileNumber) -> io::Result<()> {
    if path.exists() {
        return Ok(());
    }
    let file = File::create(path)?;
    file.set_len(len)?;
    for block in blocks {
        let begin = block * BLOCK;
        let bytes = noise(u64::from(number.0) << 32 | block, BLOCK.min(len.saturating_sub(begin)) as usize);
        file.write_all_at(&bytes, begin)?;
    }
    Ok(())
}

fn make_directory(path: &Path, entries: u64) -> io::Result<()> {
    fs::create_dir_all(path)?;
    for entry in 0..entries {
        OpenOptions::new().create(true).append(true).open(path.join(format!("entry-{entry}")))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::trace::HEADER;
    use super::*;

    #[test]
    fn files_are_as_long_as_they_must_be_and_hold_bytes_where_they_are_read() {
        let directory = tempfile::tempdir().unwrap();
        let text = format!("{HEADER}\n,file,1,,300000\n,directory,102,,3\n0,read,1,131072,8192\n5,create,250,,\n");
        let trace = Trace::read(&text).unwrap();
        let tree = Tree::new(directory.path());
        tree.make(&trace).unwrap();
        let bytes = fs::read(tree.path(FileNumber(1))).unwrap();
        assert_eq!(bytes.len(), 300_000);
        assert!(
            bytes[..131_072].iter().all(|byte| *byte == 0) && bytes[131_072..139_264].iter().any(|byte| *byte != 0)
        );
        assert_eq!(fs::read_dir(tree.path(FileNumber(102))).unwrap().count(), 3);
        assert!(!tree.path(FileNumber(250)).exists() && tree.path(FileNumber(250)).parent().unwrap().exists());
        tree.make(&trace).unwrap();
    }
}
