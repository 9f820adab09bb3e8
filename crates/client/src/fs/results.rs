//! What operations answer.

use super::attributes::Attributes;
use super::ids::HandleId;
use crate::files::Access;
use crate::files::kernel_way::KernelWay;
use bytes::Bytes;
use std::time::Duration;
use wayfs_types::{FileId, XattrName};

/// Where a name leads. Each one that is delivered counts as one lookup of the file, until the front end forgets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// The file, by the number under which the front end knows it.
    pub file: FileId,
    /// What it is like.
    pub attributes: Attributes,
    /// How long name and attributes may be cached.
    pub ttl: Duration,
}

/// A name leads nowhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Absent {
    /// How long that may be cached.
    pub ttl: Duration,
}

/// Attributes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CachedAttributes {
    /// What it is like.
    pub attributes: Attributes,
    /// How long that may be cached.
    pub ttl: Duration,
}

/// A file that was opened. Without a delivery it is closed again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opened {
    /// Its handle.
    pub handle: HandleId,
    /// What the handle may do. Nothing needs doing when one that only reads is flushed: locks that were taken through it end when it
    /// is released.
    pub access: Access,
    /// How a kernel is to read and write through it.
    pub way: KernelWay,
}

/// A directory that was opened. Without a delivery it is closed again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenedDirectory {
    /// Its handle.
    pub handle: HandleId,
    /// What a kernel may do with the listing.
    pub listing: ListingCache,
}

/// Whether a listing may be cached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListingCache {
    /// No.
    None,
    /// It may, but not what was cached of it before.
    Anew,
    /// It may, and so may what was cached before.
    Kept,
}

/// A file that was made, and opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Created {
    /// Its name.
    pub entry: Entry,
    /// Its handle.
    pub opened: Opened,
}

/// Where a symbolic link points to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkTarget(pub Bytes);

/// The value of an extended attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct XattrValue(pub Bytes);

/// Names of extended attributes, with their namespaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct XattrNames(pub Vec<XattrName>);

/// Bytes that were written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written(pub usize);

/// Bytes that were copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Copied(pub u64);

/// An offset in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position(pub u64);

/// How large the file system is, and how much of it is free.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Size in units of `fragment_size`.
    pub blocks: u64,
    /// Free units.
    pub blocks_free: u64,
    /// Free units that an ordinary user may take.
    pub blocks_available: u64,
    /// Number of files that there may be.
    pub files: u64,
    /// Number of files that may still be made.
    pub files_free: u64,
    /// Preferred size of reads and writes in bytes.
    pub block_size: u32,
    /// Longest name in bytes.
    pub name_len_max: u32,
    /// The unit of the block counts in bytes.
    pub fragment_size: u32,
}
