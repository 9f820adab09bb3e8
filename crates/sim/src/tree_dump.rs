//! A whole tree as a replica shows it, by asking like a user would.

use crate::host::Expectation;
use crate::world::World;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use wayfs_types::request::{Answer, Request};
use wayfs_types::{FileId, Inode, Place};

/// Files by id, and names by place.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct TreeDump {
    pub(crate) inodes: BTreeMap<FileId, Inode>,
    pub(crate) entries: BTreeMap<Place, FileId>,
}

/// What a mount waits for an answer (`[S-bounded]`). A listing behind a look at its directory takes four round trips where
/// another client changes both alone: more than a second on the slowest lines that seeds draw.
const PATIENCE: Duration = Duration::from_secs(10);

impl World {
    /// Lists everything that a replica shows.
    ///
    /// # Errors
    /// What it answered instead of a listing.
    pub(crate) fn dump(&mut self, index: usize) -> Result<TreeDump, String> {
        let mut dump = TreeDump::default();
        match self.ask_and_wait(index, Request::Attributes { file: FileId::ROOT })? {
            Answer::File(file, inode) => dump.inodes.insert(file, Arc::unwrap_or_clone(inode)),
            other => return Err(format!("host {index} answered {other:?} for the root")),
        };
        let mut open = vec![FileId::ROOT];
        while let Some(directory) = open.pop() {
            let mut after = None;
            loop {
                let request = Request::List { directory, after: after.clone(), limit: 7 };
                let Answer::List { entries, end } = self.ask_and_wait(index, request)? else {
                    return Err(format!("host {index} did not list {directory}"));
                };
                after = entries.last().map(|(name, _, _)| name.clone()).or(after);
                for (name, file, inode) in entries {
                    if inode.is_directory() && !dump.inodes.contains_key(&file) {
                        open.push(file);
                    }
                    dump.inodes.insert(file, Arc::unwrap_or_clone(inode));
                    dump.entries.insert(Place { parent: directory, name }, file);
                }
                if end {
                    break;
                }
            }
        }
        Ok(dump)
    }

    fn ask_and_wait(&mut self, index: usize, request: Request) -> Result<Answer, String> {
        let text = format!("{request:?}");
        let id = self.ask_within(index, request, Expectation::Collected, PATIENCE);
        let end = self.now + Duration::from_secs(60);
        while !self.hosts[index].collected.contains_key(&id) {
            if self.now >= end {
                return Err(format!("host {index} did not answer {text} within its deadline"));
            }
            let next = self.now + Duration::from_millis(20);
            self.run_until(next);
            if !self.violations.is_empty() {
                return Err(self.violations[0].to_string());
            }
        }
        let outcome = self.hosts[index].collected.remove(&id).expect("looked at just before");
        outcome.map_err(|error| format!("host {index} answered {text} with: {error}"))
    }
}
