//! Records that were written again under another id, and what still goes by their former names: files that programs
//! have open, versions that they build upon, records that they wait for.

use crate::histories::Histories;
use crate::histories::forked::RenamedRecords;
use crate::replica::Replica;
use crate::replica::core::Core;
use crate::state::tables::table::RENAMED;
use crate::state::tables::{parse_record_key, unpack};
use serde::{Deserialize, Serialize};
use wayfs_types::request::{Change, Request};
use wayfs_types::{FileId, MetaStore, Op, Record, RecordId, Replaced, StorageError};

/// A row of it: what a record was written again as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Again {
    /// [`RecordId::GENESIS`]: nothing stands for it any more.
    pub(crate) record: RecordId,
    /// The file that it stored into, if that is what it did.
    pub(crate) stored_into: Option<FileId>,
}

impl Again {
    pub(crate) fn of(record: &Record) -> Self {
        let stored_into = if let Op::Store { file, .. } = record.op { Some(file) } else { None };
        Self { record: record.id, stored_into }
    }

    /// As nothing: what was stored was stored over, what was made was removed. Whoever goes on from it has seen nothing that
    /// anybody else has: so says the version that no content ever had.
    pub(crate) const fn nothing() -> Self {
        Self { record: RecordId::GENESIS, stored_into: None }
    }
}

/// What a record is called now, if it was renamed.
type Names<'a> = &'a dyn Fn(RecordId) -> Option<RecordId>;
/// What a version of a file is called now, if it was renamed.
type Versions<'a> = &'a dyn Fn(FileId, RecordId) -> Option<RecordId>;

fn version(renamed: Names, version: &mut RecordId) {
    if let Some(now) = renamed(*version) {
        *version = now;
    }
}

fn file(renamed: Names, file: &mut FileId) {
    if let Some(now) = renamed(file.maker()).filter(|now| *now != RecordId::GENESIS) {
        *file = FileId::made_by(now);
    }
}

/// A record under a new id, naming what was renamed before it as it is called now. `versions`: what a store was made upon.
pub(crate) fn renamed_record(mut record: Record, id: RecordId, renamed: Names, versions: Names) -> Record {
    record.id = id;
    match &mut record.op {
        Op::Create { parent, .. } | Op::Mkdir { parent, .. } => file(renamed, parent),
        Op::Link { file: linked, parent, .. } => {
            file(renamed, linked);
            file(renamed, parent);
        }
        Op::Unlink { parent, file: removed, version: seen, .. } => {
            file(renamed, parent);
            file(renamed, removed);
            version(renamed, seen);
        }
        Op::Rmdir { parent, file: removed, .. } => {
            file(renamed, parent);
            file(renamed, removed);
        }
        Op::Rename { from_parent, file: moved, to_parent, replaced, .. } => {
            file(renamed, from_parent);
            file(renamed, moved);
            file(renamed, to_parent);
            if let Some(Replaced { file: lost, version: seen }) = replaced {
                file(renamed, lost);
                version(renamed, seen);
            }
        }
        Op::Exchange { from_parent, file: moved, to_parent, other, .. } => {
            [from_parent, moved, to_parent, other].into_iter().for_each(|named| file(renamed, named));
        }
        Op::SetAttr { file: changed, base, .. } => {
            file(renamed, changed);
            version(renamed, &mut base.0);
        }
        Op::Store { file: changed, base, .. } => {
            file(renamed, changed);
            version(versions, base);
        }
        Op::SetXattr { file: changed, .. } => file(renamed, changed),
        Op::Resolve { conflict } => version(renamed, conflict),
        Op::Touch | Op::Skip { .. } | Op::Lost { .. } => {}
    }
    record
}

/// A request of our own user, naming files and versions that were renamed as they are called now.
fn renamed_request(mut request: Request, renamed: Names, versions: Versions) -> Request {
    match &mut request {
        Request::Lookup { parent: named, .. }
        | Request::Attributes { file: named }
        | Request::List { directory: named, .. }
        | Request::Unlock { file: named, .. } => file(renamed, named),
        Request::Lock(lock) | Request::TestLock(lock) => file(renamed, &mut lock.file),
        Request::Change { change, .. } => renamed_change(change, renamed, versions),
        Request::Wait { .. } | Request::Facts { .. } | Request::Refresh => {}
    }
    request
}

fn renamed_change(change: &mut Change, renamed: Names, versions: Versions) {
    match change {
        Change::Create { parent, .. }
        | Change::Publish { parent, .. }
        | Change::Mkdir { parent, .. }
        | Change::Unlink { parent, .. }
        | Change::Rmdir { parent, .. } => file(renamed, parent),
        Change::Link { file: linked, parent, .. } => {
            file(renamed, linked);
            file(renamed, parent);
        }
        Change::Rename { from_parent, to_parent, .. } => {
            file(renamed, from_parent);
            file(renamed, to_parent);
        }
        Change::SetAttr { file: changed, .. } | Change::SetXattr { file: changed, .. } => file(renamed, changed),
        Change::Store { file: changed, base, .. } | Change::Append { file: changed, base, .. } => {
            file(renamed, changed);
            let named = *changed;
            version(&|base| versions(named, base), base);
        }
        Change::Resolve { conflict } => version(renamed, conflict),
    }
}

