//! Where each chunk is: the only state that is not on disk, rebuilt by scanning.

use crate::chunks::segment::{Place, RECORD_HEADER, SEGMENT_HEADER, Salt, SegmentId};
use std::collections::BTreeMap;
use std::sync::Arc;
use wayfs_disk::DiskFile;
use wayfs_types::Digest;

/// A chunk's record: 12 bytes beside its 32-byte name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Located {
    pub(crate) place: Place,
    pub(crate) len: u32,
}

impl Located {
    fn record_len(&self) -> u64 {
        RECORD_HEADER + u64::from(self.len)
    }
}

/// One segment file.
#[derive(Debug, Clone)]
pub(crate) struct Segment {
    pub(crate) file: Arc<dyn DiskFile>,
    pub(crate) salt: Salt,
    /// Bytes of the file.
    pub(crate) total: u64,
    /// Bytes of records that are in the index.
    pub(crate) live: u64,
}

impl Segment {
    /// Bytes that compaction would win.
    pub(crate) fn dead(&self) -> u64 {
        self.total.saturating_sub(SEGMENT_HEADER).saturating_sub(self.live)
    }
}

/// Chunks by name and segments by number.
#[derive(Debug, Default)]
pub(crate) struct Index {
    pub(crate) chunks: BTreeMap<Digest, Located>,
    pub(crate) segments: BTreeMap<SegmentId, Segment>,
    /// Bytes of chunks, headers not counted.
    pub(crate) live_bytes: u64,
}

impl Index {
    /// Points a name at a record; what it pointed at before is dead.
    pub(crate) fn insert(&mut self, digest: Digest, located: Located) {
        if let Some(segment) = self.segments.get_mut(&located.place.segment) {
            segment.live += located.record_len();
        }
        self.live_bytes += u64::from(located.len);
        if let Some(before) = self.chunks.insert(digest, located) {
            self.bury(before);
        }
    }

    /// Forgets a name if it points at this place.
    pub(crate) fn remove_at(&mut self, digest: &Digest, place: Place) -> bool {
        let is_there = self.chunks.get(digest).is_some_and(|located| located.place == place);
        if is_there && let Some(before) = self.chunks.remove(digest) {
            self.bury(before);
        }
        is_there
    }

    fn bury(&mut self, located: Located) {
        self.live_bytes -= u64::from(located.len);
        if let Some(segment) = self.segments.get_mut(&located.place.segment) {
            segment.live -= located.record_len();
        }
    }

    /// The file and record of a chunk.
    pub(crate) fn find(&self, digest: &Digest) -> Option<(Arc<dyn DiskFile>, Located)> {
        let located = self.chunks.get(digest)?;
        let segment = self.segments.get(&located.place.segment)?;
        Some((Arc::clone(&segment.file), *located))
    }
}
