//! Tests of the crate as a whole; the small shape grows deep trees from few bytes.

#![expect(clippy::single_range_in_vec_init, reason = "an edit often has one dirty range")]

mod format;
mod hostile;
mod rewriting;
mod structure;

use crate::builder::build_in;
use crate::limits::Shape;
use crate::reader::ContentReader;
use crate::sink::MemorySink;
use bytes::Bytes;
use wayfs_types::Content;

/// Bytes without pattern that repeat with the seed (xorshift).
pub(crate) fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// Builds from scratch into a sink.
pub(crate) fn built(shape: &Shape, bytes: &[u8], sink: &mut MemorySink) -> Content {
    build_in(shape, &Bytes::copy_from_slice(bytes), sink).expect("builds")
}

/// Reads a whole file back through its structure.
pub(crate) fn read_back(shape: &Shape, content: &Content, sink: &MemorySink) -> Vec<u8> {
    if let Content::Inline(bytes) = content {
        return bytes.to_vec();
    }
    let nodes = |digest: &wayfs_types::Digest| sink.get(digest);
    let reader = ContentReader::in_shape(*shape, content, &nodes).expect("well formed");
    let mut bytes = Vec::new();
    for span in reader.spans(0..u64::MAX) {
        let span = span.expect("all nodes are there");
        let chunk = sink.get(&span.digest).expect("all chunks are there");
        crate::verify(&span.digest, &chunk).expect("named by its hash");
        assert_eq!(chunk.len() as u64, span.chunk_len);
        bytes.extend_from_slice(&chunk[span.within]);
    }
    bytes
}
