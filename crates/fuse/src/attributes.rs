//! Attributes, entries and statistics as they are answered, and their wire form.

use std::time::Duration;

use crate::Inode;

/// A point in time as files carry it: seconds since 1970 (negative before) and nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    /// Whole seconds since 1970-01-01 00:00 UTC.
    pub seconds: i64,
    /// Nanoseconds after that second, below 1,000,000,000.
    pub nanoseconds: u32,
}

/// What stat shows of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// The number shown to programs in `st_ino`; normally the inode that the entry names.
    pub inode: Inode,
    /// Length in bytes.
    pub size: u64,
    /// Space used, in units of 512 bytes.
    pub blocks: u64,
    /// Last access.
    pub atime: Timestamp,
    /// Last change of contents.
    pub mtime: Timestamp,
    /// Last change of attributes.
    pub ctime: Timestamp,
    /// When it was made, if that is known; only `statx` shows it.
    pub btime: Option<Timestamp>,
    /// Kind of file and permission bits together, as in `st_mode`.
    pub mode: u32,
    /// Number of names.
    pub links: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Device number, for device nodes; zero otherwise.
    pub device: u32,
    /// Preferred size of input and output in bytes.
    pub block_size: u32,
}

/// Size of `fuse_attr`.
pub(crate) const ATTRIBUTES_LEN: usize = 88;
/// Size of `fuse_attr_out`.
pub(crate) const ATTRIBUTES_OUT_LEN: usize = 16 + ATTRIBUTES_LEN;
/// Size of `fuse_statx_out`.
pub(crate) const EXTENDED_OUT_LEN: usize = 32 + 256;
/// What `statx` always answers: `STATX_BASIC_STATS`.
const BASIC: u32 = 0x7ff;
/// The time of birth: `STATX_BTIME`.
const BIRTH: u32 = 0x800;
/// Size of `fuse_entry_out`.
pub(crate) const ENTRY_OUT_LEN: usize = 40 + ATTRIBUTES_LEN;

impl Attributes {
    fn encode(&self) -> [u8; ATTRIBUTES_LEN] {
        let mut out = Fixed::<ATTRIBUTES_LEN>::new();
        out.u64(self.inode.number()).u64(self.size).u64(self.blocks);
        out.i64(self.atime.seconds).i64(self.mtime.seconds).i64(self.ctime.seconds);
        out.u32(self.atime.nanoseconds).u32(self.mtime.nanoseconds).u32(self.ctime.nanoseconds);
        out.u32(self.mode).u32(self.links).u32(self.uid).u32(self.gid);
        out.u32(self.device).u32(self.block_size).u32(0);
        out.finish()
    }

    /// `fuse_attr_out`: the attributes with the time for which the kernel may believe them.
    pub(crate) fn encode_out(&self, ttl: Duration) -> [u8; ATTRIBUTES_OUT_LEN] {
        let mut out = Fixed::<ATTRIBUTES_OUT_LEN>::new();
        out.u64(ttl.as_secs()).u32(ttl.subsec_nanos()).u32(0).bytes(&self.encode());
        out.finish()
    }

    /// `fuse_statx_out`: the same with the time of birth.
    pub(crate) fn encode_extended(&self, ttl: Duration) -> [u8; EXTENDED_OUT_LEN] {
        let mut out = Fixed::<EXTENDED_OUT_LEN>::new();
        out.u64(ttl.as_secs()).u32(ttl.subsec_nanos()).u32(0).u64(0).u64(0);
        let mask = if self.btime.is_some() { BASIC | BIRTH } else { BASIC };
        // The format of a mode has sixteen bits.
        let mode = u16::try_from(self.mode & 0xffff).expect("sixteen bits");
        out.u32(mask).u32(self.block_size).u64(0).u32(self.links).u32(self.uid).u32(self.gid).u16(mode).u16(0);
        out.u64(self.inode.number()).u64(self.size).u64(self.blocks).u64(0);
        for time in [self.atime, self.btime.unwrap_or_default(), self.ctime, self.mtime] {
            out.i64(time.seconds).u32(time.nanoseconds).u32(0);
        }
        // The kernel's form of device numbers: twelve bits of major between twenty of minor.
        let (major, minor) = (self.device >> 8 & 0xfff, self.device & 0xff | self.device >> 12 & 0xfff00);
        out.u32(major).u32(minor).u32(0).u32(0).bytes(&[0; 112]);
        out.finish()
    }
}

/// The answer to lookup and to everything that makes a name.
///
/// Each entry with an inode other than [`Inode::NONE`] that reaches the kernel counts as one lookup
/// of that inode, until [`crate::Handler::forget`] takes it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The inode that the name leads to; [`Inode::NONE`] for a name that does not exist.
    pub inode: Inode,
    /// Distinguishes uses of one inode number; zero if numbers are never reused.
    pub generation: u64,
    /// For how long the kernel may believe that the name leads there.
    pub entry_ttl: Duration,
    /// For how long the kernel may believe the attributes.
    pub attributes_ttl: Duration,
    /// The attributes of the inode.
    pub attributes: Attributes,
}

