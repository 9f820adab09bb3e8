//! Any pieces are blocks or are dropped.
#![no_main]

use wayfs_hop::{Blocks, Shape};

libfuzzer_sys::fuzz_target!(|pieces: Vec<Vec<u8>>| {
    let Ok(mut end) = Blocks::new(Shape { n: 6, k: 4 }) else { return };
    for piece in pieces {
        end.handle_piece(piece.into());
        while end.poll_packet().is_some() {}
    }
});
