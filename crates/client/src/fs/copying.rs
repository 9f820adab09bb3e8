//! Copies inside the mount (`copy_file_range`), as `cp` makes them.
//!
//! A copy shares the content of what it is a copy of, where that is possible ([`crate::files::sharing`]); else the kernel
//! is told to copy the bytes itself. It cannot share into a file that the program writes by passthrough, since nobody would tell
//! what was written over what is shared. Which way a file is written is chosen when it is made, before anybody says that
//! it becomes a copy; but who copies has what it copies open by then. So a program that reads a large file of this mount
//! and makes another has its writes come by request. If it does something else with both, that costs it the
//! requests, and nothing else.

use super::Error;
use super::caller::Caller;
use super::core::FileSystem;
use super::ids::HandleId;
use super::reply::{Reply, RespondWith};
use super::results::Copied;
use crate::files::sharing::NotShared;
use crate::files::{Access, WaitPolicy};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use wayfs_types::FsError;

/// Files below this are copied as quickly as they are shared, in bytes. Two chunks of average length.
const SHARED_MIN: u64 = 512 * 1024;

/// One end of a copy.
#[derive(Debug, Clone, Copy)]
pub(crate) struct End {
    pub(crate) handle: HandleId,
    pub(crate) offset: u64,
}

/// How many large files each program has open to read. A program that has none is not in it.
#[derive(Debug, Default)]
pub(super) struct Sources(Mutex<HashMap<u32, u32>>);

impl Sources {
    fn counts(&self) -> MutexGuard<'_, HashMap<u32, u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A program opens a file to read it; answers who is to be named when it is closed, if that matters.
    pub(super) fn opened(&self, pid: u32, access: Access, size: u64) -> Option<u32> {
        if access != Access::Read || size < SHARED_MIN {
            return None;
        }
        *self.counts().entry(pid).or_default() += 1;
        Some(pid)
    }

    /// It is closed.
    pub(super) fn closed(&self, pid: u32) {
        let mut counts = self.counts();
        if let Some(count) = counts.get_mut(&pid) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&pid);
            }
        }
    }

    /// Whether what a program makes now may become a copy.
    pub(super) fn has(&self, pid: u32) -> bool {
        self.counts().contains_key(&pid)
    }
}

impl FileSystem {
    pub(crate) fn copy_range<R: RespondWith<Copied>>(
        self: &Arc<Self>,
        caller: &Caller,
        from: End,
        to: End,
        length: u64,
        reply: Reply<R>,
    ) {
        let (Some(source), Some(target)) = (self.handles.file(from.handle), self.handles.file(to.handle)) else {
            return reply.refuse(Error::BadHandle);
        };
        if target.access != Access::Write {
            return reply.refuse(Error::BadHandle);
        }
        if self.is_of_lost_memory(target.file.id()) {
            return reply.refuse(FsError::Io);
        }
        if Arc::ptr_eq(&source.file, &target.file) || from.offset != to.offset {
            return reply.refuse(FsError::Unsupported);
        }
        source.file.notice_mapped_writes();
        let range = from.offset..from.offset.saturating_add(length);
        let user = self.user(caller);
        match self.files.share(&source.file, &target.file, range.clone(), user) {
            // It was written a moment ago: once it is committed it can be shared.
            Err(NotShared::Uncommitted) => {
                let asker = caller.clone();
                self.on_worker(&self.savers, caller, reply, move |fs, slot| {
                    let wait_policy = WaitPolicy::Silence(fs.settings.read_timeout);
                    let outcome = match fs.commit_file(&source.file, wait_policy) {
                        Ok(_) => fs.files.share(&source.file, &target.file, range, user),
                        Err(_) => Err(NotShared::Unfit),
                    };
                    if let Some(reply) = slot.take() {
                        fs.answer_copied(&asker, target.file.id(), outcome, reply);
                    }
                });
            }
            outcome => self.answer_copied(caller, target.file.id(), outcome, reply),
        }
    }

    fn answer_copied<R: RespondWith<Copied>>(
        &self,
        caller: &Caller,
        target: wayfs_types::FileId,
        outcome: Result<u64, NotShared>,
        reply: Reply<R>,
    ) {
        let Ok(copied) = outcome else { return reply.refuse(FsError::Unsupported) };
        // The kernel leaves this to us and does not say so with such a request.
        if copied > 0
            && caller.uid != 0
            && let Some(inode) = self.engine.inode(target)
        {
            self.drop_set_id_bits(caller, target, &inode);
        }
        reply.give(Copied(copied));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_may_copy_while_it_has_a_large_file_open_to_read() {
        let sources = Sources::default();
        assert_eq!(sources.opened(7, Access::Read, SHARED_MIN - 1), None);
        assert_eq!(sources.opened(7, Access::Write, SHARED_MIN), None);
        assert!(!sources.has(7));
        let (one, other) = (sources.opened(7, Access::Read, SHARED_MIN), sources.opened(7, Access::Read, SHARED_MIN));
        assert_eq!((one, other), (Some(7), Some(7)));
        sources.closed(7);
        assert!(sources.has(7) && !sources.has(8));
        sources.closed(7);
        assert!(!sources.has(7) && sources.counts().is_empty());
    }
}
