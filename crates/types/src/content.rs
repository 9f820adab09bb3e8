//! What a file holds, by name.

use bytes::Bytes;
use data_encoding::BASE32_NOPAD;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Largest content carried inside its store record, in bytes.
///
/// Below this a chunk of its own would cost more than it saves: the record, the
/// log entry and the image travel anyway, and small files are most files.
pub const INLINE_MAX: usize = 4096;

/// The BLAKE3 hash of a chunk or of a list node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Digest([u8; 32]);

impl Digest {
    /// Hashes bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }

    /// From its bytes.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&BASE32_NOPAD.encode(&self.0).to_ascii_lowercase())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({})", &self.to_string()[..8])
    }
}

/// What a file holds: the bytes themselves if they are few, else the root of a
/// hash tree of chunks.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Content {
    /// At most [`INLINE_MAX`] bytes.
    Inline(Bytes),
    /// A hash tree. `docs/format/content.md` draws its nodes.
    Tree {
        /// Bytes in the file.
        size: u64,
        /// Hash of the top node.
        root: Digest,
        /// Levels of list nodes above the chunks; 0 means `root` is the one chunk. At most 3.
        depth: u8,
        /// Bytes of longest chunks that are all zeros: the holes of the file, for `stat`. Follows from the chunks.
        holes: u64,
    },
}

/// Most levels of list nodes.
const DEPTH_MAX: u8 = 3;
/// Longest chunk, in bits of its length: 1 MiB.
const CHUNK_BITS: u32 = 20;
/// Most entries of a list node, in bits: 1,024.
const FANOUT_BITS: u32 = 10;

/// Most bytes that a tree of this depth holds: 1 MiB, 1 GiB, 1 TiB, 1 PiB. So no file is longer than programs can say.
const fn size_max(depth: u8) -> u64 {
    1 << (CHUNK_BITS + FANOUT_BITS * depth as u32)
}

impl Content {
    /// A file with nothing in it.
    pub const EMPTY: Self = Self::Inline(Bytes::new());

    /// Bytes in the file.
    pub fn size(&self) -> u64 {
        match self {
            Self::Inline(bytes) => bytes.len() as u64,
            Self::Tree { size, .. } => *size,
        }
    }

    /// Bytes of the file that are holes: they read as zeros, and no disk keeps them.
    pub fn holes(&self) -> u64 {
        match self {
            Self::Inline(_) => 0,
            Self::Tree { holes, .. } => *holes,
        }
    }

    /// Whether the bounds of the format hold; checked on whatever a peer sends.
    pub fn is_well_formed(&self) -> bool {
        match self {
            Self::Inline(bytes) => bytes.len() <= INLINE_MAX,
            Self::Tree { depth, size, holes, .. } => {
                *depth <= DEPTH_MAX && (1..=size_max(*depth)).contains(size) && holes <= size
            }
        }
    }

    /// The digest that names it when it is not inline.
    pub fn root(&self) -> Option<Digest> {
        match self {
            Self::Inline(_) => None,
            Self::Tree { root, .. } => Some(*root),
        }
    }

    /// What tells it from every other content that is not inline.
    pub fn top(&self) -> Option<Top> {
        match self {
            Self::Inline(_) => None,
            Self::Tree { root, depth, .. } => Some(Top { root: *root, depth: *depth }),
        }
    }
}

/// The top of a content's tree. Data of a file may be the same bytes as a list node, and have the same digest: that something is here
/// under a digest says what it is only together with the depth of the tree above the chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Top {
    /// Digest of the top node, or of the only chunk.
    pub root: Digest,
    /// Levels above the chunks: 0 for a single chunk.
    pub depth: u8,
}

impl Default for Content {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inline(bytes) => write!(f, "Inline({} bytes)", bytes.len()),
            Self::Tree { size, root, depth, holes: 0 } => write!(f, "Tree({size} bytes, {root:?}, depth {depth})"),
            Self::Tree { size, root, depth, holes } => {
                write!(f, "Tree({size} bytes, {holes} in holes, {root:?}, depth {depth})")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_no_longer_than_its_depth_can_hold() {
        let tree = |size, depth| Content::Tree { size, root: Digest::of(b"x"), depth, holes: 0 }.is_well_formed();
        for (depth, most) in [(0, 1 << 20), (1, 1 << 30), (2, 1 << 40), (3, 1u64 << 50)] {
            assert!(tree(most, depth) && tree(1, depth));
            assert!(!tree(most + 1, depth) && !tree(0, depth));
            // Such files could be neither read nor removed: programs have no number for their length.
            assert!(!tree(1 << 63, depth) && !tree(u64::MAX, depth));
        }
        assert!(!tree(1, 4));
    }

    #[test]
    fn holes_are_no_more_than_the_file() {
        let tree = |holes| Content::Tree { size: 1 << 20, root: Digest::of(b"x"), depth: 0, holes }.is_well_formed();
        assert!(tree(0) && tree(1 << 20));
        assert!(!tree((1 << 20) + 1));
    }
}
