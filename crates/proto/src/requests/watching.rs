//! What a client trusts of what it watches, and how watches begin and end.

use crate::api::{Changed, Output};
use crate::replica::Replica;
use crate::requests::watches::{Row, Watches};
use crate::state::names::seen_at;
use crate::state::tables::{image_key, number_key, table};
use std::sync::Arc;
use wayfs_types::{CommitNumber, FileId, Image, Inode, Key, MetaStore, Name, StorageError};
use wayfs_wire::Up;

impl<S: MetaStore> Replica<S> {
    /// Begins a watch that the parent has registered, unless there is one.
    pub(crate) fn begin_watch(&mut self, file: FileId) {
        let Watches::Kept(watches) = &mut self.watches else { return };
        if watches.since(file).is_some() {
            watches.touch(file);
            return;
        }
        let complete = watches.is_complete(file);
        // What this input puts gets a later number.
        let since = Some(self.core.state.change().next());
        watches.write_watch(&mut self.core, file, Row { since, complete, fresh: false });
        watches.absent.retain(|(directory, _)| *directory != file);
        if watches.by_use.len() > self.core.config.watches_max {
            self.end_oldest_watches();
        }
    }

    /// Makes room for more. Nobody tells the kernel any more what changes there, so that it is to ask again; several at
    /// once, for it asks about all others, too.
    fn end_oldest_watches(&mut self) {
        let Watches::Kept(watches) = &mut self.watches else { return };
        let mut files = Vec::new();
        for _ in 0..=self.core.config.watches_max / 16 {
            let Some((_, oldest)) = watches.by_use.pop_first() else { break };
            watches.by_file.remove(&oldest);
            self.core.state.delete_row(number_key(table::WATCH, oldest.inode_number()));
            self.uplink.forget_right(oldest);
            files.push(oldest);
        }
        // What was done there alone comes before.
        let after = self.core.state.sequence();
        self.locks.post_after(&mut self.core, after, Up::Unwatch { files });
        self.core.state.stage_output(Output::InvalidateAll);
        self.requests.note_unvouched();
    }

    /// A directory of our own making: nothing is in it that we do not know.
    pub(crate) fn watch_own_directory(&mut self, directory: FileId) {
        let Watches::Kept(watches) = &mut self.watches else { return };
        let since = Some(self.core.state.change().next());
        watches.write_watch(&mut self.core, directory, Row { since, complete: true, fresh: true });
        self.core.tell_parent(Up::Watch { files: vec![directory] });
        self.uplink.note_own_directory(&self.core, directory);
    }

    /// Nothing is verified any more: another parent, or too long away.
    pub(crate) fn drop_watches(&mut self) {
        let Watches::Kept(watches) = &mut self.watches else { return };
        for file in watches.in_force() {
            let complete = watches.is_complete(file);
            watches.write_watch(&mut self.core, file, Row { since: None, complete, fresh: false });
            self.core.state.stage_output(Output::InvalidateInode { file, what: Changed::Attributes });
        }
        self.core.state.stage_output(Output::InvalidateAll);
        // Answers that are on their way to the kernel come after the news.
        self.requests.note_unvouched();
        watches.absent.clear();
        watches.absent_order.clear();
        watches.has_forgotten = false;
    }

    /// Whether an inode as cached at a change is covered by a watch: of itself, or of a directory in which it
    /// still stands. (One that moved out of all that we watch while we were away is not told of again; but the
    /// entry that it left is.)
    fn is_covered(&self, file: FileId, number: CommitNumber, inode: &Inode) -> Result<bool, StorageError> {
        let Watches::Kept(watches) = &self.watches else { return Ok(true) };
        let holds =
            |watched| !self.uplink.is_doubted(watched) && watches.since(watched).is_some_and(|since| number >= since);
        if !inode.is_directory() && seen_at(file, inode).any(|directory| self.uplink.is_doubted(directory)) {
            return Ok(false);
        }
        if holds(file) && (!self.uplink.is_close_to_open(&self.core) || watches.is_looked_at(file, inode)) {
            return Ok(true);
        }
        for place in inode.places.iter().filter(|place| holds(place.parent)) {
            if self.core.state.entry(place.parent, &place.name)?.is_some_and(|entry| entry.file == file) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The inode, if what is cached of it may be trusted.
    pub(crate) fn trusted_inode(&self, file: FileId) -> Result<Option<Arc<Inode>>, StorageError> {
        let Some(numbered) = self.core.state.row_of(&Key::Inode(file))? else { return Ok(None) };
        let Image::Inode(inode) = numbered.image else { return Ok(None) };
        let trusted = self.is_covered(file, numbered.number, &inode)?;
        Ok(trusted.then_some(inode))
    }

    /// Whether a name stands for nothing only because we removed it, and what stands there at the parent nobody told us since its directory
    /// is watched: we removed it while we were away, or somewhere else.
    pub(crate) fn is_removed_unseen(&mut self, parent: FileId, name: &Name) -> Result<bool, StorageError> {
        let Some(watches) = self.watches.kept() else { return Ok(false) };
        let Some(since) = watches.since(parent).filter(|_| !watches.is_free(parent, name)) else { return Ok(false) };
        let began_after = watches.by_file.get(&parent).and_then(|watch| watch.began_after);
        let key = Key::Entry(parent, name.clone());
        let Some(shadow) = self.core.state.shadow(&key)? else { return Ok(false) };
        // Where nothing stood as far as we knew, it counts when we removed what we had made there.
        let is_made_here = shadow.number == CommitNumber::MAX;
        let last = self.core.state.last_touch(&key)?;
        Ok(shadow.number < since || is_made_here && began_after.is_none_or(|newest| last <= newest))
    }

    /// What a name stands for, if that may be trusted: `Some(None)` is a trusted nothing.
    pub(crate) fn trusted_entry(&self, parent: FileId, name: &Name) -> Result<Option<Option<FileId>>, StorageError> {
        let key = Key::Entry(parent, name.clone());
        let cached = self.core.state.row_of(&key)?;
        let Watches::Kept(watches) = &self.watches else {
            return Ok(Some(match cached.map(|numbered| numbered.image) {
                Some(Image::Entry(entry)) => Some(entry.file),
                _ => None,
            }));
        };
        let Some(since) = watches.since(parent).filter(|_| !self.uplink.is_doubted(parent)) else {
            return Ok(None);
        };
        match cached {
            Some(numbered) => match numbered.image {
                Image::Entry(entry) if numbered.number >= since => Ok(Some(Some(entry.file))),
                Image::Inode(_) | Image::Entry(_) | Image::Conflict(_) | Image::Origin(_) => Ok(None),
            },
            None => {
                let known = watches.is_fresh(parent)
                    || watches.is_absent(parent, name)
                    || self.core.state.store().get(&image_key(table::SHADOW, &key))?.is_some();
                Ok(known.then_some(None))
            }
        }
    }
}
