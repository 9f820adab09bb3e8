//! Two that are taken for the home of one volume.
//!
//! * **A copy.** A backup that was restored beside its home, a data directory that was copied: both have one key. But each signs
//!   a place of its own, and knows where the key was before it: so a home dials the addresses at which its key was, or is
//!   said to be, and whoever answers there with this key and another place is a copy.
//! * **A former home**, whose place a station took: it has a key of its own, and members that were given no ticket of the new
//!   one. The new home dials it and shows its own list; the former one knows the signer as a station of its own.
//!
//! Members of one do not see what is written at the other, and neither can tell which of them is meant to live. A home that
//! finds a copy when it starts does not serve; whoever hears of a rival later says so.

use crate::greet;
use crate::servers::Have;
use crate::volume::Volume;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Weak;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tokio::time::timeout;
use wayfs_net::{Address, CloseCode, Endpoint};
use wayfs_types::{NodeId, VolumeId};

/// Longest wait for whoever may be at such an address. It delays the start of a home that moved, and of no other; the server bounds that.
const PATIENCE: Duration = Duration::from_secs(2);
/// Pause between two looks, where there is an address to look at.
const PERIOD: Duration = Duration::from_secs(30);
/// A rival that was not heard for so long is gone: it may be one that can dial and not be dialled.
const GONE: Duration = Duration::from_secs(90);

/// Who else is taken for the home.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rival {
    /// Another with this key.
    Copy(SocketAddr),
    /// The home whose place this one took.
    Former(SocketAddr),
    /// A station that took the place of this one.
    Successor(NodeId),
}

impl Rival {
    /// What to do about it.
    pub fn next_step(self) -> &'static str {
        match self {
            Self::Copy(_) => {
                "End one of the two; on its members `wayfs station address home HOST:PORT` names the other, and they write again there \
                 what it lacks."
            }
            Self::Former(_) => {
                "Stop it there, and give members that still follow it tickets of this home (`wayfs volume ticket`)."
            }
            Self::Successor(_) => {
                "Stop this one, and give members that still follow it tickets of the new home; what only this one has is to be copied \
                 from a mount of it first."
            }
        }
    }
}

impl fmt::Display for Rival {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const APART: &str = "members of one do not see what is written at the other";
        match self {
            Self::Copy(address) => write!(f, "another copy of this home runs at {address}: {APART}"),
            Self::Former(address) => write!(f, "the former home of this volume still runs at {address}: {APART}"),
            Self::Successor(node) => write!(f, "station {} took the place of this home: {APART}", node.short()),
        }
    }
}

/// Looks once for a copy; `None`: none answered, or there is nowhere to look.
pub async fn find_copy(volume: &Volume, endpoint: &Endpoint) -> Option<SocketAddr> {
    let mut looking = JoinSet::new();
    for address in volume.directory().former_addresses() {
        let (id, have, endpoint) = (volume.id(), volume.directory().have(), endpoint.clone());
        looking.spawn(async move { timeout(PATIENCE, is_copy(&endpoint, address, id, have)).await.ok().flatten() });
    }
    while let Some(joined) = looking.join_next().await {
        if let Ok(Some(copy)) = joined {
            return Some(copy);
        }
    }
    None
}

/// Whether a copy of this server answers there.
async fn is_copy(endpoint: &Endpoint, address: Address, id: VolumeId, have: Have) -> Option<SocketAddr> {
    let own = endpoint.id();
    let connection = endpoint.connect(&[address], own).await.ok()?;
    let answer = greet::look(&connection, id, have.clone()).await;
    let copy = answer.ok().filter(|(_, theirs, _)| is_of_another(own, &have, theirs)).map(|_| connection.remote_addr());
    connection.close(CloseCode::GOODBYE, "");
    copy
}

/// Whether the server that has these places is another one: this one, met by way of an address translator, has its own place.
pub(crate) fn is_of_another(own: NodeId, have: &Have, theirs: &Have) -> bool {
    have.place_of(own) != theirs.place_of(own)
}

/// Shows this home's list to the one whose place it took; answers where that is, if it serves.
async fn visit_former(volume: &Volume, endpoint: &Endpoint) -> Option<SocketAddr> {
    let (node, addresses) = volume.directory().former_home().filter(|(_, addresses)| !addresses.is_empty())?;
    let connection = endpoint.connect(&addresses, node).await.ok()?;
    let answer = greet::look(&connection, volume.id(), volume.directory().have()).await;
    let former = answer.is_ok().then(|| connection.remote_addr());
    if let Ok((frames, _, _)) = answer {
        greet::tell(&connection, &frames, volume.directory().own_list()).await;
    }
    connection.close(CloseCode::GOODBYE, "");
    former
}

/// Home only: looks from time to time, until the volume is gone.
pub(crate) async fn watch(volume: Weak<Volume>, endpoint: Endpoint) {
    let Some(mut changes) = volume.upgrade().map(|volume| volume.directory().subscribe()) else { return };
    loop {
        let Some(volume) = volume.upgrade().filter(|volume| !volume.is_stopped()) else { return };
        let former = timeout(2 * PATIENCE, visit_former(&volume, &endpoint)).await.ok().flatten();
        let copy = find_copy(&volume, &endpoint).await;
        if let Some(rival) = copy.map(Rival::Copy).or(former.map(Rival::Former)) {
            volume.note_rival(rival);
        } else if let Some(before) = Instant::now().checked_sub(GONE) {
            volume.directory().forget_rival(before);
        }
        drop(volume);
        // A place of this key that somebody else signed is a change.
        if matches!(timeout(PERIOD, changes.changed()).await, Ok(Err(_))) {
            return;
        }
    }
}
