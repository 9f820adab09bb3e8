//! Bytes that cannot be compressed and that nobody has yet: a system that packs what it sends, or goes by contents, has to
//! send every one of them.

use crate::LabError;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use std::fs::File;
use std::io::Write;
use std::path::Path;

/// Bytes that a long file is made of: longer than anything that is packed or hashed at once.
const PIECE_LEN: usize = 4 << 20;
/// Each so long part of a long file has a number of its own, so that no two are alike.
const BLOCK_LEN: usize = 4096;

/// So many of them; other seeds give others.
pub(super) fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    ChaCha8Rng::seed_from_u64(seed).fill_bytes(&mut bytes);
    bytes
}

/// A long file of them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Noise {
    pub(super) seed: u64,
    /// Bytes: a multiple of 4 KiB.
    pub(super) len: u64,
}

/// Writes one. To make them takes little time beside writing them, so that who writes is measured and
/// not who makes.
pub(super) fn write_noise(path: &Path, Noise { seed, len }: Noise) -> Result<(), LabError> {
    let doing = || LabError::io(format!("write {}", path.display()));
    let mut piece = noise(seed, PIECE_LEN);
    let mut file = File::create(path).map_err(doing())?;
    let mut number = 0_u64;
    let mut left = len;
    while left > 0 {
        for block in piece.chunks_exact_mut(BLOCK_LEN) {
            number += 1;
            block[..8].copy_from_slice(&number.to_le_bytes());
        }
        let now = usize::try_from(left).unwrap_or(PIECE_LEN).min(PIECE_LEN);
        file.write_all(&piece[..now]).map_err(doing())?;
        left -= now as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_seeds_are_other_bytes() {
        assert_eq!((noise(1, 9), noise(1, 9).len()), (noise(1, 9), 9));
        assert_ne!(noise(1, 9), noise(2, 9));
    }

    #[test]
    fn no_block_of_a_long_file_is_like_another() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("noise");
        let len = 2 * PIECE_LEN + 3 * BLOCK_LEN;
        write_noise(&path, Noise { seed: 1, len: len as u64 }).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        let blocks: std::collections::HashSet<&[u8]> = bytes.chunks(BLOCK_LEN).collect();
        assert_eq!((bytes.len(), blocks.len()), (len, len / BLOCK_LEN));
    }
}
