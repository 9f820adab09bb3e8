//! From the kernel's requests to the operations of the file system.

use super::answers::{ListingReply, LockTestReply};
use super::decoded::{
    credentials, file_id, handle, new_node, owner, range, rename_target, scope, seek, set_attributes, token, wish,
};
use super::kernel::abilities;
use super::kernel_form::tested;
use crate::fs::copying::End;
use crate::fs::data::{AllocateRequest, WriteRequest};
use crate::fs::lock_wishes::LockPlace;
use crate::fs::names::NewMode;
use crate::fs::opening::{NewFile, OpenRequest};
use crate::fs::{Caller, Detail, FileSystem, LockTest, PageRequest, Unlock};
use std::sync::Arc;
use wayfs_fuse::{
    Errno, FileLock, Granted, Handler, Inode, LockOwner, LockScope, LockWait, Notifier, Operation, Reply, Request,
    Unique,
};
use wayfs_types::FileId;

/// Hands requests to a file system.
pub(crate) struct Front(pub(crate) Arc<FileSystem>);

impl Handler for Front {
    fn init(&self, granted: &Granted, notifier: &Notifier) {
        self.0.begin(abilities(granted), Arc::new(notifier.clone()));
    }

    fn answer(&self, request: &Request, operation: Operation<'_>, reply: Reply) -> Option<Reply> {
        let Ok(inode) = file_id(request.inode()) else {
            refuse(reply, Errno::STALE);
            return None;
        };
        let (file, caller) = (self.0.known_as(inode), self.0.caller(credentials(request)));
        if let Some(reply) = self.rehearse(&operation, &caller, file, reply) {
            self.carry_out(operation, &caller, file, reply);
        }
        None
    }

    fn forget(&self, inode: Inode, lookups: u64) {
        if let Ok(file) = file_id(inode) {
            self.0.forget(file, lookups);
        }
    }

    fn interrupted(&self, unique: Unique) {
        self.0.signalled(token(unique));
    }
}

