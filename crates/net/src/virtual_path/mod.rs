//! Whole connections in virtual time: quinn's machine with our controller and probes at both ends of a modelled line, and a
//! TCP flow of others beside it. For tests.

mod ends;
mod moves;
mod outcomes;

use crate::{Congestion, NetConfig, Probing};
use ends::End;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use wayfs_link::{Duplex, LineConfig, LineId, Medium, Way};
use wayfs_tcp::{Config, Endpoint as Tcp, Scheme, Segment, Seq};
use wayfs_types::Time;

/// IP and UDP.
const HEADERS_LEN: usize = 28;
const LINE: LineId = LineId(0);

#[derive(Debug, Clone)]
enum Packet {
    /// With the address that the client had, or is taken to have.
    Quic(SocketAddr, Vec<u8>),
    Tcp(Segment),
}

/// What the two ends do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Load {
    /// The client sends without end.
    Bulk,
    /// The server does.
    Download,
    /// The client sends so many bytes and is done.
    Bytes(u64),
    /// The client sends so many bytes, and so many again after each pause.
    Often(u64, Duration),
}

/// Two ends and a line.
struct World {
    base: Instant,
    now: Time,
    medium: Medium<Packet>,
    ends: [End; 2],
    /// Where the client is.
    client: SocketAddr,
    load: Load,
    /// Bytes that the client has still to write now.
    to_write: u64,
    writes_at: Time,
    /// When bytes came to the server, and how many so far.
    arrived: Vec<(Time, u64)>,
    tcp: Option<(Tcp, Tcp)>,
    tcp_received: u64,
}

impl World {
    fn new(line: LineConfig, load: Load, congestion: Congestion, probing: Probing, seed: u64) -> Self {
        let config = NetConfig { congestion, probing, ..NetConfig::default() };
        let base = Instant::now();
        Self {
            base,
            now: Time::ZERO,
            medium: Medium::new(vec![line], Duplex::Full, seed, Time::ZERO),
            ends: End::pair(&config, base),
            client: ends::client(0),
            load,
            to_write: 0,
            writes_at: Time::ZERO,
            arrived: Vec::new(),
            tcp: None,
            tcp_received: 0,
        }
    }

    /// From now on a CUBIC flow goes the same way.
    fn add_rival(&mut self) {
        let config = Config { buffer: 8 << 20, ..Config::modern(Scheme::Cubic) };
        let near = Tcp::connect(config, 1, Seq::new(1), self.now);
        self.tcp = Some((near, Tcp::listen(config, 1, Seq::new(1), self.now)));
    }

    fn instant(&self) -> Instant {
        self.base + self.now.since(Time::ZERO)
    }

    fn received(&self) -> u64 {
        self.arrived.last().map_or(0, |(_, bytes)| *bytes)
    }

    /// Lets time pass until then.
    fn run_until(&mut self, until: Time) {
        while self.now < until && !self.is_done() {
            self.write();
            self.transmit();
            let next = self.next().max(self.now + Duration::from_micros(1)).min(until);
            self.now = next;
            while let Some(delivery) = self.medium.poll(self.now) {
                self.deliver(delivery.way, delivery.packet);
            }
            let now = self.instant();
            for end in &mut self.ends {
                end.handle_time(now);
            }
            if let Some((near, far)) = &mut self.tcp {
                for end in [near, far] {
                    if end.poll_timeout(self.now).is_some_and(|at| at <= self.now) {
                        end.handle_timeout(self.now);
                    }
                }
            }
        }
    }

    fn is_done(&self) -> bool {
        matches!(self.load, Load::Bytes(bytes) if self.received() >= bytes)
    }

    fn write(&mut self) {
        let writer = usize::from(self.load == Load::Download);
        if !self.ends[writer].is_connected() {
            return;
        }
        match self.load {
            Load::Bulk | Load::Download => self.to_write = 1 << 30,
            Load::Bytes(bytes) => {
                if self.writes_at == Time::ZERO {
                    (self.to_write, self.writes_at) = (bytes, self.now);
                }
            }
            Load::Often(bytes, pause) => {
                if self.now >= self.writes_at {
                    self.to_write += bytes;
                    self.writes_at = self.now + pause;
                }
            }
        }
        self.to_write -= self.ends[writer].write(self.to_write);
        if let Some((near, far)) = &mut self.tcp {
            near.write(near.writable());
            self.tcp_received += u64::from(far.read(u32::MAX));
        }
    }

    fn transmit(&mut self) {
        let now = self.instant();
        for (end, way) in self.ends.iter_mut().zip(Way::BOTH) {
            for (to, packet) in end.transmit(now) {
                let len = packet.len() + HEADERS_LEN;
                let client = if way == Way::Up { self.client } else { to };
                // What the line refuses is lost.
                let _ = self.medium.send(self.now, LINE, way, len, Packet::Quic(client, packet));
            }
        }
        if let Some((near, far)) = &mut self.tcp {
            for (end, way) in [near, far].into_iter().zip(Way::BOTH) {
                while let Some(segment) = end.poll_segment(self.now) {
                    let _ = self.medium.send(self.now, LINE, way, segment.packet_len(), Packet::Tcp(segment));
                }
            }
        }
    }

    fn deliver(&mut self, way: Way, packet: Packet) {
        let now = self.instant();
        match packet {
            // Nobody is where the client was.
            Packet::Quic(client, _) if way == Way::Down && client != self.client => {}
            Packet::Quic(client, bytes) => {
                let read = match way {
                    Way::Up => self.ends[1].handle(now, client, &bytes),
                    Way::Down => self.ends[0].handle(now, ends::SERVER, &bytes),
                };
                if read > 0 {
                    self.arrived.push((self.now, self.received() + read));
                }
            }
            Packet::Tcp(segment) => {
                let Some((near, far)) = &mut self.tcp else { return };
                let to = if way == Way::Up { far } else { near };
                to.handle_segment(self.now, &segment);
                while to.poll_event().is_some() {}
            }
        }
    }

    fn next(&mut self) -> Time {
        let base = self.base;
        let time = |at: Instant| {
            // A moment later rather than earlier: a deadline that has not come is asked for again.
            Time::from_micros(u64::try_from(at.saturating_duration_since(base).as_nanos().div_ceil(1000)).unwrap())
        };
        let mut next = self.medium.poll_timeout();
        let mut sooner = |at: Option<Time>| next = next.into_iter().chain(at).min();
        for end in &mut self.ends {
            sooner(end.timeout().map(time));
        }
        if let Some((near, far)) = &self.tcp {
            sooner(near.poll_timeout(self.now));
            sooner(far.poll_timeout(self.now));
        }
        if matches!(self.load, Load::Often(..)) && self.ends[0].is_connected() {
            sooner(Some(self.writes_at));
        }
        next.unwrap_or(self.now + Duration::from_millis(1))
    }
}
