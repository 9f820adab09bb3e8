//! What a client may trust of its cache.
//!
//! A client **watches** directories and files: its parent told it that it will
//! hear of every change there since the watch began. A cached image is good if
//! it was put (or verified) after the start of a watch that covers it, while the
//! session and its lease hold. Without that it is still served when there is
//! nobody to ask: that is the offline mode.

use crate::api::{Changed, Output};
use crate::children::interest::seen_at;
use crate::replica::composition::Tree;
use crate::replica::{Core, Replica};
use crate::requests::Listed;
use crate::state::position::LogPosition;
use crate::state::tables::{image_key, number_key, pack, parse_number_key, table, unpack};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use wayfs_types::{CommitNumber, FileId, Image, Inode, Key, MetaStore, Name, StorageError};
use wayfs_wire::Up;

/// Most names known to stand for nothing.
const ABSENT_MAX: usize = 65_536;

/// One watch, as it is kept.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Row {
    /// Change of our own numbering at which it began; `None`: not in force.
    since: Option<CommitNumber>,
    /// All entries of the directory were here once: good enough to list it offline.
    complete: bool,
    /// They are all here and were verified in this watch.
    fresh: bool,
}

#[derive(Debug, Clone)]
struct Watch {
    row: Row,
    used: u64,
    /// Our newest record when it began; `None`: not known, after a restart.
    began_after: Option<LogPosition>,
    /// Listed from the start up to this name in this watch; `None`: not begun.
    listed: Option<Name>,
}

/// What vouches for what this replica shows of the tree.
#[derive(Debug)]
pub(crate) enum Watches {
    /// All of the tree is here, and shown on our own word.
    Needless,
    /// What was looked at is here, and these say for how much of it the parent vouches.
    Kept(Kept),
}

/// All watches of a replica.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    by_file: BTreeMap<FileId, Watch>,
    by_use: BTreeMap<u64, FileId>,
    clock: u64,
    absent: BTreeSet<(FileId, Name)>,
    absent_order: VecDeque<(FileId, Name)>,
    /// Somebody may have been told that a name stands for nothing, and it is not among `absent` any more.
    has_forgotten: bool,
    /// They say more than the store until the next commit.
    is_ahead: bool,
}

impl Watches {
    /// Those of a tree of which so much is here.
    pub(crate) fn of(tree: Tree) -> Self {
        match tree {
            Tree::Whole => Self::Needless,
            Tree::LookedAt => Self::Kept(Kept::default()),
        }
    }

    /// Takes over those that a store has.
    pub(crate) fn read<S: MetaStore>(&mut self, store: &S) -> Result<(), StorageError> {
        if let Self::Kept(kept) = self {
            *kept = Kept::read(store)?;
        }
        Ok(())
    }

    pub(crate) const fn kept(&self) -> Option<&Kept> {
        if let Self::Kept(kept) = self { Some(kept) } else { None }
    }

    pub(crate) const fn kept_mut(&mut self) -> Option<&mut Kept> {
        if let Self::Kept(kept) = self { Some(kept) } else { None }
    }

    /// Since when a file is watched, if it is.
    pub(crate) fn since(&self, file: FileId) -> Option<CommitNumber> {
        self.kept()?.since(file)
    }

    /// Whether all entries of a directory are here and verified.
    pub(crate) fn is_fresh(&self, directory: FileId) -> bool {
        self.kept().is_none_or(|kept| kept.is_fresh(directory))
    }

    /// Whether all entries of a directory were here once.
    pub(crate) fn is_complete(&self, directory: FileId) -> bool {
        self.kept().is_none_or(|kept| kept.is_complete(directory))
    }

    /// What a name stands for as far as is known here, verified or not.
    pub(crate) fn cached_entry<S: MetaStore>(
        &self,
        core: &Core<S>,
        parent: FileId,
        name: &Name,
    ) -> Result<Option<Option<FileId>>, StorageError> {
        if let Some(entry) = core.state.entry(parent, name)? {
            return Ok(Some(Some(entry.file)));
        }
        let key = image_key(table::SHADOW, &Key::Entry(parent, name.clone()));
        let known = self.kept().is_none_or(|kept| kept.is_complete(parent) || kept.is_absent(parent, name))
            || core.state.store().get(&key)?.is_some();
        Ok(known.then_some(None))
    }
}

impl Kept {
    fn read<S: MetaStore>(store: &S) -> Result<Self, StorageError> {
        let mut watches = Self::default();
        let mut from = vec![table::WATCH];
        loop {
            let pairs = store.scan(&from, &[table::WATCH + 1], crate::replica::PAGE)?;
            let Some((last, _)) = pairs.last() else { return Ok(watches) };
            from.clone_from(last);
            from.push(0);
            for (key, value) in pairs {
                let file = FileId::from_inode_number(parse_number_key(&key)?)
                    .map_err(|error| StorageError::Corrupt(error.to_string()))?;
                watches.set(file, unpack(&value)?, None);
            }
        }
    }

    /// What they say is stored.
    pub(crate) const fn committed(&mut self) {
        self.is_ahead = false;
    }

    /// What was noted since the last commit came to nothing. A directory of which the listing was to be stored with it is not
    /// listed: who believed it would miss the names for good.
    pub(crate) fn abandon<S: MetaStore>(&mut self, store: &S) -> Result<(), StorageError> {
        if self.is_ahead {
            *self = Self { has_forgotten: true, ..Self::read(store)? };
        }
        Ok(())
    }

