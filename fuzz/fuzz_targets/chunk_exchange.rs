//! Chunks that go as differences to those of before arrive as they were sent, whatever a liar says in between.
#![no_main]

use libfuzzer_sys::arbitrary::{self, Arbitrary};
use wayfs_node::fuzzing::{Step, exchange_chunks};

#[derive(Debug, Arbitrary)]
enum Move {
    Give(Vec<u8>),
    /// A chunk of many bytes that are alike.
    GiveAlike {
        seed: u8,
        len: u16,
        change: u16,
    },
    GiveInVain(Vec<u8>),
    Lie(u64, u32, Vec<u8>),
    Node(u8, u64, Vec<u8>),
}

fn alike(seed: u8, len: u16, change: u16) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..len).map(|at| (at as u8).wrapping_mul(seed | 1) ^ (at >> 8) as u8).collect();
    if let Some(byte) = bytes.get_mut(usize::from(change)) {
        *byte ^= 1;
    }
    bytes
}

libfuzzer_sys::fuzz_target!(|moves: Vec<Move>| {
    let steps: Vec<Step> = moves
        .into_iter()
        .map(|one| match one {
            Move::Give(bytes) => Step::Give(bytes),
            Move::GiveAlike { seed, len, change } => Step::Give(alike(seed, len, change)),
            Move::GiveInVain(bytes) => Step::GiveInVain(bytes),
            Move::Lie(before, len, bytes) => Step::Lie(before, len, bytes),
            Move::Node(level, len, bytes) => Step::Node(level, len, bytes),
        })
        .collect();
    exchange_chunks(&steps);
});
