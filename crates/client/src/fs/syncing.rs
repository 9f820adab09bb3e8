//! `fsync` and `syncfs`: durable on this machine, and safe at the station if one is connected and answers within the bound; without
//! one, durable here is what they promise.

use super::Error;
use super::caller::Caller;
use super::core::FileSystem;
use super::handles::OpenHandle;
use super::ids::HandleId;
use super::pending::ReplySlot;
use super::reply::{Reply, RespondWith};
use crate::files::{Access, OperationError, WaitPolicy};
use std::sync::Arc;
use wayfs_types::request::{Level, Request as Ask};
use wayfs_types::{FileId, FsError, RecordId};

impl FileSystem {
    pub(crate) fn fsync<R: RespondWith<()>>(
        self: &Arc<Self>,
        caller: &Caller,
        handle: Option<HandleId>,
        file: FileId,
        reply: Reply<R>,
    ) {
        let open = handle.and_then(|handle| self.handles.file(handle));
        if handle.is_some() && open.is_none() {
            return reply.refuse(Error::BadHandle);
        }
        if handle.is_some_and(|handle| self.has_lost_lock(file, handle)) {
            return reply.refuse(FsError::Io);
        }
        let asker = caller.clone();
        self.on_worker(&self.savers, caller, reply, move |fs, slot| {
            let outcome = match &open {
                Some(open) => fs.commit_synced(open),
                None => fs.commit_closing().map(|()| None),
            };
            match outcome {
                Ok(record) => {
                    let wants = if fs.engine.is_exclusive(file) { Wants::Order } else { Wants::Safety };
                    fs.make_durable(&asker, record.or_else(|| fs.own_record(file)), wants, slot);
                }
                Err(slow) => {
                    if let Some(reply) = slot.take() {
                        reply.refuse(slow.into_error());
                    }
                }
            }
        });
    }

    /// Commits what a sync of one of its handles asks for. A handle that cannot write answers for what was closed.
    fn commit_synced(&self, open: &OpenHandle) -> Result<Option<RecordId>, OperationError> {
        if open.access == Access::Read && !self.files.is_closing(open.file.id()) {
            return Ok(None);
        }
        open.file.notice_mapped_writes();
        let committed = self.commit(open, WaitPolicy::Silence(self.settings.read_timeout))?;
        open.file.note_sync();
        Ok(committed)
    }

    /// The newest record of ours that made the file what it is.
    fn own_record(&self, file: FileId) -> Option<RecordId> {
        let inode = self.engine.inode(file)?;
        let own = self.engine.origin();
        [inode.version, inode.attr_version.0, file.maker()].into_iter().filter(|record| record.origin() == own).max()
    }

    /// Syncs this machine, and waits for the station as far as there is one.
    fn make_durable<R: RespondWith<()>>(
        self: &Arc<Self>,
        caller: &Caller,
        record: Option<RecordId>,
        wants: Wants,
        slot: &ReplySlot<R>,
    ) {
        // Asked before our own disk is waited for: so both sync at once. The answer is waited for below.
        if let Some(record) = record.filter(|_| self.engine.is_connected()) {
            let wait = Ask::Wait { record: Some(record), until: Level::Safe };
            self.engine.submit(wait, self.settings.safe_timeout, Box::new(|_| ()));
        }
        let synced = self.engine.sync(self.settings.safe_timeout);
        let Some(reply) = slot.take() else { return };
        if let Err(error) = synced {
            tracing::error!(%error, "sync");
            return reply.refuse(match error {
                wayfs_types::StorageError::NoSpace => FsError::NoSpace,
                _ => FsError::Io,
            });
        }
        match record {
            Some(record) if wants == Wants::Order => self.wait_ordered(caller, record, reply),
            Some(record) if self.engine.is_connected() => self.wait_safe(caller, record, Strictness::BestEffort, reply),
            Some(_) | None => reply.give(()),
        }
    }

    pub(super) fn wait_safe<R: RespondWith<()>>(
        self: &Arc<Self>,
        caller: &Caller,
        record: RecordId,
        strictness: Strictness,
        reply: Reply<R>,
    ) {
        let wait = Ask::Wait { record: Some(record), until: Level::Safe };
        self.ask_within(caller, wait, self.settings.safe_timeout, reply, move |_, reply, outcome| match outcome {
            Ok(_) => reply.give(()),
            Err(FsError::Unreachable | FsError::TimedOut) if strictness == Strictness::BestEffort => reply.give(()),
            Err(error) => reply.refuse(error),
        });
    }

    /// Waits until the home has ordered what was written: in an exclusive directory others count on it.
    pub(super) fn wait_ordered<R: RespondWith<()>>(
        self: &Arc<Self>,
        caller: &Caller,
        record: RecordId,
        reply: Reply<R>,
    ) {
        let wait = Ask::Wait { record: Some(record), until: Level::Visible };
        self.ask_within(caller, wait, self.settings.safe_timeout, reply, |_, reply, outcome| match outcome {
            Ok(_) => reply.give(()),
            Err(error) => reply.refuse(error),
        });
    }

    /// `syncfs`: everything that is written.
    pub(crate) fn sync_all<R: RespondWith<()>>(self: &Arc<Self>, caller: &Caller, reply: Reply<R>) {
        let asker = caller.clone();
        self.on_worker(&self.savers, caller, reply, move |fs, slot| {
            let failed = fs.commit_all();
            if let Some((_, error)) = failed.first() {
                if let Some(reply) = slot.take() {
                    reply.refuse(*error);
                }
                return;
            }
            fs.make_durable(&asker, None, Wants::Safety, slot);
        });
    }
}

/// What a sync of a file waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wants {
    /// That it is durable here, and at the station as far as there is one.
    Safety,
    /// That the home has ordered it.
    Order,
}

/// Whether being durable here is enough when the station does not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Strictness {
    Strict,
    BestEffort,
}
