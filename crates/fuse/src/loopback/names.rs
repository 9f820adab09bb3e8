//! Requests about names, attributes and extended attributes.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStringExt;

use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, RenameFlags as HostRenameFlags, Stat, Timespec, Timestamps, Uid, XattrFlags,
};

use super::inodes::Node;
use super::{Loopback, descriptor_path, host_device};
use crate::{Entry, Errno, Inode, Operation, RenameFlags, Reply, Request, SetAttributes, TimeChange};

/// Largest extended attribute of Linux.
const XATTR_MAX: usize = 64 * 1024;

impl Loopback {
    pub(super) fn handle_name(&self, request: &Request, reply: Reply) {
        match request.operation() {
            Operation::Lookup { name } => self.reply_entry(reply, self.lookup(request.inode(), name)),
            Operation::Symlink { name, target } => self.reply_entry(
                reply,
                self.make(request, name, None, |parent| Ok(rustix::fs::symlinkat(target, &parent.fd, name)?)),
            ),
            Operation::MakeNode { name, mode, device, .. } => self.reply_entry(
                reply,
                self.make(request, name, Some(mode), |parent| {
                    let kind = FileType::from_raw_mode(mode);
                    let permissions = Mode::from_raw_mode(mode & 0o7777);
                    let device = host_device(device);
                    Ok(rustix::fs::mknodat(&parent.fd, name, kind, permissions, device)?)
                }),
            ),
            Operation::MakeDirectory { name, mode, .. } => self.reply_entry(
                reply,
                self.make(request, name, Some(mode), |parent| {
                    Ok(rustix::fs::mkdirat(&parent.fd, name, Mode::from_raw_mode(mode & 0o7777))?)
                }),
            ),
            Operation::Unlink { name } => {
                reply.result(self.remove(request.inode(), name, AtFlags::empty()));
            }
            Operation::RemoveDirectory { name } => {
                reply.result(self.remove(request.inode(), name, AtFlags::REMOVEDIR));
            }
            Operation::Rename { name, new_parent, new_name, flags } => {
                let from = Place { parent: request.inode(), name };
                let to = Place { parent: new_parent, name: new_name };
                reply.result(self.rename(from, to, flags));
            }
            Operation::Link { inode, new_name } => {
                self.reply_entry(reply, self.link(inode, Place { parent: request.inode(), name: new_name }));
            }
            Operation::ReadLink => match self.read_link(request.inode()) {
                Ok(target) => {
                    reply.link_target(&target);
                }
                Err(errno) => {
                    reply.error(errno);
                }
            },
            _ => {
                reply.error(Errno::NOSYS);
            }
        }
    }

    /// Finds a name and counts the lookup; an absent one is a negative entry.
    fn lookup(&self, parent: Inode, name: &OsStr) -> Result<Entry, Errno> {
        let parent = self.inodes.node(parent)?;
        match self.look_up_at(&parent, name) {
            Ok((entry, _)) => Ok(entry),
            Err(Errno::NOENT) => Ok(Entry::negative(self.options.entry_ttl)),
            Err(errno) => Err(errno),
        }
    }

