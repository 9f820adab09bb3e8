//! How the stores of a run use the disk: little of everything, so that files and tables turn often.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// The limits of the stores of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoresPlan {
    /// Bytes in memory before they go to a table.
    pub memtable_bytes: u64,
    /// Bytes of commits that are gathered into one batch; zero: each is one.
    pub gather_bytes: usize,
    /// Bytes of a segment of chunks.
    pub segment_bytes: u64,
}

impl StoresPlan {
    /// Draws one for a seed.
    pub(crate) fn draw(seed: u64) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed ^ 0x0570_4e55);
        let mut one_of = |choices: [u64; 4]| choices[random.random_range(0..choices.len())];
        let memtable_bytes = one_of([4 << 10, 16 << 10, 64 << 10, 1 << 20]);
        let gather_bytes = one_of([0, 512, 4 << 10, 1 << 20]) as usize;
        let segment_bytes = one_of([600, 2 << 10, 8 << 10, 1 << 20]);
        Self { memtable_bytes, gather_bytes, segment_bytes }
    }
}
