//! Any bytes are a frame of a link or are refused; a frame survives its bytes, and an end that takes it stays within its bounds.
#![no_main]

use wayfs_hop::{Arq, ArqConfig, decode_frame, encode_frame};
use wayfs_types::Time;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let mut end = Arq::new(ArqConfig::default());
    let mut now = Time::ZERO;
    // Several frames, each with its length before it.
    let mut rest = data;
    while let Some((len, after)) = rest.split_first() {
        let (bytes, after) = after.split_at((usize::from(*len) * 4).min(after.len()));
        rest = after;
        if let Ok(frame) = decode_frame(bytes::Bytes::copy_from_slice(bytes)) {
            let mut again = Vec::new();
            encode_frame(&frame, usize::MAX, &mut again);
            assert_eq!(decode_frame(again.into()).as_ref(), Ok(&frame));
            end.handle_frame(now, frame);
        }
        now = now + std::time::Duration::from_millis(u64::from(*len));
        end.handle_timeout(now);
        let _ = (end.poll_frame(now), end.poll_timeout(now));
        assert!(end.state_len() < 1 << 20);
    }
});
