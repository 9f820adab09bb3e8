//! The data directory.
//!
//! ```text
//! DATA/identity            the machine's key
//! DATA/LOCK                held by the running server
//! DATA/volumes/ID/volume.json    name, role, origin
//! DATA/volumes/ID/volume-copy.json   the same again, for when that is damaged
//! DATA/volumes/ID/tickets.json   tickets issued (homes only)
//! DATA/volumes/ID/store/         the replica's tables and chunks
//! DATA/volumes/ID/deleted.json   all that is left of a deleted volume: whoever asks for it is told
//! ```

use crate::broken::Broken;
use crate::durable_file;
use crate::error::StartError;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use std::fs::{DirBuilder, File, OpenOptions};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use wayfs_types::{NodeId, OriginId, VolumeId};

/// Newest format of `volume.json` that this program writes and reads.
const FORMAT: u32 = 2;

/// What a server is in a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ServedAs {
    /// It orders the updates.
    Home,
    /// Between clients and home.
    Station,
}

/// `volume.json`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct VolumeFile {
    format: u32,
    id: String,
    pub(crate) name: String,
    pub(crate) role: ServedAs,
    origin: u32,
    pub(crate) label: String,
    pub(crate) created_unix_ms: i64,
    /// The home's key; `None`: this server's own.
    pub(crate) home: Option<NodeId>,
    /// It was a station, and took the place of its home: the store follows when it is opened.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) promoted: bool,
}

impl VolumeFile {
    pub(crate) fn new(id: VolumeId, name: String, role: ServedAs, origin: OriginId, label: String) -> Self {
        Self {
            format: FORMAT,
            id: id.to_string(),
            name,
            role,
            origin: origin.raw(),
            label,
            created_unix_ms: wayfs_node::clock::wall().as_nanos() / 1_000_000,
            home: None,
            promoted: false,
        }
    }

    /// Its identifiers, checked.
    pub(crate) fn ids(&self) -> Option<(VolumeId, OriginId)> {
        Some((self.id.parse().ok()?, OriginId::new(self.origin).ok()?))
    }
}

/// Its name in a volume's directory.
const TOMBSTONE: &str = "deleted.json";

/// A second copy of `volume.json`, for when that is damaged.
pub(crate) const SECOND: &str = "volume-copy.json";

/// `deleted.json`.
#[derive(Debug, Serialize, Deserialize)]
struct Tombstone {
    name: String,
    deleted_unix_ms: i64,
}

