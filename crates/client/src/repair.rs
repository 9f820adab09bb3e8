//! `wayfs doctor --repair` for a cache of mounts. The mounts must not run.

use crate::saved::{Saved, SavedError};
use std::path::{Path, PathBuf};
use wayfs_control::report::{FileDamage, RepairReport, RepairState, VolumeRepair};
use wayfs_node::repair::{Consent, State, repair as repair_store};
use wayfs_proto::Role;

/// Why a cache was not looked at.
#[derive(Debug, thiserror::Error)]
pub enum RepairError {
    /// It is none.
    #[error("{} is no cache of mounts: it holds no directory with a `client.json`", .0.display())]
    NoCache(PathBuf),
    /// It cannot be read.
    #[error("list {}: {source}", path.display())]
    List {
        /// The directory.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// A volume's store.
    #[error("volume {volume}: {source}")]
    Store {
        /// Which.
        volume: String,
        /// What is wrong.
        source: wayfs_node::OpenError,
    },
}

/// Whether a directory is a cache of mounts, or that of one volume.
pub fn is_cache(place: &Path) -> bool {
    directories(place).is_ok_and(|found| !found.is_empty())
}

/// Looks at all volumes of a cache (or at the one whose directory it is), and repairs them with consent. `tell` hears which
/// volume it is at, and how many rows of it are done.
///
/// # Errors
/// [`RepairError`]. Volumes that are mounted are left out and said to be in use.
pub fn repair(place: &Path, consent: Consent, tell: &mut dyn FnMut(&str, u64)) -> Result<RepairReport, RepairError> {
    let directories = directories(place)?;
    if directories.is_empty() {
        return Err(RepairError::NoCache(place.to_owned()));
    }
    let volumes: Result<_, _> = directories.into_iter().map(|directory| volume(&directory, consent, tell)).collect();
    Ok(RepairReport { place: place.to_owned(), volumes: volumes? })
}

fn directories(place: &Path) -> Result<Vec<PathBuf>, RepairError> {
    let is_volume = |path: &Path| path.join("client.json").exists();
    if is_volume(place) {
        return Ok(vec![place.to_owned()]);
    }
    let fail = |source| RepairError::List { path: place.to_owned(), source };
    let mut found = Vec::new();
    for entry in std::fs::read_dir(place).map_err(fail)? {
        let path = entry.map_err(fail)?.path();
        if is_volume(&path) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn volume(directory: &Path, consent: Consent, tell: &mut dyn FnMut(&str, u64)) -> Result<VolumeRepair, RepairError> {
    let name = directory.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let report = |volume: &str, state, files, rows, next: &str| VolumeRepair {
        volume: volume.to_owned(),
        role: "client".to_owned(),
        state,
        files,
        rows,
        next_step: next.to_owned(),
    };
    let saved = match Saved::load(directory) {
        Ok(saved) => saved.map_or_else(|| name.clone(), |saved| saved.name),
        Err(error) => {
            return Ok(report(&name, RepairState::Hopeless, vec![unreadable(directory, &error)], 0, NEW_TICKET));
        }
    };
    let store = directory.join("volume");
    let repaired = match repair_store(&store, Role::Client, consent, &mut |rows| tell(&saved, rows)) {
        Err(wayfs_store::OpenError::Locked { .. }) => {
            return Ok(report(&saved, RepairState::InUse, Vec::new(), 0, "Unmount it first (`wayfs umount DIR`)."));
        }
        other => other.map_err(|source| RepairError::Store { volume: saved.clone(), source: source.into() })?,
    };
    let damage = repaired.damage.into_iter();
    let files = damage.map(|d| FileDamage { path: d.path, what: d.what, remedy: d.remedy, lost: d.lost }).collect();
    let (state, next) = match repaired.state {
        State::Whole => (RepairState::Whole, String::new()),
        State::Damaged => {
            (RepairState::Damaged, "Repair it with `--yes`; what is lost by that stands above.".to_owned())
        }
        State::Repaired => (RepairState::Repaired, format!("Mount it again: `wayfs mount {saved} DIR`.")),
        State::Hopeless => (RepairState::Hopeless, NEW_TICKET.to_owned()),
    };
    Ok(report(&saved, state, files, repaired.rows, &next))
}

const NEW_TICKET: &str =
    "Move this directory away and mount with a new ticket (`wayfs volume ticket NAME` at the home).";

fn unreadable(directory: &Path, error: &SavedError) -> FileDamage {
    FileDamage {
        path: directory.join("client.json"),
        what: error.to_string(),
        remedy: "none".to_owned(),
        lost: "which volume this is the cache of".to_owned(),
    }
}
