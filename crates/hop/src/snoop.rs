//! A base station that reads TCP: local retransmission from the acknowledgements of TCP, with its state soft.
//!
//! Segments towards the mobile are kept until the mobile acknowledges them. What it is missing shows in its acknowledgements:
//!
//! | segment from the wire | what happens |
//! | --- | --- |
//! | new | kept and sent |
//! | not new, not acknowledged: the sender retransmits | kept anew and sent; its duplicates are the sender's to see |
//! | acknowledged | sent: the mobile acknowledges again |
//!
//! | acknowledgement from the mobile | what happens |
//! | --- | --- |
//! | new | what it covers is dropped, the round trip measured, and it goes on to the sender |
//! | older than the last | dropped |
//! | a duplicate, and the segment is not here | it was lost on the wire: goes on to the sender |
//! | a duplicate, the first | the segment is sent again ahead of all others; dropped |
//! | a duplicate that was to be expected, since that many segments were sent after it | dropped |
//! | more duplicates than those | the retransmission was lost, too: sent again |
//!
//! A timer sends the first again after a round trip of the hop, at least [`SnoopConfig::timeout_min`]. With
//! [`Acknowledgements::Selective`] an acknowledgement names the segment that caused it (SMART), or the ranges that have arrived (RFC 2018), and everything that
//! was sent before that one and is not acknowledged goes again at once (first transmissions only: which of two an acknowledgement is for it does not
//! say, so the timer finds a retransmission that is lost). [`Duplicates::Passed`] makes a plain link
//! layer of it (`ll`): it retransmits, but the sender sees every duplicate. Nothing is lost with the state: without it segments and acknowledgements
//! pass, and TCP repairs the rest.
//!
//! For data from the mobile it marks the acknowledgements that ask for what never arrived here (see [`crate::holes`]).

use crate::estimate::RoundTrip;
use crate::holes::Holes;
use crate::packet::{Flow, Packet, Span, TcpHeader, before};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use wayfs_types::Time;

/// Connections whose state is kept; the one that was silent longest makes room.
const FLOWS_MAX: usize = 1024;

/// What is done with duplicate acknowledgements of what is kept here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Duplicates {
    /// The sender never sees them.
    Suppressed,
    /// They go on.
    Passed,
}

/// What the mobile's acknowledgements tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acknowledgements {
    /// How far everything has arrived.
    Cumulative,
    /// The segment that caused them (SMART), or the ranges that have arrived (RFC 2018), too.
    Selective,
}

/// Whether lost segments are sent again here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repair {
    /// Kept and sent again.
    Local,
    /// Only told to the ends (explicit loss notification).
    NoticeOnly,
}

/// Settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SnoopConfig {
    /// Default: suppressed.
    pub duplicates: Duplicates,
    /// Default: cumulative.
    pub acknowledgements: Acknowledgements,
    /// Default: local.
    pub repair: Repair,
    /// Shortest time after which the first segment goes again. Published: 200 ms.
    pub timeout_min: Duration,
    /// Transmissions of a segment, at most; then it is left to the sender. Default 10.
    pub tries_max: u32,
    /// Bytes that are kept of a connection, at most; what does not fit is sent and not kept. Default 256 KiB.
    pub cache_len_max: usize,
    /// Bytes that wait for the air, at most; what comes then is dropped, as by any full queue. Default 256 KiB.
    pub queue_len_max: usize,
}

impl Default for SnoopConfig {
    fn default() -> Self {
        Self {
            duplicates: Duplicates::Suppressed,
            acknowledgements: Acknowledgements::Cumulative,
            repair: Repair::Local,
            timeout_min: Duration::from_millis(200),
            tries_max: 10,
            cache_len_max: 256 * 1024,
            queue_len_max: 256 * 1024,
        }
    }
}

/// What it did.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct SnoopStatistics {
    /// Segments sent again.
    pub retransmitted: u64,
    /// Of them by the timer.
    pub timeouts: u64,
    /// Duplicates that the sender did not see.
    pub suppressed: u64,
    /// Acknowledgements marked with a notice of loss.
    pub noticed: u64,
    /// Segments left to the sender after too many tries.
    pub given_up: u64,
    /// Packets that found the queue full.
    pub dropped: u64,
}

/// A segment that is kept.
#[derive(Debug)]
struct Kept<P> {
    seq: u32,
    end: u32,
    packet: P,
    /// When it was sent last.
    at: Time,
    /// Counts transmissions of the connection: which of two was sent later. Zero: it was not sent.
    order: u64,
    /// It waits for the air.
    queued: bool,
    tries: u32,
    /// The sender sent it again: it expects duplicates to count.
    by_sender: bool,
}

