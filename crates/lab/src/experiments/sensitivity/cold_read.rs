//! Reads of contents that only the home has.
//!
//! The files are brought into the volume at the home before anybody else joins it, so the station knows their names and
//! attributes and has none of their bytes. Each is read once and is cold then, as no file of the set is that everything else works
//! on. They are larger than what travels with names ([`wayfs_types::INLINE_MAX`]), and each lies alone at the end of a
//! chain of directories: the client reads ahead from one file to others that are near, and what it had ahead would not wait
//! for the home.

use super::file_set::BLOCK;
use crate::experiments::noise::noise;
use crate::load::{Operation, Worker};
use crate::sites::VOLUME;
use crate::{LabError, Sites};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Directory of the files in the volume.
const DIRECTORY: &str = "cold";
/// From there to a file: two files have nothing in common within the steps up that the client looks for neighbours.
const CHAIN: &str = "a/b/c";
/// Longest time for the home to take them in.
const IMPORT: Duration = Duration::from_secs(120);
/// Sets their bytes apart from those of the set of files: what the station has already it need not fetch.
const SEED: u64 = 0xC01D << 32;

/// The files, and how many of them were read.
#[derive(Debug)]
pub(super) struct ColdStock {
    root: PathBuf,
    files: usize,
    read: AtomicUsize,
}

impl ColdStock {
    /// Brings files into the volume at the home, which nobody has joined yet. They are read below a mount of the volume.
    pub(super) fn import(sites: &Sites, files: usize) -> Result<(), LabError> {
        let stock = sites.lab().directory("home")?.join("stock");
        write(&stock, files)?;
        let from = stock.display().to_string();
        sites.wayfs("home", &["volume", "import", VOLUME, &from, "--into", DIRECTORY], IMPORT).map(drop)
    }

    /// Those below a mount.
    pub(super) fn at(mount: &Path, files: usize) -> Self {
        Self { root: mount.join(DIRECTORY), files, read: AtomicUsize::new(0) }
    }

    /// The next that nobody has read.
    fn next(&self) -> Option<PathBuf> {
        let number = self.read.fetch_add(1, Ordering::Relaxed);
        (number < self.files).then(|| self.root.join(path(number)))
    }
}

fn write(stock: &Path, files: usize) -> Result<(), LabError> {
    for number in 0..files {
        let path = stock.join(path(number));
        let parent = path.parent().unwrap_or(stock);
        std::fs::create_dir_all(parent).map_err(LabError::io(format!("make {}", parent.display())))?;
        std::fs::write(&path, noise(SEED + number as u64, BLOCK as usize))
            .map_err(LabError::io(format!("write {}", path.display())))?;
    }
    Ok(())
}

fn path(number: usize) -> PathBuf {
    [&number.to_string(), CHAIN, "file"].iter().collect()
}

/// Reads one cold file after another, whatever it is told to do.
pub(super) struct ColdReader {
    stock: Arc<ColdStock>,
}

impl ColdReader {
    pub(super) const fn new(stock: Arc<ColdStock>) -> Self {
        Self { stock }
    }
}

impl Worker for ColdReader {
    fn carry_out(&mut self, _operation: Operation, _random: u64) -> Result<(), String> {
        let path = self.stock.next().ok_or("no file is left that was never read")?;
        let mut block = vec![0; BLOCK as usize];
        let read = File::open(&path).and_then(|file| file.read_exact_at(&mut block, 0));
        read.map_err(|error| format!("read {}: {error}", path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_read_once_and_then_there_is_none() {
        let mount = tempfile::tempdir().unwrap();
        write(&mount.path().join(DIRECTORY), 3).unwrap();
        let stock = Arc::new(ColdStock::at(mount.path(), 3));
        let mut readers = [ColdReader::new(Arc::clone(&stock)), ColdReader::new(stock)];
        for number in 0..3 {
            readers[number % 2].carry_out(Operation::Read, 7).unwrap();
        }
        assert!(readers[1].carry_out(Operation::Read, 7).unwrap_err().contains("no file is left"));
    }

    #[test]
    fn files_are_alone_and_too_large_to_travel_with_their_names() {
        assert!(BLOCK as usize > wayfs_types::INLINE_MAX);
        // The client looks two steps up for neighbours.
        let above = |number| path(number).ancestors().nth(3).map(Path::to_owned).unwrap();
        assert_ne!(above(1), above(2));
    }
}
