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
use std::sync::Arc;
use wayfs_types::FsError;

/// One end of a copy.
#[derive(Debug, Clone, Copy)]
pub(crate) struct End {
    pub(crate) handle: HandleId,
    pub(crate) offset: u64,
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
