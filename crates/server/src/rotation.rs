//! Another key for a home that does not run.
//!
//! The new key and the word of the old one that it follows are put in place of the old at once: a crash leaves either. From then on
//! the home shows that word to whoever knows it by the old key, in the handshake and in its list of servers
//! (`docs/decisions/0040-a-home-changes-its-key.md`).

use crate::broken::Broken;
use crate::error::StartError;
use crate::layout::{Layout, ServedAs, VolumeFile};
use std::path::Path;
use wayfs_net::{IdentityError, NodeIdentity, Passphrase};
use wayfs_types::NodeId;

/// What becomes of the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rotation {
    /// Nothing: only look.
    Look,
    /// A new one takes its place.
    Renew,
    /// It stays, and says no more of those of before: who knows only them needs a ticket.
    End,
}

/// The key of a home, and whom it speaks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyState {
    /// The key that the home has.
    pub key: NodeId,
    /// Keys that it had before and is still known by, the newest last.
    pub former: Vec<NodeId>,
    /// The volumes whose home this is, by name.
    pub volumes: Vec<String>,
}

/// Why a key stays as it is.
#[derive(Debug, thiserror::Error)]
pub enum RotationError {
    /// The directory is no server's, or a server has it.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The key cannot be read or written.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// Another home knows this server by its key.
    #[error("this server is a station of {}, whose home knows it by this key", .0.join(", "))]
    IsStation(Vec<String>),
    /// A volume's file cannot be read, so that nobody knows what this server is in it.
    #[error("{}: {}", .0, .1)]
    Broken(String, String),
}

/// Changes the key in a data directory, or looks at it.
///
/// # Errors
/// [`RotationError`]; nothing was changed then.
pub fn rotate_key(data: &Path, passphrase: Option<&Passphrase>, rotation: Rotation) -> Result<KeyState, RotationError> {
    if !data.join("volumes").is_dir() {
        let why = "this is no data directory of a server".to_owned();
        return Err(StartError::Unreadable { path: data.to_owned(), why }.into());
    }
    let layout = Layout::open(data)?;
    let volumes = homes_in(&layout)?;
    let path = layout.identity();
    let mut identity = NodeIdentity::load(&path, passphrase)?;
    let changed = match rotation {
        Rotation::Look => None,
        Rotation::Renew => Some(identity.successor()?),
        Rotation::End => Some(identity.without_changes()),
    };
    if let Some(changed) = changed {
        changed.replace(&path, passphrase)?;
        identity = changed;
    }
    let former = identity.changes().iter().map(wayfs_net::KeyChange::old).collect();
    Ok(KeyState { key: identity.id(), former, volumes })
}

/// The names of all volumes; it must be the home of each.
fn homes_in(layout: &Layout) -> Result<Vec<String>, RotationError> {
    let (files, broken) = layout.volumes()?;
    if let Some(Broken { name, why, .. }) = broken.into_iter().next() {
        return Err(RotationError::Broken(name, why));
    }
    let is_station = |file: &&VolumeFile| file.role == ServedAs::Station;
    let names = |files: Vec<&VolumeFile>| files.into_iter().map(|file| file.name.clone()).collect::<Vec<_>>();
    let (stations, homes): (Vec<_>, Vec<_>) = files.iter().partition(is_station);
    match stations.is_empty() {
        true => Ok(names(homes)),
        false => Err(RotationError::IsStation(names(stations))),
    }
}