    pub(super) fn look_up_at(&self, parent: &Node, name: &OsStr) -> Result<(Entry, Stat), Errno> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(&parent.fd, name, flags, Mode::empty())?;
        let stat = rustix::fs::fstat(&fd)?;
        let inode = self.inodes.look_up(fd, &stat);
        Ok((self.make_entry(inode, &stat), stat))
    }

    /// Makes a name by `make`, gives it to the caller, and looks it up.
    fn make(
        &self,
        request: &Request,
        name: &OsStr,
        mode: Option<u32>,
        make: impl FnOnce(&Node) -> Result<(), Errno>,
    ) -> Result<Entry, Errno> {
        let parent = self.inodes.node(request.inode())?;
        make(&parent)?;
        self.give_to_caller(request, &parent, name, mode)?;
        self.look_up_at(&parent, name).map(|(entry, _)| entry)
    }

    /// A new file belongs to the caller, or to the group of a directory that hands its group down, and
    /// has the mode asked, whatever our own user and umask are.
    pub(super) fn give_to_caller(
        &self,
        request: &Request,
        parent: &Node,
        name: &OsStr,
        mode: Option<u32>,
    ) -> Result<(), Errno> {
        let ours = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        if (request.uid(), request.gid()) != ours {
            let inherits = rustix::fs::fstat(&parent.fd)?.st_mode & libc::S_ISGID != 0;
            let group = (!inherits).then(|| Gid::from_raw(request.gid()));
            let owner = Some(Uid::from_raw(request.uid()));
            rustix::fs::chownat(&parent.fd, name, owner, group, AtFlags::SYMLINK_NOFOLLOW)?;
        }
        let Some(mode) = mode else { return Ok(()) };
        let stat = rustix::fs::statat(&parent.fd, name, AtFlags::SYMLINK_NOFOLLOW)?;
        let inherited = if stat.st_mode & libc::S_IFMT == libc::S_IFDIR { stat.st_mode & libc::S_ISGID } else { 0 };
        let wanted = mode & 0o7777 | inherited;
        if stat.st_mode & 0o7777 != wanted {
            rustix::fs::chmodat(&parent.fd, name, Mode::from_raw_mode(wanted), AtFlags::empty())?;
        }
        Ok(())
    }

    fn remove(&self, parent: Inode, name: &OsStr, flags: AtFlags) -> Result<(), Errno> {
        let parent = self.inodes.node(parent)?;
        Ok(rustix::fs::unlinkat(&parent.fd, name, flags)?)
    }

    fn rename(&self, from: Place<'_>, to: Place<'_>, flags: RenameFlags) -> Result<(), Errno> {
        let old = self.inodes.node(from.parent)?;
        let new = self.inodes.node(to.parent)?;
        if flags == RenameFlags::EMPTY {
            return Ok(rustix::fs::renameat(&old.fd, from.name, &new.fd, to.name)?);
        }
        let flags = HostRenameFlags::from_bits(flags.bits()).ok_or(Errno::INVAL)?;
        Ok(rustix::fs::renameat_with(&old.fd, from.name, &new.fd, to.name, flags)?)
    }

    fn link(&self, inode: Inode, to: Place<'_>) -> Result<Entry, Errno> {
        let node = self.inodes.node(inode)?;
        let parent = self.inodes.node(to.parent)?;
        let path = descriptor_path(&node.fd);
        rustix::fs::linkat(rustix::fs::CWD, path, &parent.fd, to.name, AtFlags::SYMLINK_FOLLOW)?;
        self.look_up_at(&parent, to.name).map(|(entry, _)| entry)
    }

    fn read_link(&self, inode: Inode) -> Result<std::ffi::OsString, Errno> {
        let node = self.inodes.node(inode)?;
        let target = rustix::fs::readlinkat(&node.fd, "", Vec::new())?;
        Ok(std::ffi::OsString::from_vec(target.into_bytes()))
    }

    pub(super) fn handle_inode(&self, request: &Request, reply: Reply) {
        let inode = request.inode();
        match request.operation() {
            Operation::GetAttributes { .. } => self.reply_attributes(inode, reply),
            Operation::SetAttributes(change) => match self.set_attributes(inode, &change) {
                Ok(()) => self.reply_attributes(inode, reply),
                Err(errno) => {
                    reply.error(errno);
                }
            },
            Operation::SetXattr { name, value, flags } => {
                reply.result(self.set_xattr(inode, name, value, flags));
            }
            Operation::GetXattr { name, .. } => {
                reply_xattr(reply, self.with_path(inode, |path, space| Ok(rustix::fs::getxattr(path, name, space)?)))
            }
            Operation::ListXattr { .. } => {
                reply_xattr(reply, self.with_path(inode, |path, space| Ok(rustix::fs::listxattr(path, space)?)))
            }
            Operation::RemoveXattr { name } => {
                let removed = self
                    .inodes
                    .node(inode)
                    .and_then(|node| Ok(rustix::fs::removexattr(descriptor_path(&node.fd), name)?));
                reply.result(removed);
            }
            _ => {
                reply.error(Errno::NOSYS);
            }
        }
    }

    fn reply_attributes(&self, inode: Inode, reply: Reply) {
        let stat = self.inodes.node(inode).and_then(|node| Ok(rustix::fs::fstat(&node.fd)?));
        match stat {
            Ok(stat) => reply.attributes(&super::attributes(&stat), self.options.attribute_ttl),
            Err(errno) => reply.error(errno),
        };
    }

    fn set_attributes(&self, inode: Inode, change: &SetAttributes) -> Result<(), Errno> {
        let node = self.inodes.node(inode)?;
        let path = descriptor_path(&node.fd);
        if change.uid.is_some() || change.gid.is_some() {
            let owner = change.uid.map(Uid::from_raw);
            let group = change.gid.map(Gid::from_raw);
            rustix::fs::chownat(&node.fd, "", owner, group, AtFlags::EMPTY_PATH)?;
        }
        if let Some(size) = change.size {
            self.truncate(&path, change, size)?;
        }
        if let Some(mode) = change.mode {
            rustix::fs::chmod(&path, Mode::from_raw_mode(mode & 0o7777))?;
        } else if change.kill_suid_gid {
            drop_set_id_bits(&node)?;
        }
        if change.atime.is_some() || change.mtime.is_some() {
            let times = Timestamps { last_access: host_time(change.atime), last_modification: host_time(change.mtime) };
            rustix::fs::utimensat(rustix::fs::CWD, &path, &times, AtFlags::empty())?;
        }
        Ok(())
    }

    fn truncate(&self, path: &str, change: &SetAttributes, size: u64) -> Result<(), Errno> {
        if let Some(handle) = change.handle {
            let open = self.handles.file(handle)?;
            return Ok(rustix::fs::ftruncate(&open.fd, size)?);
        }
        let fd = rustix::fs::open(path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(rustix::fs::ftruncate(&fd, size)?)
    }

    fn set_xattr(&self, inode: Inode, name: &OsStr, value: &[u8], flags: i32) -> Result<(), Errno> {
        let node = self.inodes.node(inode)?;
        let flags = XattrFlags::from_bits(flags.cast_unsigned()).ok_or(Errno::INVAL)?;
        Ok(rustix::fs::setxattr(descriptor_path(&node.fd), name, value, flags)?)
    }

    fn with_path(
        &self,
        inode: Inode,
        read: impl FnOnce(&str, &mut [u8]) -> Result<usize, Errno>,
    ) -> Result<Vec<u8>, Errno> {
        let node = self.inodes.node(inode)?;
        let mut space = vec![0; XATTR_MAX];
        let len = read(&descriptor_path(&node.fd), &mut space)?;
        space.truncate(len);
        Ok(space)
    }
}

