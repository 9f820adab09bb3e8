//! What a seed asks of open files: how many, how long, and what is kept and committed at once.

use crate::disk::SYNC_MAX;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::time::Duration;

/// Limits of the open files of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenFilesPlan {
    /// Files that all clients open.
    pub files: usize,
    /// About how long they are, in bytes.
    pub scale: u64,
    /// Longest file that is kept in memory.
    pub memory_max: usize,
    /// How long a page of the kernel is, in bytes.
    pub page_len: u64,
    /// Most uncommitted bytes that a close commits at once.
    pub inline_commit_max: u64,
    /// One step in so many ends the process in its middle.
    pub ends_one_in: u32,
    /// Longest sync of a disk until all is healed. While it lasts a kill takes what was recorded since the one before.
    pub sync_max: Duration,
}

impl OpenFilesPlan {
    /// Drawn for itself, so that all else in a seed stays what it was.
    pub(crate) fn draw(seed: u64) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed ^ 0x0be7_f11e);
        Self {
            files: random.random_range(1..=3),
            scale: [500, 6000, 6000, 40_000, 300_000][random.random_range(0..5)],
            memory_max: [200, 3000, 128 << 10][random.random_range(0..3)],
            inline_commit_max: [100, 5000, 256 << 10][random.random_range(0..3)],
            ends_one_in: [30, 300, 3000][random.random_range(0..3)],
            sync_max: [SYNC_MAX, SYNC_MAX, Duration::from_secs(2)][random.random_range(0..3)],
            page_len: [512, 4096, 16 << 10][random.random_range(0..3)],
        }
    }
}
