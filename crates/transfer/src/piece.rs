//! A part of a content, and how much of it a machine has.

use serde::{Deserialize, Serialize};
use wayfs_content::list_node::Expected;
use wayfs_content::{CHUNK_MAX, DEPTH_MAX, ListNode};
use wayfs_types::{Content, Digest};

/// Most pieces in one question how much of them somebody has: a header of 40 KiB, and all below one list node.
pub const PIECES_MAX: usize = 1024;

/// A chunk or a list node, and where it stands in its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Piece {
    /// Its name.
    pub digest: Digest,
    /// Levels above the chunks.
    pub level: u8,
    /// Bytes of the file under it.
    pub len: u64,
}

impl Piece {
    /// The top of a content; none if it is inline.
    pub fn top(content: &Content) -> Option<Self> {
        match content {
            Content::Inline(_) => None,
            Content::Tree { size, root, depth, .. } => Some(Self { digest: *root, level: *depth, len: *size }),
        }
    }

    /// Whether there may be such a piece.
    pub fn is_well_formed(&self) -> bool {
        self.level <= DEPTH_MAX && self.len > 0 && (self.level > 0 || self.len <= CHUNK_MAX as u64)
    }

    /// The pieces below a list node, from its bytes; `None` if they make no sense there.
    pub fn children(&self, bytes: &[u8]) -> Option<Vec<Self>> {
        let level = self.level.checked_sub(1)?;
        let node = ListNode::parse(bytes, self.expected()).ok()?;
        Some(node.entries.iter().map(|entry| Self { digest: entry.digest, level, len: entry.len }).collect())
    }

    fn expected(&self) -> Expected {
        Expected { digest: self.digest, level: self.level, len: self.len }
    }
}

/// How much of a piece is somewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Presence {
    /// All of it, down to the chunks.
    Complete,
    /// Its list node, but not all below.
    Partial,
    /// Not even that.
    Absent,
}
