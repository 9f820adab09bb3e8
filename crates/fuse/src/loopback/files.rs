//! Open files.

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use rustix::fs::{Mode, OFlags};
use tracing::debug;

use super::inodes::Node;
use super::names::drop_set_id_bits;
use super::{Loopback, descriptor_path};
use crate::{
    BackingId, Delivery, Entry, Errno, FileHandle, InitFlags, LockScope, Notifier, OpenFlags, Opened, Operation, Reply,
    Request,
};

/// A passthrough registration and how many handles use it.
#[derive(Debug)]
pub(super) struct Backing {
    id: BackingId,
    users: u64,
}

/// One open file.
#[derive(Debug)]
pub(super) struct OpenFile {
    pub(super) fd: OwnedFd,
    pub(super) node: Arc<Node>,
    passthrough: bool,
}

/// All of them. The lock is a leaf.
#[derive(Debug, Default)]
pub(super) struct Handles {
    files: RwLock<HashMap<FileHandle, Arc<OpenFile>>>,
    next: AtomicU64,
}

impl Handles {
    pub(super) fn file(&self, handle: FileHandle) -> Result<Arc<OpenFile>, Errno> {
        let files = self.files.read().unwrap_or_else(PoisonError::into_inner);
        files.get(&handle).cloned().ok_or(Errno::BADF)
    }

    fn insert(&self, file: OpenFile) -> FileHandle {
        let handle = FileHandle::new(self.next.fetch_add(1, Ordering::Relaxed));
        self.files.write().unwrap_or_else(PoisonError::into_inner).insert(handle, Arc::new(file));
        handle
    }

    fn remove(&self, handle: FileHandle) -> Option<Arc<OpenFile>> {
        self.files.write().unwrap_or_else(PoisonError::into_inner).remove(&handle)
    }
}

impl Loopback {
    pub(super) fn handle_file(&self, request: &Request, reply: Reply) {
        match request.operation() {
            Operation::Open { flags, .. } => match self.open(request, flags) {
                Ok(opened) => {
                    if reply.opened(&opened) == Delivery::Gone {
                        self.close(opened.handle());
                    }
                }
                Err(errno) => {
                    reply.error(errno);
                }
            },
            Operation::Create { flags, .. } | Operation::TemporaryFile { flags, .. } => {
                match self.create(request, flags) {
                    Ok((entry, opened)) => {
                        if reply.created(&entry, &opened) == Delivery::Gone {
                            self.close(opened.handle());
                            self.inodes.forget(entry.inode, 1);
                        }
                    }
                    Err(errno) => {
                        reply.error(errno);
                    }
                }
            }
            Operation::Flush { lock_owner, .. } => {
                self.locks.release(request.inode(), LockScope::Record, lock_owner);
                reply.ok();
            }
            Operation::Release { handle, lock_owner, unlock_flock, .. } => {
                if unlock_flock {
                    self.locks.release(request.inode(), LockScope::Flock, lock_owner);
                }
                self.close(handle);
                reply.ok();
            }
            _ => {
                reply.error(Errno::NOSYS);
            }
        }
    }

    fn open(&self, request: &Request, flags: i32) -> Result<Opened, Errno> {
        let node = self.inodes.node(request.inode())?;
        let host = host_flags(flags, self.access());
        let fd = rustix::fs::open(descriptor_path(&node.fd), host, Mode::empty())?;
        let kills_set_id = matches!(request.operation(), Operation::Open { kill_suid_gid: true, .. });
        if kills_set_id && host.contains(OFlags::TRUNC) {
            drop_set_id_bits(&node)?;
        }
        Ok(self.opened(node, fd))
    }