impl Front {
    // One arm for each request of the protocol: cut in pieces it would be decoded, or have its last arm, more than once.
    #[allow(clippy::too_many_lines)]
    fn carry_out(&self, operation: Operation<'_>, caller: &Caller, file: FileId, to: Reply) {
        let fs = &self.0;
        let reply = |to: Reply| fs.reply(to);
        match operation {
            Operation::Lookup { name } => fs.lookup(caller, file, name, reply(to)),
            Operation::GetAttributes { .. } => fs.attributes_of(caller, file, reply(to)),
            Operation::SetAttributes(changes) => {
                fs.set_attributes(caller, file, set_attributes(changes), reply(to));
            }
            Operation::ReadLink => fs.read_link(caller, file, reply(to)),
            Operation::Symlink { name, target } => fs.symlink(caller, file, name, target, reply(to)),
            Operation::MakeNode { name, mode, umask, device } => {
                fs.make_node(caller, file, name, new_node(NewMode { asked: mode, umask }, device), reply(to));
            }
            Operation::MakeDirectory { name, mode, umask } => {
                fs.make_directory(caller, file, name, NewMode { asked: mode, umask }, reply(to));
            }
            Operation::Unlink { name } => fs.unlink(caller, file, name, reply(to)),
            Operation::RemoveDirectory { name } => fs.remove_directory(caller, file, name, reply(to)),
            Operation::Rename { name, new_parent, new_name, flags } => {
                match (rename_target(flags), file_id(new_parent)) {
                    (Ok(target), Ok(parent)) => fs.rename(caller, (file, name), (parent, new_name), target, reply(to)),
                    (Err(error), _) | (_, Err(error)) => reply(to).refuse(error),
                }
            }
            Operation::Link { inode, new_name } => match file_id(inode) {
                Ok(linked) => fs.link(caller, fs.known_as(linked), file, new_name, reply(to)),
                Err(error) => reply(to).refuse(error),
            },
            Operation::Open { flags, kill_suid_gid } => {
                fs.open(caller, file, OpenRequest { flags, kill_suid_gid }, reply(to))
            }
            Operation::Create { name, flags, mode, umask, .. } => {
                fs.create(caller, file, name, NewFile { flags, mode: NewMode { asked: mode, umask } }, reply(to));
            }
            Operation::TemporaryFile { flags, mode, umask } => {
                fs.create_nameless(caller, file, NewFile { flags, mode: NewMode { asked: mode, umask } }, reply(to));
            }
            Operation::Read { handle: through, offset, size, .. } => {
                fs.read(caller, handle(through), offset, size, reply(to));
            }
            Operation::Write { handle: through, offset, data, flags, from_cache, kill_suid_gid, .. } => {
                let place = WriteRequest { handle: handle(through), offset, flags, kill_suid_gid, from_cache };
                fs.write(caller, place, data, reply(to));
            }
            Operation::StatFs => fs.statistics(reply(to)),
            Operation::Release { handle: gone, lock_owner, unlock_flock, .. } => {
                fs.release(handle(gone), unlock_flock.then(|| owner(lock_owner)), reply(to));
            }
            Operation::Flush { handle: through, lock_owner } => {
                fs.flush(caller, handle(through), owner(lock_owner), reply(to));
            }
            Operation::Fsync { handle: through, .. } => fs.fsync(caller, Some(handle(through)), file, reply(to)),
            Operation::SetXattr { name, value, flags } => fs.set_xattr(caller, file, (name, value), flags, reply(to)),
            Operation::GetXattr { name, .. } => fs.xattr(caller, file, name, reply(to)),
            Operation::ListXattr { .. } => fs.list_xattrs(caller, file, reply(to)),
            Operation::RemoveXattr { name } => fs.remove_xattr(caller, file, name, reply(to)),
            Operation::OpenDirectory { .. } => fs.open_directory(caller, file, reply(to)),
            Operation::ReadDirectory { handle: through, offset, size } => {
                let request = PageRequest { offset, detail: Detail::Names };
                let to = ListingReply { reply: to, room: size, detail: request.detail };
                fs.list(caller, handle(through), request, fs.reply(to));
            }
            Operation::ReadDirectoryPlus { handle: through, offset, size } => {
                let request = PageRequest { offset, detail: Detail::Attributes };
                let to = ListingReply { reply: to, room: size, detail: request.detail };
                fs.list(caller, handle(through), request, fs.reply(to));
            }
            Operation::ReleaseDirectory { handle: gone } => fs.release_directory(handle(gone), reply(to)),
            Operation::FsyncDirectory { .. } => fs.fsync(caller, None, file, reply(to)),
            Operation::GetLock { owner: asks, lock, .. } => self.test_lock(caller, file, (asks, lock), to),
            Operation::SetLock { handle: through, owner: asks, lock, wait, scope: family } => {
                let place = LockPlace { file, handle: handle(through) };
                match wish(lock, asks, family, wait) {
                    Some(wish) => fs.lock(caller, place, wish, reply(to)),
                    None => {
                        let unlock = Unlock { owner: owner(asks), scope: scope(family), range: range(lock.range) };
                        fs.unlock(caller, place, unlock, reply(to));
                    }
                }
            }
            Operation::Fallocate { handle: through, offset, length, mode } => {
                let request = AllocateRequest { handle: handle(through), offset, len: length, mode };
                fs.allocate(caller, request, reply(to));
            }
            Operation::Seek { handle: through, offset, whence } => match seek(whence) {
                Ok(seek) => fs.seek(caller, handle(through), offset, seek, reply(to)),
                Err(error) => reply(to).refuse(error),
            },
            Operation::CopyFileRange {
                handle: from, offset, target_handle, target_offset, length, flags: 0, ..
            } => {
                let from = End { handle: handle(from), offset };
                let target = End { handle: handle(target_handle), offset: target_offset };
                fs.copy_range(caller, from, target, length, reply(to));
            }
            Operation::SyncFileSystem => fs.sync_all(caller, reply(to)),
            // With `default_permissions` the kernel does not ask; without, everything is allowed here.
            Operation::Access { .. } => reply(to).give(()),
            // The kernel then copies through its page cache by itself.
            Operation::CopyFileRange { .. } => refuse(to, Errno::OPNOTSUPP),
            Operation::Ioctl { .. } => refuse(to, Errno::NOTTY),
            Operation::Poll { .. } | Operation::Unsupported { .. } => refuse(to, Errno::NOSYS),
        }
    }

    fn test_lock(&self, caller: &Caller, file: FileId, (asks, lock): (LockOwner, FileLock), reply: Reply) {
        match wish(lock, asks, LockScope::Record, LockWait::Try) {
            Some(wish) => {
                let reply = self.0.reply(LockTestReply { reply, asked: lock });
                self.0.test_lock(caller, file, &wish, reply);
            }
            // Nothing stands in the way of letting go.
            None => {
                let _ = reply.lock(&tested(LockTest(None), lock));
            }
        }
    }
}

fn refuse(reply: Reply, errno: Errno) {
    let _ = reply.error(errno);
}
