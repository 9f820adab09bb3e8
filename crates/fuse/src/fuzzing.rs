//! What a session does with a message of the kernel, but for the answer; for the fuzzer.

use crate::decode::{DecodeError, Header, decode, decode_forget};
use crate::init::{Config, negotiate};

/// Decodes bytes as whatever they say they are.
///
/// # Errors
/// [`DecodeError`] if the header or the body of a request does not decode.
pub fn decode_message(message: &[u8]) -> Result<(), DecodeError> {
    let header = Header::decode(message)?;
    // All readings are tried, not only the one that the opcode asks for: none may panic.
    let _ = negotiate(&header, message, &Config::default());
    let _ = decode_forget(&header, message, |_, _| ());
    decode(&header, message).map(|_| ())
}

/// Reads bytes as `/proc/self/mountinfo`.
///
/// # Panics
/// If a line becomes more than it was: a fault of the reader.
pub fn read_mount_table(table: &[u8]) {
    for entry in crate::mount::mountinfo::entries(table) {
        assert!(entry.point.as_os_str().len() <= table.len());
    }
}
