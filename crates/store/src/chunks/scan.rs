//! Reading a segment from end to end, whatever happened to it.
//!
//! A crash leaves a torn tail in a segment that was not synced: records whose headers or
//! payloads are partly there. Damage can be anywhere. The scan tells them apart: what
//! follows the last good record is tail, what lies before a good record is damage, and
//! a good record after damage is kept.

use crate::chunks::segment::{
    Binding, Kind, Place, RECORD_HEADER, RECORD_MAGIC, RecordHeader, SEGMENT_HEADER, Salt, TOMBSTONE_LEN,
    decode_tombstone,
};
use wayfs_disk::DiskFile;
use wayfs_types::Digest;

/// Bytes read at once while only headers are wanted.
const WINDOW: usize = 64 << 10;

/// Whether payloads are hashed while scanning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Payloads {
    /// The segment was durable: headers are enough, payloads are checked when read.
    Trust,
    /// The segment may be torn.
    Verify,
}

/// A good record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Record {
    /// A chunk.
    Chunk { digest: Digest, offset: u32, len: u32 },
    /// A mark that the record at `dead` is dead.
    Tombstone { digest: Digest, dead: Place },
}

/// What a segment holds.
#[derive(Debug, Default)]
pub(crate) struct Scanned {
    pub(crate) records: Vec<Record>,
    /// Where the last good record ends.
    pub(crate) good_end: u64,
    /// Bytes between good records that are none.
    pub(crate) damaged: u64,
    /// Chunks whose header was right and whose payload was not.
    pub(crate) corrupt: Vec<Digest>,
}

/// Scans the records of a segment of `len` bytes.
pub(crate) fn scan(file: &dyn DiskFile, salt: Salt, len: u64, payloads: Payloads) -> std::io::Result<Scanned> {
    let mut window = Window { file, len, from: 0, bytes: Vec::new() };
    let mut scanned = Scanned { good_end: SEGMENT_HEADER, ..Scanned::default() };
    let mut pending_corrupt = Vec::new();
    let mut at = SEGMENT_HEADER;
    while at < len {
        let Some(header) = header_at(&mut window, salt, at)? else {
            let Some(next) = next_header(&mut window, salt, at + 1)? else { break };
            at = next;
            continue;
        };
        let end = at + header.record_len();
        match read_record(&mut window, &header, at, payloads)? {
            Read::Good(record) => {
                scanned.damaged += at - scanned.good_end;
                scanned.good_end = end;
                scanned.corrupt.append(&mut pending_corrupt);
                scanned.records.extend(record);
            }
            // Only a good record after it shows that this was damage and not a torn tail.
            Read::Damaged => pending_corrupt.push(header.digest),
        }
        at = end;
    }
    Ok(scanned)
}

/// A right header whose record fits the file.
fn header_at(window: &mut Window<'_>, salt: Salt, at: u64) -> std::io::Result<Option<RecordHeader>> {
    let Some(bytes) = window.read(at, RECORD_HEADER as usize)? else { return Ok(None) };
    let header = RecordHeader::decode(bytes, Binding { salt, offset: at });
    Ok(header.filter(|header| at + header.record_len() <= window.len))
}

fn next_header(window: &mut Window<'_>, salt: Salt, from: u64) -> std::io::Result<Option<u64>> {
    let mut at = from;
    while at + RECORD_HEADER <= window.len {
        let look = window.ahead(at);
        let Some(bytes) = window.read(at, look)? else { return Ok(None) };
        match bytes.windows(RECORD_MAGIC.len()).position(|found| found == RECORD_MAGIC) {
            Some(skip) => {
                at += skip as u64;
                if header_at(window, salt, at)?.is_some() {
                    return Ok(Some(at));
                }
                at += 1;
            }
            None => at += (look - (RECORD_MAGIC.len() - 1)) as u64,
        }
    }
    Ok(None)
}

/// What became of a record whose header is right.
enum Read {
    /// Whole; summaries say nothing that the scan does not see.
    Good(Option<Record>),
    Damaged,
}

fn read_record(window: &mut Window<'_>, header: &RecordHeader, at: u64, payloads: Payloads) -> std::io::Result<Read> {
    let (Ok(offset), payload) = (u32::try_from(at), at + RECORD_HEADER) else {
        return Ok(Read::Damaged);
    };
    if header.kind == Kind::Tombstone {
        let bytes = window.read(payload, TOMBSTONE_LEN as usize)?;
        let dead = bytes.and_then(|bytes| decode_tombstone(bytes, &header.digest));
        let digest = header.digest;
        return Ok(dead.map_or(Read::Damaged, |dead| Read::Good(Some(Record::Tombstone { digest, dead }))));
    }
    if payloads == Payloads::Verify {
        let mut bytes = vec![0; header.len as usize];
        window.file.read_exact_at(&mut bytes, payload)?;
        if Digest::of(&bytes) != header.digest {
            return Ok(Read::Damaged);
        }
    }
    let chunk = Record::Chunk { digest: header.digest, offset, len: header.len };
    Ok(Read::Good((header.kind == Kind::Chunk).then_some(chunk)))
}

/// A part of the file in memory.
struct Window<'f> {
    file: &'f dyn DiskFile,
    len: u64,
    from: u64,
    bytes: Vec<u8>,
}

impl Window<'_> {
    /// Bytes worth looking through from `at`: what is in memory already if that can hold a header.
    fn ahead(&self, at: u64) -> usize {
        let held_until = self.from + self.bytes.len() as u64;
        let held = if at >= self.from { held_until.saturating_sub(at) } else { 0 };
        let look = if held >= RECORD_HEADER { held } else { WINDOW as u64 };
        look.min(self.len - at) as usize
    }

    /// `len` bytes from `at`, or `None` past the end of the file.
    fn read(&mut self, at: u64, len: usize) -> std::io::Result<Option<&[u8]>> {
        let end = at + len as u64;
        if end > self.len {
            return Ok(None);
        }
        if at < self.from || end > self.from + self.bytes.len() as u64 {
            let want = (self.len - at).min(WINDOW.max(len) as u64) as usize;
            self.bytes.resize(want, 0);
            self.from = at;
            if let Err(error) = self.file.read_exact_at(&mut self.bytes, at) {
                self.bytes.clear();
                return Err(error);
            }
        }
        let skip = (at - self.from) as usize;
        Ok(Some(&self.bytes[skip..skip + len]))
    }
}
