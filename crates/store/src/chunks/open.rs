//! Opening: segments are scanned, a torn tail is cut, the index is built.

use crate::chunks::index::{Index, Located, Segment};
use crate::chunks::scan::{Payloads, Record, Scanned, scan};
use crate::chunks::segment::{Place, SEGMENT_HEADER, SegmentHeader, SegmentId};
use crate::chunks::writer::{Writer, create, fresh_salt};
use crate::directory::sync_directory;
use crate::error::OpenError;
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use wayfs_types::Digest;

/// What an open found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OpenReport {
    /// Segment files.
    pub segments: usize,
    /// Chunks that are there.
    pub chunks: usize,
    /// Bytes of unfinished appends that were cut off; none of them was reported durable.
    pub torn_bytes: u64,
    /// Bytes between good records that are damaged.
    pub damaged_bytes: u64,
    /// Chunks found damaged; those in parts that no header survived cannot be named.
    pub corrupt: Vec<Digest>,
}

/// A store read from disk.
pub(crate) struct Opened {
    pub(crate) index: Index,
    pub(crate) writer: Writer,
    pub(crate) report: OpenReport,
}

/// A segment file and its header, if that is whole.
struct Found {
    path: PathBuf,
    file: File,
    len: u64,
    header: Option<SegmentHeader>,
}

/// Reads all segments of a directory and makes it ready for appends.
pub(crate) fn open(directory: &Path) -> Result<Opened, OpenError> {
    let found = find(directory)?;
    let newest = found.iter().rev().find_map(|(id, segment)| segment.header.map(|header| (*id, header)));
    let verify_from = newest.map_or(SegmentId(0), |(_, header)| header.verify_from);
    let mut index = Index::default();
    let mut report = OpenReport::default();
    let mut writable = None;
    let mut last_id = SegmentId(0);
    for (id, segment) in found {
        last_id = id;
        let Some(header) = segment.header else {
            drop_headless(&segment, &mut report)?;
            continue;
        };
        let payloads = if id >= verify_from { Payloads::Verify } else { Payloads::Trust };
        let scanned = scan(&segment.file, header.salt, segment.len, payloads);
        let scanned = scanned.map_err(OpenError::io("scan", &segment.path))?;
        let is_newest = newest.is_some_and(|(newest, _)| newest == id);
        let total = if is_newest { cut_tail(&segment, &scanned, &mut report)? } else { segment.len };
        if !is_newest {
            report.damaged_bytes += segment.len - scanned.good_end;
        }
        report.damaged_bytes += scanned.damaged;
        report.corrupt.extend_from_slice(&scanned.corrupt);
        let file = Arc::new(segment.file);
        index.segments.insert(id, Segment { file: Arc::clone(&file), salt: header.salt, total, live: 0 });
        replay(&mut index, id, &scanned.records);
        if is_newest {
            writable = Some((id, file, header.salt, total));
        }
    }
    report.chunks = index.chunks.len();
    // A chunk that is damaged in one place and whole in another is not lost.
    report.corrupt.retain(|digest| !index.chunks.contains_key(digest));
    let (id, file, salt, end) = match writable {
        Some(writable) if writable.0 == last_id => writable,
        Some(_) | None => first(directory, SegmentId(last_id.0 + 1), &mut index)?,
    };
    report.segments = index.segments.len();
    // What was found is acknowledged from here on, so it must be durable: a crash of the
    // process alone leaves records that the disk does not have yet.
    for segment in index.segments.range(verify_from..).map(|(_, segment)| segment) {
        segment.file.sync_data().map_err(OpenError::io("sync segment in", directory))?;
    }
    sync_directory(directory)?;
    Ok(Opened { index, writer: Writer::new(directory, id, file, salt, end), report })
}

fn first(directory: &Path, id: SegmentId, index: &mut Index) -> Result<(SegmentId, Arc<File>, u64, u64), OpenError> {
    let salt = fresh_salt();
    let file = create(directory, SegmentHeader { id, verify_from: id, salt })?;
    index.segments.insert(id, Segment { file: Arc::clone(&file), salt, total: SEGMENT_HEADER, live: 0 });
    Ok((id, file, salt, SEGMENT_HEADER))
}

fn find(directory: &Path) -> Result<BTreeMap<SegmentId, Found>, OpenError> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(directory).map_err(OpenError::io("list", directory))? {
        let entry = entry.map_err(OpenError::io("list", directory))?;
        let Some(id) = entry.file_name().to_str().and_then(SegmentId::of_name) else { continue };
        let path = entry.path();
        let file = OpenOptions::new().read(true).write(true).open(&path).map_err(OpenError::io("open", &path))?;
        let len = file.metadata().map_err(OpenError::io("look at", &path))?.len();
        let mut bytes = [0; SEGMENT_HEADER as usize];
        let header = match file.read_exact_at(&mut bytes, 0) {
            Ok(()) => SegmentHeader::decode(&path, &bytes)?.filter(|header| header.id == id),
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => None,
            Err(error) => return Err(OpenError::io("read", &path)(error)),
        };
        found.insert(id, Found { path, file, len, header });
    }
    Ok(found)
}

/// A file without a header: its making was cut short, or it is damaged and put aside.
///
/// Its records cannot be checked without the salt in the header.
fn drop_headless(segment: &Found, report: &mut OpenReport) -> Result<(), OpenError> {
    if segment.len <= SEGMENT_HEADER {
        return std::fs::remove_file(&segment.path).map_err(OpenError::io("remove", &segment.path));
    }
    report.damaged_bytes += segment.len;
    let aside = segment.path.with_extension("seg.damaged");
    std::fs::rename(&segment.path, &aside).map_err(OpenError::io("put aside", &segment.path))
}

fn cut_tail(segment: &Found, scanned: &Scanned, report: &mut OpenReport) -> Result<u64, OpenError> {
    if scanned.good_end < segment.len {
        report.torn_bytes += segment.len - scanned.good_end;
        segment.file.set_len(scanned.good_end).map_err(OpenError::io("cut", &segment.path))?;
    }
    Ok(scanned.good_end)
}

fn replay(index: &mut Index, id: SegmentId, records: &[Record]) {
    for record in records {
        match *record {
            Record::Chunk { digest, offset, len } => {
                index.insert(digest, Located { place: Place { segment: id, offset }, len });
            }
            Record::Tombstone { digest, dead } => {
                index.remove_at(&digest, dead);
            }
        }
    }
}