    fn create(&self, request: &Request, flags: i32) -> Result<(Entry, Opened), Errno> {
        let parent = self.inodes.node(request.inode())?;
        let host = host_flags(flags, self.access());
        let (fd, entry) = match request.operation() {
            Operation::Create { name, mode, kill_suid_gid, .. } => {
                let permissions = Mode::from_raw_mode(mode & 0o7777);
                let exclusive = host | OFlags::CREATE | OFlags::EXCL;
                let (fd, is_new) = match rustix::fs::openat(&parent.fd, name, exclusive, permissions) {
                    Ok(fd) => (fd, true),
                    Err(rustix::io::Errno::EXIST) if flags & libc::O_EXCL == 0 => {
                        let again = host | OFlags::NOFOLLOW;
                        (rustix::fs::openat(&parent.fd, name, again, Mode::empty())?, false)
                    }
                    Err(error) => return Err(error.into()),
                };
                if is_new {
                    self.give_to_caller(request, &parent, name, Some(mode))?;
                }
                let (entry, _) = self.look_up_at(&parent, name)?;
                if !is_new && kill_suid_gid && host.contains(OFlags::TRUNC) {
                    drop_set_id_bits(&*self.inodes.node(entry.inode)?)?;
                }
                (fd, entry)
            }
            Operation::TemporaryFile { mode, .. } => {
                let flags = host | OFlags::TMPFILE;
                let fd = rustix::fs::openat(&parent.fd, ".", flags, Mode::from_raw_mode(mode & 0o7777))?;
                let path = OFlags::PATH | OFlags::CLOEXEC;
                let inode = rustix::fs::open(descriptor_path(&fd), path, Mode::empty())?;
                let stat = rustix::fs::fstat(&inode)?;
                (fd, self.make_entry(self.inodes.look_up(inode, &stat), &stat))
            }
            _ => return Err(Errno::NOSYS),
        };
        let node = self.inodes.node(entry.inode)?;
        Ok((entry, self.opened(node, fd)))
    }

    fn access(&self) -> Access {
        if self.has(InitFlags::WRITEBACK_CACHE) { Access::ReadForPages } else { Access::AsAsked }
    }

    fn opened(&self, node: Arc<Node>, fd: OwnedFd) -> Opened {
        let mut flags = OpenFlags::KEEP_CACHE;
        if !self.has(InitFlags::POSIX_LOCKS) {
            // Close has only record locks to drop.
            flags = flags | OpenFlags::NOFLUSH;
        }
        let backing = self.backing(&node, &fd);
        let handle = self.handles.insert(OpenFile { fd, node, passthrough: backing.is_some() });
        match backing {
            Some(id) => Opened::passthrough(handle, flags, id),
            None => Opened::new(handle, flags),
        }
    }

    /// The registration for this inode, shared by its handles.
    fn backing(&self, node: &Node, fd: &OwnedFd) -> Option<BackingId> {
        if !self.options.passthrough {
            return None;
        }
        let (_, notifier) = self.mount.get()?;
        let mut backing = node.backing.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(backing) = backing.as_mut() {
            backing.users += 1;
            return Some(backing.id);
        }
        match notifier.backing_open(fd.as_fd()) {
            Ok(id) => {
                *backing = Some(Backing { id, users: 1 });
                Some(id)
            }
            Err(error) => {
                debug!(%error, "served without passthrough");
                None
            }
        }
    }

    fn close(&self, handle: FileHandle) {
        let Some(file) = self.handles.remove(handle) else { return };
        if file.passthrough
            && let Some((_, notifier)) = self.mount.get()
        {
            drop_user(&file.node, notifier);
        }
    }
}

fn drop_user(node: &Node, notifier: &Notifier) {
    let mut backing = node.backing.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(shared) = backing.as_mut() else { return };
    shared.users -= 1;
    if shared.users == 0 {
        if let Err(error) = notifier.backing_close(shared.id) {
            debug!(%error, "close a backing file");
        }
        *backing = None;
    }
}

/// The flags with which we open on the host: the kernel has already dealt with creation, appending
/// (it gives offsets) and the alignment of direct input and output.
fn host_flags(flags: i32, access: Access) -> OFlags {
    let kept = libc::O_ACCMODE | libc::O_TRUNC | libc::O_SYNC | libc::O_DSYNC | libc::O_NOATIME;
    let mut flags = flags & kept;
    if access == Access::ReadForPages && flags & libc::O_ACCMODE == libc::O_WRONLY {
        flags = flags & !libc::O_ACCMODE | libc::O_RDWR;
    }
    OFlags::from_bits_retain(flags.cast_unsigned()) | OFlags::CLOEXEC
}

/// What a handle must be able to do beyond what its opener asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    /// Nothing.
    AsAsked,
    /// With write-back caching the kernel fills up partly written pages by reading, through any handle.
    ReadForPages,
}
