//! Going to servers that cannot come: a home that moved tells its stations where it is now.
//!
//! A station that has lost its home knows only where the home was. The home knows where its stations are, so it dials those
//! that have no session and tells them; they dial it at the new address. A station tells other stations nothing, but asks
//! them ([`look_around`]): one that was told tells the others.

use super::exchange;
use crate::volume::Volume;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::task::JoinSet;
use tracing::{debug, info};
use wayfs_net::Endpoint;
use wayfs_types::NodeId;

/// First pause before stations without a session are dialled: those that know the way come by themselves.
const PAUSE_MIN: Duration = Duration::from_secs(2);
/// Longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(300);
/// Rounds after each change of our own place; then only those that come by themselves are told.
const ROUNDS: u32 = 12;
/// Stations dialled at the same time.
const AT_ONCE: usize = 8;

/// Home only: whenever its place is new, dials stations that have no session until each was reached, or the rounds are over.
pub(crate) async fn tell_stations(volume: Weak<Volume>, endpoint: Endpoint) {
    let Some(mut changes) = volume.upgrade().map(|volume| volume.directory().subscribe()) else { return };
    let mut told_place = 0;
    loop {
        let Some(place) = volume.upgrade().map(|volume| volume.directory().have().place_of(endpoint.id())) else {
            return;
        };
        if place > told_place {
            told_place = place;
            tell_all(&volume, &endpoint).await;
        }
        if changes.changed().await.is_err() {
            return;
        }
    }
}

async fn tell_all(volume: &Weak<Volume>, endpoint: &Endpoint) {
    let (mut pause, mut reached) = (PAUSE_MIN, Vec::new());
    for _ in 0..ROUNDS {
        tokio::time::sleep(pause).await;
        let Some(volume) = volume.upgrade().filter(|volume| !volume.is_stopped()) else { return };
        let found = look_around(&volume, endpoint, &reached).await;
        reached.extend(found.reached);
        if found.missed == 0 {
            return;
        }
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// What came of looking around.
pub(crate) struct Around {
    /// Servers that news were swapped with.
    pub(crate) reached: Vec<NodeId>,
    /// Servers that could not be reached.
    pub(crate) missed: usize,
}

/// Swaps news with all stations to which there is no session, but for some.
pub(crate) async fn look_around(volume: &Arc<Volume>, endpoint: &Endpoint, but_for: &[NodeId]) -> Around {
    let near: Vec<NodeId> = volume.all_sessions().iter().map(|session| session.node).collect();
    let mut servers = volume.directory().list();
    servers.retain(|server| {
        let is_other = server.node != endpoint.id() && !near.contains(&server.node) && !but_for.contains(&server.node);
        is_other && !server.addresses.is_empty()
    });
    let mut around = Around { reached: Vec::new(), missed: 0 };
    let mut looking = JoinSet::new();
    let note = |around: &mut Around, joined: Option<Result<Result<NodeId, NodeId>, _>>| match joined {
        Some(Ok(Ok(node))) => around.reached.push(node),
        Some(Ok(Err(_)) | Err::<_, tokio::task::JoinError>(_)) => around.missed += 1,
        None => {}
    };
    for server in servers {
        if looking.len() >= AT_ONCE {
            let joined = looking.join_next().await;
            note(&mut around, joined);
        }
        let (volume, endpoint) = (Arc::clone(volume), endpoint.clone());
        looking.spawn(async move {
            match endpoint.connect(&server.addresses, server.node).await {
                Ok(connection) => {
                    exchange::look(&volume, &connection).await;
                    info!(node = %server.node.short(), "swapped news of the servers");
                    Ok(server.node)
                }
                Err(error) => {
                    debug!(node = %server.node.short(), %error, "a server could not be told where we are");
                    Err(server.node)
                }
            }
        });
    }
    while let Some(joined) = looking.join_next().await {
        note(&mut around, Some(joined));
    }
    around
}