/// A connection.
#[derive(Debug)]
struct State<P> {
    kept: VecDeque<Kept<P>>,
    kept_len: usize,
    acked: Option<u32>,
    window: u32,
    /// Duplicates that are still to come because of what was sent behind the loss.
    expected: u32,
    duplicates: u32,
    order: u64,
    /// The latest transmission that is known to have arrived.
    arrived: u64,
    round_trip: RoundTrip,
    timer: Option<Time>,
    shift: u32,
    holes: Holes,
    used: Time,
}

impl<P> State<P> {
    fn new(now: Time) -> Self {
        Self {
            kept: VecDeque::new(),
            kept_len: 0,
            acked: None,
            window: 0,
            expected: 0,
            duplicates: 0,
            order: 1,
            arrived: 0,
            round_trip: RoundTrip::default(),
            timer: None,
            shift: 0,
            holes: Holes::default(),
            used: now,
        }
    }
}

/// The base station's reader of TCP.
#[derive(Debug)]
pub struct Snoop<P> {
    config: SnoopConfig,
    flows: BTreeMap<Flow, State<P>>,
    /// What waits for the air, and how many bytes that is.
    air: VecDeque<P>,
    air_len: usize,
    /// Kept segments that go ahead of those.
    again: VecDeque<(Flow, u32)>,
    wire: VecDeque<P>,
    statistics: SnoopStatistics,
}

impl<P: Packet> Snoop<P> {
    /// Knows nothing yet.
    pub fn new(config: SnoopConfig) -> Self {
        Self {
            config,
            flows: BTreeMap::new(),
            air: VecDeque::new(),
            air_len: 0,
            again: VecDeque::new(),
            wire: VecDeque::new(),
            statistics: SnoopStatistics::default(),
        }
    }

    /// What it did so far.
    pub const fn statistics(&self) -> SnoopStatistics {
        self.statistics
    }

    /// Bytes kept for all connections.
    pub fn kept_len(&self) -> usize {
        self.flows.values().map(|state| state.kept_len).sum()
    }

    /// Bytes that wait for the air.
    pub const fn queue_len(&self) -> usize {
        self.air_len
    }

    /// A packet for the mobile came over the wire.
    pub fn handle_wire(&mut self, now: Time, mut packet: P) {
        let len = packet.packet_len();
        if self.air_len > 0 && self.air_len + len > self.config.queue_len_max {
            self.statistics.dropped += 1;
            return;
        }
        if let Some(header) = packet.tcp()
            && !self.forgets(&header)
        {
            let (repair, limit) = (self.config.repair, self.config.cache_len_max);
            let state = self.state(now, header.flow);
            if let Some(ack) = header.ack.filter(|_| header.len == 0)
                && state.holes.acknowledged_to_mobile(ack)
            {
                packet.mark_loss();
                self.statistics.noticed += 1;
            } else if header.len > 0 {
                let old = state.acked.is_some_and(|acked| !before(acked, header.end()));
                if repair == Repair::Local && !old {
                    state.keep(&header, &packet, limit);
                }
            }
        }
        self.air_len += len;
        self.air.push_back(packet);
    }

    /// The air is free: what goes over it now?
    pub fn poll_air(&mut self, now: Time) -> Option<P> {
        while let Some((flow, seq)) = self.again.pop_front() {
            let Some(state) = self.flows.get_mut(&flow) else { continue };
            // It may have been acknowledged while it waited.
            if let Some(packet) = state.send(now, seq) {
                self.statistics.retransmitted += 1;
                self.arm(now, flow);
                return Some(packet);
            }
        }
        let packet = self.air.pop_front()?;
        self.air_len -= packet.packet_len();
        if let Some(header) = packet.tcp().filter(|header| header.len > 0)
            && let Some(state) = self.flows.get_mut(&header.flow)
        {
            state.holes.sent(header.span());
            state.send(now, header.seq);
            self.arm(now, header.flow);
        }
        Some(packet)
    }

    /// What goes over the wire; call until `None`.
    pub fn poll_wire(&mut self) -> Option<P> {
        self.wire.pop_front()
    }

