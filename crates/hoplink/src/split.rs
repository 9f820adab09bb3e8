//! Two connections joined at the base: each of a mobile ends here, and another one goes on to where it is for, in both directions.
//!
//! Each side is a [`Room`]: a network namespace with a device of its own, in which every address of the other side is local. So
//! the kernel's TCP answers the mobile as the host that it asked for, and that host as the mobile. Whether selective acknowledgements are used
//! towards the mobile is a setting of its room.
//!
//! The first segment of a connection waits here until the other side has answered: a refusal is passed on, and a host that does not answer
//! does not answer. What is owed to either side is bounded by the buffers of the rooms' sockets; what is not taken stays in the sender's window.

mod carry;
mod join;
mod room;
mod socket;

use crate::LinkError;
use crate::config::{Addresses, Pool};
use crate::report::PeerReport;
use join::Connection;
use room::Room;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use tracing::warn;
use wayfs_hop::IpPacket;

/// Connections at once. With two sockets and what listens for it each has less than four descriptors.
const CONNECTIONS_MAX: usize = 1024;
/// Of these at one address of a mobile, at most: whoever opens without end leaves room for others.
const OF_ONE_MAX: usize = CONNECTIONS_MAX / 2;
/// Of these without an answer of the other side yet, at most. A host that is silent is asked for two minutes.
const UNANSWERED_MAX: usize = 128;
/// Descriptors that so many need.
const DESCRIPTORS: u64 = 4 * CONNECTIONS_MAX as u64 + 256;

/// Which side of the base a packet came from, or a connection leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Side {
    /// Over the hop.
    Mobile,
    /// Everything else, the base itself included.
    Wire,
}

impl Side {
    const BOTH: [Self; 2] = [Self::Mobile, Self::Wire];

    const fn other(self) -> Self {
        match self {
            Self::Mobile => Self::Wire,
            Self::Wire => Self::Mobile,
        }
    }
}

/// Who asked, and whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Ends {
    from: SocketAddr,
    to: SocketAddr,
}

/// What a split needs to know of its base.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) pool: Pool,
    pub(crate) mtu: u16,
    /// Whether selective acknowledgements are used towards the mobiles.
    pub(crate) selective: bool,
}

/// All connections of the mobiles with one of the two schemes.
#[derive(Debug)]
pub(crate) struct Split {
    inner: Arc<Inner>,
    runtime: Handle,
}

#[derive(Debug)]
struct Inner {
    plan: Plan,
    mobile: Room,
    wire: Room,
    table: Mutex<Table>,
    /// Connections whose sockets may be open: those in the table, and those that are being closed; and listening sockets.
    joined: AtomicUsize,
}

#[derive(Debug, Default)]
struct Table {
    connections: BTreeMap<Ends, Arc<Connection>>,
    /// What listens for openings that the other side has answered, and for how many of them.
    listeners: BTreeMap<(Side, SocketAddr), (AbortHandle, usize)>,
    /// Openings that found no place.
    turned_away: u64,
    /// The base leaves: nobody is joined any more.
    is_closed: bool,
}

impl Table {
    fn has_room_for(&self, mobile: IpAddr) -> bool {
        let of_one = || self.connections.values().filter(|connection| connection.mobile() == mobile);
        self.connections.len() < CONNECTIONS_MAX
            && of_one().count() < OF_ONE_MAX
            && of_one().filter(|connection| !connection.is_open()).count() < UNANSWERED_MAX
    }
}

impl Split {
    /// Makes the rooms. Connections are carried by that runtime.
    ///
    /// # Errors
    /// [`LinkError`] says what the machine lacks.
    pub(crate) fn open(plan: Plan, runtime: Handle) -> Result<Self, LinkError> {
        allow_descriptors();
        let mobile = Room::open(Side::Mobile, &plan)?;
        let wire = Room::open(Side::Wire, &plan)?;
        let inner = Inner { plan, mobile, wire, table: Mutex::default(), joined: AtomicUsize::new(0) };
        Ok(Self { inner: Arc::new(inner), runtime })
    }