/// Removes all but the tombstone.
fn clear_grave(directory: &Path) -> std::io::Result<()> {
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_name() == TOMBSTONE {
            continue;
        }
        if entry.file_type()?.is_dir() {
            std::fs::remove_dir_all(entry.path())?;
        } else {
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// A data directory that this process holds.
#[derive(Debug)]
pub(crate) struct Layout {
    root: PathBuf,
    _lock: File,
}

impl Layout {
    pub(crate) fn open(root: &Path) -> Result<Self, StartError> {
        let volumes = root.join("volumes");
        make(root)?;
        make(&volumes)?;
        let path = root.join("LOCK");
        let lock = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(|source| StartError::Directory { what: "open lock", path: path.clone(), source })?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self { root: root.to_owned(), _lock: lock }),
            Err(rustix::io::Errno::WOULDBLOCK) => Err(StartError::Locked(root.to_owned())),
            Err(errno) => Err(StartError::Directory { what: "lock", path, source: errno.into() }),
        }
    }

    pub(crate) fn identity(&self) -> PathBuf {
        self.root.join("identity")
    }

    pub(crate) fn volume(&self, id: VolumeId) -> PathBuf {
        self.root.join("volumes").join(id.to_string())
    }

    pub(crate) fn store(&self, id: VolumeId) -> PathBuf {
        self.volume(id).join("store")
    }

    pub(crate) fn tickets(&self, id: VolumeId) -> PathBuf {
        self.volume(id).join("tickets.json")
    }

    /// Writes a volume's file; from then on the volume exists.
    pub(crate) fn save(&self, id: VolumeId, file: &VolumeFile) -> Result<(), StartError> {
        let directory = self.volume(id);
        make(&directory)?;
        let path = directory.join(SECOND);
        durable_file::write(&path, file).map_err(|source| StartError::Directory { what: "write", path, source })?;
        let path = directory.join("volume.json");
        durable_file::write(&path, file).map_err(|source| StartError::Directory { what: "write", path, source })
    }

    /// Marks a volume as deleted, durably. From then on nothing but [`Layout::clear_grave`] may follow, at the latest
    /// at the next start.
    pub(crate) fn mark_deleted(&self, id: VolumeId, name: &str) -> std::io::Result<()> {
        let tombstone =
            Tombstone { name: name.to_owned(), deleted_unix_ms: wayfs_node::clock::wall().as_nanos() / 1_000_000 };
        durable_file::write(&self.volume(id).join(TOMBSTONE), &tombstone)
    }

    /// Removes what a deleted volume has on disk. What is left says only that there was one.
    pub(crate) fn clear_grave(&self, id: VolumeId) -> std::io::Result<()> {
        clear_grave(&self.volume(id))
    }

    /// Volumes that were deleted. What a crash left of them is removed.
    pub(crate) fn deleted(&self) -> Result<Vec<VolumeId>, StartError> {
        let path = self.root.join("volumes");
        let fail = |source| StartError::Directory { what: "list", path: path.clone(), source };
        let mut deleted = Vec::new();
        for entry in std::fs::read_dir(&path).map_err(fail)? {
            let entry = entry.map_err(fail)?;
            let id = entry.file_name().to_str().and_then(|name| name.parse().ok());
            if let Some(id) = id.filter(|_| entry.path().join(TOMBSTONE).exists()) {
                clear_grave(&entry.path()).map_err(fail)?;
                deleted.push(id);
            }
        }
        Ok(deleted)
    }

    /// The directories of all volumes that were made and not deleted.
    pub(crate) fn directories(&self) -> Result<Vec<PathBuf>, StartError> {
        let path = self.root.join("volumes");
        let fail = |source| StartError::Directory { what: "list", path: path.clone(), source };
        let mut found = Vec::new();
        for entry in std::fs::read_dir(&path).map_err(fail)? {
            let directory = entry.map_err(fail)?.path();
            let is_made = directory.join("volume.json").exists() || directory.join(SECOND).exists();
            if is_made && !directory.join(TOMBSTONE).exists() {
                found.push(directory);
            }
        }
        found.sort();
        Ok(found)
    }

    /// All volumes, and those whose file is damaged. A directory without a `volume.json` is a creation that a crash
    /// interrupted: it is left out.
    pub(crate) fn volumes(&self) -> Result<(Vec<VolumeFile>, Vec<Broken>), StartError> {
        let path = self.root.join("volumes");
        let fail = |source| StartError::Directory { what: "list", path: path.clone(), source };
        let (mut files, mut broken) = (Vec::new(), Vec::new());
        for entry in std::fs::read_dir(&path).map_err(fail)? {
            let entry = entry.map_err(fail)?;
            let directory = entry.path();
            if directory.join(TOMBSTONE).exists() {
                continue;
            }
            match read_volume(&directory) {
                Ok(Some(file)) if file.format > FORMAT => {
                    let why = format!("written by a newer program (format {}): use that", file.format);
                    return Err(StartError::Unreadable { path: directory.join("volume.json"), why });
                }
                Ok(Some(file)) => files.push(file),
                Ok(None) => {}
                Err(error) => {
                    let name = entry.file_name().to_string_lossy().into_owned();
                    broken.push(Broken::of_file(name.parse().ok(), name, &error));
                }
            }
        }
        files.sort_by(|a, b| a.name.cmp(&b.name));
        Ok((files, broken))
    }
}

/// Reads a volume's file, or its second copy if the first is damaged.
pub(crate) fn read_volume(directory: &Path) -> Result<Option<VolumeFile>, StartError> {
    let read = |path: &Path| {
        let unreadable = |why: String| StartError::Unreadable { path: path.to_owned(), why };
        let file = durable_file::read::<VolumeFile>(path).map_err(|error| unreadable(error.to_string()))?;
        match file {
            Some(file) if file.format <= FORMAT && file.ids().is_none() => {
                Err(unreadable("its identifiers are damaged".into()))
            }
            other => Ok(other),
        }
    };
    let path = directory.join("volume.json");
    read(&path).or_else(|error| match read(&directory.join(SECOND)) {
        Ok(Some(file)) => {
            tracing::warn!(%error, "a volume's file is damaged: its second copy is used and put in its place");
            if let Err(error) = durable_file::write(&path, &file) {
                tracing::warn!(%error, "mend a volume's file");
            }
            Ok(Some(file))
        }
        Ok(None) | Err(_) => Err(error),
    })
}

fn make(path: &Path) -> Result<(), StartError> {
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(|source| StartError::Directory {
        what: "make directory",
        path: path.to_owned(),
        source,
    })
}
