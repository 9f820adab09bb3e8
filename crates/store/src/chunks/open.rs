//! Opening: segments are scanned, a torn tail is cut, the index is built.

use crate::chunks::index::{Index, Located, Segment};
use crate::chunks::scan::{Payloads, Record, scan};
use crate::chunks::segment::{Place, SEGMENT_HEADER, Salt, SegmentHeader, SegmentId};
use crate::chunks::summary;
use crate::chunks::writer::{Writer, create};
use crate::error::OpenError;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use wayfs_disk::{Disk, DiskFile};
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
    file: Arc<dyn DiskFile>,
    len: u64,
    header: Option<SegmentHeader>,
}

/// Reads all segments of a directory and makes it ready for appends.
pub(crate) fn open(disk: &Arc<dyn Disk>, directory: &Path) -> Result<Opened, OpenError> {
    let found = find(&**disk, directory)?;
    let last_id = found.keys().next_back().copied().unwrap_or(SegmentId(0));
    let headed = |(id, segment): (&SegmentId, &Found)| segment.header.map(|header| (*id, header));
    let newest = found.iter().rev().find_map(headed);
    let mut reading = Reading {
        newest: newest.map(|(id, _)| id),
        verify_from: newest.map_or(SegmentId(0), |(_, header)| header.verify_from),
        index: Index::default(),
        report: OpenReport::default(),
        writer: None,
        torn: BTreeSet::new(),
    };
    for (id, segment) in found {
        match segment.header {
            Some(header) => reading.take((disk, directory), (id, header), segment)?,
            None => drop_headless(&**disk, &segment, &mut reading.report)?,
        }
    }
    // What was found is acknowledged from here on, so it must be durable: a crash of the
    // process alone leaves records that the disk does not have yet.
    for (_, segment) in reading.index.segments.range(reading.verify_from..) {
        segment.file.sync().map_err(OpenError::io("sync segment in", directory))?;
    }
    disk.sync_directory(directory).map_err(OpenError::io("sync directory", directory))?;
    let mut writer = match reading.writer.take() {
        Some(writer) if writer.id == last_id => writer,
        Some(_) | None => {
            let id = SegmentId(last_id.0 + 1);
            let verify_from = reading.torn.first().copied().unwrap_or(id);
            begin((disk, directory), (id, verify_from), &mut reading.index)?
        }
    };
    writer.torn = reading.torn;
    let Reading { index, mut report, .. } = reading;
    report.segments = index.segments.len();
    report.chunks = index.chunks.len();
    // A chunk that is damaged in one place and whole in another is not lost.
    report.corrupt.retain(|digest| !index.chunks.contains_key(digest));
    Ok(Opened { index, writer, report })
}

/// An open under way.
struct Reading {
    newest: Option<SegmentId>,
    verify_from: SegmentId,
    index: Index,
    report: OpenReport,
    /// The newest segment, ready for appends.
    writer: Option<Writer>,
    /// See [`Writer::torn`].
    torn: BTreeSet<SegmentId>,
}

/// What a segment is among all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// Appends go on there; its tail may be torn.
    Newest,
    /// All of it is known to be on the disk.
    Durable,
    /// It is whole, and its payloads may not have reached the disk.
    Unverified,
}

impl Reading {
    fn take(
        &mut self,
        (disk, directory): (&Arc<dyn Disk>, &Path),
        (id, header): (SegmentId, SegmentHeader),
        found: Found,
    ) -> Result<(), OpenError> {
        let part = if self.newest == Some(id) {
            Part::Newest
        } else if id < self.verify_from {
            Part::Durable
        } else {
            Part::Unverified
        };
        let summary =
            if part == Part::Durable { summary::read(&*found.file, header.salt, found.len) } else { Ok(None) };
        let (records, total) = match summary.map_err(OpenError::io("read summary of", &found.path))? {
            Some(records) => (records, found.len),
            None => self.scan((id, header), &found, part)?,
        };
        let file = found.file;
        let segment = Segment { file: Arc::clone(&file), salt: header.salt, total, live: 0 };
        self.index.segments.insert(id, segment);
        replay(&mut self.index, id, &records);
        if part == Part::Newest {
            let mut writer = Writer::new((Arc::clone(disk), directory), id, file, header.salt, total);
            writer.records = records;
            self.writer = Some(writer);
        }
        Ok(())
    }

    /// The records of a segment and where it ends, a torn tail cut off.
    fn scan(
        &mut self,
        (id, header): (SegmentId, SegmentHeader),
        found: &Found,
        part: Part,
    ) -> Result<(Vec<Record>, u64), OpenError> {
        let payloads = if part == Part::Durable { Payloads::Trust } else { Payloads::Verify };
        let scanned = scan(&*found.file, header.salt, found.len, payloads);
        let scanned = scanned.map_err(OpenError::io("scan", &found.path))?;
        let rest = found.len - scanned.good_end;
        let is_torn = scanned.damaged > 0 || !scanned.corrupt.is_empty() || part != Part::Newest && rest > 0;
        if is_torn && part != Part::Durable {
            self.torn.insert(id);
        }
        self.report.damaged_bytes += scanned.damaged;
        self.report.corrupt.extend_from_slice(&scanned.corrupt);
        if part != Part::Newest {
            self.report.damaged_bytes += rest;
            return Ok((scanned.records, found.len));
        }
        if rest > 0 {
            self.report.torn_bytes += rest;
            found.file.set_size(scanned.good_end).map_err(OpenError::io("cut", &found.path))?;
        }
        Ok((scanned.records, scanned.good_end))
    }
}

/// Begins a segment for appends.
fn begin(
    (disk, directory): (&Arc<dyn Disk>, &Path),
    (id, verify_from): (SegmentId, SegmentId),
    index: &mut Index,
) -> Result<Writer, OpenError> {
    let salt = Salt(disk.draw_salt());
    let file = create(&**disk, directory, SegmentHeader { id, verify_from, salt })?;
    let segment = Segment { file: Arc::clone(&file), salt, total: SEGMENT_HEADER, live: 0 };
    index.segments.insert(id, segment);
    Ok(Writer::new((Arc::clone(disk), directory), id, file, salt, SEGMENT_HEADER))
}

fn find(disk: &dyn Disk, directory: &Path) -> Result<BTreeMap<SegmentId, Found>, OpenError> {
    let mut found = BTreeMap::new();
    for path in disk.list(directory).map_err(OpenError::io("list", directory))? {
        let name = path.file_name().and_then(|name| name.to_str());
        let Some(id) = name.and_then(SegmentId::of_name) else { continue };
        let file = disk.open(&path).map_err(OpenError::io("open", &path))?;
        let len = file.size().map_err(OpenError::io("look at", &path))?;
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
fn drop_headless(disk: &dyn Disk, segment: &Found, report: &mut OpenReport) -> Result<(), OpenError> {
    if segment.len <= SEGMENT_HEADER {
        return disk.remove(&segment.path).map_err(OpenError::io("remove", &segment.path));
    }
    report.damaged_bytes += segment.len;
    let aside = segment.path.with_extension("seg.damaged");
    disk.rename(&segment.path, &aside).map_err(OpenError::io("put aside", &segment.path))
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
