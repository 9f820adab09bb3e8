//! From the kernel's requests to the operations.

use crate::fs::core::{Caller, FileSystem, answered, file_id};
use std::sync::Arc;
use wayfs_fuse::{Errno, Granted, Handler, Inode, Notifier, Operation, Reply, Request, Unique};

/// Hands requests to a [`FileSystem`].
pub(crate) struct Front(pub(crate) Arc<FileSystem>);

impl Handler for Front {
    fn init(&self, granted: &Granted, notifier: &Notifier) {
        self.0.agreed(granted, notifier);
    }

    fn handle(&self, request: Request, reply: Reply) {
        let file = match file_id(request.inode()) {
            Ok(file) => self.0.notices.numbers.real(file),
            Err(error) => {
                let _ = reply.error(error);
                return;
            }
        };
        let caller = Caller::of(&request, &*self.0.engine);
        let reply = match self.0.rehearse(&request, &caller, file, reply) {
            Some(reply) => reply,
            None => return,
        };
        if let Err((reply, errno)) = self.names(&request, &caller, file, reply) {
            let _ = reply.error(errno);
        }
    }

    fn forget(&self, inode: Inode, lookups: u64) {
        // The kernel may look it up again at once with references of its own still counted; losing
        // the note then costs one re-read of pages.
        if let Ok(file) = file_id(inode) {
            self.0.files.kernel_forgot(self.0.notices.numbers.real(file));
            self.0.notices.numbers.forgotten(file, lookups);
        }
    }

    fn interrupted(&self, unique: Unique) {
        self.0.signalled(unique);
    }
}

/// A reply that is still owed, and what to say.
type Owed = (Reply, Errno);

impl Front {
    /// Operations on names.
    fn names(&self, request: &Request, caller: &Caller, file: wayfs_types::FileId, reply: Reply) -> Result<(), Owed> {
        let fs = &self.0;
        match request.operation() {
            Operation::Lookup { name } => fs.lookup(caller, file, name, reply),
            Operation::Symlink { name, target } => fs.symlink(caller, file, name, target, reply),
            Operation::MakeNode { name, mode, device, umask } => {
                let mode = crate::fs::names::NewMode { asked: mode, umask };
                fs.make_node(caller, file, name, crate::fs::names::NewNode { mode, device }, reply);
            }
            Operation::MakeDirectory { name, mode, umask } => {
                fs.make_directory(caller, file, name, crate::fs::names::NewMode { asked: mode, umask }, reply);
            }
            Operation::Unlink { name } => fs.unlink(caller, file, name, reply),
            Operation::RemoveDirectory { name } => fs.remove_directory(caller, file, name, reply),
            Operation::Rename { name, new_parent, new_name, flags } => {
                fs.rename(caller, (file, name), (new_parent, new_name), flags, reply);
            }
            Operation::Link { inode, new_name } => fs.link(caller, inode, file, new_name, reply),
            Operation::Create { name, flags, mode, umask, .. } => {
                let mode = crate::fs::names::NewMode { asked: mode, umask };
                fs.create(caller, file, name, crate::fs::opening::NewFile { flags, mode }, reply);
            }
            Operation::TemporaryFile { flags, mode, umask } => {
                let mode = crate::fs::names::NewMode { asked: mode, umask };
                fs.create_nameless(caller, file, crate::fs::opening::NewFile { flags, mode }, reply);
            }
            _ => return self.attributes(request, caller, file, reply),
        }
        Ok(())
    }

