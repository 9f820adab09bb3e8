//! List nodes: which pieces make up a file, or a part of one.
//!
//! `docs/format/content.md` draws the encoding. A node comes from a peer or a disk
//! under a name that was checked, which says nothing about its sense: [`ListNode::parse`]
//! checks that against the place in the tree where it was found.

use crate::error::{ContentError, NodeFault};
use crate::limits::{STANDARD, Shape};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use wayfs_types::Digest;

/// First byte of an encoded node.
const VERSION: u8 = 1;

/// One piece of a file: a chunk, or a list node of the level below.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Its name.
    pub digest: Digest,
    /// Bytes of the file under it.
    pub len: u64,
}

/// Pieces that follow each other and are all the same: one of most, many of a hole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) entry: Entry,
    pub(crate) count: u64,
}

impl Run {
    pub(crate) fn of(entry: Entry) -> Self {
        Self { entry, count: 1 }
    }

    /// Bytes of the file under all of them.
    pub(crate) fn len(&self) -> Option<u64> {
        self.entry.len.checked_mul(self.count)
    }
}

/// A list node: at most [`crate::FANOUT_MAX`] pieces, in order of the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListNode {
    /// Levels down to the chunks; 1 means that the entries are chunks.
    pub level: u8,
    /// The pieces.
    pub entries: Vec<Entry>,
}

/// What the place of a node in the tree says about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expected {
    /// Its name, for errors.
    pub digest: Digest,
    /// Its level.
    pub level: u8,
    /// Bytes of the file under it.
    pub len: u64,
}

impl ListNode {
    /// The bytes that its name is the hash of.
    pub fn encode(&self) -> Bytes {
        let buffer = Vec::with_capacity(2 + self.entries.len() * 36);
        let mut buffer = postcard::to_extend(&VERSION, buffer).expect("memory takes any number of bytes");
        buffer = postcard::to_extend(self, buffer).expect("memory takes any number of bytes");
        Bytes::from(buffer)
    }

    /// Reads a node found at a known place.
    ///
    /// # Errors
    /// [`ContentError::BadNode`] when the bytes break the format or the place's expectations.
    pub fn parse(bytes: &[u8], expected: Expected) -> Result<Self, ContentError> {
        Self::parse_in(&STANDARD, bytes, expected)
    }

    pub(crate) fn parse_in(shape: &Shape, bytes: &[u8], expected: Expected) -> Result<Self, ContentError> {
        Self::checked(shape, bytes, expected).map_err(|fault| ContentError::BadNode { digest: expected.digest, fault })
    }

    fn checked(shape: &Shape, bytes: &[u8], expected: Expected) -> Result<Self, NodeFault> {
        let (&version, rest) = bytes.split_first().ok_or(NodeFault::Encoding)?;
        if version != VERSION {
            return Err(NodeFault::Version(version));
        }
        // Forty-two bytes are the longest entry: what is larger cannot be a node, and is not decoded at all.
        if rest.len() > 8 + shape.fanout_max * 42 {
            return Err(NodeFault::Encoding);
        }
        let (node, rest) = postcard::take_from_bytes::<Self>(rest).map_err(|_| NodeFault::Encoding)?;
        if !rest.is_empty() {
            return Err(NodeFault::Encoding);
        }
        node.check(shape, expected)?;
        Ok(node)
    }

    fn check(&self, shape: &Shape, expected: Expected) -> Result<(), NodeFault> {
        if self.level != expected.level {
            return Err(NodeFault::Level { wanted: expected.level, found: self.level });
        }
        if self.entries.is_empty() || self.entries.len() > shape.fanout_max {
            return Err(NodeFault::Entries(self.entries.len()));
        }
        let mut sum = 0u64;
        for entry in &self.entries {
            let is_chunk_too_large = self.level == 1 && entry.len > shape.chunk_max as u64;
            if entry.len == 0 || is_chunk_too_large {
                return Err(NodeFault::EntryLen(entry.len));
            }
            sum = sum.checked_add(entry.len).ok_or(NodeFault::EntryLen(entry.len))?;
        }
        if sum == expected.len { Ok(()) } else { Err(NodeFault::Sum { wanted: expected.len, found: sum }) }
    }
}

/// Entries of a node of one level that lists this piece and no other.
pub(crate) fn len_of_same(shape: &Shape, digest: &Digest) -> usize {
    if ends_after(shape, shape.fanout_min, digest) { shape.fanout_min } else { shape.fanout_max }
}

/// Whether a node of `count` entries ends after an entry of this name.
///
/// It depends on nothing but the entries since the node began, like a chunk's
/// boundary on its bytes: an inserted chunk moves the boundaries near it only.
pub(crate) fn ends_after(shape: &Shape, count: usize, last: &Digest) -> bool {
    let [a, b, c, d, ..] = *last.as_bytes();
    count >= shape.fanout_max
        || (count >= shape.fanout_min && u32::from_le_bytes([a, b, c, d]) & shape.boundary_mask == 0)
}
