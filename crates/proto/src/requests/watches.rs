//! What a client may trust of its cache.
//!
//! A client **watches** directories and files: its parent told it that it will
//! hear of every change there since the watch began. A cached image is good if
//! it was put (or verified) after the start of a watch that covers it, while the
//! session and its lease hold. Without that it is still served when there is
//! nobody to ask: that is the offline mode.

use crate::replica::composition::Tree;
use crate::replica::core::Core;
use crate::requests::listed::Listed;
use crate::state::names::seen_at;
use crate::state::position::LogPosition;
use crate::state::tables::{image_key, number_key, pack, parse_number_key, table, unpack};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use wayfs_types::{CommitNumber, FileId, Inode, Key, MetaStore, Name, StorageError};

/// Most names known to stand for nothing.
const ABSENT_MAX: usize = 65_536;

/// One watch, as it is kept.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Row {
    /// Change of our own numbering at which it began; `None`: not in force.
    pub(super) since: Option<CommitNumber>,
    /// All entries of the directory were here once: good enough to list it offline.
    pub(super) complete: bool,
    /// They are all here and were verified in this watch.
    pub(super) fresh: bool,
}

#[derive(Debug, Clone)]
pub(super) struct Watch {
    row: Row,
    used: u64,
    /// Our newest record when it began; `None`: not known, after a restart.
    pub(super) began_after: Option<LogPosition>,
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
    pub(super) by_file: BTreeMap<FileId, Watch>,
    pub(super) by_use: BTreeMap<u64, FileId>,
    clock: u64,
    pub(super) absent: BTreeSet<(FileId, Name)>,
    pub(super) absent_order: VecDeque<(FileId, Name)>,
    /// Somebody may have been told that a name stands for nothing, and it is not among `absent` any more.
    pub(super) has_forgotten: bool,
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
            let pairs = store.scan(&from, &[table::WATCH + 1], crate::state::tables::PAGE)?;
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

    pub(super) fn touch(&mut self, file: FileId) {
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

    pub(super) fn write_watch<S: MetaStore>(&mut self, core: &mut Core<S>, file: FileId, row: Row) {
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
    pub(super) fn is_looked_at(&self, file: FileId, inode: &Inode) -> bool {
        let mut directories = seen_at(file, inode).peekable();
        let is_nowhere = inode.is_directory() || directories.peek().is_none();
        is_nowhere || directories.any(|directory| self.since(directory).is_some())
    }
}
