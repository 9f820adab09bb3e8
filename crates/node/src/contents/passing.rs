//! Chunks that were fetched and found no room on the disk, on their way through memory to who reads them.
//!
//! Reading needs no room: where the cache is at its bound, or the disk is full, a chunk stays here until it was read, or others
//! come after it. Nothing here counts as kept: no walk, no answer to a neighbour, no report takes it for a copy.

use bytes::Bytes;
use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};
use wayfs_types::Digest;

/// Bytes kept in all: what the reading ahead of a dozen programs has under way. The oldest goes first.
const ALL_LEN_MAX: usize = 32 << 20;
/// Who asked for a chunk reads it within this time, or asks again.
const KEPT_FOR: Duration = Duration::from_secs(30);

/// The last ones fetched without room.
#[derive(Debug, Default)]
pub(crate) struct Passing {
    chunks: HashMap<Digest, Bytes>,
    order: VecDeque<(Instant, Digest)>,
    len: usize,
}

impl Passing {
    /// Keeps a chunk for a while.
    pub(crate) fn put(&mut self, digest: Digest, bytes: Bytes) {
        self.forget_old();
        if self.chunks.contains_key(&digest) {
            return;
        }
        self.len += bytes.len();
        self.order.push_back((Instant::now(), digest));
        self.chunks.insert(digest, bytes);
        while self.len > ALL_LEN_MAX && self.order.len() > 1 {
            self.forget_first();
        }
    }

    pub(crate) fn get(&self, digest: &Digest) -> Option<Bytes> {
        self.chunks.get(digest).cloned()
    }

    /// The chunk that came last, for which there is room.
    pub(crate) fn take_last(&mut self) -> Option<(Digest, Bytes)> {
        let (_, digest) = self.order.pop_back()?;
        let bytes = self.chunks.remove(&digest)?;
        self.len -= bytes.len();
        Some((digest, bytes))
    }

    /// Lets go of what nobody read in time.
    pub(crate) fn forget_old(&mut self) {
        while self.order.front().is_some_and(|(since, _)| since.elapsed() > KEPT_FOR) {
            self.forget_first();
        }
    }

    fn forget_first(&mut self) {
        if let Some((_, digest)) = self.order.pop_front() {
            self.len -= self.chunks.remove(&digest).map_or(0, |bytes| bytes.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_ones_pass_within_the_bound() {
        let mut passing = Passing::default();
        let chunk = |n: usize| (Digest::of(&n.to_le_bytes()), Bytes::from(vec![n as u8; 1 << 20]));
        for n in 0..100 {
            let (digest, bytes) = chunk(n);
            passing.put(digest, bytes.clone());
            passing.put(digest, bytes);
        }
        let kept: Vec<usize> = (0..100).filter(|n| passing.get(&chunk(*n).0) == Some(chunk(*n).1)).collect();
        assert_eq!(kept, (68..100).collect::<Vec<_>>());
    }
}
