//! Servers on the same local network, by multicast DNS (RFC 6762, RFC 6763).
//!
//! A server announces its key and port as `_wayfs._udp.local.`, nothing of its volumes. Whoever looks takes from what it hears
//! only where keys can be reached that it knows already as servers of its volume: anybody may announce anything, but a
//! session is made with whoever proves to have the key.

use crate::servers::ADDRESSES_MAX;
use mdns_sd::{ServiceDaemon, ServiceEvent, ServiceInfo};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tracing::{debug, info};
use wayfs_types::NodeId;

/// What servers are called on the local network.
const SERVICE: &str = "_wayfs._udp.local.";
/// The property that holds the key.
const NODE: &str = "node";
/// Pause between two looks at whether anybody still waits.
const LOOK_PERIOD: Duration = Duration::from_millis(100);
/// Most keys remembered: a network full of liars costs no more.
const FOUND_MAX: usize = 256;

/// Why announcing or looking cannot begin.
#[derive(Debug, thiserror::Error)]
#[error("multicast DNS: {0}")]
pub struct NearbyError(#[from] mdns_sd::Error);

/// Announces a server until it is dropped.
pub struct Announcement {
    daemon: ServiceDaemon,
    name: String,
}

impl Announcement {
    /// Begins: at all interfaces, at the addresses that they have.
    ///
    /// # Errors
    /// [`NearbyError`] if the system has no room for a socket or a thread.
    pub fn start(node: NodeId, port: u16) -> Result<Self, NearbyError> {
        let daemon = ServiceDaemon::new()?;
        let key = node.to_string();
        // A label holds 63 bytes; a few of the key tell servers apart.
        let label = format!("wayfs-{}", node.short());
        let properties = [(NODE, key.as_str())];
        let host = format!("{label}.local.");
        let service = ServiceInfo::new(SERVICE, &label, &host, "", port, &properties[..])?.enable_addr_auto();
        let name = service.get_fullname().to_owned();
        daemon.register(service)?;
        info!(port, "announced on the local network");
        Ok(Self { daemon, name })
    }
}

impl Drop for Announcement {
    fn drop(&mut self) {
        // Others forget it by themselves if this goes nowhere.
        let _ = self.daemon.unregister(&self.name);
        let _ = self.daemon.shutdown();
    }
}

/// Servers heard of.
type Found = BTreeMap<NodeId, Vec<SocketAddr>>;

/// Looks for servers until it is dropped.
pub struct Nearby {
    daemon: ServiceDaemon,
    found: Arc<Mutex<Found>>,
}

impl Nearby {
    /// Begins; `changed` is called when something new was heard, on a thread of its own.
    ///
    /// # Errors
    /// [`NearbyError`] if the system has no room for a socket or a thread.
    pub fn start(changed: impl Fn() + Send + 'static) -> Result<Self, NearbyError> {
        let daemon = ServiceDaemon::new()?;
        let events = daemon.browse(SERVICE)?;
        let found: Arc<Mutex<Found>> = Arc::default();
        let heard = Arc::clone(&found);
        let listening = std::thread::Builder::new().name("nearby".into()).spawn(move || {
            // Ends when the daemon is shut down.
            while let Ok(event) = events.recv() {
                if let ServiceEvent::ServiceResolved(service) = event
                    && note(&heard, &service)
                {
                    changed();
                }
            }
        });
        listening.map_err(|error| mdns_sd::Error::Msg(error.to_string()))?;
        Ok(Self { daemon, found })
    }

    /// Where a key was announced; empty if nowhere.
    pub fn addresses(&self, node: NodeId) -> Vec<SocketAddr> {
        self.found().get(&node).cloned().unwrap_or_default()
    }

    /// All keys announced, and where.
    pub fn list(&self) -> Vec<(NodeId, Vec<SocketAddr>)> {
        self.found().iter().map(|(node, addresses)| (*node, addresses.clone())).collect()
    }

    fn found(&self) -> std::sync::MutexGuard<'_, Found> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Nearby {
    fn drop(&mut self) {
        let _ = self.daemon.shutdown();
    }
}

/// Listens for so long, and tells who announced itself.
///
/// # Errors
/// [`NearbyError`] if the system has no room for a socket or a thread.
pub fn listen(
    patience: Duration,
    mut is_gone: impl FnMut() -> bool,
) -> Result<Vec<(NodeId, Vec<SocketAddr>)>, NearbyError> {
    let nearby = Nearby::start(|| {})?;
    let end = Instant::now() + patience;
    while Instant::now() < end && !is_gone() {
        std::thread::sleep(LOOK_PERIOD);
    }
    Ok(nearby.list())
}

/// Takes in what was heard; answers whether it is news.
fn note(found: &Mutex<Found>, service: &mdns_sd::ResolvedService) -> bool {
    let Some(node) = service.get_property_val_str(NODE).and_then(|key| key.parse::<NodeId>().ok()) else {
        debug!(name = service.get_fullname(), "an announcement without a key");
        return false;
    };
    let port = service.get_port();
    let plain = service.get_addresses().iter().map(|scoped| scoped.to_ip_addr());
    let mut addresses: Vec<SocketAddr> =
        plain.filter(|ip| is_usable(*ip)).map(|ip| SocketAddr::new(ip, port)).collect();
    addresses.sort();
    addresses.truncate(ADDRESSES_MAX);
    if port == 0 || addresses.is_empty() {
        return false;
    }
    let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
    if found.len() >= FOUND_MAX && !found.contains_key(&node) {
        return false;
    }
    found.insert(node, addresses.clone()) != Some(addresses)
}

/// Link-local addresses of IPv6 need a zone, which socket addresses here do not carry; nobody else is reached at loopback.
fn is_usable(ip: std::net::IpAddr) -> bool {
    match ip {
        std::net::IpAddr::V4(ip) => !ip.is_unspecified() && !ip.is_multicast() && !ip.is_loopback(),
        std::net::IpAddr::V6(ip) => {
            !ip.is_unspecified() && !ip.is_multicast() && !ip.is_loopback() && !ip.is_unicast_link_local()
        }
    }
}

/// Takes in announcements, each a key, a port and addresses; for the fuzzer.
///
/// # Panics
/// If more is remembered than may be, or an address that cannot be used: a fault of the checks.
pub(crate) fn note_all(announced: &[(String, u16, Vec<std::net::IpAddr>)]) {
    let found = Mutex::default();
    for (key, port, addresses) in announced {
        let properties = [(NODE, key.as_str())];
        if let Ok(service) = ServiceInfo::new(SERVICE, "wayfs-x", "x.local.", &addresses[..], *port, &properties[..]) {
            note(&found, &service.as_resolved_service());
        }
    }
    let found: Found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    assert!(found.len() <= FOUND_MAX, "a network full of liars costs no more");
    for addresses in found.values() {
        assert!(!addresses.is_empty() && addresses.len() <= ADDRESSES_MAX);
        assert!(addresses.iter().all(|address| address.port() != 0 && is_usable(address.ip())));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether this machine has a network besides itself, which multicast needs.
    fn has_network() -> bool {
        let routes = std::fs::read_to_string("/proc/net/route").unwrap_or_default();
        routes.lines().skip(1).any(|line| !line.starts_with("lo"))
    }

    #[test]
    fn what_is_announced_is_heard_and_what_ended_is_not_invented() {
        if !has_network() {
            eprintln!("skipped: this machine has no network that carries multicast");
            return;
        }
        let node = NodeId::from_bytes([0xA7; 32]);
        let _announcement = Announcement::start(node, 7475).unwrap();
        let nearby = Nearby::start(|| {}).unwrap();
        crate::testing::eventually("it is heard", || !nearby.addresses(node).is_empty());
        assert!(nearby.addresses(node).iter().all(|address| address.port() == 7475 && is_usable(address.ip())));
        assert!(nearby.addresses(NodeId::from_bytes([0xA8; 32])).is_empty());
    }
}
