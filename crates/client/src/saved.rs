//! What a mount remembers of its volume, so that it can start without ticket and without network.
//!
//! ```text
//! CACHE_DIR/NAME/
//!   identity      the key of this machine in this volume
//!   client.json   Saved
//!   pins.json     what is pinned
//!   volume/       the replica: tables, chunks, servers
//!   files/        body files, emptied at start
//!   control.sock
//! ```

use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use wayfs_net::{Address, Ticket};
use wayfs_types::{NodeId, OriginId, VolumeId};

/// Version of `client.json`.
const FORMAT: u32 = 2;
/// Largest `client.json` read, in bytes.
const LEN_MAX: u64 = 1 << 20;

/// The membership of one volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Saved {
    /// Version of this file.
    pub format: u32,
    /// The volume.
    pub volume: String,
    /// Its name.
    pub name: String,
    /// The origin of this machine's records.
    pub origin: OriginId,
    /// Its label as others see it.
    pub label: String,
    /// The home's key, by the ticket's word.
    pub home: NodeId,
    /// Where the ticket found the home. What was learnt since is in the replica's list.
    pub addresses: Vec<Address>,
    /// Whether this machine was admitted to read only.
    #[serde(default)]
    pub reader: bool,
}

/// Why what was saved cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SavedError {
    /// Nothing is saved under this name.
    #[error("no volume `{name}` was mounted with cache {}: mount it once with a ticket", cache.display())]
    Unknown {
        /// The name asked for.
        name: String,
        /// Where was looked.
        cache: PathBuf,
    },
    /// A file cannot be read or written.
    #[error("{action} {}: {source}", path.display())]
    File {
        /// What was tried.
        action: &'static str,
        /// Which file.
        path: PathBuf,
        /// Why it failed.
        source: std::io::Error,
    },
    /// It is damaged or of a newer program.
    #[error("{} cannot be understood ({why}): it is damaged, or a newer program wrote it", path.display())]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
}

impl Saved {
    /// Puts a membership together.
    pub fn new(ticket: &Ticket, grant: &wayfs_node::Grant) -> Self {
        Self {
            format: FORMAT,
            volume: ticket.volume().to_string(),
            name: grant.name.clone(),
            origin: grant.origin,
            label: grant.label.clone(),
            home: ticket.home(),
            addresses: ticket.addresses().to_vec(),
            reader: grant.role == wayfs_node::ChildRole::Reader,
        }
    }

    /// The volume's id.
    ///
    /// # Errors
    /// [`SavedError::Unreadable`].
    pub fn volume_id(&self, directory: &Path) -> Result<VolumeId, SavedError> {
        self.volume.parse().map_err(|error: wayfs_types::IdError| SavedError::Unreadable {
            path: directory.join("client.json"),
            why: error.to_string(),
        })
    }

    /// Reads what is saved in a directory; `None` if nothing is.
    ///
    /// # Errors
    /// [`SavedError`].
    pub fn load(directory: &Path) -> Result<Option<Self>, SavedError> {
        let path = directory.join("client.json");
        let fail = |source| SavedError::File { action: "read", path: path.clone(), source };
        let unreadable = |why: String| SavedError::Unreadable { path: path.clone(), why };
        match std::fs::metadata(&path) {
            Ok(metadata) if metadata.len() > LEN_MAX => return Err(unreadable("it is too long".into())),
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(fail(error)),
        }
        let bytes = std::fs::read(&path).map_err(fail)?;
        let saved: Self = serde_json::from_slice(&bytes).map_err(|error| unreadable(error.to_string()))?;
        if saved.format != FORMAT {
            return Err(unreadable(format!("format {} instead of {FORMAT}", saved.format)));
        }
        Ok(Some(saved))
    }

    /// Keeps it, durably.
    ///
    /// # Errors
    /// [`SavedError::File`].
    pub fn save(&self, directory: &Path) -> Result<(), SavedError> {
        let bytes = serde_json::to_vec_pretty(self).expect("a membership holds nothing that JSON cannot say");
        write_durably(&directory.join("client.json"), &bytes)
    }
}

/// Replaces a small file so that a crash leaves the old or the new one.
///
/// # Errors
/// [`SavedError::File`].
pub fn write_durably(path: &Path, bytes: &[u8]) -> Result<(), SavedError> {
    let fail = |source| SavedError::File { action: "write", path: path.to_owned(), source };
    let fresh = path.with_extension("new");
    let mut file = File::create(&fresh).map_err(fail)?;
    file.write_all(bytes).and_then(|()| file.sync_all()).map_err(fail)?;
    std::fs::rename(&fresh, path).map_err(fail)?;
    let parent = path.parent().unwrap_or(Path::new("."));
    File::open(parent).and_then(|directory| directory.sync_all()).map_err(fail)
}

/// The directory of a volume in a cache: its name, made fit for a file name.
pub fn directory_of(cache: &Path, name: &str) -> PathBuf {
    let plain: String = name
        .chars()
        .map(|c| if c.is_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '_' })
        .take(100)
        .collect();
    match plain.as_str() {
        "" | "." | ".." => cache.join("_"),
        _ => cache.join(plain),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn saved() -> Saved {
        Saved {
            format: FORMAT,
            volume: VolumeId::from_bytes([7; 16]).to_string(),
            name: "notes".into(),
            origin: OriginId::new(3).unwrap(),
            label: "ann@lap".into(),
            home: NodeId::from_bytes([1; 32]),
            addresses: vec!["home.example.org:7475".parse().unwrap()],
            reader: false,
        }
    }

    #[test]
    fn a_membership_survives_and_a_newer_one_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(Saved::load(directory.path()).unwrap(), None);
        saved().save(directory.path()).unwrap();
        assert_eq!(Saved::load(directory.path()).unwrap(), Some(saved()));
        assert_eq!(saved().volume_id(directory.path()).unwrap(), VolumeId::from_bytes([7; 16]));
        Saved { format: FORMAT + 1, ..saved() }.save(directory.path()).unwrap();
        assert!(matches!(Saved::load(directory.path()), Err(SavedError::Unreadable { .. })));
    }

    #[test]
    fn names_do_not_leave_the_cache() {
        let cache = Path::new("/c");
        assert_eq!(directory_of(cache, "../../etc"), Path::new("/c/.._.._etc"));
        assert_eq!(directory_of(cache, ".."), Path::new("/c/_"));
        assert_eq!(directory_of(cache, "notes-1"), Path::new("/c/notes-1"));
    }
}
