//! The files that the load works on.

use crate::LabError;
use crate::experiments::noise::noise;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use std::path::Path;

/// Directories.
const DIRECTORIES: usize = 10;
/// Files in each.
const FILES: usize = 20;
/// Symbolic links in each.
const LINKS: usize = 5;
/// What one operation reads or writes at most: the block of NFS in the papers.
pub(super) const BLOCK: u64 = 8192;
/// Sizes of files in KiB with their shares in percent: SPEC SFS 2.0 and 3.0.
const SIZES: [(u64, u64); 10] =
    [(1, 33), (2, 21), (4, 13), (8, 10), (16, 8), (32, 5), (64, 4), (128, 3), (256, 2), (1024, 1)];

/// A file of the set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Member {
    /// Number of its directory.
    pub(super) directory: usize,
    /// Its name there.
    pub(super) name: String,
    /// Bytes.
    pub(super) len: u64,
}

/// The files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FileSet {
    pub(super) files: Vec<Member>,
}

impl FileSet {
    /// Files whose sizes come from a seed.
    pub(super) fn new(seed: u64) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let member = |number: usize| Member {
            directory: number % DIRECTORIES,
            name: format!("file-{number}"),
            len: size(random.next_u64() % 100),
        };
        Self { files: (0..DIRECTORIES * FILES).map(member).collect() }
    }

    /// Makes the files below a directory.
    pub(super) fn make(&self, root: &Path) -> Result<(), LabError> {
        for number in 0..DIRECTORIES {
            let directory = root.join(directory_name(number));
            std::fs::create_dir(&directory).map_err(LabError::io(format!("make {}", directory.display())))?;
            for link in 0..LINKS {
                let path = directory.join(link_name(link));
                std::os::unix::fs::symlink(format!("file-{number}"), &path)
                    .map_err(LabError::io(format!("make {}", path.display())))?;
            }
        }
        for (number, file) in self.files.iter().enumerate() {
            let path = root.join(directory_name(file.directory)).join(&file.name);
            std::fs::write(&path, noise(number as u64, file.len as usize))
                .map_err(LabError::io(format!("write {}", path.display())))?;
        }
        Ok(())
    }

    /// The file that a random number stands for, and a block of it.
    pub(super) fn pick(&self, random: u64) -> (usize, Block) {
        let number = (random % self.files.len() as u64) as usize;
        let len = self.files[number].len;
        let offset = (random >> 32) % len.div_ceil(BLOCK) * BLOCK;
        (number, Block { offset, len: BLOCK.min(len - offset) })
    }
}

/// A part of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) offset: u64,
    pub(super) len: u64,
}

/// Name of a directory.
pub(super) fn directory_name(number: usize) -> String {
    format!("directory-{number}")
}

/// Name of a symbolic link in any directory.
pub(super) fn link_name(random: usize) -> String {
    format!("link-{}", random % LINKS)
}

fn size(percent: u64) -> u64 {
    let mut left = percent;
    for (kib, share) in SIZES {
        match left.checked_sub(share) {
            None => return kib * 1024,
            Some(rest) => left = rest,
        }
    }
    SIZES[0].0 * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_come_as_often_as_their_shares() {
        let sizes: Vec<u64> = (0..100).map(size).collect();
        for (kib, share) in SIZES {
            assert_eq!(sizes.iter().filter(|size| **size == kib * 1024).count() as u64, share);
        }
        assert_eq!(FileSet::new(1), FileSet::new(1));
    }

    #[test]
    fn blocks_lie_within_their_file() {
        let set = FileSet::new(1);
        for random in (0..1000_u64).map(|n| n.wrapping_mul(0x9E37_79B9_7F4A_7C15)) {
            let (number, block) = set.pick(random);
            assert!(block.len > 0 && block.offset + block.len <= set.files[number].len);
        }
    }
}
