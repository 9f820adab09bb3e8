//! Packing of directory entries into an answer of limited size.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use crate::attributes::ENTRY_OUT_LEN;
use crate::{Entry, Inode};

/// Size of `fuse_dirent` without its name.
const DIRENT_LEN: usize = 24;
/// The most that a buffer takes, whatever size is asked: the kernel asks for at most its largest request.
const SIZE_MAX: usize = 1 << 20;

/// The kind of a file, as a listing shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

impl FileKind {
    /// The kind in the upper bits of `st_mode`; what is not known counts as regular.
    #[must_use]
    pub const fn from_mode(mode: u32) -> Self {
        match mode & libc::S_IFMT {
            libc::S_IFDIR => Self::Directory,
            libc::S_IFLNK => Self::Symlink,
            libc::S_IFIFO => Self::Pipe,
            libc::S_IFSOCK => Self::Socket,
            libc::S_IFCHR => Self::CharacterDevice,
            libc::S_IFBLK => Self::BlockDevice,
            _ => Self::Regular,
        }
    }

    /// The upper bits of `st_mode` for this kind.
    #[must_use]
    pub const fn mode_bits(self) -> u32 {
        match self {
            Self::Regular => libc::S_IFREG,
            Self::Directory => libc::S_IFDIR,
            Self::Symlink => libc::S_IFLNK,
            Self::Pipe => libc::S_IFIFO,
            Self::Socket => libc::S_IFSOCK,
            Self::CharacterDevice => libc::S_IFCHR,
            Self::BlockDevice => libc::S_IFBLK,
        }
    }

    /// `d_type`: the same bits, shifted.
    const fn directory_type(self) -> u32 {
        self.mode_bits() >> 12
    }
}

/// One name in a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectoryEntry<'a> {
    /// `d_ino`.
    pub inode: Inode,
    /// `d_type`.
    pub kind: FileKind,
    /// Where the listing goes on after this entry: comes back as the offset of the next request. Not zero.
    pub next_offset: u64,
    /// The name.
    pub name: &'a OsStr,
}

/// Whether an entry found room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Pushed {
    /// It is in the buffer.
    Yes,
    /// It is not, and the buffer should be sent; the entry comes first in the next one.
    Full,
}

/// The answer to a readdir or readdirplus request, filled entry by entry up to the size asked.
#[derive(Debug)]
pub struct DirectoryBuffer {
    bytes: Vec<u8>,
    size: usize,
}

impl DirectoryBuffer {
    /// An empty buffer for a request with room for `size` bytes. One buffer holds plain entries or
    /// entries with attributes, as the request is, never both.
    #[must_use]
    pub fn new(size: u32) -> Self {
        let size = usize::try_from(size).unwrap_or(SIZE_MAX).min(SIZE_MAX);
        Self { bytes: Vec::with_capacity(size.min(32 * 1024)), size }
    }

    /// Adds an entry to the answer of a plain readdir.
    pub fn push(&mut self, entry: &DirectoryEntry<'_>) -> Pushed {
        if self.room() < padded(DIRENT_LEN + entry.name.len()) {
            return Pushed::Full;
        }
        self.put_entry(entry);
        Pushed::Yes
    }

    /// Adds an entry to the answer of a readdirplus. What `attributes` names counts as looked up once
    /// the answer is delivered, except with [`Inode::NONE`] (right for `.` and `..`, and for files
    /// whose attributes would be costly to find).
    pub fn push_plus(&mut self, entry: &DirectoryEntry<'_>, attributes: &Entry) -> Pushed {
        if self.room() < padded(ENTRY_OUT_LEN + DIRENT_LEN + entry.name.len()) {
            return Pushed::Full;
        }
        self.bytes.extend_from_slice(&attributes.encode());
        self.put_entry(entry);
        Pushed::Yes
    }

    /// True if nothing was added: sent so, it says that the listing is at its end.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The bytes so far.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn room(&self) -> usize {
        self.size - self.bytes.len()
    }

    fn put_entry(&mut self, entry: &DirectoryEntry<'_>) {
        let name_len = u32::try_from(entry.name.len()).expect("the name fits into a buffer of a megabyte");
        self.bytes.extend_from_slice(&entry.inode.number().to_ne_bytes());
        self.bytes.extend_from_slice(&entry.next_offset.to_ne_bytes());
        self.bytes.extend_from_slice(&name_len.to_ne_bytes());
        self.bytes.extend_from_slice(&entry.kind.directory_type().to_ne_bytes());
        self.bytes.extend_from_slice(entry.name.as_bytes());
        self.bytes.resize(padded(self.bytes.len()), 0);
    }
}

/// The next multiple of eight.
const fn padded(len: usize) -> usize {
    len.div_ceil(8) * 8
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn entry(name: &str) -> DirectoryEntry<'_> {
        DirectoryEntry { inode: Inode::new(5), kind: FileKind::Directory, next_offset: 3, name: OsStr::new(name) }
    }

    #[test]
    fn an_entry_is_laid_out_as_the_kernel_reads_it() {
        let mut buffer = DirectoryBuffer::new(4096);
        assert_eq!(buffer.push(&entry("abc")), Pushed::Yes);
        let bytes = buffer.as_bytes();
        assert_eq!(bytes.len(), 32);
        assert_eq!(bytes[..8], 5_u64.to_ne_bytes());
        assert_eq!(bytes[8..16], 3_u64.to_ne_bytes());
        assert_eq!(bytes[16..20], 3_u32.to_ne_bytes());
        assert_eq!(bytes[20..24], u32::from(libc::DT_DIR).to_ne_bytes());
        assert_eq!(&bytes[24..], b"abc\0\0\0\0\0");
    }

    #[test]
    fn packing_stops_at_the_size() {
        let mut buffer = DirectoryBuffer::new(100);
        assert_eq!(buffer.push(&entry("12345678")), Pushed::Yes);
        assert_eq!(buffer.push(&entry("123456789")), Pushed::Yes);
        assert_eq!(buffer.as_bytes().len(), 32 + 40);
        assert_eq!(buffer.push(&entry("12345")), Pushed::Full);
        assert_eq!(buffer.as_bytes().len(), 72);
        assert_eq!(buffer.push(&entry("1")), Pushed::Full);
        assert_eq!(DirectoryBuffer::new(0).push(&entry("1")), Pushed::Full);
    }

    #[test]
    fn plus_entries_carry_attributes_before_the_name() {
        let mut buffer = DirectoryBuffer::new(4096);
        let attributes = Entry::negative(Duration::ZERO);
        assert_eq!(buffer.push_plus(&entry("a"), &attributes), Pushed::Yes);
        assert_eq!(buffer.as_bytes().len(), 128 + 32);
        assert_eq!(buffer.as_bytes()[128 + 24], b'a');
        let mut small = DirectoryBuffer::new(159);
        assert_eq!(small.push_plus(&entry("a"), &attributes), Pushed::Full);
        assert!(small.is_empty());
    }

    #[test]
    fn kinds_survive_the_mode() {
        for kind in [
            FileKind::Regular,
            FileKind::Directory,
            FileKind::Symlink,
            FileKind::Pipe,
            FileKind::Socket,
            FileKind::CharacterDevice,
            FileKind::BlockDevice,
        ] {
            assert_eq!(FileKind::from_mode(kind.mode_bits() | 0o644), kind);
        }
    }
}
