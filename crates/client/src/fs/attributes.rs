//! Inodes as `stat` shows them.

use crate::files::Overlay;
use wayfs_types::{FileId, Inode, Kind, WallTime};

/// Preferred size of reads and writes in bytes: one request of the kernel's default size.
const BLOCK_SIZE: u32 = 128 * 1024;
/// What a directory shows as its size, since programs take zero for odd.
const DIRECTORY_SIZE: u64 = 4096;

/// The kind of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    Regular,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A named pipe.
    Pipe,
    /// A socket.
    Socket,
    /// A character device.
    CharacterDevice,
    /// A block device.
    BlockDevice,
}

/// What `stat` shows of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attributes {
    /// Its number.
    pub file: FileId,
    /// What it is.
    pub kind: FileKind,
    /// Permission bits, with those of set-id and sticky.
    pub mode: u16,
    /// Length in bytes.
    pub size: u64,
    /// Space used, in units of 512 bytes.
    pub blocks: u64,
    /// Last change of contents. It stands for the last access, too, which is not kept: each read would be an update for everyone.
    pub mtime: WallTime,
    /// Last change of attributes.
    pub ctime: WallTime,
    /// When it was made.
    pub btime: WallTime,
    /// Number of names.
    pub links: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Device number of a device node; zero otherwise.
    pub device: u32,
    /// Preferred size of reads and writes in bytes.
    pub block_size: u32,
}

/// An inode as it is shown, with what open handles know better.
pub fn attributes(file: FileId, inode: &Inode, overlay: Option<Overlay>) -> Attributes {
    let size = match (&inode.kind, overlay) {
        (Kind::File, Some(overlay)) => overlay.size,
        (Kind::File, None) => inode.content.size(),
        (Kind::Directory, _) => DIRECTORY_SIZE,
        (Kind::Symlink(target), _) => target.len() as u64,
        (Kind::Fifo | Kind::Socket | Kind::CharDevice(_) | Kind::BlockDevice(_), _) => 0,
    };
    let written = overlay.and_then(|overlay| overlay.mtime);
    let mtime = written.unwrap_or(inode.mtime);
    let ctime = written.map_or(inode.ctime, |written| written.max(inode.ctime));
    // A file that is an alias of its twin lives on under the twin's names.
    let is_removed_directory = inode.is_directory() && inode.removed_from.is_some();
    let is_removed = is_removed_directory || overlay.is_some_and(|overlay| overlay.is_removed);
    Attributes {
        file,
        size,
        blocks: overlay.and_then(|overlay| overlay.blocks).unwrap_or_else(|| blocks(inode, overlay, size)),
        mtime,
        ctime,
        btime: inode.btime,
        kind: file_kind(&inode.kind),
        mode: inode.mode,
        links: if is_removed { 0 } else { inode.links() },
        uid: inode.uid,
        gid: inode.gid,
        device: device(&inode.kind),
        block_size: BLOCK_SIZE,
    }
}

/// Units of 512 bytes that a file takes: holes of its content take none.
fn blocks(inode: &Inode, overlay: Option<Overlay>, size: u64) -> u64 {
    let is_as_committed = overlay.is_none_or(|overlay| overlay.size == inode.content.size());
    let holes = if is_as_committed { inode.content.holes() } else { 0 };
    size.saturating_sub(holes).div_ceil(512)
}

/// The kind as listings show it.
pub(crate) fn file_kind(kind: &Kind) -> FileKind {
    match kind {
        Kind::File => FileKind::Regular,
        Kind::Directory => FileKind::Directory,
        Kind::Symlink(_) => FileKind::Symlink,
        Kind::Fifo => FileKind::Pipe,
        Kind::Socket => FileKind::Socket,
        Kind::CharDevice(_) => FileKind::CharacterDevice,
        Kind::BlockDevice(_) => FileKind::BlockDevice,
    }
}

fn device(kind: &Kind) -> u32 {
    match kind {
        Kind::CharDevice(number) | Kind::BlockDevice(number) => *number,
        Kind::File | Kind::Directory | Kind::Symlink(_) | Kind::Fifo | Kind::Socket => 0,
    }
}
