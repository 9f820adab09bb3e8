//! Flush and release: when what was written becomes a record.
//!
//! The change is in the log when a `close` (flush) returns, and durable within the next group commit; with [`Close::Safe`] it waits
//! for the station ([`super::syncing`]).

use super::Error;
use super::caller::Caller;
use super::core::FileSystem;
use super::handles::OpenHandle;
use super::ids::{HandleId, LockOwner};
use super::locks::GoneLocks;
use super::reply::{Reply, Respond, RespondWith};
use super::settings::Close;
use super::syncing::Strictness;
use crate::files::commit::Committed;
use crate::files::{Access, EarlyClose, OpenFile, OperationError, WaitPolicy};
use std::sync::Arc;
use wayfs_types::request::{Answer, Request as Ask};
use wayfs_types::{FileId, FsError, Name, RecordId};

/// Dirty bytes that are cut and hashed on the thread that reads requests: 0.1 ms.
pub(super) const INLINE_COMMIT_MAX: u64 = 256 * 1024;

impl FileSystem {
    pub(crate) fn flush<R: RespondWith<()>>(
        self: &Arc<Self>,
        caller: &Caller,
        handle: HandleId,
        owner: LockOwner,
        reply: Reply<R>,
    ) {
        let Some(open) = self.handles.file(handle) else { return reply.refuse(Error::BadHandle) };
        if self.has_lost_lock(open.file.id(), handle) {
            self.unlock_records(open.file.id(), owner);
            return reply.refuse(FsError::Io);
        }
        if self.locks.has_records(open.file.id(), owner) {
            return self.flush_and_unlock(caller, open, owner, reply);
        }
        if open.access == Access::Read {
            return reply.give(());
        }
        open.file.notice_mapped_writes();
        // A shell opens with truncation, duplicates the handle and closes the first: the store that
        // counts comes with the last close. If nothing more comes, the release commits the emptiness.
        let waits = self.settings.close == Close::Asynchronous && open.file.is_only_emptied();
        if waits || !open.file.is_dirty() {
            return self.flushed(caller, &open, None, reply);
        }
        if open.file.dirty_len() <= INLINE_COMMIT_MAX {
            match self.commit(&open, WaitPolicy::None) {
                Err(OperationError::WouldBlock) => {}
                Err(OperationError::Failed(error)) => return reply.refuse(error),
                Ok(committed) => return self.flushed(caller, &open, committed, reply),
            }
        }
        let early = match self.settings.close {
            // Who looks at once sees it: others are asked before, or this machine is.
            Close::Asynchronous if !self.files.is_free(open.file.id()) => EarlyClose::Unfit,
            Close::Asynchronous => self.files.close_early(&open.file, self.room()),
            Close::Safe => EarlyClose::Unfit,
        };
        // A large file that was written whole is complete on this disk: its commit follows in the background.
        if early == EarlyClose::Noted {
            return reply.give(());
        }
        let asker = caller.clone();
        self.on_worker(&self.savers, caller, reply, move |fs, slot| {
            let mut outcome = fs.commit(&open, WaitPolicy::Silence(fs.settings.read_timeout));
            if early == EarlyClose::BehindAnother {
                // What a note would have promised.
                outcome = outcome.and_then(|committed| Ok(fs.files.sync().map(|()| committed)?));
            }
            let Some(reply) = slot.take() else { return };
            match outcome {
                Ok(committed) => fs.flushed(&asker, &open, committed, reply),
                Err(slow) => reply.refuse(slow.into_error()),
            }
        });
    }

