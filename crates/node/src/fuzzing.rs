//! What a peer says first on a stream, and the chunks that it sends, for the fuzzer.

use crate::contents::message::{Ask, Form, Reply, encode};
use crate::contents::unpack_chunk;
use crate::handshake::{self, REPLY_LEN_MAX as LEN_MAX};

/// Reads bytes as each message that begins a stream; what decodes is encoded and read to the same.
///
/// # Panics
/// If it is not: a fault of the codec.
pub fn decode_headers(bytes: &[u8]) {
    if let Ok(ask) = Ask::decode(bytes) {
        assert_eq!(Ask::decode(&encode(&ask)), Ok(ask), "a question survives its encoding");
    }
    if let Ok(reply) = Reply::decode(bytes) {
        assert_eq!(Reply::decode(&encode(&reply)), Ok(reply), "an answer survives its encoding");
    }
    if let Ok(hello) = handshake::decode::<handshake::Greeting>(bytes, LEN_MAX) {
        assert_eq!(
            handshake::decode(&handshake::encode(&hello), usize::MAX),
            Ok(hello),
            "a greeting survives its encoding"
        );
    }
    if let Ok(reply) = handshake::decode::<handshake::Reply>(bytes, LEN_MAX) {
        assert_eq!(
            handshake::decode(&handshake::encode(&reply), usize::MAX),
            Ok(reply),
            "its answer survives its encoding"
        );
    }
}

/// Reads bytes as a packed chunk: four bytes for its length, one for how many of the rest are its bases, in 1/256.
///
/// # Panics
/// If it unpacks to another length than was said: a fault of the codec.
pub fn unpack_chunks(bytes: &[u8]) {
    let Some(([a, b, c, d, share], rest)) = bytes.split_first_chunk() else { return };
    let len = u32::from_le_bytes([*a, *b, *c, *d]);
    let (bases, body) = rest.split_at(rest.len() * usize::from(*share) / 256);
    for form in [Form::Plain, Form::Zstd { len }, Form::Difference { len, named: 1, before: 0 }] {
        if let Ok(chunk) = unpack_chunk(form, bytes::Bytes::copy_from_slice(body), bases)
            && form != Form::Plain
        {
            assert_eq!(chunk.len(), len as usize, "a chunk is as long as was said");
        }
    }
}
