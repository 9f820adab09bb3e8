//! What a file holds, cut into named pieces. Pure: bytes in, names out.
//!
//! A small file is inline in its record; a middling one is one chunk; a large one
//! is cut by its content ([`chunker`]) and its chunks hang under a tree of list
//! nodes ([`list_node`]). The same bytes always give the same [`Content`], whatever
//! edits led to them: boundaries of chunks and of nodes depend only on bytes and
//! names since the last boundary, so that both can be found again after an edit.
//!
//! * [`builder`]: from chunks to a `Content`;
//! * [`reader`]: from a `Content` to the chunks of a range;
//! * [`mod@rewrite`]: from an old `Content` and what was written to the new one,
//!   at the cost of what was written.
//!
//! `docs/format/content.md` draws the format.

// What is new must be thought of wherever kinds are told apart.
#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

pub mod builder;
pub mod chunker;
pub mod difference;
mod error;
mod holes;
pub mod limits;
pub mod list_node;
mod new_bytes;
pub mod reader;
pub mod rewrite;
mod sink;
mod touched;
mod verify;

pub use builder::{Builder, build, single};
pub use chunker::{Chunker, cut};
pub use difference::changed_ranges;
pub use error::{ContentError, WriteError};
pub use limits::{CHUNK_AVG, CHUNK_MAX, DEPTH_MAX};
pub use list_node::{Entry, ListNode};
pub use reader::{ContentReader, Entries, Located, NodeSource, Span, Spans};
pub use rewrite::{Rewritten, rewrite};
pub use sink::{ChunkSink, MemorySink};
pub use verify::verify;

#[cfg(test)]
mod tests;
