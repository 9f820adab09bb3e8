//! How much of a content is in the local chunk store.

use super::chunks::Contents;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use wayfs_transfer::{PIECES_MAX, Piece, Presence};
use wayfs_types::{Content, Digest};

/// Most list nodes of one tree that a walk looks at: a file of 2^38 bytes at the least, in its smallest chunks, and 80 MB of
/// memory for the walk.
const NODES_MAX: usize = 1 << 20;

/// What a walk over a tree found.
pub(crate) enum Walk {
    /// Everything is here.
    Complete,
    /// These are not (the first ones found).
    Missing(Vec<Digest>),
    /// A node that is here under its right name is no node of this tree: it never can be complete. Or there are more nodes
    /// than any file has.
    Invalid,
    /// Nobody waits for the answer any more.
    CalledOff,
}

/// Tells a walk that nobody waits for it any more.
#[derive(Debug, Clone, Default)]
pub(crate) struct CallOff(Arc<AtomicBool>);

impl CallOff {
    /// Ends the walk when this is dropped, as with a request whose session has ended.
    pub(crate) fn on_drop(&self) -> CallOffGuard {
        CallOffGuard(self.clone())
    }

    fn is_called(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// See [`CallOff::on_drop`].
pub(crate) struct CallOffGuard(CallOff);

impl Drop for CallOffGuard {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Relaxed);
    }
}

/// Walks down from `top` until `missing_max` missing pieces are found. Reads list nodes, not chunks, and each once: a tree
/// may name one node 1,024 times in each of its nodes, and so on, and costs no more than what is stored of it.
pub(crate) fn walk(contents: &Contents, top: Piece, missing_max: usize, call_off: &CallOff) -> Walk {
    let epoch = contents.removal_epoch();
    let mut missing = BTreeSet::new();
    let mut stack = vec![top];
    let mut nodes = BTreeSet::new();
    while let Some(piece) = stack.pop() {
        if piece.level > 0 {
            if call_off.is_called() || contents.store().is_err() {
                return Walk::CalledOff;
            }
            if !nodes.insert(piece) {
                continue;
            }
            if nodes.len() > NODES_MAX {
                return Walk::Invalid;
            }
        }
        if contents.is_known_complete(&piece) {
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
            match contents.get_kept(&piece.digest) {
                Ok(bytes) => match piece.children(&bytes) {
                    Some(mut children) => {
                        children.sort_unstable();
                        children.dedup();
                        stack.extend(children);
                    }
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
pub(crate) fn presence(contents: &Contents, piece: Piece, call_off: &CallOff) -> Presence {
    if !contents.has(&piece.digest) {
        return Presence::Absent;
    }
    match walk(contents, piece, 1, call_off) {
        Walk::Complete => {
            contents.protect_tree(piece);
            // Between the walk and the protection the sweep may have been there.
            if matches!(walk(contents, piece, 1, call_off), Walk::Complete) {
                Presence::Complete
            } else {
                Presence::Partial
            }
        }
        Walk::Missing(_) | Walk::Invalid | Walk::CalledOff => Presence::Partial,
    }
}

/// All that lacks of a content, at most [`PIECES_MAX`].
pub(crate) fn missing(contents: &Contents, content: &Content, call_off: &CallOff) -> Walk {
    match Piece::top(content) {
        None => Walk::Complete,
        Some(top) => walk(contents, top, PIECES_MAX, call_off),
    }
}