    fn set(&mut self, file: FileId, row: Row, began_after: Option<LogPosition>) {
        self.clock += 1;
        let listed = None;
        if let Some(old) = self.by_file.insert(file, Watch { row, used: self.clock, began_after, listed }) {
            self.by_use.remove(&old.used);
        }
        self.by_use.insert(self.clock, file);
    }

    fn touch(&mut self, file: FileId) {
        self.clock += 1;
        if let Some(watch) = self.by_file.get_mut(&file) {
            self.by_use.remove(&watch.used);
            watch.used = self.clock;
            self.by_use.insert(self.clock, file);
        }
    }

    /// Since when a file is watched, if it is.
    pub(crate) fn since(&self, file: FileId) -> Option<CommitNumber> {
        self.by_file.get(&file)?.row.since
    }

    /// Whether all entries of a directory are here and verified.
    pub(crate) fn is_fresh(&self, directory: FileId) -> bool {
        self.by_file.get(&directory).is_some_and(|watch| watch.row.since.is_some() && watch.row.fresh)
    }

    /// Whether all entries of a directory were here once.
    pub(crate) fn is_complete(&self, directory: FileId) -> bool {
        self.by_file.get(&directory).is_some_and(|watch| watch.row.complete)
    }

    /// Everything that is watched at present.
    pub(crate) fn in_force(&self) -> Vec<FileId> {
        self.by_file.iter().filter(|(_, watch)| watch.row.since.is_some()).map(|(file, _)| *file).collect()
    }

    pub(crate) fn is_absent(&self, directory: FileId, name: &Name) -> bool {
        self.absent.contains(&(directory, name.clone()))
    }

    /// Whether the parent said that a name stands for nothing, and will tell when that changes.
    pub(crate) fn is_free(&self, directory: FileId, name: &Name) -> bool {
        let watch = self.by_file.get(&directory).filter(|watch| watch.row.since.is_some());
        let is_listed = |watch: &Watch| watch.row.fresh || watch.listed.as_ref().is_some_and(|listed| name <= listed);
        watch.is_some_and(is_listed) || self.is_absent(directory, name)
    }

    /// Whether anybody here may have been told something of a name that has no entry, while its directory was watched.
    pub(crate) fn may_have_told(&self, directory: FileId, name: &Name) -> bool {
        self.has_forgotten || self.is_complete(directory) || self.is_free(directory, name)
    }

    pub(crate) fn note_absence(&mut self, directory: FileId, name: Name) {
        self.is_ahead = true;
        if self.absent.insert((directory, name.clone())) {
            self.absent_order.push_back((directory, name));
        }
        while self.absent_order.len() > ABSENT_MAX {
            if let Some(oldest) = self.absent_order.pop_front() {
                self.has_forgotten |= self.absent.remove(&oldest);
            }
        }
    }

    pub(crate) fn forget_absence(&mut self, directory: FileId, name: &Name) {
        if !self.absent.is_empty() {
            self.absent.remove(&(directory, name.clone()));
        }
    }

    fn write_watch<S: MetaStore>(&mut self, core: &mut Core<S>, file: FileId, row: Row) {
        self.is_ahead = true;
        let old = self.by_file.get(&file).filter(|old| old.row.since == row.since);
        let newest = || Some(core.state.log().newest().unwrap_or_default());
        let began_after = old.map_or_else(newest, |old| old.began_after);
        self.set(file, row, began_after);
        core.state.put_row(number_key(table::WATCH, file.inode_number()), pack(&row));
    }

    /// A directory is to be listed anew before its listing is trusted.
    pub(crate) fn doubt_listing<S: MetaStore>(&mut self, core: &mut Core<S>, directory: FileId) {
        if let Some(row) = self.by_file.get(&directory).map(|watch| watch.row).filter(|row| row.fresh) {
            self.write_watch(core, directory, Row { fresh: false, ..row });
        }
    }

    /// A page of a directory came from the parent.
    pub(crate) fn note_listed<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        directory: FileId,
        after: Option<&Name>,
        Listed { ended, last }: &Listed,
    ) {
        let Some(watch) = self.by_file.get_mut(&directory) else { return };
        let joins = match (after, &watch.listed) {
            (None, _) => true,
            (Some(after), Some(listed)) => after <= listed,
            (Some(_), None) => false,
        };
        if !joins {
            return;
        }
        if let Some(last) = last
            && watch.listed.as_ref().is_none_or(|listed| listed < last)
        {
            watch.listed = Some(last.clone());
            self.is_ahead = true;
        }
        let Some(watch) = self.by_file.get_mut(&directory) else { return };
        if *ended && watch.row.since.is_some() {
            let row = Row { complete: true, fresh: true, ..watch.row };
            let listed = watch.listed.take();
            self.write_watch(core, directory, row);
            if let Some(watch) = self.by_file.get_mut(&directory) {
                watch.listed = listed;
            }
        }
    }

    /// Whether others wait for us before they change a file where it stands: in one of its directories at least. Somebody far
    /// away may have moved it to where we do not look.
    fn is_looked_at(&self, file: FileId, inode: &Inode) -> bool {
        let mut directories = seen_at(file, inode).peekable();
        let is_nowhere = inode.is_directory() || directories.peek().is_none();
        is_nowhere || directories.any(|directory| self.since(directory).is_some())
    }
}

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
