//! Requests of the thread that tells watchers: answered as if they had changed something.

use crate::fs::core::{Caller, FileSystem, answered};
use crate::inotify::Act;
use std::sync::Arc;
use std::time::Duration;
use wayfs_fuse::{Attributes, Entry, Errno, FileKind, Operation, Reply, Request, Timestamp};
use wayfs_types::FileId;

/// What stands for a file that is gone: the kernel sees it for the length of one `unlink`, and nobody else does.
fn stand_in(file: FileId) -> Entry {
    let never = Timestamp { seconds: 0, nanoseconds: 0 };
    let inode = wayfs_fuse::Inode::new(file.inode_number());
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

impl FileSystem {
    /// Answers a request of the thread that tells watchers. Gives the reply back where the request changes nothing, or is
    /// another thread's: it is answered as any other.
    pub(super) fn rehearse(
        self: &Arc<Self>,
        request: &Request,
        caller: &Caller,
        file: FileId,
        reply: Reply,
    ) -> Option<Reply> {
        let rehearsal = self.watchers.rehearsal();
        if !rehearsal.is_of_thread(caller.pid) {
            return Some(reply);
        }
        match request.operation() {
            Operation::Lookup { name } => match rehearsal.act_on(file, name) {
                Some(Act::Make(_)) => answered(reply.error(Errno::NOENT)),
                Some(Act::Remove(gone)) => answered(reply.entry(&stand_in(gone))),
                Some(Act::Touch(_)) | None => return Some(reply),
            },
            Operation::MakeNode { name, .. }
            | Operation::MakeDirectory { name, .. }
            | Operation::Symlink { name, .. } => match rehearsal.act_on(file, name) {
                Some(Act::Make(made)) => self.show_made(caller, made, reply),
                _ => answered(reply.error(Errno::PERM)),
            },
            Operation::Unlink { name } => match rehearsal.act_on(file, name) {
                Some(Act::Remove(_)) => answered(reply.ok()),
                _ => answered(reply.error(Errno::PERM)),
            },
            Operation::SetAttributes(_) if rehearsal.touches(file) => self.attributes_of(caller, file, reply),
            // Nothing is written through it; the kernel tells watchers that a writer closed it.
            Operation::Open { .. } if rehearsal.touches(file) => self.open(caller, file, libc::O_RDONLY, false, reply),
            operation if changes_nothing(&operation) => return Some(reply),
            _ => answered(reply.error(Errno::PERM)),
        }
        None
    }

    fn show_made(self: &Arc<Self>, caller: &Caller, made: FileId, reply: Reply) {
        let asker = caller.clone();
        self.with_inode(caller, made, reply, move |fs, reply, file, inode| {
            fs.answer_entry(fs.entry(file, inode, asker.since, fs.file_ttl(&asker, file, inode)), reply);
        });
    }
}

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