/// A name in a directory.
#[derive(Clone, Copy)]
struct Place<'a> {
    parent: Inode,
    name: &'a OsStr,
}

fn reply_xattr(reply: Reply, value: Result<Vec<u8>, Errno>) {
    match value {
        Ok(value) => reply.xattr(&value),
        Err(errno) => reply.error(errno),
    };
}

fn host_time(change: Option<TimeChange>) -> Timespec {
    match change {
        None => Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_OMIT },
        Some(TimeChange::Now) => Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW },
        Some(TimeChange::To(time)) => Timespec { tv_sec: time.seconds, tv_nsec: time.nanoseconds.into() },
    }
}

/// Clears the set-user-id bit, and the set-group-id bit of a group-executable file: our own writes
/// have the right to keep them, the caller's did not.
pub(super) fn drop_set_id_bits(node: &Node) -> Result<(), Errno> {
    let mode = rustix::fs::fstat(&node.fd)?.st_mode;
    let mut kept = mode & 0o7777 & !libc::S_ISUID;
    if mode & libc::S_IXGRP != 0 {
        kept &= !libc::S_ISGID;
    }
    if kept != mode & 0o7777 {
        rustix::fs::chmod(descriptor_path(&node.fd), Mode::from_raw_mode(kept))?;
    }
    Ok(())
}