    /// A packet of the mobile came over the air.
    pub fn handle_air(&mut self, now: Time, mut packet: P) {
        let Some(header) = packet.tcp() else {
            self.wire.push_back(packet);
            return;
        };
        if self.forgets(&header) {
            self.wire.push_back(packet);
            return;
        }
        let state = self.state(now, header.flow);
        if header.len > 0 {
            state.holes.arrived(header.span());
        }
        let Some(ack) = header.ack else {
            self.wire.push_back(packet);
            return;
        };
        let asks_for_a_loss = state.holes.acknowledged(ack) && header.len == 0;
        let passes = match self.config.repair {
            Repair::Local => self.acknowledged(now, &header, ack),
            Repair::NoticeOnly => {
                if asks_for_a_loss {
                    packet.mark_loss();
                    self.statistics.noticed += 1;
                }
                true
            }
        };
        if passes {
            if self.config.repair == Repair::Local
                && self.config.duplicates == Duplicates::Suppressed
                && !header.sacks.ranges().is_empty()
                && self.repairs(header.flow)
            {
                packet.hide_ranges();
            }
            self.wire.push_back(packet);
        } else {
            self.statistics.suppressed += 1;
        }
    }

    /// Whether what the mobile is missing first is kept here, and not already the sender's to repair.
    fn repairs(&self, flow: Flow) -> bool {
        let Some(state) = self.flows.get(&flow) else { return false };
        state.kept.front().is_some_and(|first| Some(first.seq) == state.acked && !first.by_sender)
    }

    /// Resets and new connections begin without a past.
    fn forgets(&mut self, header: &TcpHeader) -> bool {
        if header.rst || header.syn {
            self.flows.remove(&header.flow);
        }
        header.rst
    }

    fn state(&mut self, now: Time, flow: Flow) -> &mut State<P> {
        if !self.flows.contains_key(&flow) && self.flows.len() >= FLOWS_MAX {
            let oldest = self.flows.iter().min_by_key(|(_, state)| state.used).map(|(flow, _)| *flow);
            oldest.and_then(|oldest| self.flows.remove(&oldest));
        }
        let state = self.flows.entry(flow).or_insert_with(|| State::new(now));
        state.used = now;
        state
    }

    /// Takes an acknowledgement in. Tells whether it goes on to the sender.
    fn acknowledged(&mut self, now: Time, header: &TcpHeader, ack: u32) -> bool {
        let config = self.config;
        let Some(state) = self.flows.get_mut(&header.flow) else { return true };
        if state.acked.is_some_and(|acked| before(ack, acked)) {
            return header.len > 0;
        }
        let news = state.acked.is_none_or(|acked| before(acked, ack));
        // Receivers of today change their window as they go; what names ranges is an answer to a gap, whatever its window.
        let names_ranges = !header.sacks.ranges().is_empty();
        let duplicate = !news && header.len == 0 && (header.window == state.window || names_ranges);
        state.window = header.window;
        if news {
            state.advance(now, ack);
        }
        let mut passes = true;
        if config.acknowledgements == Acknowledgements::Selective {
            passes = self.selective(header) || !duplicate;
        } else if duplicate {
            passes = self.duplicate(header.flow);
        }
        self.arm(now, header.flow);
        passes || config.duplicates == Duplicates::Passed
    }

    fn duplicate(&mut self, flow: Flow) -> bool {
        let Some(state) = self.flows.get_mut(&flow) else { return true };
        let sent = state.kept.iter().filter(|kept| kept.order > 0).count();
        let behind = u32::try_from(sent).unwrap_or(u32::MAX).saturating_sub(1);
        let first_is_asked_for = state.kept.front().is_some_and(|kept| Some(kept.seq) == state.acked);
        let Some(first) = state.kept.front().filter(|_| first_is_asked_for) else { return true };
        if first.by_sender {
            return true;
        }
        state.duplicates += 1;
        if first.queued || state.duplicates > 1 && state.duplicates <= state.expected {
            return false;
        }
        // Each segment behind the loss that is on its way causes a duplicate before the retransmission can tell.
        (state.expected, state.duplicates) = (behind.max(1), 1);
        self.send_again(flow, 0);
        false
    }

    /// What was sent before the segment that caused this acknowledgement, and is not acknowledged, is lost. Tells whether the sender is
    /// to hear of it if it is a duplicate.
    fn selective(&mut self, header: &TcpHeader) -> bool {
        let Some(state) = self.flows.get_mut(&header.flow) else { return true };
        // The mobile said that it has them, or that one caused this.
        let mut place = 0;
        while let Some(kept) = state.kept.get(place) {
            if header.echo == Some(kept.seq) || header.sacks.hold(Span { from: kept.seq, to: kept.end }) {
                state.kept_len -= kept.packet.packet_len();
                state.arrived = state.arrived.max(kept.order);
                state.kept.remove(place);
            } else {
                place += 1;
            }
        }
        let arrived = state.arrived;
        let by_sender = state.kept.front().is_some_and(|kept| kept.by_sender);
        let here = state.kept.front().is_some_and(|kept| Some(kept.seq) == state.acked);
        let is_lost = |kept: &&Kept<P>| kept.tries == 1 && kept.order < arrived && !kept.queued;
        let lost: Vec<u32> = state.kept.iter().filter(is_lost).map(|kept| kept.seq).collect();
        for seq in lost {
            let place =
                self.flows.get(&header.flow).and_then(|state| state.kept.iter().position(|kept| kept.seq == seq));
            if let Some(place) = place {
                self.send_again(header.flow, place);
            }
        }
        by_sender || !here
    }