    /// The close of a program that may hold record locks, which end with it: when what was written is in the log.
    fn flush_and_unlock<R: RespondWith<()>>(
        self: &Arc<Self>,
        caller: &Caller,
        open: Arc<OpenHandle>,
        owner: LockOwner,
        reply: Reply<R>,
    ) {
        let file = open.file.id();
        open.file.notice_mapped_writes();
        match self.try_settle(file) {
            Err(OperationError::WouldBlock) => {}
            outcome => {
                self.unlock_records(file, owner);
                return match outcome {
                    Ok(committed) => self.flushed(caller, &open, committed, reply),
                    Err(slow) => reply.refuse(slow.into_error()),
                };
            }
        }
        let asker = caller.clone();
        self.on_worker(&self.savers, caller, reply, move |fs, slot| {
            let outcome = fs.settle_file(file);
            fs.unlock_records(file, owner);
            let Some(reply) = slot.take() else { return };
            match outcome {
                Ok(committed) => fs.flushed(&asker, &open, committed, reply),
                Err(slow) => reply.refuse(slow.into_error()),
            }
        });
    }

    /// Goes on when all is in the log that programs here wrote to a file, and all files that were closed: whoever gets
    /// the lock of the file next counts on it.
    pub(super) fn when_committed<R: Respond>(
        self: &Arc<Self>,
        caller: &Caller,
        file: FileId,
        reply: Reply<R>,
        then: impl FnOnce(&Arc<Self>, Reply<R>) + Send + 'static,
    ) {
        match self.try_settle(file) {
            Err(OperationError::WouldBlock) => {}
            outcome => {
                note_unsettled(file, &outcome);
                return then(self, reply);
            }
        }
        self.on_worker(&self.savers, caller, reply, move |fs, slot| {
            // What cannot be committed is kept and tried again; holding the lock for it would help nobody.
            note_unsettled(file, &fs.settle_file(file));
            if let Some(reply) = slot.take() {
                then(fs, reply);
            }
        });
    }

    /// As [`FileSystem::settle_file`], if that takes no time.
    fn try_settle(&self, file: FileId) -> Result<Option<RecordId>, OperationError> {
        if self.files.closing_len() > 0 {
            return Err(OperationError::WouldBlock);
        }
        match self.files.find(file) {
            Some(open) if open.dirty_len() <= INLINE_COMMIT_MAX => self.commit_file(&open, WaitPolicy::None),
            Some(_) => Err(OperationError::WouldBlock),
            None => Ok(None),
        }
    }

    /// Commits what was written to a file, and what was closed early.
    fn settle_file(&self, file: FileId) -> Result<Option<RecordId>, OperationError> {
        self.commit_closing()?;
        let Some(open) = self.files.find(file) else { return Ok(None) };
        self.commit_file(&open, WaitPolicy::Silence(self.settings.read_timeout))
    }

    pub(super) fn commit_file(
        &self,
        open: &OpenFile,
        wait_policy: WaitPolicy,
    ) -> Result<Option<RecordId>, OperationError> {
        let committed = self.files.commit(open, wait_policy);
        self.tell_of_wrong_pages();
        Ok(committed?.map(|committed| self.committed(open.id(), &committed)))
    }

    /// Free bytes of the disk that writes may use.
    fn room(&self) -> u64 {
        self.free().map_or(u64::MAX, |free| free.saturating_sub(self.settings.free_min))
    }

    /// The commit of a close is in the log. What no journal took is on the disk, too, before the close returns.
    fn flushed<R: RespondWith<()>>(
        self: &Arc<Self>,
        caller: &Caller,
        open: &OpenHandle,
        committed: Option<RecordId>,
        reply: Reply<R>,
    ) {
        let file = open.file.id();
        if !self.files.waits_for_the_disk(&open.file) {
            return self.closed(caller, file, committed, reply);
        }
        let asker = caller.clone();
        self.on_worker(&self.savers, caller, reply, move |fs, slot| {
            let synced = fs.files.sync();
            let Some(reply) = slot.take() else { return };
            match synced {
                Ok(()) => fs.closed(&asker, file, committed, reply),
                Err(error) => reply.refuse(error),
            }
        });
    }

