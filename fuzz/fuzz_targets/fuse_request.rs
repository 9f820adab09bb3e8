//! Any message of a kernel decodes to a request or is refused.
#![no_main]

use libfuzzer_sys::Corpus;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| -> Corpus {
    // The length in the header is set right, or nothing else would be looked at.
    let mut message = bytes.to_vec();
    if let Some(stated) = message.first_chunk_mut::<4>() {
        *stated = (bytes.len() as u32).to_ne_bytes();
    }
    if wayfs_fuse::fuzzing::decode_message(&message).is_ok() { Corpus::Keep } else { Corpus::Reject }
});
