//! Simulated sessions: reliable, ordered, slow, and mortal.
//!
//! The live system runs over QUIC, so what loss, duplication and reordering of
//! packets leave for the engine to see is delay, stalls and the death of a
//! session, which each end notices at its own time. That is what is modelled.

use bytes::Bytes;
use rand::Rng;
use rand_chacha::ChaCha8Rng;
use std::collections::VecDeque;
use std::time::Duration;
use wayfs_link::{Direction, DirectionConfig, Fate};
use wayfs_proto::PeerId;
use wayfs_types::{RecordId, Time};

/// A silent session dies after this time, as the live one does.
pub(crate) const IDLE_TIMEOUT: Duration = Duration::from_secs(15);
/// A header of a content request without a body, in bytes.
pub(crate) const HEADER_LEN: usize = 100;
/// What is on a line that is cut stands still for so long, and is looked at again.
pub(crate) const STALLED: Duration = Duration::from_millis(300);
/// First retransmission of a lost packet; doubles.
const RETRANSMISSION_TIMEOUT: Duration = Duration::from_millis(200);
/// Bytes of a packet that opens a connection.
const PACKET_LEN: usize = 1200;

/// Which end of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum End {
    /// The child, which opened it.
    Child,
    /// The parent.
    Parent,
}

impl End {
    pub(crate) const fn other(self) -> Self {
        match self {
            Self::Child => Self::Parent,
            Self::Parent => Self::Child,
        }
    }

    pub(crate) const fn index(self) -> usize {
        match self {
            Self::Child => 0,
            Self::Parent => 1,
        }
    }
}

/// The hosts at both ends.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ends {
    /// The one that opens sessions.
    pub(crate) child: usize,
    /// The server.
    pub(crate) parent: usize,
}

/// The path between two machines, both ways.
#[derive(Debug)]
pub(crate) struct Link {
    directions: [Direction; 2],
    loss: f64,
    /// Since when nothing passes.
    pub(crate) cut_since: Option<Time>,
}

/// A packet and its answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RoundTrip {
    /// What is measured: what came through.
    pub(crate) rtt: Duration,
    /// What it took with all that was lost.
    pub(crate) took: Duration,
}

/// Settings of a line of some length. Jitter is a quarter of it.
fn line(delay: Duration) -> DirectionConfig {
    DirectionConfig { delay, jitter: delay / 4, ..DirectionConfig::default() }
}

impl Link {
    pub(crate) fn new(delay: Duration, loss: f64) -> Self {
        let config = line(delay);
        Self { directions: [Direction::new(config.clone()), Direction::new(config)], loss, cut_since: None }
    }

    pub(crate) fn delay(&self) -> Duration {
        self.directions[0].config().delay
    }

    /// Stops losing packets.
    pub(crate) fn heal(&mut self) {
        self.loss = 0.0;
        self.cut_since = None;
    }

    /// What lies ahead of the next frames takes so long, one way.
    pub(crate) fn set_delay(&mut self, delay: Duration) {
        let config = line(delay);
        self.directions = [Direction::new(config.clone()), Direction::new(config)];
    }

    /// A packet goes to the parent, and its answer comes back.
    pub(crate) fn round_trip(&mut self, now: Time, random: &mut ChaCha8Rng) -> RoundTrip {
        let there = self.across(End::Child, now, PACKET_LEN, random);
        let back = self.across(End::Parent, there, PACKET_LEN, random);
        let rtt = back.since(now);
        RoundTrip { rtt, took: rtt + self.repaired(random) + self.repaired(random) }
    }

    /// When a frame is across, retransmissions included.
    pub(crate) fn arrival(&mut self, from: End, now: Time, len: usize, random: &mut ChaCha8Rng) -> Time {
        self.across(from, now, len, random) + self.repaired(random)
    }

    /// When what is not lost is across.
    fn across(&mut self, from: End, now: Time, len: usize, random: &mut ChaCha8Rng) -> Time {
        match self.directions[from.index()].send(now, len, random) {
            Fate::Arrives(at) | Fate::ArrivesTwice(at, _) => at,
            Fate::Lost | Fate::Dropped => now + RETRANSMISSION_TIMEOUT,
        }
    }

    /// How long retransmissions take.
    fn repaired(&self, random: &mut ChaCha8Rng) -> Duration {
        let (mut timeout, mut took) = (RETRANSMISSION_TIMEOUT, Duration::ZERO);
        while random.random_bool(self.loss) && timeout < IDLE_TIMEOUT {
            took += timeout;
            timeout *= 2;
        }
        took
    }
}

/// Frames under way in one direction.
#[derive(Debug, Default)]
struct Stream {
    queue: VecDeque<(Time, Bytes)>,
    last_arrival: Time,
}

/// One session between a child and its parent.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) peer: PeerId,
    /// Host of the child end.
    pub(crate) child: usize,
    /// Host of the parent end.
    pub(crate) parent: usize,
    /// Which ends believe that it lives.
    pub(crate) alive: [bool; 2],
    /// Since when.
    pub(crate) since: Time,
    /// The child's newest record when it began.
    pub(crate) made_before: Option<RecordId>,
    /// A message took long, its line was cut for a while, or an end slept: leases may have ended unnoticed.
    pub(crate) is_slow: bool,
    /// The child ended it of its own accord, and its parent is told so.
    pub(crate) was_left: bool,
    streams: [Stream; 2],
}

impl Session {
    pub(crate) fn new(peer: PeerId, Ends { child, parent }: Ends, since: Time, made_before: Option<RecordId>) -> Self {
        let (is_slow, was_left) = (false, false);
        let streams = [Stream::default(), Stream::default()];
        Self { peer, child, parent, alive: [true; 2], since, made_before, is_slow, was_left, streams }
    }

    pub(crate) const fn host(&self, end: End) -> usize {
        match end {
            End::Child => self.child,
            End::Parent => self.parent,
        }
    }

    /// Puts a frame on its way and says when to look for it.
    pub(crate) fn send(
        &mut self,
        from: End,
        link: &mut Link,
        now: Time,
        bytes: Bytes,
        random: &mut ChaCha8Rng,
    ) -> Time {
        let len = bytes.len();
        let stream = &mut self.streams[from.index()];
        stream.last_arrival = stream.last_arrival.max(link.arrival(from, now, len, random));
        stream.queue.push_back((stream.last_arrival, bytes));
        stream.last_arrival
    }

    /// The next frame that has arrived from an end.
    pub(crate) fn receive(&mut self, from: End, now: Time) -> Option<Bytes> {
        let stream = &mut self.streams[from.index()];
        if stream.queue.front().is_some_and(|(arrival, _)| *arrival <= now) {
            return stream.queue.pop_front().map(|(_, bytes)| bytes);
        }
        None
    }
}
