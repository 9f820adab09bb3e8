//! Dials servers, and says which may be the parent.

use super::link::Shared;
use super::measuring::Dialled;
use crate::clock;
use crate::nearby::Nearby;
use crate::servers::{ServerInfo, ServerKind};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::Instant;
use wayfs_net::Address;
use wayfs_proto::Role;
use wayfs_types::NodeId;

/// Addresses heard on the local network that go before the others.
const NEARBY_MAX: usize = 4;
/// Others get this long after the first answered, or twice its round trip.
const GRACE_MIN: Duration = Duration::from_millis(30);

impl Shared {
    /// Dials servers at the same time.
    pub(super) async fn dial_all(&self, servers: Vec<ServerInfo>, grace: Grace) -> Vec<Dialled> {
        let mut dials = JoinSet::new();
        for server in servers {
            let endpoint = self.endpoint.clone();
            dials.spawn(async move {
                let result = endpoint.connect(&server.addresses, server.node).await;
                (server, result)
            });
        }
        let mut dialled = Vec::new();
        let mut end: Option<Instant> = None;
        loop {
            let next = match end {
                Some(end) => match tokio::time::timeout_at(end, dials.join_next()).await {
                    Ok(next) => next,
                    Err(_) => break,
                },
                None => dials.join_next().await,
            };
            let Some(next) = next else { break };
            let Ok((mut server, result)) = next else { continue };
            if let Ok(connection) = &result {
                // The home may answer with a new key, which follows the one that is known.
                server.node = connection.peer();
            }
            let mut state = self.lock();
            let measured = state.measured.entry(server.node).or_default();
            measured.at = Some(clock::wall());
            match result {
                Ok(connection) => {
                    let rtt = connection.rtt();
                    (measured.rtt, measured.error) = (Some(rtt), None);
                    if grace == Grace::AfterFirst && end.is_none() {
                        end = Some(Instant::now() + (rtt * 2).max(GRACE_MIN));
                    }
                    dialled.push(Dialled { server, connection, rtt });
                }
                Err(error) => measured.error = Some(error.to_string()),
            }
        }
        dialled
    }

    /// The servers that may be the parent now.
    pub(super) fn wanted(&self) -> Vec<ServerInfo> {
        let pinned = self.lock().pinned;
        let all = self.candidates();
        // The one that the user chose may have changed its key.
        match pinned.map(|pinned| self.now(pinned)) {
            Some(pinned) => all.into_iter().filter(|server| server.node == pinned).collect(),
            None => all,
        }
    }

    /// The key that a server has now which had this one.
    pub(super) fn now(&self, node: NodeId) -> NodeId {
        self.volume.upgrade().map_or(node, |volume| volume.directory().follow(node))
    }

    pub(super) fn candidates(&self) -> Vec<ServerInfo> {
        let Some(volume) = self.volume.upgrade() else { return Vec::new() };
        let own = self.endpoint.id();
        let homes_only = volume.role() != Role::Client;
        let mut list = volume.directory().list();
        if let Some(nearby) = self.nearby.get() {
            list.iter_mut().for_each(|server| add_nearby(server, nearby));
        }
        list.retain(|server| {
            server.node != own && !server.addresses.is_empty() && (!homes_only || server.kind == ServerKind::Home)
        });
        list
    }

    pub(super) fn reason(&self, server: &ServerInfo, rtt: Duration, reachable: usize) -> String {
        let ms = rtt.as_secs_f64() * 1e3;
        let pinned = self.lock().pinned;
        if pinned.is_some_and(|pinned| self.now(pinned) == server.node) {
            return format!("chosen by you ({ms:.1} ms away)");
        }
        match reachable {
            1 => format!("the nearest that answered ({ms:.1} ms away)"),
            count => format!("as near as the nearest of {count} that answered, or nearly ({ms:.1} ms away)"),
        }
    }
}

/// Puts where a server was heard on the local network before where it is known to be.
fn add_nearby(server: &mut ServerInfo, nearby: &Nearby) {
    let mut addresses: Vec<Address> = nearby.addresses(server.node).into_iter().map(Address::from).collect();
    addresses.truncate(NEARBY_MAX);
    for known in std::mem::take(&mut server.addresses) {
        if !addresses.contains(&known) {
            addresses.push(known);
        }
    }
    server.addresses = addresses;
}

/// How long to wait for all of several dials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Grace {
    /// A little longer than the first took.
    AfterFirst,
    /// Until each has answered or failed.
    All,
}
