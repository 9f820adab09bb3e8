//! The format of a segment file; `docs/format/store.md` draws it.
//!
//! A record's header is checksummed together with its place and the segment's salt:
//! bytes that were copied from elsewhere, or written into a file by someone who would
//! like them taken for a record, do not pass.

use crate::error::OpenError;
use std::path::{Path, PathBuf};
use wayfs_types::Digest;

/// Largest chunk that is taken, in bytes. Cutting makes at most 1 MiB; the rest is room to grow.
pub const CHUNK_LEN_MAX: usize = 4 << 20;

/// Version of the segment format.
pub(crate) const VERSION: u32 = 1;
/// Bytes in front of the first record.
pub(crate) const SEGMENT_HEADER: u64 = 40;
/// Bytes in front of each record's payload.
pub(crate) const RECORD_HEADER: u64 = 48;
/// Payload of a tombstone.
pub(crate) const TOMBSTONE_LEN: u32 = 12;
/// Largest payload of a summary. A segment with more records is scanned instead.
pub(crate) const SUMMARY_LEN_MAX: u32 = 64 << 20;
/// First bytes of each record; a scan looks for them after damage.
pub(crate) const RECORD_MAGIC: [u8; 4] = *b"WChk";

const SEGMENT_MAGIC: [u8; 8] = *b"WAYFSSEG";

/// Number of a segment, from 1, in order of creation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SegmentId(pub(crate) u32);

impl SegmentId {
    pub(crate) fn path(self, directory: &Path) -> PathBuf {
        directory.join(format!("{:08}.seg", self.0))
    }

    pub(crate) fn of_name(name: &str) -> Option<Self> {
        let digits = name.strip_suffix(".seg")?;
        let is_plain = digits.len() == 8 && digits.bytes().all(|byte| byte.is_ascii_digit());
        if is_plain { digits.parse().ok().map(Self) } else { None }
    }
}

/// A random number that each segment has, which is part of every checksum of its records' headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Salt(pub(crate) u64);

/// First bytes of a segment file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub(crate) id: SegmentId,
    /// The oldest segment that may not have been durable when this one began.
    pub(crate) verify_from: SegmentId,
    pub(crate) salt: Salt,
}

impl SegmentHeader {
    pub(crate) fn encode(self) -> [u8; SEGMENT_HEADER as usize] {
        let mut bytes = [0; SEGMENT_HEADER as usize];
        bytes[..8].copy_from_slice(&SEGMENT_MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.id.0.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.verify_from.0.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.salt.0.to_le_bytes());
        let sum = crc32fast::hash(&bytes[..36]);
        bytes[36..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Reads a header; `Ok(None)` if it is not one.
    pub(crate) fn decode(path: &Path, bytes: &[u8]) -> Result<Option<Self>, OpenError> {
        let Some(bytes) = bytes.first_chunk::<{ SEGMENT_HEADER as usize }>() else { return Ok(None) };
        if bytes[..8] != SEGMENT_MAGIC || word(bytes, 36) != crc32fast::hash(&bytes[..36]) {
            return Ok(None);
        }
        let found = word(bytes, 8);
        if found > VERSION {
            return Err(OpenError::TooNew { path: path.to_path_buf(), found, known: VERSION });
        }
        let salt = Salt(u64::from(word(bytes, 24)) | u64::from(word(bytes, 28)) << 32);
        let (id, verify_from) = (SegmentId(word(bytes, 12)), SegmentId(word(bytes, 16)));
        Ok(Some(Self { id, verify_from, salt }))
    }
}

/// What a record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Its payload is the chunk.
    Chunk,
    /// Its payload is the place of a record that is dead.
    Tombstone,
    /// Its payload lists the records of the segment; see [`super::summary`].
    Summary,
}

/// First bytes of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecordHeader {
    pub(crate) kind: Kind,
    pub(crate) len: u32,
    pub(crate) digest: Digest,
}

/// What a record's checksum binds it to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Binding {
    pub(crate) salt: Salt,
    pub(crate) offset: u64,
}

impl RecordHeader {
    /// Bytes of the record, header and payload.
    pub(crate) fn record_len(&self) -> u64 {
        RECORD_HEADER + u64::from(self.len)
    }

    pub(crate) fn encode(&self, binding: Binding) -> [u8; RECORD_HEADER as usize] {
        let mut bytes = [0; RECORD_HEADER as usize];
        bytes[..4].copy_from_slice(&RECORD_MAGIC);
        bytes[4] = match self.kind {
            Kind::Chunk => 1,
            Kind::Tombstone => 2,
            Kind::Summary => 3,
        };
        bytes[8..12].copy_from_slice(&self.len.to_le_bytes());
        bytes[12..44].copy_from_slice(self.digest.as_bytes());
        let sum = sum(&bytes[..44], binding);
        bytes[44..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Reads a header; `None` if it is not one for this place.
    pub(crate) fn decode(bytes: &[u8], binding: Binding) -> Option<Self> {
        let bytes = bytes.first_chunk::<{ RECORD_HEADER as usize }>()?;
        if bytes[..4] != RECORD_MAGIC || word(bytes, 44) != sum(&bytes[..44], binding) {
            return None;
        }
        let len = word(bytes, 8);
        let kind = match bytes[4] {
            1 if len as usize <= CHUNK_LEN_MAX => Kind::Chunk,
            2 if len == TOMBSTONE_LEN => Kind::Tombstone,
            3 if len <= SUMMARY_LEN_MAX => Kind::Summary,
            _ => return None,
        };
        let mut digest = [0; 32];
        digest.copy_from_slice(&bytes[12..44]);
        Some(Self { kind, len, digest: Digest::from_bytes(digest) })
    }
}

fn sum(header: &[u8], binding: Binding) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&binding.salt.0.to_le_bytes());
    hasher.update(&binding.offset.to_le_bytes());
    hasher.update(header);
    hasher.finalize()
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Where a record begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) segment: SegmentId,
    pub(crate) offset: u32,
}

/// The payload of a tombstone: where the dead record of `digest` is, and a checksum of both.
pub(crate) fn encode_tombstone(dead: Place, digest: &Digest) -> [u8; TOMBSTONE_LEN as usize] {
    let mut bytes = [0; TOMBSTONE_LEN as usize];
    bytes[..4].copy_from_slice(&dead.segment.0.to_le_bytes());
    bytes[4..8].copy_from_slice(&dead.offset.to_le_bytes());
    let sum = tombstone_sum(&bytes[..8], digest);
    bytes[8..].copy_from_slice(&sum.to_le_bytes());
    bytes
}

/// Reads the payload of a tombstone; `None` if it is torn.
pub(crate) fn decode_tombstone(bytes: &[u8], digest: &Digest) -> Option<Place> {
    let bytes = bytes.first_chunk::<{ TOMBSTONE_LEN as usize }>()?;
    let is_whole = word(bytes, 8) == tombstone_sum(&bytes[..8], digest);
    is_whole.then(|| Place { segment: SegmentId(word(bytes, 0)), offset: word(bytes, 4) })
}

fn tombstone_sum(place: &[u8], digest: &Digest) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(digest.as_bytes());
    hasher.update(place);
    hasher.finalize()
}

// Offsets are 32 bits in the index: the largest segment and one more record must fit.
const _: () = assert!(CHUNK_LEN_MAX < 1 << 30);
