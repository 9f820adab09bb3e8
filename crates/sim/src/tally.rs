//! How far programs counted in the file that they count in, and who let go of the lock at that count.

use crate::lock_use::Given;
use std::collections::BTreeMap;
use wayfs_types::FileId;

/// How far programs counted.
#[derive(Debug, Default)]
pub(crate) struct Counter {
    pub(crate) file: Option<FileId>,
    /// The last count that somebody was told is at the home. Where no directory is exclusive: that somebody counted who had the lock by
    /// this server.
    pub(crate) counted: BTreeMap<usize, Counted>,
}

/// A count, and who let go of the lock then.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counted {
    pub(crate) number: u64,
    pub(crate) by: usize,
    pub(crate) given: Option<Given>,
}
