//! Files that programs of this machine removed a moment ago.
//!
//! Between a program's walk to a name and its open of the file, another may rename a file over that name. On a local
//! file system the first then opens the file that it found, removed or not. The kernel sends such an open after the
//! rename was answered, so the file must be known as it was for as long as an open may be on its way.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use wayfs_types::{FileId, Inode};

/// Files remembered. An open arrives within milliseconds, a thousand renames take a hundred. With 4 KiB inside each
/// inode it is 4 MiB.
const MAX: usize = 1024;

/// The last removed files.
#[derive(Debug, Default)]
pub(super) struct RecentlyRemoved {
    inodes: BTreeMap<FileId, Arc<Inode>>,
    /// The oldest first.
    order: VecDeque<FileId>,
}

impl RecentlyRemoved {
    /// Keeps one more; past the bound the oldest is forgotten.
    pub(super) fn keep(&mut self, file: FileId, inode: Arc<Inode>) {
        if self.order.len() >= MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.inodes.remove(&oldest);
        }
        self.order.push_back(file);
        self.inodes.insert(file, inode);
    }

    /// A file as it was.
    pub(super) fn find(&self, file: FileId) -> Option<Arc<Inode>> {
        self.inodes.get(&file).cloned()
    }
}
