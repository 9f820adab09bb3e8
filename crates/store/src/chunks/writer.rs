//! Appending to the newest segment, and making appends durable in groups.

use crate::chunks::error::ChunkError;
use crate::chunks::scan::Record;
use crate::chunks::segment::{
    Binding, Kind, Place, RECORD_HEADER, RecordHeader, SEGMENT_HEADER, Salt, SegmentHeader, SegmentId, decode_tombstone,
};
use crate::chunks::summary;
use crate::error::OpenError;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use wayfs_disk::{Disk, DiskFile};

/// Segments that may wait for a sync; at the limit the next roll syncs them itself.
const UNSYNCED_MAX: usize = 4;
/// Payloads up to this length are joined to their header, which saves a system call each.
const JOINED_MAX: usize = 64 << 10;

/// The segment that takes appends.
#[derive(Debug)]
pub(crate) struct Writer {
    disk: Arc<dyn Disk>,
    pub(crate) directory: PathBuf,
    pub(crate) id: SegmentId,
    pub(crate) file: Arc<dyn DiskFile>,
    pub(crate) salt: Salt,
    /// Where the next record goes.
    pub(crate) end: u64,
    /// Older segments whose last appends were not synced.
    pub(crate) unsynced: Vec<(SegmentId, Arc<dyn DiskFile>)>,
    /// Segments of which a power cut took some records and left others, until they are rewritten. What they hold is what the
    /// open that found them so says, and neither their summary nor a look at their headers: each open verifies them anew.
    pub(crate) torn: BTreeSet<SegmentId>,
    /// What the segment holds, for its summary.
    pub(crate) records: Vec<Record>,
    /// Appends so far, of any segment.
    pub(crate) appended: u64,
    /// Where the last summary of the segment ended.
    summary_end: u64,
    joined: Vec<u8>,
}

/// What an append needs to know about its record.
pub(crate) struct Append<'a> {
    pub(crate) header: RecordHeader,
    pub(crate) payload: &'a [u8],
}

impl Append<'_> {
    /// What a scan would say of it at a place.
    pub(crate) fn record(&self, place: Place) -> Option<Record> {
        let digest = self.header.digest;
        match self.header.kind {
            Kind::Chunk => Some(Record::Chunk { digest, offset: place.offset, len: self.header.len }),
            Kind::Tombstone => decode_tombstone(self.payload, &digest).map(|dead| Record::Tombstone { digest, dead }),
            Kind::Summary => None,
        }
    }
}

/// Makes a new segment file with its header.
pub(crate) fn create(disk: &dyn Disk, directory: &Path, header: SegmentHeader) -> Result<Arc<dyn DiskFile>, OpenError> {
    let path = header.id.path(directory);
    let make = || {
        let file = disk.create(&path)?;
        file.write_at(&header.encode(), 0)?;
        Ok(file)
    };
    let file = make().inspect_err(|_| drop(disk.remove(&path))).map_err(OpenError::io("make segment", &path))?;
    disk.sync_directory(directory).map_err(OpenError::io("sync directory", directory))?;
    Ok(file)
}

impl Writer {
    pub(crate) fn new(
        (disk, directory): (Arc<dyn Disk>, &Path),
        id: SegmentId,
        file: Arc<dyn DiskFile>,
        salt: Salt,
        end: u64,
    ) -> Self {
        Self {
            disk,
            directory: directory.to_path_buf(),
            id,
            file,
            salt,
            end,
            unsynced: Vec::new(),
            torn: BTreeSet::new(),
            records: Vec::new(),
            appended: 0,
            summary_end: 0,
            joined: Vec::new(),
        }
    }

    /// Whether the segment has no room left for a record below its aimed size.
    pub(crate) fn is_full_for(&self, append: &Append<'_>, segment_bytes: u64) -> bool {
        self.end > SEGMENT_HEADER && self.end + append.header.record_len() > segment_bytes
    }

    /// Begins the next segment and returns where the last one ended.
    pub(crate) fn roll(&mut self) -> Result<u64, ChunkError> {
        if self.unsynced.len() >= UNSYNCED_MAX {
            for (_, file) in &self.unsynced {
                file.sync().map_err(|error| ChunkError::Poisoned(format!("sync segment: {error}")))?;
            }
            self.unsynced.clear();
        }
        self.summarise();
        let id = SegmentId(self.id.0 + 1);
        let unsynced = self.unsynced.first().map_or(self.id, |(first, _)| *first);
        let verify_from = self.torn.first().map_or(unsynced, |torn| unsynced.min(*torn));
        let salt = Salt(self.disk.draw_salt());
        let made = create(&*self.disk, &self.directory, SegmentHeader { id, verify_from, salt });
        let file = made.map_err(|error| match error {
            OpenError::Io { what, source, .. } => ChunkError::io(what)(source),
            other => ChunkError::Poisoned(other.to_string()),
        })?;
        self.unsynced.push((self.id, std::mem::replace(&mut self.file, file)));
        self.id = id;
        self.salt = salt;
        self.records.clear();
        Ok(std::mem::replace(&mut self.end, SEGMENT_HEADER))
    }

    /// Ends the segment with a list of its records; without one an open scans it.
    fn summarise(&mut self) {
        // A roll that failed for want of room is tried again, its summary is not.
        if self.summary_end == self.end {
            return;
        }
        let Some((header, payload)) = summary::encode(&self.records, self.salt, self.end) else { return };
        if let Err(error) = self.append(&Append { header, payload: &payload }) {
            tracing::debug!(%error, "a segment stays without summary");
        }
        self.summary_end = self.end;
    }

    /// Appends a record; a failed one leaves the segment as it was.
    pub(crate) fn append(&mut self, append: &Append<'_>) -> Result<Place, ChunkError> {
        let offset = u32::try_from(self.end).expect("a segment rolls long before 4 GiB");
        let header = append.header.encode(Binding { salt: self.salt, offset: self.end });
        if let Err(error) = self.write(&header, append.payload) {
            // What was written of the record lies past the end and must not be taken for one after a crash.
            if let Err(cut) = self.file.set_size(self.end) {
                return Err(ChunkError::Poisoned(format!("append: {error}; cut back: {cut}")));
            }
            return Err(ChunkError::io("append to segment")(error));
        }
        self.end += append.header.record_len();
        self.appended += 1;
        Ok(Place { segment: self.id, offset })
    }

    fn write(&mut self, header: &[u8], payload: &[u8]) -> std::io::Result<()> {
        if payload.len() > JOINED_MAX {
            self.file.write_at(header, self.end)?;
            return self.file.write_at(payload, self.end + RECORD_HEADER);
        }
        self.joined.clear();
        self.joined.extend_from_slice(header);
        self.joined.extend_from_slice(payload);
        self.file.write_at(&self.joined, self.end)
    }
}