    /// What was closed survives a kill of this process.
    fn closed<R: RespondWith<()>>(
        self: &Arc<Self>,
        caller: &Caller,
        file: FileId,
        committed: Option<RecordId>,
        reply: Reply<R>,
    ) {
        match (self.settings.close, committed) {
            (_, Some(record)) if self.engine.is_exclusive(file) => self.wait_ordered(caller, record, reply),
            (Close::Safe, Some(record)) => self.wait_safe(caller, record, Strictness::Strict, reply),
            (Close::Safe, None) | (Close::Asynchronous, _) => reply.give(()),
        }
    }

    /// The kernel forgets pages that commits made those of another version.
    pub(super) fn tell_of_wrong_pages(&self) {
        while let Some(file) = self.files.poll_wrong_pages() {
            self.forget_pages(file);
        }
    }

    /// Commits and tells the kernel if another's version won.
    pub(super) fn commit(
        &self,
        open: &OpenHandle,
        wait_policy: WaitPolicy,
    ) -> Result<Option<RecordId>, OperationError> {
        self.commit_file(&open.file, wait_policy)
    }

    fn committed(&self, file: FileId, committed: &Committed) -> RecordId {
        if !committed.is_ours {
            tracing::warn!(%file, record = %committed.stored.record, "what was written met another version: see `wayfs conflicts`");
        }
        self.cold.written(&committed.stored.inode);
        committed.stored.record
    }

    pub(crate) fn release<R: RespondWith<()>>(
        self: &Arc<Self>,
        handle: HandleId,
        flock: Option<LockOwner>,
        reply: Reply<R>,
    ) {
        if let Some(open) = self.handles.file(handle).filter(|open| open.access == Access::Write) {
            open.file.notice_mapped_writes();
        }
        let Some(open) = self.close_handle(handle) else { return reply.refuse(Error::BadHandle) };
        let locks = self.locks_of_gone(open.file.id(), handle, flock);
        if locks.are_exclusive() && (open.file.is_dirty() || self.files.closing_len() > 0) {
            return self.settle_and_unlock(open.file.id(), locks, reply);
        }
        self.unlock_gone(&locks);
        if open.access == Access::Read || !open.file.is_dirty() {
            return reply.give(());
        }
        // Pages that a mapping wrote after the last flush, or an emptiness. Nobody waits for this answer.
        if open.file.dirty_len() <= INLINE_COMMIT_MAX && self.commit(&open, WaitPolicy::None).is_ok() {
            return reply.give(());
        }
        let fs = Arc::clone(self);
        if self.files.is_closing(open.file.id()) {
            reply.give(());
            // Without a place in the queue it is committed by age.
            let _ = self.cutters.run(move || fs.commit_closed(open.file.id()));
            return;
        }
        let job = self.savers.run(move || {
            if let Err(slow) = fs.commit(&open, WaitPolicy::Silence(fs.settings.read_timeout)) {
                tracing::warn!(file = %open.file.id(), error = %slow, "commit of a closed file: will be tried again");
            }
            reply.give(());
        });
        if job.is_err() {
            tracing::debug!("a closed file is committed later: too much is waiting");
        }
    }

    /// Lets go of locks when what was done under them is in the log.
    fn settle_and_unlock<R: RespondWith<()>>(self: &Arc<Self>, file: FileId, locks: GoneLocks, reply: Reply<R>) {
        let locks = Arc::new(locks);
        let (fs, ending) = (Arc::clone(self), Arc::clone(&locks));
        let job = self.savers.run(move || {
            note_unsettled(file, &fs.settle_file(file));
            fs.unlock_gone(&ending);
            reply.give(());
        });
        if job.is_err() {
            tracing::debug!("locks end before what was written under them is committed: too much is waiting");
            self.unlock_gone(&locks);
        }
    }

