//! Opening and making files.

use super::core::{Answered, Caller, Vfs, answered, refuse};
use super::handles::{Handle, OpenHandle};
use super::names::checked;
use crate::files::Access;
use crate::files::body::BodyFile;
use crate::files::table::KernelWay;
use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use wayfs_fuse::{BackingId, Delivery, Errno, FileHandle, OpenFlags, Opened, Reply};
use wayfs_types::request::{Answer, Change, Request as Ask};
use wayfs_types::{AttrChange, FileId, FsError, Inode, Kind};

/// What a create asks for.
#[derive(Debug, Clone, Copy)]
pub(super) struct NewFile {
    pub(super) flags: i32,
    pub(super) mode: u32,
}

fn access(flags: i32) -> Access {
    if flags & libc::O_ACCMODE == libc::O_RDONLY { Access::Read } else { Access::Write }
}

impl Vfs {
    pub(super) fn open(self: &Arc<Self>, caller: &Caller, file: FileId, flags: i32, kill_suid_gid: bool, reply: Reply) {
        let asker = caller.clone();
        self.with_inode(caller, file, reply, move |vfs, reply, file, inode| {
            if inode.is_directory() {
                let _ = reply.error(Errno::ISDIR);
                return;
            }
            match vfs.open_inode(&asker, file, inode, flags) {
                Ok((handle, opened)) => {
                    if kill_suid_gid {
                        vfs.drop_set_id_bits(&asker, file, inode);
                    }
                    if reply.opened(&opened) == Delivery::Gone {
                        vfs.close_handle(handle);
                    }
                }
                Err(error) => answered(reply.error(super::errno::errno(error))),
            }
        });
    }

    /// Opens a file whose inode is known.
    fn open_inode(
        &self,
        caller: &Caller,
        id: FileId,
        inode: &Inode,
        flags: i32,
    ) -> Result<(FileHandle, Opened), FsError> {
        let access = access(flags);
        let file = self.files.open_file(id, inode, access);
        if flags & libc::O_TRUNC != 0
            && access == Access::Write
            && let Err(error) = self.files.empty(&file, caller.uid)
        {
            self.files.close_file(&file, access);
            return Err(error);
        }
        let way = self.files.kernel_open(&file, access, &|body| self.register(body));
        // Nothing needs doing when a reader closes, and a flush would cost it a quarter of its time.
        // Record locks taken through such a handle end with the handle.
        let quiet = if access == Access::Read { OpenFlags::NOFLUSH } else { OpenFlags::EMPTY };
        let handle = self.handles.insert(Handle::File(Arc::new(OpenHandle { file, access, way })));
        let opened = match way {
            KernelWay::Cached { keep: true } => Opened::new(handle, quiet | OpenFlags::KEEP_CACHE),
            KernelWay::Cached { keep: false } => Opened::new(handle, quiet),
            KernelWay::Direct(backing) => Opened::passthrough(handle, quiet | OpenFlags::DIRECT_IO, backing),
            KernelWay::Passthrough(backing) => Opened::passthrough(handle, quiet, backing),
        };
        Ok((handle, opened))
    }

    fn register(&self, body: &BodyFile) -> Option<BackingId> {
        if !self.has_passthrough.load(Ordering::Relaxed) {
            return None;
        }
        match self.notifier.get()?.backing_open(body.file().as_fd()) {
            Ok(backing) => Some(backing),
            Err(error) => {
                if error.is_final() || matches!(error, wayfs_fuse::PassthroughError::Stacked) {
                    tracing::info!(%error, "reads go through the daemon");
                    self.has_passthrough.store(false, Ordering::Relaxed);
                }
                None
            }
        }
    }

    pub(super) fn create(self: &Arc<Self>, caller: &Caller, parent: FileId, name: &OsStr, new: NewFile, reply: Reply) {
        let Some((name, reply)) = checked(name, reply) else { return };
        let owner = self.ownership(caller, parent, new.mode);
        let change = Change::Create {
            parent,
            name: name.clone(),
            kind: Kind::File,
            mode: owner.mode,
            uid: owner.uid,
            gid: owner.gid,
        };
        let asker = caller.clone();
        let ask = Ask::Change { user: caller.uid, change };
        let known = self.ask(caller, ask, reply, move |vfs, reply, outcome| match outcome {
            Ok(Answer::Changed { file, inode, .. }) => {
                vfs.answer_created(&asker, file, &inode, new.flags & !libc::O_TRUNC, reply)
            }
            // Somebody made it since the kernel looked: without O_EXCL that is as good.
            Err(FsError::Exists) if new.flags & libc::O_EXCL == 0 => {
                let again = asker.clone();
                vfs.ask(&again, Ask::Lookup { parent, name }, reply, move |vfs, reply, outcome| match outcome {
                    Ok(Answer::File(_, inode)) if inode.is_directory() => answered(reply.error(Errno::ISDIR)),
                    Ok(Answer::File(file, inode)) => vfs.answer_created(&asker, file, &inode, new.flags, reply),
                    other => refuse(reply, other),
                });
            }
            other => refuse(reply, other),
        });
        if known == Answered::Elsewhere {
            self.warm(parent);
        }
    }

    fn answer_created(&self, caller: &Caller, file: FileId, inode: &Inode, flags: i32, reply: Reply) {
        match self.open_inode(caller, file, inode, flags) {
            Ok((handle, opened)) => {
                if reply.created(&self.entry(file, inode), &opened) == Delivery::Gone {
                    self.close_handle(handle);
                }
            }
            Err(error) => answered(reply.error(super::errno::errno(error))),
        }
    }

    /// Clears the set-user-id bit, and the set-group-id bit of a program, as writing to a file does.
    pub(super) fn drop_set_id_bits(&self, caller: &Caller, file: FileId, inode: &Inode) {
        let mode = without_set_id(inode.mode);
        if mode == inode.mode {
            return;
        }
        let change = Change::SetAttr { file, change: AttrChange { mode: Some(mode), ..AttrChange::default() } };
        let ask = Ask::Change { user: caller.uid, change };
        let log = Box::new(move |outcome| {
            if let Err(error) = outcome {
                tracing::warn!(%file, %error, "clear set-id bits after a write");
            }
        });
        self.engine.submit(ask, self.settings.metadata_timeout, log);
    }

    /// Closes a handle: its way through the kernel, its locks, its file.
    pub(super) fn close_handle(&self, handle: FileHandle) -> Option<Arc<OpenHandle>> {
        let Some(Handle::File(open)) = self.handles.remove(handle) else { return None };
        if let Some(backing) = self.files.kernel_close(&open.file, open.way)
            && let Some(notifier) = self.notifier.get()
            && let Err(error) = notifier.backing_close(backing)
        {
            tracing::warn!(%error, "take back a passthrough registration");
        }
        self.files.close_file(&open.file, open.access);
        Some(open)
    }
}

/// A mode after a write: set-group-id without group execution means something else and stays.
pub(super) fn without_set_id(mode: u16) -> u16 {
    let mode = mode & !0o4000;
    if mode & 0o010 != 0 { mode & !0o2000 } else { mode }
}
