//! Body files that nobody has open: when they are given up.

use super::stir::Stir;
use super::table::{Entry, FileTable};
use std::sync::Arc;
use std::time::Duration;
use wayfs_types::FileId;

/// Bytes of a body file that is kept for the next reader as long as there is room. A longer one is given up as one that was only written.
const READ_KEPT_MAX: u64 = 1 << 20;
/// Body files looked at in one go for whether they serve anybody.
const LET_GO_MAX: usize = 256;

impl Entry {
    /// Whether nobody has it open, and its body file is a second copy of its bytes that is worth no room.
    fn is_second_copy(&self) -> bool {
        self.idle.is_some_and(|(_, len)| !self.is_read || len > READ_KEPT_MAX) && !self.is_only_copy
    }
}

impl FileTable {
    /// Drops all body files that nobody has open, and those that nothing needs since the host has what they hold; answers whether there
    /// were any. Waits for nobody.
    pub fn make_room(&self) -> bool {
        let mut map = self.map();
        let idle: Vec<FileId> = map.idle.values().copied().collect();
        for file in &idle {
            map.forget(*file);
        }
        let has_let_go = self.files.journal().let_bodies_go(self.contents.written());
        !idle.is_empty() || has_let_go
    }

    /// Waits until the disk has the records for which bodies stay, and drops these; answers whether there were any. They are all that a
    /// kill would leave of a close.
    pub fn wait_for_room(&self) -> bool {
        if !self.files.journal().keeps_bodies() {
            return false;
        }
        if let Err(error) = self.contents.sync() {
            tracing::debug!(%error, "bodies stay: the disk does not say that it has what they hold");
        }
        self.files.journal().let_bodies_go(self.contents.written())
    }

    /// What wakes whoever looks after the files.
    pub fn stir(&self) -> &Arc<Stir> {
        &self.stir
    }

    /// Whether nothing becomes due with time: nobody has a file open, all is committed, and no body file is to be given up.
    pub fn is_at_rest(&self) -> bool {
        let map = self.map();
        map.entries.values().all(|entry| entry.idle.is_some() && !entry.is_second_copy())
    }

    /// Drops body files that were not in use for `age` and of which `is_safe` says so of what they hold, but those that are short and
    /// that somebody read, and those whose bytes are not all in the chunk store as well.
    pub fn let_go_copies(&self, age: Duration, is_safe: impl Fn(FileId) -> bool) {
        let now = self.contents.host().now();
        let is_over = |entry: &Entry| entry.is_second_copy() && now.since(entry.idle_since) >= age;
        let written: Vec<FileId> = {
            let map = self.map();
            let idle = map.idle.values().filter(|file| map.entries.get(file).is_some_and(is_over));
            idle.copied().take(LET_GO_MAX).collect()
        };
        for id in written.into_iter().filter(|file| is_safe(*file)) {
            let Some(file) = self.find(id) else { continue };
            let is_in_chunks = file.is_in_chunks(&*self.contents);
            let mut map = self.map();
            match map.entries.get_mut(&id).filter(|entry| is_over(entry)) {
                Some(_) if is_in_chunks => map.forget(id),
                Some(entry) => entry.is_only_copy = true,
                None => {}
            }
        }
    }

    /// Drops body files of what another machine removed and nobody has open here.
    pub fn let_go_removed(&self) {
        let idle: Vec<FileId> = self.map().idle.values().copied().collect();
        let is_gone = |file: &FileId| self.contents.inode(*file).is_none_or(|inode| inode.is_removed());
        for file in idle.into_iter().filter(is_gone) {
            let mut map = self.map();
            // Somebody may have opened it meanwhile.
            if map.entries.get(&file).is_some_and(|entry| entry.idle.is_some()) {
                map.forget(file);
            }
        }
    }
}