    /// Commits everything that was closed early.
    pub(super) fn commit_closing(&self) -> Result<(), OperationError> {
        for file in self.files.closing() {
            let Some(open) = self.files.find(file) else { continue };
            self.commit_file(&open, WaitPolicy::Silence(self.settings.read_timeout))?;
        }
        Ok(())
    }

    /// Commits what was closed early in some directories. What cannot be committed is tried again, and seen late.
    pub(super) fn commit_closing_in(&self, directories: &[FileId]) {
        if directories.is_empty() {
            return;
        }
        for file in self.files.closed_or_emptied() {
            let stands_in =
                |inode: Arc<wayfs_types::Inode>| inode.places.iter().any(|at| directories.contains(&at.parent));
            // One with names that it does not list is given back itself.
            if (directories.contains(&file) || self.engine.inode(file).is_some_and(stands_in))
                && let Some(open) = self.files.find(file)
                && let Err(slow) = self.commit_file(&open, WaitPolicy::Silence(self.settings.read_timeout))
            {
                tracing::warn!(%file, error = %slow, "others look before what was closed could be committed");
            }
        }
    }

    /// Commits a file that was closed early, in the background.
    pub(super) fn commit_closed(&self, file: FileId) {
        let Some(open) = self.files.find(file) else { return };
        if let Err(slow) = self.commit_file(&open, WaitPolicy::Silence(self.settings.read_timeout)) {
            tracing::warn!(%file, error = %slow, "commit of a closed file: will be tried again");
        }
    }

    /// Goes on when the file under a name was committed, if it was closed early: what gets another name is whole,
    /// and so is what a directory holds that gets one.
    pub(super) fn when_whole<R: Respond>(
        self: &Arc<Self>,
        caller: &Caller,
        (parent, name): (FileId, Name),
        reply: Reply<R>,
        then: impl FnOnce(&Arc<Self>, Reply<R>) + Send + 'static,
    ) {
        if self.files.closing_len() == 0 {
            return then(self, reply);
        }
        self.on_worker(&self.savers, caller, reply, move |fs, slot| {
            let found = fs.engine.request(Ask::Lookup { parent, name }, fs.settings.metadata_timeout);
            let outcome = match found {
                Ok(Answer::File(_, inode)) if inode.is_directory() => fs.commit_closing(),
                Ok(Answer::File(file, _)) => fs.commit_if_closing(file),
                // Whoever asked is told the same by what follows.
                Ok(_) | Err(_) => Ok(()),
            };
            let Some(reply) = slot.take() else { return };
            match outcome {
                Ok(()) => then(fs, reply),
                Err(slow) => reply.refuse(slow.into_error()),
            }
        });
    }

    /// As [`FileSystem::when_whole`], for a file itself.
    pub(super) fn when_file_whole<R: Respond>(
        self: &Arc<Self>,
        caller: &Caller,
        file: FileId,
        reply: Reply<R>,
        then: impl FnOnce(&Arc<Self>, Reply<R>) + Send + 'static,
    ) {
        if !self.files.is_closing(file) {
            return then(self, reply);
        }
        self.on_worker(&self.savers, caller, reply, move |fs, slot| {
            let outcome = fs.commit_if_closing(file);
            let Some(reply) = slot.take() else { return };
            match outcome {
                Ok(()) => then(fs, reply),
                Err(slow) => reply.refuse(slow.into_error()),
            }
        });
    }

    fn commit_if_closing(&self, file: FileId) -> Result<(), OperationError> {
        let Some(open) = self.files.find(file).filter(|_| self.files.is_closing(file)) else { return Ok(()) };
        self.commit_file(&open, WaitPolicy::Silence(self.settings.read_timeout))?;
        Ok(())
    }
}

/// What cannot be committed before a lock is let go stays here and is tried again.
fn note_unsettled(file: FileId, outcome: &Result<Option<RecordId>, OperationError>) {
    if let Err(slow) = outcome {
        tracing::warn!(%file, error = %slow, "a lock is let go before what was written under it could be committed");
    }
}
