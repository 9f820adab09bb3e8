//! How much of a content is in the local chunk store.

use super::chunks::Contents;
use super::message::PIECES_MAX;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use wayfs_content::list_node::Expected;
use wayfs_content::{CHUNK_MAX, DEPTH_MAX, ListNode};
use wayfs_types::{Content, Digest};

/// A chunk or a list node, and where it stands in its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct Piece {
    pub(crate) digest: Digest,
    /// Levels above the chunks.
    pub(crate) level: u8,
    /// Bytes of the file under it.
    pub(crate) len: u64,
}

impl Piece {
    /// The top of a content; none if it is inline.
    pub(crate) fn top(content: &Content) -> Option<Self> {
        match content {
            Content::Inline(_) => None,
            Content::Tree { size, root, depth } => Some(Self { digest: *root, level: *depth, len: *size }),
        }
    }

    pub(crate) fn is_well_formed(&self) -> bool {
        self.level <= DEPTH_MAX && self.len > 0 && (self.level > 0 || self.len <= CHUNK_MAX as u64)
    }

    fn expected(&self) -> Expected {
        Expected { digest: self.digest, level: self.level, len: self.len }
    }

    /// The pieces below a list node, from its bytes; `None` if they make no sense there.
    pub(crate) fn children(&self, bytes: &[u8]) -> Option<Vec<Self>> {
        let level = self.level.checked_sub(1)?;
        let node = ListNode::parse(bytes, self.expected()).ok()?;
        Some(node.entries.iter().map(|entry| Self { digest: entry.digest, level, len: entry.len }).collect())
    }
}

/// How much of a piece is here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Presence {
    /// All of it, down to the chunks.
    Complete,
    /// Its list node, but not all below.
    Partial,
    /// Not even that.
    Absent,
}

/// What a walk over a tree found.
pub(crate) enum Walk {
    /// Everything is here.
    Complete,
    /// These are not (the first ones found).
    Missing(Vec<Digest>),
    /// A node that is here under its right name is no node of this tree: it never can be complete.
    Invalid,
}

/// Walks down from `top` until `missing_max` missing pieces are found. Reads list nodes, not chunks.
pub(crate) fn walk(contents: &Contents, top: Piece, missing_max: usize) -> Walk {
    let epoch = contents.removal_epoch();
    let mut missing = BTreeSet::new();
    let mut stack = vec![top];
    while let Some(piece) = stack.pop() {
        if contents.is_known_complete(&piece.digest) {
            continue;
        }
        if piece.level == 0 {
            // The stored chunk must be as long as the tree says, or readers would find holes.
            match contents.chunk_len(&piece.digest) {
                Some(len) if u64::from(len) == piece.len => {}
                Some(_) => return Walk::Invalid,
                None => {
                    missing.insert(piece.digest);
                }
            }
        } else {
            match contents.get(&piece.digest) {
                Ok(bytes) => match piece.children(&bytes) {
                    Some(children) => stack.extend(children),
                    None => return Walk::Invalid,
                },
                Err(_) => {
                    missing.insert(piece.digest);
                }
            }
        }
        if missing.len() >= missing_max {
            break;
        }
    }
    if missing.is_empty() {
        contents.remember_complete(top, epoch);
        Walk::Complete
    } else {
        Walk::Missing(missing.into_iter().collect())
    }
}

/// What to answer about a piece. What is said to be complete is protected from the sweep for a while.
pub(crate) fn presence(contents: &Contents, piece: Piece) -> Presence {
    if !contents.has(&piece.digest) {
        return Presence::Absent;
    }
    match walk(contents, piece, 1) {
        Walk::Complete => {
            contents.protect_tree(piece);
            // Between the walk and the protection the sweep may have been there.
            if matches!(walk(contents, piece, 1), Walk::Complete) { Presence::Complete } else { Presence::Partial }
        }
        Walk::Missing(_) | Walk::Invalid => Presence::Partial,
    }
}

/// All that lacks of a content, at most [`PIECES_MAX`].
pub(crate) fn missing(contents: &Contents, content: &Content) -> Walk {
    match Piece::top(content) {
        None => Walk::Complete,
        Some(top) => walk(contents, top, PIECES_MAX),
    }
}
