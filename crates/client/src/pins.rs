//! What the user wants kept on this machine.

use crate::saved::{SavedError, write_durably};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use wayfs_node::Volume;
use wayfs_types::FileId;

/// Most pins. Each costs a look per swept file and directory level.
const PINS_MAX: usize = 10_000;
/// Deepest tree looked up from a file to its pin.
const DEPTH_MAX: usize = 4096;

/// Pinned files and directories, by id, so that a rename keeps the pin.
#[derive(Debug)]
pub struct Pins {
    path: PathBuf,
    pinned: Mutex<BTreeSet<FileId>>,
}

impl Pins {
    /// What was pinned before.
    ///
    /// # Errors
    /// [`SavedError`]: a list of pins that cannot be read is not thrown away.
    pub fn load(path: &Path) -> Result<Self, SavedError> {
        let pinned = match std::fs::read(path) {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .map_err(|error| SavedError::Unreadable { path: path.to_owned(), why: error.to_string() })?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => BTreeSet::new(),
            Err(source) => return Err(SavedError::File { action: "read", path: path.to_owned(), source }),
        };
        Ok(Self { path: path.to_owned(), pinned: Mutex::new(pinned) })
    }

    fn pinned(&self) -> MutexGuard<'_, BTreeSet<FileId>> {
        self.pinned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All pins.
    pub fn list(&self) -> Vec<FileId> {
        self.pinned().iter().copied().collect()
    }

    /// Whether this very file or directory is pinned.
    pub fn contains(&self, file: FileId) -> bool {
        self.pinned().contains(&file)
    }

    /// Pins; answers whether there was room.
    ///
    /// # Errors
    /// [`SavedError::File`]; then it is not pinned.
    pub fn add(&self, file: FileId) -> Result<bool, SavedError> {
        let mut pinned = self.pinned();
        if pinned.len() >= PINS_MAX && !pinned.contains(&file) {
            return Ok(false);
        }
        let mut more = pinned.clone();
        more.insert(file);
        self.save(&more)?;
        *pinned = more;
        Ok(true)
    }

    /// Lets go; answers whether it was pinned.
    ///
    /// # Errors
    /// [`SavedError::File`]; then it stays pinned.
    pub fn remove(&self, file: FileId) -> Result<bool, SavedError> {
        let mut pinned = self.pinned();
        let mut fewer = pinned.clone();
        let was = fewer.remove(&file);
        if was {
            self.save(&fewer)?;
            *pinned = fewer;
        }
        Ok(was)
    }

    /// Whether a file is pinned, itself or by a directory above it.
    pub fn covers(&self, volume: &Volume, file: FileId) -> bool {
        let pinned = self.list();
        if pinned.is_empty() {
            return false;
        }
        let pinned: BTreeSet<FileId> = pinned.into_iter().collect();
        volume
            .look(|replica| {
                let (mut at, mut left, mut seen) = (vec![file], DEPTH_MAX, BTreeSet::new());
                while let Some(next) = at.pop().filter(|_| left > 0) {
                    if !seen.insert(next) {
                        continue;
                    }
                    left -= 1;
                    if pinned.contains(&next) {
                        return true;
                    }
                    if next == FileId::ROOT {
                        continue;
                    }
                    let Ok(Some(inode)) = replica.inode(next) else { continue };
                    let names = if inode.is_crowded() { replica.names_of(next).ok() } else { None };
                    let parents: BTreeSet<FileId> =
                        names.as_ref().unwrap_or(&inode.places).iter().map(|place| place.parent).collect();
                    left += parents.len().saturating_sub(1);
                    at.extend(parents);
                }
                false
            })
            .unwrap_or(false)
    }

    fn save(&self, pinned: &BTreeSet<FileId>) -> Result<(), SavedError> {
        let bytes = serde_json::to_vec(pinned).expect("ids are numbers");
        write_durably(&self.path, &bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pins_survive_and_go() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pins.json");
        let pins = Pins::load(&path).unwrap();
        assert!(pins.add(FileId::ROOT).unwrap());
        assert_eq!(Pins::load(&path).unwrap().list(), [FileId::ROOT]);
        assert!(pins.remove(FileId::ROOT).unwrap());
        assert!(!pins.remove(FileId::ROOT).unwrap());
        assert!(Pins::load(&path).unwrap().list().is_empty());
        std::fs::write(&path, b"nonsense").unwrap();
        assert!(matches!(Pins::load(&path), Err(SavedError::Unreadable { .. })));
    }
}
