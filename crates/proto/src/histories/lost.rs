//! What a parent that was put back to an older copy lost, as far as this replica has it.

use crate::state::log_entry::LogEntry;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use wayfs_types::{AttrVersion, FileId, Inode, Key, Op, Place, RecordId};

/// What was found of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Kind {
    Older,
    Moved,
    Changed,
    PlacedSince,
}

/// What a parent lost, as far as this replica has it.
#[derive(Debug, Default)]
pub(crate) struct Lost {
    /// Files and directories that it does not name any more.
    pub(super) gone: BTreeMap<FileId, Inode>,
    /// Files of which it has an older version: upon which version ours is to be stored.
    pub(super) older: BTreeMap<FileId, (RecordId, Arc<Inode>)>,
    /// What has other names, or none.
    pub(super) moved: BTreeMap<FileId, Moved>,
    /// What has newer attributes than those that it shows, of a version that we knew.
    pub(super) changed: BTreeMap<FileId, (AttrVersion, Arc<Inode>)>,
    /// What it shows under a name by a record of which we had not heard.
    pub(super) placed_since: BTreeSet<FileId>,
    /// Which names of files with many it had and lacks, and which it shows and had not: their inodes do not list them.
    pub(super) names: BTreeMap<FileId, Renamed>,
    /// What a client removed: by which record, and how that is done again, in whose name.
    pub(super) removed: BTreeMap<RecordId, (Op, u32)>,
    /// What was found of files and is in no store yet (`found_lost`).
    pub(super) unkept: BTreeSet<(Kind, FileId)>,
}

/// How the names of a crowded file differ.
#[derive(Debug, Default)]
pub(super) struct Renamed {
    /// Names that were there, and the records that gave them.
    pub(super) lost: Vec<(Place, RecordId)>,
    /// Names that were not.
    pub(super) again: Vec<Place>,
}

/// What a parent shows under a name.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Named {
    pub(super) file: FileId,
    /// By a record of which it had told us before.
    pub(super) was_known: bool,
}

/// Where a file stood.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Moved {
    /// Its names; empty: it was removed. Of a crowded file those that the parent lacks.
    pub(crate) to: Vec<Place>,
    /// Names that go, of a crowded file. Of any other (`None`) it is those that it has and that are not among `to`.
    pub(crate) stale: Option<Vec<Place>>,
    /// The records that put it there, or removed it, as far as they are known.
    pub(super) by: Vec<RecordId>,
    /// In whose name that is done again.
    pub(crate) user: u32,
}

impl Moved {
    /// Nothing was known of it but that the record which made it had come: not even the trace of its removal was left.
    pub(super) fn is_traceless(&self) -> bool {
        self.to.is_empty() && self.by.is_empty() && self.stale.is_none()
    }
}

impl Lost {
    pub(crate) fn is_empty(&self) -> bool {
        self.gone.is_empty()
            && self.older.is_empty()
            && self.moved.is_empty()
            && self.changed.is_empty()
            && self.removed.is_empty()
    }

    /// Without what records that are written again anyway made or stored.
    pub(crate) fn without(mut self, entries: &[LogEntry]) -> Self {
        for entry in entries {
            self.gone.remove(&FileId::made_by(entry.record.id));
            self.older.retain(|_, (_, inode)| inode.version != entry.record.id);
            self.removed.remove(&entry.record.id);
        }
        self
    }

    /// `names`: all that it had, as far as they are known.
    pub(crate) fn add_gone(&mut self, file: FileId, inode: Arc<Inode>, names: Vec<Place>) {
        if !inode.is_removed() && !names.is_empty() {
            self.gone.insert(file, Inode { places: names, unlisted: 0, ..Arc::unwrap_or_clone(inode) });
        }
    }

    // What was found first stays: in a takeover that was interrupted, the second comparison is with what the first one took over.

    pub(crate) fn add_older(&mut self, file: FileId, upon: RecordId, inode: Arc<Inode>) {
        self.older.entry(file).or_insert((upon, inode));
        self.unkept.insert((Kind::Older, file));
    }

    pub(crate) fn add_moved(&mut self, file: FileId, moved: Moved) {
        self.moved.entry(file).or_insert(moved);
        self.unkept.insert((Kind::Moved, file));
    }

    pub(crate) fn add_changed(&mut self, file: FileId, upon: AttrVersion, inode: Arc<Inode>) {
        self.changed.entry(file).or_insert((upon, inode));
        self.unkept.insert((Kind::Changed, file));
    }

    pub(crate) fn add_placed_since(&mut self, file: FileId) {
        self.placed_since.insert(file);
        self.unkept.insert((Kind::PlacedSince, file));
    }

    /// Whether it is about what a key names.
    pub(crate) fn is_about(&self, key: &Key) -> bool {
        let Key::Inode(file) = key else { return false };
        self.older.contains_key(file) || self.moved.contains_key(file)
    }
}