    /// Lets a kept segment go again, ahead of what waits, unless that was done often enough.
    fn send_again(&mut self, flow: Flow, place: usize) {
        let Some(state) = self.flows.get_mut(&flow) else { return };
        let Some(kept) = state.kept.get_mut(place).filter(|kept| !kept.queued) else { return };
        if kept.tries >= self.config.tries_max {
            if let Some(kept) = state.kept.remove(place) {
                state.kept_len -= kept.packet.packet_len();
            }
            self.statistics.given_up += 1;
            return;
        }
        kept.queued = true;
        self.again.push_back((flow, kept.seq));
    }

    /// The timer runs from the last transmission of the first segment.
    fn arm(&mut self, now: Time, flow: Flow) {
        let least = self.config.timeout_min;
        if let Some(state) = self.flows.get_mut(&flow) {
            let timeout = state.round_trip.timeout(least).max(least) * (1 << state.shift);
            let first = state.kept.front().filter(|first| first.order > 0 && !first.queued);
            state.timer = first.map(|first| (first.at + timeout).max(now + Duration::from_micros(1)));
        }
    }

    /// When to be woken.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.flows.values().filter_map(|state| state.timer).min()
    }

    /// Lets timers end whose time has come.
    pub fn handle_timeout(&mut self, now: Time) {
        let due: Vec<Flow> =
            self.flows.iter().filter(|(_, s)| s.timer.is_some_and(|at| at <= now)).map(|(f, _)| *f).collect();
        for flow in due {
            if let Some(state) = self.flows.get_mut(&flow) {
                state.shift = (state.shift + 1).min(5);
                (state.expected, state.duplicates) = (0, 0);
            }
            self.statistics.timeouts += 1;
            self.send_again(flow, 0);
            self.arm(now, flow);
        }
    }
}

impl<P: Packet> State<P> {
    /// Keeps a segment in its place.
    fn keep(&mut self, header: &TcpHeader, packet: &P, limit: usize) {
        if let Some(known) = self.kept.iter_mut().find(|kept| kept.seq == header.seq) {
            (known.queued, known.by_sender) = (true, true);
            return;
        }
        if self.kept_len + packet.packet_len() > limit {
            return;
        }
        let newest = self.kept.back().map(|kept| kept.end);
        let by_sender = newest.is_some_and(|newest| before(header.seq, newest));
        let place = self.kept.iter().position(|kept| before(header.seq, kept.seq)).unwrap_or(self.kept.len());
        self.kept_len += packet.packet_len();
        let packet = packet.clone();
        let (seq, end) = (header.seq, header.end());
        self.kept.insert(place, Kept { seq, end, packet, at: Time::ZERO, order: 0, queued: true, tries: 0, by_sender });
    }

    /// A kept segment leaves over the air.
    fn send(&mut self, now: Time, seq: u32) -> Option<P> {
        let kept = self.kept.iter_mut().find(|kept| kept.seq == seq)?;
        (kept.order, kept.at, kept.queued) = (self.order, now, false);
        kept.tries += 1;
        self.order += 1;
        Some(kept.packet.clone())
    }

    /// Drops what is acknowledged and measures.
    fn advance(&mut self, now: Time, ack: u32) {
        // The last of them caused the acknowledgement, unless it waited for the repair of one before it.
        let (mut last, mut repaired) = (None, false);
        while self.kept.front().is_some_and(|kept| !before(ack, kept.end)) {
            let Some(kept) = self.kept.pop_front() else { break };
            self.kept_len -= kept.packet.packet_len();
            self.arrived = self.arrived.max(kept.order);
            repaired |= kept.tries > 1 || kept.by_sender;
            last = Some(kept.at).filter(|_| kept.tries == 1);
        }
        if let Some(at) = last.filter(|_| !repaired) {
            self.round_trip.sample(now.since(at));
        }
        self.acked = Some(ack);
        (self.expected, self.duplicates, self.shift) = (0, 0, 0);
    }
}

#[cfg(test)]
mod tests;
