//! The engine: moves packets between the device, the ends and the socket. One thread, one queue per peer, served in turn.

mod look;
mod rooms;

use crate::LinkError;
use crate::clock;
use crate::config::{Addresses, Settings};
use crate::end::End;
use crate::host;
use crate::keys::{Keys, Role};
use crate::news::{News, Question};
use crate::peer::Peer;
use crate::report::LinkReport;
use crate::seal::{Kind, OVERHEAD, Seal, SealError, session_of};
use crate::sessions::Use;
use crate::split::{Side, Split};
use crate::tun::Tun;
use crate::wake::Inbox;
use bytes::Bytes;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::json;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use wayfs_hop::{IpPacket, Scheme, Signal};
use wayfs_types::{NodeId, Time};

/// Datagrams or packets taken at once before the others have their turn.
const BATCH: usize = 64;
/// Datagrams sent at once before what came is looked at.
const SENT_BATCH: usize = 64;
/// How often a mobile looks by which address it reaches the base, and both ends at the MTU.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Longest sleep: nothing depends on it.
const SLEEP_MAX: Duration = Duration::from_secs(5);
/// Shortest: a timer that has just ended must not spin.
const SLEEP_MIN: Duration = Duration::from_micros(50);
/// Datagrams that say that this end leaves: one may be lost.
const BYES: usize = 3;

/// What the door tells the engine.
#[derive(Debug)]
pub(crate) enum Order {
    /// A peer did the handshake.
    Admit(Box<Admission>),
    /// Somebody asked the link to end.
    Stop,
    /// The link cannot go on.
    Fail(LinkError),
}

/// A peer that did the handshake.
#[derive(Debug)]
pub(crate) struct Admission {
    pub(crate) peer: NodeId,
    pub(crate) addresses: Addresses,
    pub(crate) life: u64,
    pub(crate) scheme: (String, Scheme),
    /// A base's: where the connections are joined, if the scheme does that.
    pub(crate) split: Option<Arc<Split>>,
    pub(crate) window: u32,
    pub(crate) keys: Keys,
    /// What this end and the other call the session.
    pub(crate) ours: u32,
    pub(crate) theirs: u32,
    /// Where datagrams go; a base learns it from the first.
    pub(crate) at: Option<SocketAddr>,
}

/// The engine.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) role: Role,
    pub(crate) tun: Tun,
    pub(crate) udp: UdpSocket,
    pub(crate) news: News,
    pub(crate) inbox: Inbox<Order>,
    pub(crate) settings: Settings,
    pub(crate) mtu: Mtu,
    /// A mobile's: a new handshake is needed.
    pub(crate) redial: Option<Arc<Notify>>,
    pub(crate) table: Table,
}

/// MTU of the device: as wanted, and now.
#[derive(Debug)]
pub(crate) struct Mtu {
    pub(crate) wanted: u16,
    pub(crate) now: u16,
    /// When to look again, and by which address the base was reached last.
    pub(crate) look_at: Time,
    pub(crate) here: Option<IpAddr>,
}

/// Peers, and what is counted of strangers.
#[derive(Debug, Default)]
pub(crate) struct Table {
    peers: Vec<Peer>,
    by_session: BTreeMap<u32, usize>,
    by_address: BTreeMap<IpAddr, usize>,
    /// Where connections of peers are joined; each is there once.
    splits: Vec<Arc<Split>>,
    /// Who was served last.
    served: usize,
    /// A datagram that the socket had no room for.
    pending: Option<(usize, SocketAddr, Vec<u8>)>,
    counted: LinkReport,
}

impl Engine {
    /// Runs until it is told to stop, or cannot go on.
    pub(crate) fn run(mut self) -> Result<(), LinkError> {
        let mut buffer = vec![0; 65_536];
        loop {
            while let Some(order) = self.inbox.take() {
                match order {
                    Order::Admit(admission) => self.admit(*admission),
                    Order::Stop => return self.leave(),
                    Order::Fail(error) => return Err(error),
                }
            }
            let busy = self.turn(&mut buffer, &mut |_| {})?;
            self.sleep(if busy { Some(Duration::ZERO) } else { None })?;
        }
    }

