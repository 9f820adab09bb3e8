//! Metadata and contents on disk.
//!
//! * [`DataDir`]: a locked directory with a format of a known version;
//! * [`DiskMetaStore`] and [`MemoryMetaStore`]: the tables of a replica, with their [`Syncer`];
//! * [`ChunkStore`]: chunks by name in append-only segments.
//!
//! What was synced is there after any crash, or the open says what is missing.
//! `docs/format/store.md` draws the files.

mod chain;
mod checked_value;
mod checkpoints;
mod chunks;
mod descriptors;
mod directory;
mod disk_meta;
mod disk_opening;
mod disk_writing;
mod durable_marker;
mod error;
#[doc(hidden)]
pub mod file_fuzzing;
mod gathering;
mod group_sync;
mod index;
mod log;
mod memory_meta;
mod meta_config;
mod poison;
mod repair;
mod replaying;
mod snapshot;
mod space;
mod stored;
pub mod suite;
mod syncer;
mod tables;

pub use checkpoints::{Checkpoints, Step};
#[doc(hidden)]
pub use chunks::fuzzing;
pub use chunks::{
    CHUNK_LEN_MAX, ChunkConfig, ChunkError, ChunkStats, ChunkStore, Compacted, Dead, OpenReport, Removed, Stored,
};
pub use descriptors::DESCRIPTORS_RESERVED;
pub use directory::{DataDir, Role};
pub use disk_meta::DiskMetaStore;
pub use disk_writing::Pressure;
pub use error::OpenError;
pub use memory_meta::MemoryMetaStore;
pub use meta_config::{MetaConfig, MetaReport};
pub use repair::{DamagedFile, Examination, Remedy, examine, set_tables_aside};
pub use snapshot::MetaSnapshot;
pub use space::Reserves;
pub use syncer::Syncer;

#[cfg(test)]
mod tests;
