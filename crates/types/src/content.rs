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
    },
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

    /// Whether the bounds of the format hold; checked on whatever a peer sends.
    pub fn is_well_formed(&self) -> bool {
        match self {
            Self::Inline(bytes) => bytes.len() <= INLINE_MAX,
            Self::Tree { depth, size, .. } => *depth <= 3 && *size > 0,
        }
    }

    /// The digest that names it when it is not inline.
    pub fn root(&self) -> Option<Digest> {
        match self {
            Self::Inline(_) => None,
            Self::Tree { root, .. } => Some(*root),
        }
    }
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
            Self::Tree { size, root, depth } => write!(f, "Tree({size} bytes, {root:?}, depth {depth})"),
        }
    }
}