    /// Moves what is there, and shows each segment that a room has for a mobile. Whoever filled a batch may have more.
    fn turn(&mut self, buffer: &mut [u8], show: &mut dyn FnMut(&IpPacket)) -> Result<bool, LinkError> {
        let from_socket = self.read_socket(buffer)?;
        let from_device = self.read_device(buffer)?;
        let from_rooms = self.read_rooms(buffer, show)?;
        let now = clock::now();
        self.handle_timeouts(now)?;
        let sent = self.send_all(now);
        self.hand_on(now)?;
        self.tell(now);
        Ok(from_socket == BATCH || from_device == BATCH || from_rooms >= BATCH || sent == SENT_BATCH)
    }

    fn sleep(&mut self, given: Option<Duration>) -> Result<(), LinkError> {
        let now = clock::now();
        let timers = self.table.peers.iter().filter_map(|peer| peer.poll_timeout(now, self.role));
        let due = timers.chain([self.mtu.look_at]).min().map_or(SLEEP_MAX, |at| at.since(now));
        let span = given.unwrap_or_else(|| due.clamp(SLEEP_MIN, SLEEP_MAX));
        let timeout = Timespec { tv_sec: span.as_secs().cast_signed(), tv_nsec: i64::from(span.subsec_nanos()) };
        let writable = if self.table.pending.is_some() { PollFlags::OUT } else { PollFlags::empty() };
        let mut fds = vec![
            PollFd::from_borrowed_fd(self.tun.fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.udp.as_fd(), PollFlags::IN | writable),
            PollFd::from_borrowed_fd(self.inbox.fd(), PollFlags::IN),
        ];
        let splits = self.table.splits.iter().flat_map(|split| split.fds());
        fds.extend(splits.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        let first_talk = fds.len();
        self.news.fds(&mut fds);
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(LinkError::Io { doing: "wait for packets", error: error.into() }),
        }
        let gone = fds[0].revents().intersects(PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL);
        let talks = fds[first_talk..].iter().any(|fd| !fd.revents().is_empty());
        drop(fds);
        if gone {
            return Err(self.tun.gone(std::io::Error::other("the device reports an error")));
        }
        if talks {
            for question in self.news.handle() {
                match question {
                    Question::HandOff => self.hand_off(),
                }
            }
        }
        Ok(())
    }

    /// Everybody is about to be reached another way.
    fn hand_off(&mut self) {
        let now = clock::now();
        for peer in &mut self.table.peers {
            peer.end.hand_off(now);
        }
    }

    fn admit(&mut self, admission: Admission) {
        let now = clock::now();
        let Admission { peer: id, addresses, life, scheme: (name, scheme), split, window, keys, ours, theirs, at } =
            admission;
        let known = self.table.peers.iter().position(|peer| peer.id == id);
        let fresh = || (name.clone(), End::new(self.role, scheme, &self.settings, window, self.mtu.wanted));
        let place = match known {
            Some(place) => {
                let peer = &mut self.table.peers[place];
                if peer.life != life || peer.scheme != name {
                    for gone in peer.sessions.clear() {
                        self.table.by_session.remove(&gone);
                    }
                    (peer.life, (peer.scheme, peer.end)) = (life, fresh());
                }
                place
            }
            None => {
                self.table.peers.push(Peer::new(id, addresses, life, fresh(), now));
                self.table.peers.len() - 1
            }
        };
        self.forget_owner(&addresses, place);
        let peer = &mut self.table.peers[place];
        for old in [IpAddr::from(peer.addresses.v4), IpAddr::from(peer.addresses.v6)] {
            self.table.by_address.remove(&old);
        }
        if let Some(split) = split.as_ref().filter(|new| !self.table.splits.iter().any(|known| Arc::ptr_eq(known, new)))
        {
            self.table.splits.push(Arc::clone(split));
        }
        (peer.addresses, peer.split) = (addresses, split);
        for new in [IpAddr::from(addresses.v4), IpAddr::from(addresses.v6)] {
            self.table.by_address.insert(new, place);
        }
        let when = if self.role == Role::Mobile { Use::AtOnce } else { Use::WhenUsed };
        peer.at = at.or(peer.at);
        if let Some(gone) = peer.sessions.add(ours, Seal::new(keys, theirs), when) {
            self.table.by_session.remove(&gone);
        }
        self.table.by_session.insert(ours, place);
        if peer.hear(now) {
            self.news.tell(&event("up", peer, None));
        }
        self.news.tell(&event("joined", peer, None));
        if self.role == Role::Mobile {
            self.send_short(place, Kind::Ping, now);
        }
    }

