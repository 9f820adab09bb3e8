//! Another copy of this home that runs: a backup that was restored beside it, a data directory that was copied.
//!
//! Both have one key. Members of one do not see what is written at the other, and neither can tell which of them is meant to
//! live. But each signs a place of its own, and knows where the key was before it: so a home dials the addresses at which its
//! key was, or is said to be, and whoever answers there with this key and another place is a copy. A home that finds one when
//! it starts does not serve; one that meets it later says so.

use crate::greet;
use crate::servers::Have;
use crate::volume::Volume;
use std::net::SocketAddr;
use std::sync::Weak;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tokio::time::timeout;
use wayfs_net::{Address, CloseCode, Endpoint};

/// Longest wait for whoever may be at such an address. It delays the start of a home that moved, and of no other.
const PATIENCE: Duration = Duration::from_secs(2);
/// Pause between two looks, where there is an address to look at.
const PERIOD: Duration = Duration::from_secs(30);

/// Looks once; `None`: no copy answered, or there is nowhere to look.
pub async fn look(volume: &Volume, endpoint: &Endpoint) -> Option<SocketAddr> {
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
async fn is_copy(endpoint: &Endpoint, address: Address, id: wayfs_types::VolumeId, have: Have) -> Option<SocketAddr> {
    let own = endpoint.id();
    let connection = endpoint.connect(&[address], own).await.ok()?;
    let answer = greet::look(&connection, id, have.clone()).await;
    let copy = answer.ok().filter(|(_, theirs, _)| is_of_another(own, &have, theirs)).map(|_| connection.remote_addr());
    connection.close(CloseCode::GOODBYE, "");
    copy
}

/// Whether the server that has these places is another one: this one, met by way of an address translator, has its own place.
pub(crate) fn is_of_another(own: wayfs_types::NodeId, have: &Have, theirs: &Have) -> bool {
    have.place_of(own) != theirs.place_of(own)
}

/// Home only: looks from time to time, until the volume is gone.
pub(crate) async fn watch(volume: Weak<Volume>, endpoint: Endpoint) {
    let Some(mut changes) = volume.upgrade().map(|volume| volume.directory().subscribe()) else { return };
    loop {
        // A place of this key that somebody else signed is a change.
        if matches!(timeout(PERIOD, changes.changed()).await, Ok(Err(_))) {
            return;
        }
        let Some(volume) = volume.upgrade().filter(|volume| !volume.is_stopped()) else { return };
        match look(&volume, &endpoint).await {
            Some(address) => volume.note_copy(address),
            // It may be one that can dial and not be dialled.
            None => {
                let _ =
                    Instant::now().checked_sub(3 * PERIOD).is_some_and(|before| volume.directory().forget_copy(before));
            }
        }
    }
}
