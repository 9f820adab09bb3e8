//! What is copied and compiled, and what must come out: the same run on the local disk tells.

use super::phases::{self, Outcome};
use crate::corpus::CProgram;
use crate::{LabError, Topology};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Longest time of a run on the local disk.
const LOCAL_BOUND: Duration = Duration::from_secs(600);

/// Files by their paths.
pub(super) type Tree = BTreeMap<PathBuf, Vec<u8>>;

/// The work, and what it makes.
pub(super) struct Workload {
    program: CProgram,
    /// All files after the last phase.
    made: Tree,
}

impl Workload {
    /// Does the work `runs` times on the local disk, and keeps what came out.
    pub(super) fn on_local_disk(program: CProgram, runs: u32) -> Result<(Self, Vec<Outcome>), LabError> {
        let mut lab = Topology::new(0)?;
        lab.host("local")?;
        let own = lab.directory("local")?;
        let source = own.join("source");
        program.write(&source)?;
        let target = own.join("target");
        let mut outcomes = Vec::new();
        for _ in 0..runs.max(1) {
            // Whatever an earlier run left is in the way of `mkdir`.
            let _ = std::fs::remove_dir_all(&target);
            outcomes.push(phases::run(&lab, "local", [&source, &target], LOCAL_BOUND)?);
        }
        let made = tree(&target)?;
        Ok((Self { program, made }, outcomes))
    }

    /// The program's sources.
    pub(super) const fn program(&self) -> &CProgram {
        &self.program
    }

    /// Bytes after the last phase.
    pub(super) fn made_len(&self) -> usize {
        self.made.values().map(Vec::len).sum()
    }

    /// Files after the last phase.
    pub(super) fn files(&self) -> usize {
        self.made.len()
    }

    /// How many of these files a directory holds, byte by byte, as far as `look` gets to see them.
    pub(super) fn right(&self, look: impl Fn(&Path) -> Option<Vec<u8>>) -> usize {
        self.made.iter().filter(|(path, bytes)| look(path).as_ref() == Some(*bytes)).count()
    }
}

/// All files below a directory.
fn tree(root: &Path) -> Result<Tree, LabError> {
    let mut found = Tree::new();
    let mut open = vec![PathBuf::new()];
    while let Some(directory) = open.pop() {
        let place = root.join(&directory);
        let doing = || LabError::io(format!("read {}", place.display()));
        for entry in std::fs::read_dir(&place).map_err(doing())? {
            let entry = entry.map_err(doing())?;
            let path = directory.join(entry.file_name());
            if entry.file_type().map_err(doing())?.is_dir() {
                open.push(path);
            } else {
                let bytes = std::fs::read(entry.path()).map_err(doing())?;
                found.insert(path, bytes);
            }
        }
    }
    Ok(found)
}
