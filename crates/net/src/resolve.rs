//! From names to addresses, anew at each dial.

use crate::Address;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::sync::Arc;
use tokio::sync::Semaphore;

/// Addresses taken of one name; more are ignored.
const ADDRESSES_MAX: usize = 8;
/// Lookups under way at once. The system's resolver cannot be called off, so those that hang hold a thread each.
const LOOKUPS_MAX: usize = 8;

/// What finds the addresses of a name.
type Lookup = dyn Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync;

/// Finds the addresses of names. Default: the system's resolver (`/etc/hosts`, DNS).
#[derive(Clone)]
pub struct Resolver {
    lookup: Arc<Lookup>,
    room: Arc<Semaphore>,
}

impl Resolver {
    /// One that asks a function; for tests, and for who knows better than the system.
    pub fn by(lookup: impl Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync + 'static) -> Self {
        Self { lookup: Arc::new(lookup), room: Arc::new(Semaphore::new(LOOKUPS_MAX)) }
    }

    /// The socket addresses of an address, at most [`ADDRESSES_MAX`]; never none.
    pub(crate) async fn resolve(&self, address: &Address) -> io::Result<Vec<SocketAddr>> {
        let (host, port) = match (address.ip(), address.host()) {
            (Some(known), _) => return Ok(vec![known]),
            (None, host) => (host.unwrap_or_default().to_owned(), address.port()),
        };
        let room = Arc::clone(&self.room).acquire_owned().await.map_err(io::Error::other)?;
        let lookup = Arc::clone(&self.lookup);
        let found = tokio::task::spawn_blocking(move || {
            // Given back when the lookup ends, which may be after its dial was given up.
            let _room = room;
            lookup(&host)
        });
        let mut addresses: Vec<SocketAddr> = Vec::new();
        for ip in found.await.map_err(io::Error::other)?? {
            let address = SocketAddr::new(ip, port);
            if crate::address::is_of_one_machine(ip) && !addresses.contains(&address) {
                addresses.push(address);
            }
        }
        addresses.truncate(ADDRESSES_MAX);
        if addresses.is_empty() { Err(io::Error::other("the name has no address")) } else { Ok(addresses) }
    }
}

impl Default for Resolver {
    fn default() -> Self {
        Self::by(|host| Ok((host, 0).to_socket_addrs()?.map(|address| address.ip()).collect()))
    }
}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resolver").finish_non_exhaustive()
    }
}
