//! Directories of which the kernel would ask for the attributes file by file.
//!
//! The kernel keeps a directory's listing, and forgets the attributes of a file that is written. Whoever then lists the
//! directory with attributes (`ls -l`, `rsync`, `make`) gets the names from the kernel's listing, and each file's attributes by a
//! request of its own: 60 us each, where a listing that is fetched anew brings them for 10 us a name. So a directory of which many
//! files were written since it was listed is listed anew once.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use wayfs_types::{FileId, Inode};

/// Files written before a directory is listed anew: below that the requests are cheap.
const WRITTEN_MIN: u64 = 16;
/// Share of the names that must have been written to, as a divisor: a quarter costs by requests more than all by a listing.
const WRITTEN_SHARE: u64 = 4;
/// Directories that are remembered; past it, all are forgotten, and attributes are asked for one by one.
const DIRECTORIES_MAX: usize = 4096;

/// What is known of one directory that the kernel has listed to its end.
#[derive(Debug, Clone, Copy)]
struct Listed {
    names: u64,
    /// Versions that were committed in it since.
    written: u64,
}

/// Directories that the kernel has listed, and how much was written in them since.
#[derive(Debug, Default)]
pub(super) struct Cold(Mutex<BTreeMap<FileId, Listed>>);

impl Cold {
    fn directories<T>(&self, read: impl FnOnce(&mut BTreeMap<FileId, Listed>) -> T) -> T {
        read(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The kernel has seen the end of a listing of so many names.
    pub(super) fn listed(&self, directory: FileId, names: u64) {
        self.directories(|known| {
            if known.len() >= DIRECTORIES_MAX {
                known.clear();
            }
            known.insert(directory, Listed { names, written: 0 });
        });
    }

    /// A file was written here.
    pub(super) fn written(&self, inode: &Inode) {
        self.directories(|known| {
            for place in &inode.places {
                if let Some(listed) = known.get_mut(&place.parent) {
                    listed.written += 1;
                }
            }
        });
    }

    /// Whether a listing brings the attributes sooner than requests for each file do. Answers so once.
    pub(super) fn take(&self, directory: FileId) -> bool {
        let is_cold = |listed: &Listed| listed.written >= WRITTEN_MIN.max(listed.names / WRITTEN_SHARE);
        self.directories(|known| known.get(&directory).is_some_and(is_cold) && known.remove(&directory).is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::testing::{file, inode};
    use wayfs_types::{Content, Name, Place, RecordId};

    fn written_in(cold: &Cold, directory: FileId, times: u64) {
        let mut inode = inode(Content::EMPTY, RecordId::GENESIS);
        inode.places = vec![Place { parent: directory, name: Name::new("a").unwrap() }];
        (0..times).for_each(|_| cold.written(&inode));
    }

    #[test]
    fn a_directory_is_listed_anew_once_when_a_quarter_of_it_was_written() {
        let (cold, directory) = (Cold::default(), file(2));
        written_in(&cold, directory, 1000);
        assert!(!cold.take(directory), "the kernel never listed it");
        cold.listed(directory, 100);
        written_in(&cold, directory, 24);
        written_in(&cold, file(3), 100);
        assert!(!cold.take(directory));
        written_in(&cold, directory, 1);
        assert!(cold.take(directory));
        assert!(!cold.take(directory));
    }

    #[test]
    fn a_few_files_are_asked_for() {
        let (cold, directory) = (Cold::default(), file(2));
        cold.listed(directory, 4);
        written_in(&cold, directory, 15);
        assert!(!cold.take(directory));
        written_in(&cold, directory, 1);
        assert!(cold.take(directory));
    }
}
