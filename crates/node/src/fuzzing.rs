//! What a peer says first on a stream, for the fuzzer.

use crate::contents::message::{Ask, Reply, encode};
use crate::handshake;

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
    if let Ok(hello) = handshake::decode::<handshake::Greeting>(bytes) {
        assert_eq!(handshake::decode(&handshake::encode(&hello)), Ok(hello), "a greeting survives its encoding");
    }
    if let Ok(reply) = handshake::decode::<handshake::Reply>(bytes) {
        assert_eq!(handshake::decode(&handshake::encode(&reply)), Ok(reply), "its answer survives its encoding");
    }
}