impl Entry {
    /// A name that does not exist, to be believed for `ttl`: the kernel answers further lookups itself.
    #[must_use]
    pub const fn negative(ttl: Duration) -> Self {
        let never = Timestamp { seconds: 0, nanoseconds: 0 };
        Self {
            inode: Inode::NONE,
            generation: 0,
            entry_ttl: ttl,
            attributes_ttl: Duration::ZERO,
            attributes: Attributes {
                inode: Inode::NONE,
                size: 0,
                blocks: 0,
                atime: never,
                mtime: never,
                ctime: never,
                btime: None,
                mode: 0,
                links: 0,
                uid: 0,
                gid: 0,
                device: 0,
                block_size: 0,
            },
        }
    }

    /// `fuse_entry_out`.
    pub(crate) fn encode(&self) -> [u8; ENTRY_OUT_LEN] {
        let mut out = Fixed::<ENTRY_OUT_LEN>::new();
        out.u64(self.inode.number()).u64(self.generation);
        out.u64(self.entry_ttl.as_secs()).u64(self.attributes_ttl.as_secs());
        out.u32(self.entry_ttl.subsec_nanos()).u32(self.attributes_ttl.subsec_nanos());
        out.bytes(&self.attributes.encode());
        out.finish()
    }
}

/// What `statfs` and `df` show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileSystemStatistics {
    /// Size in units of `fragment_size`.
    pub blocks: u64,
    /// Free units.
    pub blocks_free: u64,
    /// Free units that an ordinary user may take.
    pub blocks_available: u64,
    /// Number of inodes that there may be.
    pub files: u64,
    /// Number of inodes still free.
    pub files_free: u64,
    /// Preferred size of input and output in bytes.
    pub block_size: u32,
    /// Longest name in bytes.
    pub name_len_max: u32,
    /// The unit of the block counts, in bytes.
    pub fragment_size: u32,
}

impl FileSystemStatistics {
    /// `fuse_kstatfs`.
    pub(crate) fn encode(&self) -> [u8; 80] {
        let mut out = Fixed::<80>::new();
        out.u64(self.blocks).u64(self.blocks_free).u64(self.blocks_available);
        out.u64(self.files).u64(self.files_free);
        out.u32(self.block_size).u32(self.name_len_max).u32(self.fragment_size);
        out.bytes(&[0; 28]);
        out.finish()
    }
}

/// A message of fixed length under construction; a wrong field list shows in `finish`.
pub(crate) struct Fixed<const LEN: usize> {
    bytes: [u8; LEN],
    used: usize,
}

impl<const LEN: usize> Fixed<LEN> {
    pub(crate) fn new() -> Self {
        Self { bytes: [0; LEN], used: 0 }
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        let end = self.used + bytes.len();
        self.bytes[self.used..end].copy_from_slice(bytes);
        self.used = end;
        self
    }

    pub(crate) fn u16(&mut self, value: u16) -> &mut Self {
        self.bytes(&value.to_ne_bytes())
    }

    pub(crate) fn u32(&mut self, value: u32) -> &mut Self {
        self.bytes(&value.to_ne_bytes())
    }

    pub(crate) fn u64(&mut self, value: u64) -> &mut Self {
        self.bytes(&value.to_ne_bytes())
    }

    pub(crate) fn i64(&mut self, value: i64) -> &mut Self {
        self.bytes(&value.to_ne_bytes())
    }

    pub(crate) fn finish(&self) -> [u8; LEN] {
        assert_eq!(self.used, LEN, "every field of a fixed message is written");
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_extended_form_has_the_time_of_birth_only_where_it_is_known() {
        let born = Timestamp { seconds: -5, nanoseconds: 6 };
        let some = Attributes { btime: Some(born), mode: 0o100_640, ..Entry::negative(Duration::ZERO).attributes };
        let bytes = some.encode_extended(Duration::from_secs(3));
        assert_eq!(u64::from_ne_bytes(bytes[..8].try_into().unwrap()), 3);
        let mask = |bytes: &[u8]| u32::from_ne_bytes(bytes[32..36].try_into().unwrap());
        assert_eq!(mask(&bytes), 0xfff);
        assert_eq!(u16::from_ne_bytes(bytes[60..62].try_into().unwrap()), 0o100_640);
        assert_eq!(i64::from_ne_bytes(bytes[112..120].try_into().unwrap()), -5);
        assert_eq!(u32::from_ne_bytes(bytes[120..124].try_into().unwrap()), 6);
        let none = Attributes { btime: None, ..some };
        assert_eq!(mask(&none.encode_extended(Duration::ZERO)), 0x7ff);
    }

    #[test]
    fn a_negative_entry_has_no_inode_and_its_ttl() {
        let bytes = Entry::negative(Duration::from_millis(2_500)).encode();
        assert_eq!(bytes[..8], [0; 8]);
        assert_eq!(bytes[16..24], 2_u64.to_ne_bytes());
        assert_eq!(bytes[32..36], 500_000_000_u32.to_ne_bytes());
    }

    #[test]
    fn statistics_fill_their_message() {
        let statistics = FileSystemStatistics { fragment_size: 4096, ..Default::default() };
        assert_eq!(statistics.encode()[48..52], 4096_u32.to_ne_bytes());
    }
}
