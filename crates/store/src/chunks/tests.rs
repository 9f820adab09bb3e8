//! Tests of the chunk store.

mod compacting;
mod crash;
mod format;
mod using;

use crate::tests::{Random, data_dir};
use crate::{ChunkConfig, ChunkStore, OpenReport};
use std::path::Path;
use wayfs_types::Digest;

/// Segments that roll after a few chunks.
pub(crate) const SMALL: ChunkConfig = ChunkConfig { segment_bytes: 40_000, min_free: 0 };

pub(crate) fn open(path: &Path) -> (ChunkStore, OpenReport) {
    ChunkStore::open(&data_dir(path), SMALL).expect("opens")
}

/// A chunk that repeats with its number: 1 to 9,000 bytes.
pub(crate) fn chunk(n: u64) -> (Digest, Vec<u8>) {
    let mut random = Random(n.wrapping_mul(0x9e37_79b9) + 1);
    let len = 1 + random.below(9000) as usize;
    let bytes = random.bytes(len);
    (Digest::of(&bytes), bytes)
}

pub(crate) fn put_all(store: &ChunkStore, numbers: impl IntoIterator<Item = u64>) {
    for n in numbers {
        let (digest, bytes) = chunk(n);
        store.put(&digest, &bytes).expect("puts");
    }
}

pub(crate) fn assert_has(store: &ChunkStore, numbers: impl IntoIterator<Item = u64>) {
    for n in numbers {
        let (digest, bytes) = chunk(n);
        assert_eq!(store.get(&digest).expect("reads").as_deref(), Some(&bytes[..]), "chunk {n}");
    }
}

pub(crate) fn assert_lacks(store: &ChunkStore, numbers: impl IntoIterator<Item = u64>) {
    for n in numbers {
        assert!(!store.has(&chunk(n).0), "chunk {n}");
    }
}
