//! What a peer sends on the control stream, and the file of a key, for the fuzzer.

use crate::frame::{FRAME_LEN_MAX, FrameFinder};

/// Reads bytes as a control stream after its greeting, cut into pieces of the given length.
///
/// # Panics
/// If a frame is longer than it may be: a fault of the decoder.
pub fn read_frames(bytes: &[u8], piece_len: usize) {
    let mut finder = FrameFinder::new();
    for piece in bytes.chunks(piece_len.max(1)) {
        finder.extend(piece);
        loop {
            match finder.next() {
                Ok(Some(found)) => assert!(found.frame.len() <= FRAME_LEN_MAX, "a frame keeps to its limit"),
                Ok(None) => break,
                Err(_) => return,
            }
        }
    }
}

/// Reads text as the file of a machine's key.
pub fn read_identity(text: &str) {
    // Opening a sealed one costs a hundred milliseconds by design, and shows nothing of the reading.
    let _ = crate::identity_file::parse(text);
}