    /// Operations on attributes.
    fn attributes(
        &self,
        request: &Request,
        caller: &Caller,
        file: wayfs_types::FileId,
        reply: Reply,
    ) -> Result<(), Owed> {
        let fs = &self.0;
        match request.operation() {
            Operation::GetAttributes { .. } => fs.attributes_of(caller, file, reply),
            Operation::SetAttributes(changes) => fs.set_attributes(caller, file, changes, reply),
            Operation::ReadLink => fs.read_link(caller, file, reply),
            Operation::SetXattr { name, value, flags } => fs.set_xattr(caller, file, (name, value), flags, reply),
            Operation::GetXattr { name, .. } => fs.xattr(caller, file, name, reply),
            Operation::ListXattr { .. } => fs.list_xattrs(caller, file, reply),
            Operation::RemoveXattr { name } => fs.remove_xattr(caller, file, name, reply),
            Operation::StatFs => fs.statistics(reply),
            // With `default_permissions` the kernel does not ask; without, everything is allowed here.
            Operation::Access { .. } => answered(reply.ok()),
            Operation::GetLock { owner, lock, .. } => fs.test_lock(caller, file, owner, lock, reply),
            Operation::SetLock { handle, owner, lock, wait, scope } => {
                let place = crate::fs::locks::Place { file, handle };
                fs.set_lock(caller, place, crate::fs::locks::Wish { owner, lock, wait, scope }, reply);
            }
            _ => return self.contents(request, caller, file, reply),
        }
        Ok(())
    }

    /// Operations on open files and directories.
    fn contents(
        &self,
        request: &Request,
        caller: &Caller,
        file: wayfs_types::FileId,
        reply: Reply,
    ) -> Result<(), Owed> {
        let fs = &self.0;
        match request.operation() {
            Operation::Open { flags, kill_suid_gid } => fs.open(caller, file, flags, kill_suid_gid, reply),
            Operation::Read { handle, offset, size, .. } => fs.read(caller, handle, offset, size, reply),
            Operation::Write { handle, offset, data, flags, kill_suid_gid, from_cache, .. } => {
                let place = crate::fs::data::WriteRequest { handle, offset, flags, kill_suid_gid, from_cache };
                fs.write(caller, place, data, reply);
            }
            Operation::Flush { handle, lock_owner } => fs.flush(caller, handle, lock_owner, reply),
            Operation::Release { handle, lock_owner, unlock_flock, .. } => {
                fs.release(handle, unlock_flock.then_some(lock_owner), reply);
            }
            Operation::Fsync { handle, .. } => fs.fsync(caller, Some(handle), file, reply),
            Operation::FsyncDirectory { .. } => fs.fsync(caller, None, file, reply),
            Operation::SyncFileSystem => fs.sync_all(caller, reply),
            Operation::OpenDirectory { .. } => fs.open_directory(caller, file, reply),
            Operation::ReadDirectory { handle, offset, size } => {
                fs.list(caller, handle, crate::fs::listing::Page { offset, size, plus: false }, reply);
            }
            Operation::ReadDirectoryPlus { handle, offset, size } => {
                fs.list(caller, handle, crate::fs::listing::Page { offset, size, plus: true }, reply);
            }
            Operation::ReleaseDirectory { handle } => {
                fs.handles.remove(handle);
                let _ = reply.ok();
            }
            Operation::Fallocate { handle, offset, length, mode } => {
                fs.allocate(caller, handle, (offset, length), mode, reply);
            }
            Operation::Seek { handle, offset, whence } => fs.seek(caller, handle, offset, whence, reply),
            Operation::Ioctl { .. } => return Err((reply, Errno::NOTTY)),
            Operation::CopyFileRange { handle, offset, target_handle, target_offset, length, flags: 0, .. } => {
                let from = crate::fs::copying::End { handle, offset };
                let to = crate::fs::copying::End { handle: target_handle, offset: target_offset };
                fs.copy_range(caller, from, to, length, reply);
            }
            // The kernel then copies through its page cache by itself.
            Operation::CopyFileRange { .. } => return Err((reply, Errno::OPNOTSUPP)),
            Operation::Poll { .. } => return Err((reply, Errno::NOSYS)),
            _ => return Err((reply, Errno::NOSYS)),
        }
        Ok(())
    }
}
