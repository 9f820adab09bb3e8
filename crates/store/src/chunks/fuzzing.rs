//! Segments whose sums are right and whose contents are anything, for the fuzzer: it would never guess a sum.

use crate::chunks::scan::Record;
use crate::chunks::segment::{
    Binding, CHUNK_LEN_MAX, Kind, Place, RecordHeader, Salt, SegmentHeader, SegmentId, encode_tombstone,
};
use crate::chunks::summary;
use wayfs_types::Digest;

const SALT: Salt = Salt(0x5eed);

/// A record as somebody could have written it.
#[derive(Debug, Clone)]
pub enum Forged {
    /// A chunk, under its own name or another.
    Chunk {
        /// The name; `None` for the right one.
        digest: Option<[u8; 32]>,
        /// Its bytes.
        bytes: Vec<u8>,
    },
    /// Says that the record at a place is dead.
    Tombstone {
        /// The chunk that died.
        digest: [u8; 32],
        /// Segment of the dead record.
        segment: u32,
        /// Its place there.
        offset: u32,
    },
    /// A list of chunks that need not be there: names, places, lengths.
    Summary(Vec<([u8; 32], u32, u32)>),
    /// Bytes without a header.
    Noise(Vec<u8>),
}

/// A segment as somebody could have written it.
#[derive(Debug, Clone)]
pub struct ForgedSegment {
    /// Its number.
    pub id: u32,
    /// The oldest segment that it says may not have been durable when it began.
    pub verify_from: u32,
    /// What is in it.
    pub records: Vec<Forged>,
}

impl ForgedSegment {
    /// The bytes of the file.
    pub fn encode(&self) -> Vec<u8> {
        let (id, verify_from) = (SegmentId(self.id), SegmentId(self.verify_from));
        let mut file = SegmentHeader { id, verify_from, salt: SALT }.encode().to_vec();
        for record in &self.records {
            let offset = file.len() as u64;
            let Some((header, payload)) = forge_record(record, offset) else { continue };
            if let Some(header) = header {
                file.extend_from_slice(&header.encode(Binding { salt: SALT, offset }));
            }
            file.extend_from_slice(&payload);
        }
        file
    }
}

fn forge_record(record: &Forged, offset: u64) -> Option<(Option<RecordHeader>, Vec<u8>)> {
    Some(match record {
        Forged::Chunk { digest, bytes } => {
            let bytes = &bytes[..bytes.len().min(CHUNK_LEN_MAX)];
            let digest = digest.map_or_else(|| Digest::of(bytes), Digest::from_bytes);
            (Some(RecordHeader { kind: Kind::Chunk, len: bytes.len() as u32, digest }), bytes.to_vec())
        }
        Forged::Tombstone { digest, segment, offset } => {
            let digest = Digest::from_bytes(*digest);
            let payload = encode_tombstone(Place { segment: SegmentId(*segment), offset: *offset }, &digest).to_vec();
            (Some(RecordHeader { kind: Kind::Tombstone, len: payload.len() as u32, digest }), payload)
        }
        Forged::Summary(listed) => {
            let chunk = |(digest, offset, len): &([u8; 32], u32, u32)| Record::Chunk {
                digest: Digest::from_bytes(*digest),
                offset: *offset,
                len: *len,
            };
            let records: Vec<Record> = listed.iter().map(chunk).collect();
            let (header, payload) = summary::encode(&records, SALT, offset)?;
            (Some(header), payload)
        }
        Forged::Noise(bytes) => (None, bytes.clone()),
    })
}
