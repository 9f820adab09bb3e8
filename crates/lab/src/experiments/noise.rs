//! Bytes that cannot be compressed and that nobody has yet: a system that packs what it sends, or goes by contents, has to
//! send every one of them.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

/// So many of them; other seeds give others.
pub(super) fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    ChaCha8Rng::seed_from_u64(seed).fill_bytes(&mut bytes);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_seeds_are_other_bytes() {
        assert_eq!((noise(1, 9), noise(1, 9).len()), (noise(1, 9), 9));
        assert_ne!(noise(1, 9), noise(2, 9));
    }
}
