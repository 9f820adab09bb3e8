//! The load on a mounted volume.

use super::file_set::{Block, FileSet, directory_name, link_name};
use crate::experiments::noise::noise;
use crate::load::{Operation, Worker};
use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// When a write counts as done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Promise {
    /// When the file is closed, as programs do.
    Closed,
    /// When it is safe at the station (`fsync`).
    Safe,
}

/// Bytes of a small file.
const SMALL: u64 = 4096;
/// Names that each worker makes files under, one after another.
const NAMES: u64 = 50;

/// A worker on a mounted volume. Operations are system calls, and the kernel's caches are as they are for any program.
pub(super) struct MountWorker {
    root: PathBuf,
    set: Arc<FileSet>,
    promise: Promise,
    number: usize,
    made: u64,
    written: Option<PathBuf>,
}

impl MountWorker {
    pub(super) fn new(root: &Path, set: &Arc<FileSet>, promise: Promise, number: usize) -> Self {
        Self { root: root.to_owned(), set: Arc::clone(set), promise, number, made: 0, written: None }
    }

    fn directory(&self, number: usize) -> PathBuf {
        self.root.join(directory_name(number))
    }

    fn file(&self, random: u64) -> (PathBuf, Block) {
        let (number, block) = self.set.pick(random);
        let file = &self.set.files[number];
        (self.directory(file.directory).join(&file.name), block)
    }

    fn own(&self, number: u64) -> PathBuf {
        let name = format!("own-{}-{}", self.number, number % NAMES);
        self.directory(self.number % self.set.files.len().min(10)).join(name)
    }

    fn read(&self, random: u64) -> io::Result<()> {
        let (path, block) = self.file(random);
        let mut bytes = vec![0; block.len as usize];
        File::open(path)?.read_exact_at(&mut bytes, block.offset)
    }

    fn write(&mut self, random: u64) -> io::Result<()> {
        let (path, block) = self.file(random);
        let file = OpenOptions::new().write(true).open(&path)?;
        file.write_all_at(&noise(random ^ self.made, block.len as usize), block.offset)?;
        self.made += 1;
        self.written = Some(path);
        self.finish(&file)
    }

    fn create(&mut self, random: u64) -> io::Result<()> {
        let file = File::create(self.own(self.made))?;
        self.made += 1;
        if self.promise == Promise::Safe {
            file.write_all_at(&noise(random ^ self.made, SMALL as usize), 0)?;
        }
        self.finish(&file)
    }

    fn remove(&self) -> io::Result<()> {
        match fs::remove_file(self.own(self.made.wrapping_sub(1))) {
            // Nothing was made since the last removal: asking for it is the operation then.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }

    fn finish(&self, file: &File) -> io::Result<()> {
        match self.promise {
            Promise::Closed => Ok(()),
            Promise::Safe => file.sync_all(),
        }
    }

    fn sync(&self, random: u64) -> io::Result<()> {
        let path = self.written.clone().unwrap_or_else(|| self.file(random).0);
        OpenOptions::new().write(true).open(path)?.sync_all()
    }

    fn list(&self, random: u64) -> io::Result<Vec<fs::DirEntry>> {
        let (number, _) = self.set.pick(random);
        fs::read_dir(self.directory(self.set.files[number].directory))?.collect()
    }

    fn try_to(&mut self, operation: Operation, random: u64) -> io::Result<()> {
        match operation {
            Operation::Lookup | Operation::Getattr => fs::symlink_metadata(self.file(random).0).map(drop),
            Operation::Read => self.read(random),
            Operation::Write => self.write(random),
            Operation::Readlink => {
                let directory = self.file(random).0.parent().map(Path::to_owned).unwrap_or_default();
                fs::read_link(directory.join(link_name(random as usize >> 8))).map(drop)
            }
            Operation::Readdir => self.list(random).map(drop),
            // A file may go between the two; whoever lists a directory meets that anywhere.
            Operation::Readdirplus => {
                self.list(random)?.iter().for_each(|entry| drop(entry.metadata()));
                Ok(())
            }
            Operation::Create => self.create(random),
            Operation::Remove => self.remove(),
            Operation::Fsstat => Ok(rustix::fs::statvfs(&self.root).map(drop)?),
            Operation::Setattr => {
                fs::set_permissions(self.file(random).0, Permissions::from_mode(0o600 | random as u32 & 0o77))
            }
            Operation::Access => Ok(rustix::fs::access(self.file(random).0, rustix::fs::Access::READ_OK)?),
            Operation::Commit => self.sync(random),
        }
    }
}

impl Worker for MountWorker {
    fn carry_out(&mut self, operation: Operation, random: u64) -> Result<(), String> {
        self.try_to(operation, random).map_err(|error| format!("{operation:?}: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::SFS;

    #[test]
    fn every_operation_works_on_a_plain_directory_with_either_promise() {
        let directory = tempfile::tempdir().unwrap();
        let set = Arc::new(FileSet::new(1));
        set.make(directory.path()).unwrap();
        for promise in [Promise::Closed, Promise::Safe] {
            let mut worker = MountWorker::new(directory.path(), &set, promise, 0);
            for random in (0..500_u64).map(|n| n.wrapping_mul(0x9E37_79B9_7F4A_7C15)) {
                worker.carry_out(SFS.pick(random >> 7), random).unwrap();
            }
        }
        let made = fs::read_dir(directory.path().join(directory_name(0))).unwrap();
        assert!(made.flatten().any(|entry| entry.file_name().to_string_lossy().starts_with("own-")));
    }
}
