//! Small chunks that were put lately, still in memory: what a program closed is pushed a moment later, and
//! need not come back from the disk for that.

use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};
use wayfs_types::Digest;

/// Longest chunk kept here: most files that programs write are below.
pub(crate) const RECENT_LEN_MAX: usize = 64 << 10;
/// Bytes kept in all: what a fast writer puts between two syncs, several times over.
const ALL_LEN_MAX: usize = 4 << 20;

/// The last ones put; the oldest goes first.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    chunks: BTreeMap<Digest, Bytes>,
    order: VecDeque<Digest>,
    len: usize,
}

impl Recent {
    /// Keeps a chunk for a while, unless it is long.
    pub(crate) fn put(&mut self, digest: Digest, bytes: Bytes) {
        if bytes.len() > RECENT_LEN_MAX || self.chunks.contains_key(&digest) {
            return;
        }
        self.len += bytes.len();
        self.order.push_back(digest);
        self.chunks.insert(digest, bytes);
        while self.len > ALL_LEN_MAX {
            let Some(oldest) = self.order.pop_front() else { return };
            self.len -= self.chunks.remove(&oldest).map_or(0, |bytes| bytes.len());
        }
    }

    pub(crate) fn get(&self, digest: &Digest) -> Option<Bytes> {
        self.chunks.get(digest).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_ones_are_kept_within_the_bound() {
        let mut recent = Recent::default();
        let chunk = |n: usize| {
            let bytes = Bytes::from(vec![n as u8; RECENT_LEN_MAX]);
            (Digest::of(&bytes), bytes)
        };
        for n in 0..100 {
            let (digest, bytes) = chunk(n);
            recent.put(digest, bytes.clone());
            recent.put(digest, bytes);
        }
        let kept: Vec<usize> = (0..100).filter(|n| recent.get(&chunk(*n).0) == Some(chunk(*n).1)).collect();
        assert_eq!(kept, (100 - ALL_LEN_MAX / RECENT_LEN_MAX..100).collect::<Vec<_>>());
        let long = Bytes::from(vec![0; RECENT_LEN_MAX + 1]);
        recent.put(Digest::of(&long), long.clone());
        assert_eq!(recent.get(&Digest::of(&long)), None);
    }
}
