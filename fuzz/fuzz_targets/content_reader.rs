//! Any list node, however it lies, is walked or refused.
#![no_main]

use bytes::Bytes;
use wayfs_content::ContentReader;
use wayfs_types::{Content, Digest};

libfuzzer_sys::fuzz_target!(|input: (u64, u8, &[u8])| {
    let (size, depth, node) = input;
    let node = Bytes::copy_from_slice(node);
    let content = Content::Tree { size, root: Digest::of(&node), depth, holes: 0 };
    // Every name leads to the same lying node.
    let source = |_: &Digest| Some(node.clone());
    if let Ok(reader) = ContentReader::new(&content, &source) {
        for span in reader.spans(0..size).take(10_000) {
            if span.is_err() {
                break;
            }
        }
    }
});