impl<S: MetaStore> Replica<S> {
    /// Records were written again: what waits names what it is about as it is called since.
    pub(crate) fn call_waiting_by_new_names(&mut self) {
        if std::mem::take(&mut self.histories.fork.renames_waiting) {
            let mut requests = std::mem::take(&mut self.requests);
            for request in requests.waiting_requests() {
                *request = self.histories.as_called_now(&self.core, request.clone());
            }
            self.requests = requests;
        }
    }
}

impl RenamedRecords {
    fn read<S: MetaStore>(core: &Core<S>) -> Result<Self, StorageError> {
        let mut names = Self::default();
        core.state.each(&[RENAMED], &[RENAMED + 1], |key, value| {
            let Again { record, stored_into } = unpack(value)?;
            names.renamed.insert(parse_record_key(key)?, record);
            names.stored_into.extend(stored_into.map(|file| (record, file)));
            Ok(())
        })?;
        Ok(names)
    }
}

impl Histories {
    pub(crate) fn read_renamed<S: MetaStore>(&mut self, core: &Core<S>) -> Result<(), StorageError> {
        *self.fork.names.as_stored() = RenamedRecords::read(core)?;
        Ok(())
    }

    /// What is kept in memory of what records are called and is not what the store says, if anything is.
    pub(crate) fn wrongly_kept<S: MetaStore>(&self, core: &Core<S>) -> Result<Option<String>, StorageError> {
        let (stored, kept) = (RenamedRecords::read(core)?.renamed, &self.fork.names.renamed);
        let identity = Self::stored_origin(core)?;
        Ok(if *kept != stored {
            Some(format!("of records that were written again {kept:?} is kept, and {stored:?} stored"))
        } else if identity != Some(core.config.origin) {
            Some(format!("origin {} is kept, and {identity:?} stored", core.config.origin))
        } else {
            None
        })
    }

    /// Which former name each record stands for, after a restart. Of those that became one it is the last: they were of one origin, in
    /// order.
    pub(crate) fn read_stands_for(&mut self) {
        let names = self.fork.names.as_stored();
        names.stands_for = names.renamed.iter().map(|(former, now)| (*now, *former)).collect();
    }

    /// A request of our own user in the names of now.
    pub(crate) fn as_called_now<S: MetaStore>(&self, core: &Core<S>, request: Request) -> Request {
        let versions = |file, name| {
            let now = self.called_now(core, name).filter(|now| !self.shows_namesake(core, file, name, *now))?;
            Some(self.version_of(now, name))
        };
        renamed_request(request, &|name| self.called_now(core, name), &versions)
    }

    /// A file in the names of now.
    pub(crate) fn file_called_now<S: MetaStore>(&self, core: &Core<S>, named: FileId) -> FileId {
        let mut now = named;
        file(&|name| self.called_now(core, name), &mut now);
        now
    }

    /// A record of a log that is written again under a new id, in the names of now.
    pub(crate) fn as_written_now<S: MetaStore>(&self, core: &Core<S>, record: Record, id: RecordId) -> Record {
        let names = |name| self.written_now(core, name);
        let versions = |name| names(name).map(|now| self.version_of(now, name));
        renamed_record(record, id, &names, &versions)
    }

    /// What a record was written again as under the present origin. A client takes one for each time that it writes again: what was
    /// written again before is named by its newer name in all that it has since, and the former one is then that of what another copy
    /// of its store wrote.
    pub(crate) fn written_now<S: MetaStore>(&self, core: &Core<S>, former: RecordId) -> Option<RecordId> {
        self.fork.names.renamed.get(&former).copied().filter(|now| now.origin() == core.config.origin)
    }

    /// What a version is called that was written again as a record. One that was written over, and became one record with the one
    /// that took its place, has no name any more: whoever builds upon it has not seen what that record holds. The former name
    /// may be that of what another copy of this store wrote, so it is told by the one that no content ever had.
    fn version_of(&self, now: RecordId, former: RecordId) -> RecordId {
        let stands = self.fork.names.stands_for.get(&now).is_none_or(|last| *last == former);
        if stands { now } else { RecordId::GENESIS }
    }

    /// Whether a file shows a version that another copy of this store wrote under the name that one of ours had before it was written
    /// again. If ours was a store into the same file, nobody can tell which of the two a program has seen, be it one that closed the
    /// file before a restart: what it writes goes on in the copy that ours left, or becomes one.
    fn shows_namesake<S: MetaStore>(&self, core: &Core<S>, file: FileId, former: RecordId, now: RecordId) -> bool {
        let meant = |file| core.state.file_meant(file).ok();
        let is_shown = || core.state.inode_meant(file).ok().flatten().is_some_and(|inode| inode.version == former);
        let has_met = self.fork.names.stored_into.get(&now).is_some_and(|stored| meant(*stored) == meant(file));
        !has_met && is_shown()
    }

    /// What a record that a request names is called now. What another copy of this store sent under the former name is in the tree by
    /// that name, and is what a user sees there.
    pub(crate) fn called_now<S: MetaStore>(&self, core: &Core<S>, former: RecordId) -> Option<RecordId> {
        let now = self.fork.names.renamed.get(&former)?;
        let there = core.state.inode(FileId::made_by(former)).ok().flatten();
        there.is_none_or(|inode| inode.is_removed()).then_some(*now)
    }
}
