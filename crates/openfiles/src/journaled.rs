//! What the journal has of an open file, and a step that it has yet to hear of.

use super::body::BodyFile;
use super::journal::{Held, Place};
use std::sync::Arc;
use wayfs_types::{RecordId, WallTime};

/// What the journal has of a file.
#[derive(Debug)]
pub(super) struct Journaled {
    pub(super) generation: u64,
    pub(super) place: Place,
    pub(super) base: RecordId,
    pub(super) held: Held,
    /// The body that it names, which stays as long as it counts.
    pub(super) body: Option<Arc<BodyFile>>,
    /// When the file was written last, as it has that.
    pub(super) mtime: WallTime,
    /// The record that holds what it says.
    pub(super) settled: Option<RecordId>,
    /// The journal names that record.
    pub(super) is_named: bool,
    /// It lacks something.
    pub(super) is_behind: bool,
}

/// A change that is not in the journal yet.
#[derive(Debug, Clone, Copy)]
pub(super) enum Step<'b> {
    /// Bytes were written here.
    Written(u64, &'b [u8]),
    /// So many zeros were.
    Zeroed(u64, u64),
    /// The size is another.
    Resized,
}