    /// Datagrams of peers. Gives how many came.
    fn read_socket(&mut self, buffer: &mut [u8]) -> Result<usize, LinkError> {
        for count in 0..BATCH {
            match self.udp.recv_from(buffer) {
                Ok((len, from)) => self.take(&mut buffer[..len], from),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return Ok(count),
                // An answer of the way that nobody is there, or was.
                Err(error) if host::is_of_the_way(&error) => {}
                Err(error) => return Err(LinkError::Io { doing: "read the socket", error }),
            }
        }
        Ok(BATCH)
    }

    fn take(&mut self, datagram: &mut [u8], from: SocketAddr) {
        let now = clock::now();
        let counted = &mut self.table.counted;
        let place = session_of(datagram).ok().and_then(|name| Some((name, *self.table.by_session.get(&name)?)));
        let Some((name, place)) = place else {
            counted.foreign += 1;
            return;
        };
        let peer = &mut self.table.peers[place];
        let (kind, body, latest) = match peer.sessions.open(name, datagram) {
            Ok(opened) => opened,
            Err(SealError::Foreign) => return counted.foreign += 1,
            Err(SealError::Forged) => return counted.forged += 1,
            Err(SealError::Replayed) => return counted.replayed += 1,
            Err(SealError::Unknown) => return counted.senseless += 1,
        };
        if peer.hear(now) {
            self.news.tell(&event("up", peer, None));
        }
        // A base follows its mobile; a mobile knows where its base is.
        let has_moved = self.role == Role::Base && latest && peer.at != Some(from);
        if has_moved && peer.at.replace(from).is_some() {
            peer.end.hand_off(now);
        }
        match kind {
            Kind::Frame | Kind::Packet | Kind::Piece => {
                if !peer.end.receive(now, kind, Bytes::copy_from_slice(&datagram[body])) {
                    counted.senseless += 1;
                }
            }
            Kind::Ping => self.send_short(place, Kind::Here, now),
            Kind::Here => {}
            Kind::Bye => {
                if peer.put_down() {
                    self.news.tell(&event("down", peer, None));
                }
            }
        }
    }

    /// Packets of the kernel. Gives how many came.
    fn read_device(&mut self, buffer: &mut [u8]) -> Result<usize, LinkError> {
        for count in 0..BATCH {
            let Some(len) = self.tun.read(buffer)? else { return Ok(count) };
            let now = clock::now();
            let Ok(packet) = IpPacket::new(Bytes::copy_from_slice(&buffer[..len])) else { continue };
            // A mobile has one way.
            let place = match self.role {
                Role::Mobile => (!self.table.peers.is_empty()).then_some(0),
                Role::Base => self.table.by_address.get(&packet.destination()).copied(),
            };
            let Some(place) = place else {
                self.table.counted.unroutable += 1;
                continue;
            };
            let peer = &mut self.table.peers[place];
            let is_joined = match &peer.split {
                Some(split) => split.take(Side::Wire, &packet)?,
                None => false,
            };
            if !is_joined {
                peer.send(now, packet);
            }
        }
        Ok(BATCH)
    }

    fn handle_timeouts(&mut self, now: Time) -> Result<(), LinkError> {
        for place in 0..self.table.peers.len() {
            let peer = &mut self.table.peers[place];
            let (question, down) = peer.handle_timeout(now, self.role);
            if down {
                self.news.tell(&event("down", peer, None));
            }
            if let Some(redial) = self.redial.as_ref().filter(|_| question.is_some() && peer.is_lost()) {
                redial.notify_one();
            }
            if let Some(kind) = question {
                self.send_short(place, kind, now);
            }
        }
        if self.mtu.look_at <= now {
            self.mtu.look_at = now + LOOK_EVERY;
            self.look(now)?;
        }
        Ok(())
    }

    /// A datagram without a packet in it.
    fn send_short(&mut self, place: usize, kind: Kind, now: Time) {
        let mut datagram = Vec::with_capacity(OVERHEAD);
        let peer = &mut self.table.peers[place];
        let (Some(at), Some(seal)) = (peer.at, peer.sessions.sending()) else { return };
        seal.seal(kind, &mut datagram, |_| {});
        // Whatever is wrong with the way shows by the silence.
        let _ = self.udp.send_to(&datagram, at);
        if kind == Kind::Ping {
            peer.note_sent(now);
        } else {
            peer.sent_last = now;
        }
    }