    /// A packet that came from a side. False: it is not for here, and goes on as it is.
    pub(crate) fn take(&self, from: Side, packet: &IpPacket) -> Result<bool, LinkError> {
        let pool = self.inner.plan.pool;
        // Mobiles speak with each other by themselves.
        let is_between_mobiles = pool.holds_mobile(packet.source()) && pool.holds_mobile(packet.destination());
        if is_between_mobiles || !packet.concerns_tcp() {
            return Ok(false);
        }
        match packet.opening() {
            Some((asker, asked)) if self.inner.is_to_be_asked_for(Ends { from: asker, to: asked }) => {
                self.begin(from, Ends { from: asker, to: asked }, packet);
            }
            // What belongs to no connection the room's kernel refuses.
            Some(_) | None => self.inner.room(from).tun.write(packet.bytes())?,
        }
        Ok(true)
    }

    /// Asks the other side, unless that is being done.
    fn begin(&self, opener: Side, ends: Ends, opening: &IpPacket) {
        let mut table = self.inner.table();
        if table.connections.contains_key(&ends) {
            return;
        }
        let connection = Arc::new(Connection::new(opener, ends));
        if !table.has_room_for(connection.mobile()) {
            table.turned_away += 1;
            return;
        }
        table.connections.insert(ends, Arc::clone(&connection));
        self.inner.joined.fetch_add(1, Ordering::Relaxed);
        drop(table);
        self.runtime.spawn(join::run(Arc::clone(&self.inner), connection, opening.clone()));
    }

    /// A packet of a room for its side, if there is one: segments only.
    pub(crate) fn read(&self, side: Side, buffer: &mut [u8]) -> Result<Option<usize>, LinkError> {
        self.inner.room(side).tun.read(buffer)
    }

    /// Readable when there is one.
    pub(crate) fn fds(&self) -> [BorrowedFd<'_>; 2] {
        Side::BOTH.map(|side| self.inner.room(side).tun.fd())
    }

    /// How long packets of the rooms may be.
    pub(crate) fn set_mtu(&self, mtu: u16) {
        for side in Side::BOTH {
            if let Err(error) = self.inner.room(side).set_mtu(mtu) {
                warn!(%error, "packets of joined connections keep their length");
            }
        }
    }

    /// Ends the connections of a mobile with a reset to both sides.
    pub(crate) fn reset(&self, of: &Addresses) {
        self.inner.table().connections.values().filter(|it| of.hold(it.mobile())).for_each(|it| it.end());
    }

    /// Ends all connections so, and refuses others from now on.
    pub(crate) fn close(&self) {
        let mut table = self.inner.table();
        table.is_closed = true;
        table.connections.values().for_each(|connection| connection.end());
    }

    /// Whether nobody is joined, and all sockets are closed: what the kernel says of that can be read.
    pub(crate) fn is_empty(&self) -> bool {
        self.inner.joined.load(Ordering::Acquire) == 0
    }

    /// Adds what is joined for a mobile to what is told of it.
    pub(crate) fn tell(&self, addresses: &Addresses, report: &mut PeerReport) {
        let table = self.inner.table();
        report.turned_away = table.turned_away;
        for connection in table.connections.values().filter(|it| addresses.hold(it.mobile())) {
            let owed = connection.owed();
            report.connections += 1;
            report.owed_to_mobile += owed.to_mobile;
            report.owed_to_wire += owed.to_wire;
        }
    }
}

impl Inner {
    const fn room(&self, side: Side) -> &Room {
        match side {
            Side::Mobile => &self.mobile,
            Side::Wire => &self.wire,
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the other side is to be asked before an opening goes into its room.
    fn is_to_be_asked_for(&self, ends: Ends) -> bool {
        let table = self.table();
        !table.is_closed && !table.connections.get(&ends).is_some_and(|connection| connection.is_open())
    }
}

/// The base is a program of its own: it may have as many descriptors as the machine lets it have.
fn allow_descriptors() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < DESCRIPTORS) {
        limit.current = Some(limit.maximum.map_or(DESCRIPTORS, |maximum| maximum.min(DESCRIPTORS)));
        if let Err(error) = setrlimit(Resource::Nofile, limit) {
            warn!(%error, "fewer connections than usual can be joined at once");
        }
    }
}

/// The address of an end without what only IPv6 sockets have.
fn plain(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip(), address.port())
}

/// Whether an address is of one family with another.
const fn is_same_family(one: IpAddr, other: IpAddr) -> bool {
    one.is_ipv4() == other.is_ipv4()
}
