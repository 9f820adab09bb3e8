//! The last record of a full segment: a list of its records, so that an open need not
//! look at each of them.
//!
//! Its name is the hash of its payload, and the last bytes of the payload, which are the
//! last of the file, say where it begins. Whatever is wrong with it, the segment is
//! scanned instead.

use crate::chunks::scan::Record;
use crate::chunks::segment::{
    Binding, Kind, Place, RECORD_HEADER, RecordHeader, SEGMENT_HEADER, SUMMARY_LEN_MAX, Salt, SegmentId,
};
use wayfs_disk::DiskFile;
use wayfs_types::Digest;

/// Bytes of a listed record.
const ENTRY: usize = 41;
/// Bytes at the end of the payload.
const TRAILER: usize = 12;
const TRAILER_MAGIC: [u8; 4] = *b"WSum";

/// The header and payload of a summary at `offset`, or `None` if it would be too long.
pub(crate) fn encode(records: &[Record], salt: Salt, offset: u64) -> Option<(RecordHeader, Vec<u8>)> {
    let len = records.len() * ENTRY + TRAILER;
    if len > SUMMARY_LEN_MAX as usize {
        return None;
    }
    let begins = u32::try_from(offset).ok()?;
    let mut payload = Vec::with_capacity(len);
    for record in records {
        let (kind, digest, first, second) = match record {
            Record::Chunk { digest, offset, len } => (1, digest, *offset, *len),
            Record::Tombstone { digest, dead } => (2, digest, dead.segment.0, dead.offset),
        };
        payload.push(kind);
        payload.extend_from_slice(digest.as_bytes());
        payload.extend_from_slice(&first.to_le_bytes());
        payload.extend_from_slice(&second.to_le_bytes());
    }
    payload.extend_from_slice(&trailer(begins, salt));
    let header = RecordHeader { kind: Kind::Summary, len: len as u32, digest: Digest::of(&payload) };
    Some((header, payload))
}

/// The records of a segment of `len` bytes by its summary, if that is there and whole.
pub(crate) fn read(file: &dyn DiskFile, salt: Salt, len: u64) -> std::io::Result<Option<Vec<Record>>> {
    if len < SEGMENT_HEADER + RECORD_HEADER + TRAILER as u64 {
        return Ok(None);
    }
    let mut end = [0; TRAILER];
    file.read_exact_at(&mut end, len - TRAILER as u64)?;
    let begins = u32::from_le_bytes([end[4], end[5], end[6], end[7]]);
    let offset = u64::from(begins);
    if end != trailer(begins, salt) || offset < SEGMENT_HEADER || offset + RECORD_HEADER > len {
        return Ok(None);
    }
    let mut header = [0; RECORD_HEADER as usize];
    file.read_exact_at(&mut header, offset)?;
    let header = RecordHeader::decode(&header, Binding { salt, offset });
    let is_right = |header: &RecordHeader| header.kind == Kind::Summary && offset + header.record_len() == len;
    let Some(header) = header.filter(is_right) else { return Ok(None) };
    let mut payload = vec![0; header.len as usize];
    file.read_exact_at(&mut payload, offset + RECORD_HEADER)?;
    if Digest::of(&payload) != header.digest {
        return Ok(None);
    }
    Ok(decode(&payload, offset))
}

fn decode(payload: &[u8], summary_offset: u64) -> Option<Vec<Record>> {
    let entries = payload.get(..payload.len().checked_sub(TRAILER)?)?;
    if !entries.len().is_multiple_of(ENTRY) {
        return None;
    }
    entries.chunks_exact(ENTRY).map(|entry| decode_entry(entry, summary_offset)).collect()
}

fn decode_entry(entry: &[u8], summary_offset: u64) -> Option<Record> {
    let (kind, rest) = entry.split_first()?;
    let (digest, rest) = rest.split_first_chunk::<32>()?;
    let (first, rest) = rest.split_first_chunk::<4>()?;
    let (second, _) = rest.split_first_chunk::<4>()?;
    let digest = Digest::from_bytes(*digest);
    let (first, second) = (u32::from_le_bytes(*first), u32::from_le_bytes(*second));
    match kind {
        1 => {
            let end = u64::from(first) + RECORD_HEADER + u64::from(second);
            let is_inside = u64::from(first) >= SEGMENT_HEADER && end <= summary_offset;
            is_inside.then_some(Record::Chunk { digest, offset: first, len: second })
        }
        2 => Some(Record::Tombstone { digest, dead: Place { segment: SegmentId(first), offset: second } }),
        _ => None,
    }
}

fn trailer(begins: u32, salt: Salt) -> [u8; TRAILER] {
    let mut bytes = [0; TRAILER];
    bytes[..4].copy_from_slice(&TRAILER_MAGIC);
    bytes[4..8].copy_from_slice(&begins.to_le_bytes());
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&salt.0.to_le_bytes());
    hasher.update(&bytes[..8]);
    bytes[8..].copy_from_slice(&hasher.finalize().to_le_bytes());
    bytes
}
