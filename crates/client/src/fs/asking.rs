//! How an operation asks: the replica, or a worker that may wait. The reply goes along, and comes to what is done then.

use super::caller::Caller;
use super::core::FileSystem;
use super::pending::{EndedBy, ReplySlot};
use super::reply::{Reply, Respond};
use crate::workers::Workers;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use wayfs_types::request::{Answer, Change, Outcome, Removed, Request as Ask};
use wayfs_types::{FileId, FsError, Inode};

impl FileSystem {
    /// Asks the engine and hands the outcome on, here or later.
    pub(super) fn ask<R: Respond>(
        self: &Arc<Self>,
        caller: &Caller,
        ask: Ask,
        reply: Reply<R>,
        then: impl FnOnce(&Arc<Self>, Reply<R>, Outcome) + Send + 'static,
    ) -> Answered {
        self.ask_within(caller, ask, self.settings.metadata_timeout, reply, then)
    }

    /// As [`FileSystem::ask`], with a bound of its own.
    pub(super) fn ask_within<R: Respond>(
        self: &Arc<Self>,
        caller: &Caller,
        ask: Ask,
        timeout: Duration,
        reply: Reply<R>,
        then: impl FnOnce(&Arc<Self>, Reply<R>, Outcome) + Send + 'static,
    ) -> Answered {
        let answered = Arc::new(AtomicBool::new(false));
        let (fs, was_answered, token) = (Arc::clone(self), Arc::clone(&answered), caller.token);
        let ended_by = if matches!(ask, Ask::Lock(_)) { EndedBy::AnySignal } else { EndedBy::WishToEnd };
        let callback = Box::new(move |outcome| {
            // The order matters: whoever registers the wait after this looks at the flag.
            was_answered.store(true, Ordering::SeqCst);
            fs.pending.done(token);
            then(&fs, reply, outcome);
        });
        let Some(id) = self.engine.submit(ask, timeout, callback) else { return Answered::Here };
        self.pending.wait_for_engine((token, caller.pid), id, ended_by);
        if answered.load(Ordering::SeqCst) {
            self.pending.done(token);
        } else if caller.interrupt.is_set() {
            self.signalled(token);
        }
        Answered::Elsewhere
    }

    /// Makes a change; `then` gets the file it was about.
    pub(super) fn change<R: Respond>(
        self: &Arc<Self>,
        caller: &Caller,
        change: Change,
        reply: Reply<R>,
        then: impl FnOnce(&Arc<Self>, Reply<R>, Changed) + Send + 'static,
    ) {
        let ask = Ask::Change { user: self.user(caller), change };
        self.ask(caller, ask, reply, move |fs, reply, outcome| match outcome {
            Ok(Answer::Changed { file, inode, removed, .. }) => then(fs, reply, Changed { file, inode, removed }),
            other => reply.refuse(refusal(other)),
        });
    }

    /// Hands on a file's inode, and the id under which it is kept (another than asked for, if the file was
    /// merged with its twin): at once if what is known here may be trusted, else when the parent answered.
    ///
    /// Of a removed file that is the inode that it had last. What the engine keeps is a marker without contents, and a
    /// program that found the name just before another file was renamed over it must not read an empty file.
    pub(crate) fn with_inode<R: Respond>(
        self: &Arc<Self>,
        caller: &Caller,
        file: FileId,
        reply: Reply<R>,
        then: impl FnOnce(&Arc<Self>, Reply<R>, FileId, &Inode) + Send + 'static,
    ) {
        if let Some(removed) = self.files.find(file).and_then(|open| open.removed_inode()) {
            return then(self, reply, file, &removed);
        }
        let thread = caller.pid;
        self.ask(caller, Ask::Attributes { file }, reply, move |fs, reply, outcome| match outcome {
            Ok(Answer::File(file, inode)) if inode.is_removed() && !inode.is_directory() => {
                fs.with_removed(thread, reply, file, then);
            }
            Err(FsError::NotFound) => fs.with_removed(thread, reply, file, then),
            Ok(Answer::File(file, inode)) => then(fs, reply, file, &inode),
            other => reply.refuse(refusal(other)),
        });
    }

    /// Hands on a removed file's inode as it was last.
    pub(super) fn with_removed<R: Respond>(
        self: &Arc<Self>,
        thread: u32,
        reply: Reply<R>,
        file: FileId,
        then: impl FnOnce(&Arc<Self>, Reply<R>, FileId, &Inode) + Send + 'static,
    ) {
        match self.files.last_seen(file).or_else(|| self.second_walks.shown(thread, file)) {
            Some(last) => then(self, reply, file, &last),
            None => {
                // The kernel walks the path again, asking for each name.
                self.second_walks.begin(thread);
                reply.refuse(FsError::Stale);
            }
        }
    }

    /// Runs work that may wait on a worker; a signal that asks the caller to end answers it at once.
    pub(super) fn on_worker<R: Respond>(
        self: &Arc<Self>,
        workers: &Workers,
        caller: &Caller,
        reply: Reply<R>,
        work: impl FnOnce(&Arc<Self>, &ReplySlot<R>) + Send + 'static,
    ) {
        let slot = ReplySlot::new(reply);
        let (fs, token, waiting) = (Arc::clone(self), caller.token, Arc::clone(&slot));
        self.pending.wait_for_worker((token, caller.pid), &slot);
        let queued = workers.run(move || {
            work(&fs, &waiting);
            fs.pending.worker_done(token);
        });
        if queued.is_err() {
            self.pending.done(token);
            if let Some(reply) = slot.take() {
                reply.refuse(FsError::TimedOut);
            }
        } else if caller.interrupt.is_set() {
            self.signalled(token);
        }
    }
}

/// Who knows the answer to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answered {
    /// This machine: it is given already.
    Here,
    /// The station is asked.
    Elsewhere,
}

/// What a change did.
pub(super) struct Changed {
    /// The file it was about.
    pub(super) file: FileId,
    /// Its inode afterwards.
    pub(super) inode: Arc<Inode>,
    /// A file that lost its last name.
    pub(super) removed: Option<Removed>,
}

/// What is refused; an answer of a wrong kind is our own fault and becomes `EIO`.
pub(super) fn refusal(outcome: Outcome) -> FsError {
    match outcome {
        Err(error) => error,
        Ok(answer) => {
            tracing::error!(?answer, "the replica answered something else than was asked");
            FsError::Io
        }
    }
}
