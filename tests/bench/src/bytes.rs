//! Bytes of files, none of which can be compressed or were anywhere else before: what a chunk store has already costs it nothing.

use anyhow::{Result, ensure};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Bytes of a GiB.
pub(crate) const GIB: u64 = 1 << 30;
/// Bytes written or read at once.
const PIECE: usize = 1 << 20;

/// Draws contents that nothing in this run was made of: a round that writes what the one before it did would find most of its work done.
pub(crate) fn fresh() -> StdRng {
    static MADE: AtomicU64 = AtomicU64::new(1 << 32);
    StdRng::seed_from_u64(MADE.fetch_add(1, Ordering::Relaxed))
}

/// Makes a file of so many bytes, a multiple of a MiB, and leaves it open.
///
/// Making new ones all the time would cost as much as writing them: pieces are one that is drawn, turned by their number, so that no
/// chunk is like another.
pub(crate) fn write_new(path: &Path, len: u64) -> Result<File> {
    let mut random = vec![0_u8; 2 * PIECE];
    fresh().fill(&mut random[..]);
    let mut file = File::create(path)?;
    for number in 0..len / PIECE as u64 {
        let begin = (number * 4099) as usize % PIECE;
        let piece = &mut random[begin..begin + PIECE];
        for (block, bytes) in piece.chunks_exact_mut(4096).enumerate() {
            bytes[..8].copy_from_slice(&(number * 256 + block as u64).to_le_bytes());
        }
        file.write_all(piece)?;
    }
    Ok(file)
}

/// Reads a file of so many bytes from its begin to its end, in MB/s.
pub(crate) fn read_whole(path: &Path, len: u64) -> Result<f64> {
    let mut piece = vec![0; PIECE];
    let start = Instant::now();
    let mut file = File::open(path)?;
    let mut read = 0;
    loop {
        match file.read(&mut piece)? {
            0 => break,
            bytes => read += bytes as u64,
        }
    }
    ensure!(read == len, "{read} of {len} bytes were read");
    Ok(megabytes(len, start))
}

/// MB/s of so many bytes since a moment.
pub(crate) fn megabytes(len: u64, start: Instant) -> f64 {
    len as f64 / 1e6 / start.elapsed().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn no_block_is_like_another_in_one_file_or_two() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("bytes");
        write_new(&path, 8 << 20).unwrap();
        let mut bytes = std::fs::read(&path).unwrap();
        write_new(&path, 8 << 20).unwrap();
        bytes.extend(std::fs::read(&path).unwrap());
        let blocks: HashSet<&[u8]> = bytes.chunks(4096).collect();
        assert_eq!((bytes.len(), blocks.len()), (16 << 20, 4096));
        assert!(read_whole(&path, 8 << 20).is_ok() && read_whole(&path, 1 << 20).is_err());
    }
}
