//! Settings of the table of open files.

use super::staging::StagingDisk;
use std::sync::Arc;

/// Settings of the table.
#[derive(Debug, Clone)]
pub struct TableSettings {
    /// Where the body files and the journal are; emptied at start but for what is in no record.
    pub disk: Arc<dyn StagingDisk>,
    /// Most bytes of body files that nobody has open. Past it, the one unused longest goes.
    pub idle_len_max: u64,
    /// Most body files that nobody has open; each holds a file descriptor. Default 512.
    pub idle_count_max: usize,
    /// Longest file kept in memory, at most [`super::body::MEMORY_MAX`], which is the usual.
    pub memory_max: usize,
    /// Most body files at all. One more is refused with [`wayfs_types::FsError::TooManyFiles`]; files whose bytes fit the memory need
    /// none.
    pub body_count_max: usize,
}
