//! Chunks on disk, by name, in append-only segments.
//!
//! * [`store`]: the public face; [`segment`]: the format; [`scan`]: reading a segment
//!   whatever happened to it; [`summary`]: not having to read it; [`index`]: where each chunk is; [`writer`]: appending and
//!   group sync; [`compaction`]: winning back dead space.

mod compaction;
mod error;
pub mod fuzzing;
mod index;
mod open;
mod scan;
mod segment;
mod store;
mod summary;
mod writer;

#[cfg(test)]
mod tests;

pub use compaction::{Compacted, Dead};
pub use error::ChunkError;
pub use open::OpenReport;
pub use segment::CHUNK_LEN_MAX;
pub use store::{ChunkConfig, ChunkStats, ChunkStore, Removed, Stored};
