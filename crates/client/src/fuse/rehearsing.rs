//! Requests of the thread that tells watchers: answered as if they had changed something.

use super::Front;
use super::kernel_form::inode;
use crate::fs::Caller;
use crate::fs::opening::OpenRequest;
use crate::inotify::Act;
use std::time::Duration;
use wayfs_fuse::{Attributes, Entry, Errno, FileKind, Operation, Reply, Timestamp};
use wayfs_types::FileId;

/// What stands for a file that is gone: the kernel sees it for the length of one `unlink`, and nobody else does.
fn stand_in(file: FileId) -> Entry {
    let never = Timestamp { seconds: 0, nanoseconds: 0 };
    let inode = inode(file);
    Entry {
        inode,
        generation: 0,
        entry_ttl: Duration::ZERO,
        attributes_ttl: Duration::ZERO,
        attributes: Attributes {
            inode,
            size: 0,
            blocks: 0,
            atime: never,
            mtime: never,
            ctime: never,
            btime: None,
            mode: FileKind::Regular.mode_bits() | 0o600,
            links: 1,
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
            device: 0,
            block_size: 4096,
        },
    }
}

impl Front {
    /// Answers a request of the thread that tells watchers. Gives the reply back where the request changes nothing, or is
    /// another thread's: it is answered as any other.
    pub(super) fn rehearse(
        &self,
        operation: &Operation<'_>,
        caller: &Caller,
        file: FileId,
        reply: Reply,
    ) -> Option<Reply> {
        let rehearsal = self.0.watchers().rehearsal();
        if !rehearsal.is_of_thread(caller.pid()) {
            return Some(reply);
        }
        match *operation {
            Operation::Lookup { name } => match rehearsal.act_on(file, name) {
                Some(Act::Make(_)) => done(reply.error(Errno::NOENT)),
                Some(Act::Remove(gone)) => done(reply.entry(&stand_in(gone))),
                Some(Act::Touch(_)) | None => return Some(reply),
            },
            Operation::MakeNode { name, .. }
            | Operation::MakeDirectory { name, .. }
            | Operation::Symlink { name, .. } => match rehearsal.act_on(file, name) {
                Some(Act::Make(made)) => self.0.entry_of(caller, made, self.0.reply(reply)),
                _ => done(reply.error(Errno::PERM)),
            },
            Operation::Unlink { name } => match rehearsal.act_on(file, name) {
                Some(Act::Remove(_)) => done(reply.ok()),
                _ => done(reply.error(Errno::PERM)),
            },
            Operation::SetAttributes(_) if rehearsal.touches(file) => {
                self.0.attributes_of(caller, file, self.0.reply(reply));
            }
            // Nothing is written through it; the kernel tells watchers that a writer closed it.
            Operation::Open { .. } if rehearsal.touches(file) => {
                let request = OpenRequest { flags: libc::O_RDONLY, kill_suid_gid: false };
                self.0.open(caller, file, request, self.0.reply(reply));
            }
            _ if changes_nothing(operation) => return Some(reply),
            _ => done(reply.error(Errno::PERM)),
        }
        None
    }
}

/// Ends a branch that answered: whether the kernel took it changes nothing here.
fn done(_: wayfs_fuse::Delivery) {}

/// Requests without which no path is walked and no handle closed.
fn changes_nothing(operation: &Operation<'_>) -> bool {
    matches!(
        operation,
        Operation::GetAttributes { .. }
            | Operation::ReadLink
            | Operation::Access { .. }
            | Operation::GetXattr { .. }
            | Operation::Flush { .. }
            | Operation::Release { .. }
    )
}