    /// What the ends want to send, one after the other. Gives how many datagrams went.
    fn send_all(&mut self, now: Time) -> usize {
        let mut count = 0;
        if let Some((place, at, datagram)) = self.table.pending.take()
            && !self.send_one(now, place, at, datagram)
        {
            return 0;
        }
        let peers = self.table.peers.len();
        let mut idle = 0;
        while idle < peers && count < SENT_BATCH {
            self.table.served = (self.table.served + 1) % peers;
            let place = self.table.served;
            let peer = &mut self.table.peers[place];
            let (Some(at), Some(seal)) = (peer.at, peer.sessions.sending()) else {
                idle += 1;
                continue;
            };
            let mut body = Vec::with_capacity(2048);
            let Some(kind) = peer.end.poll(now, &mut body) else {
                idle += 1;
                continue;
            };
            (idle, count) = (0, count + 1);
            let mut datagram = Vec::with_capacity(body.len() + OVERHEAD);
            seal.seal(kind, &mut datagram, |to| to.extend_from_slice(&body));
            peer.note_sent(now);
            if !self.send_one(now, place, at, datagram) {
                break;
            }
        }
        count
    }

    /// False: there is no room, and the datagram waits.
    fn send_one(&mut self, _now: Time, place: usize, at: SocketAddr, datagram: Vec<u8>) -> bool {
        match self.udp.send_to(&datagram, at) {
            Ok(_) => true,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                self.table.pending = Some((place, at, datagram));
                false
            }
            Err(_) => {
                self.table.peers[place].counters.unsent += 1;
                true
            }
        }
    }

    /// Packets that arrived go to the kernel.
    fn hand_on(&mut self, now: Time) -> Result<(), LinkError> {
        for peer in &mut self.table.peers {
            while let Some(packet) = peer.end.poll_packet(now) {
                // The kernel speaks to its neighbours from addresses of the line, which are nobody's beyond it.
                if is_of_the_line(packet.source()) {
                    continue;
                }
                // Nobody may speak for others over the base.
                if self.role == Role::Base && !peer.addresses.hold(packet.source()) {
                    peer.counters.spoofed += 1;
                    continue;
                }
                peer.counters.packets_in += 1;
                if let Some(split) = &peer.split
                    && split.take(Side::Mobile, &packet)?
                {
                    continue;
                }
                self.tun.write(packet.bytes())?;
            }
        }
        Ok(())
    }

    /// Tells the news of all peers, and the state to who asked.
    fn tell(&mut self, now: Time) {
        for peer in &mut self.table.peers {
            while let Some(signal) = peer.poll_signal() {
                let (name, count) = match signal {
                    Signal::Down => ("down", None),
                    Signal::Up => ("up", None),
                    Signal::HandOffComing => ("hand-off", None),
                    Signal::Lost(count) => ("lost", Some(count)),
                    Signal::GivenUp(count) => ("given-up", Some(count)),
                };
                let event = event(name, peer, count);
                self.news.tell(&event);
            }
        }
        if self.news.wants_state() {
            let report = self.report(now);
            self.news.tell_state(&report);
        }
    }

    fn report(&self, now: Time) -> LinkReport {
        LinkReport {
            role: match self.role {
                Role::Base => "base".into(),
                Role::Mobile => "mobile".into(),
            },
            tun: self.tun.name().to_owned(),
            mtu: self.mtu.now,
            listen: self.udp.local_addr().map(|at| at.to_string()).unwrap_or_default(),
            peers: self.table.peers.iter().map(|peer| peer.report(now)).collect(),
            ..self.table.counted.clone()
        }
    }

    /// Tells the others that this end leaves.
    fn leave(mut self) -> Result<(), LinkError> {
        self.end_joined()?;
        let now = clock::now();
        for place in 0..self.table.peers.len() {
            for _ in 0..BYES {
                self.send_short(place, Kind::Bye, now);
            }
        }
        Ok(())
    }
}

/// Whether an address means nothing beyond one line.
fn is_of_the_line(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_link_local() || v4.is_unspecified(),
        IpAddr::V6(v6) => v6.is_unicast_link_local() || v6.is_unspecified(),
    }
}

/// A line for whoever listens.
fn event(name: &str, peer: &Peer, count: Option<u32>) -> serde_json::Value {
    let mut event = json!({ "event": name, "peer": peer.id.to_string(), "address": peer.addresses.v4.to_string() });
    if let Some(count) = count {
        event["count"] = count.into();
    }
    event
}
