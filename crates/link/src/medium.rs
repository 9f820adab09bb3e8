//! A channel with packets in it: one line, or several that share the air.
//!
//! A packet is offered with [`Medium::send`], waits in the finite drop-tail queue
//! of its line and way until the channel is free, is transmitted, and travels.
//! Queues that share a channel are served in turn, a packet each. While packets
//! wait or are transmitted everything may change: rates (the rest of a packet goes
//! on at the new rate), delays, bad periods, cuts, by [`Medium::reconfigure`] or by
//! a schedule. A packet is lost to a bad period that touches any part of its
//! transmission, unless [`crate::BadPeriods`] says otherwise, and to a receive buffer
//! that is full, if the far end has one ([`crate::ReceiverConfig`]).
//!
//! Every change takes effect at its own time, not at the time of the next call,
//! so a driver that wakes late distorts nothing but its own deliveries. The same
//! calls with the same seed give the same deliveries.

use crate::capacity::Bottleneck;
use crate::line::{Line, LineConfig, LineState, LineStatistics, Spoiled, Waiting, Way};
use crate::nanos::Nanos;
use std::collections::BTreeMap;
use std::time::Duration;
use wayfs_types::Time;

/// Most packets on their way at a time; more are dropped as if the queue were full.
/// At 1500 bytes each this is a second of 2.4 Gb/s.
const FLIGHT_MAX: usize = 200_000;

/// Who may talk at a time.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Duplex {
    /// Ups share one channel, downs another.
    #[default]
    Full,
    /// All share one, as on the air.
    Half,
}

/// A line of a [`Medium`], counted from zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct LineId(pub usize);

/// A packet at the far end.
#[derive(Debug, PartialEq, Eq)]
pub struct Delivery<P> {
    /// Its line.
    pub line: LineId,
    /// Its way.
    pub way: Way,
    /// When it was due.
    pub at: Time,
    /// Itself.
    pub packet: P,
}

/// A packet between bottleneck and far end.
#[derive(Debug)]
struct Flight<P> {
    line: LineId,
    way: Way,
    packet: P,
}

/// A packet in the bottleneck.
#[derive(Debug)]
struct Transmission<P> {
    line: LineId,
    way: Way,
    packet: P,
    /// Bytes of the packet.
    len: u64,
    /// Bytes still to send at `start`, headers of the link included.
    rest: u64,
    start: Nanos,
    end: Nanos,
    spoiled: Spoiled,
}

/// A channel that transmits one packet at a time.
#[derive(Debug)]
struct Channel<P> {
    sending: Option<Transmission<P>>,
    /// Queues in the order of service; `next` is whose turn it is.
    queues: Vec<(LineId, Way)>,
    next: usize,
    /// The gap after the begin of the last transmission ends then.
    rests_until: Nanos,
}

/// Lines that share a channel, or one line with its own.
#[derive(Debug)]
pub struct Medium<P> {
    lines: Vec<Line<P>>,
    channels: Vec<Channel<P>>,
    flights: BTreeMap<(Nanos, u64), Flight<P>>,
    /// Tells flights of one arrival time apart, in the order of their departures.
    flight_number: u64,
}

/// What happens next inside.
#[derive(Debug, Clone, Copy)]
enum Event {
    Sent { channel: usize },
    Rested { channel: usize },
    Period { line: usize, at: Time },
    Scheduled { line: usize },
}

impl<P: Clone> Medium<P> {
    /// Lines with their settings; `seed` decides every loss, jitter and bad period.
    pub fn new(lines: Vec<LineConfig>, duplex: Duplex, seed: u64, now: Time) -> Self {
        let ids = || (0..lines.len()).map(LineId);
        let queues = match duplex {
            Duplex::Full => Way::BOTH.map(|way| ids().map(|line| (line, way)).collect()).to_vec(),
            Duplex::Half => vec![ids().flat_map(|line| Way::BOTH.map(|way| (line, way))).collect()],
        };
        let channel = |queues| Channel { sending: None, queues, next: 0, rests_until: Nanos::ZERO };
        let channels = queues.into_iter().map(channel).collect();
        let lines = lines.into_iter().enumerate().map(|(index, config)| Line::new(config, seed, index, now)).collect();
        Self { lines, channels, flights: BTreeMap::new(), flight_number: 0 }
    }

    /// Offers a packet of `len` bytes at `now`, which must not run backwards. What the full queue or a cut
    /// line refuses comes back.
    pub fn send(&mut self, now: Time, line: LineId, way: Way, len: usize, packet: P) -> Option<P> {
        self.advance(now);
        let len = len as u64;
        let Line { config, ways, .. } = &mut self.lines[line.0];
        let state = &mut ways[way.index()];
        state.statistics.offered += 1;
        state.statistics.offered_len += len;
        if config.state == LineState::Cut {
            state.statistics.lost_to_cuts += 1;
            return Some(packet);
        }
        let full = state.queue_len > 0 && state.queue_len + len > config.way(way).queue_len_max;
        if full || self.flights.len() >= FLIGHT_MAX {
            state.statistics.dropped += 1;
            return Some(packet);
        }
        if way == Way::Up && self.lines[line.0].driver_loses() {
            self.lines[line.0].ways[way.index()].statistics.lost_to_bad_periods += 1;
            return None;
        }
        let state = &mut self.lines[line.0].ways[way.index()];
        state.queue_len += len;
        state.statistics.queue_len_highest = state.statistics.queue_len_highest.max(state.queue_len);
        state.queue.push_back(Waiting { len, packet });
        for channel in 0..self.channels.len() {
            self.start_next(channel, now.into());
        }
        self.advance(now);
        None
    }

    /// The next packet that has arrived by `now`, in the order of arrival; call until `None`.
    pub fn poll(&mut self, now: Time) -> Option<Delivery<P>> {
        self.advance(now);
        let first = self.flights.first_entry().filter(|flight| flight.key().0 <= now.into())?;
        let at = first.key().0.ceil();
        let Flight { line, way, packet } = first.remove();
        Some(Delivery { line, way, at, packet })
    }

    /// When [`Self::poll`] may have something next; never later than it has.
    pub fn poll_timeout(&self) -> Option<Time> {
        let arrival = self.flights.first_key_value().map(|((at, _), _)| *at);
        // Nothing that is not yet sent arrives sooner than the shortest way takes.
        let delay = self.delay_min();
        let sent = self.channels.iter().filter_map(|c| c.sending.as_ref()).map(|sending| sending.end + delay);
        let rested = self.channels.iter().filter_map(|channel| self.rest_end(channel)).map(|at| at + delay);
        let scheduled = self.lines.iter().filter_map(|line| line.schedule.front()).map(|(at, _)| Nanos::from(*at));
        arrival.into_iter().chain(sent).chain(rested).chain(scheduled).min().map(Nanos::ceil)
    }

    /// Changes the settings of a line from `now` on; traces that are new begin then.
    pub fn reconfigure(&mut self, now: Time, line: LineId, config: LineConfig) {
        self.advance(now);
        self.apply(line, config, now);
        self.advance(now);
    }

    /// Lets a line draw its losses, jitter and bad periods from `now` on as a new line of this seed and place would.
    pub fn reseed(&mut self, now: Time, line: LineId, seed: u64) {
        self.advance(now);
        self.lines[line.0].reseed(seed, line.0, now);
        self.advance(now);
    }

    /// Changes the settings of a line at times to come, in order; replaces an earlier schedule.
    pub fn schedule(&mut self, line: LineId, mut steps: Vec<(Time, LineConfig)>) {
        steps.sort_by_key(|(at, _)| *at);
        self.lines[line.0].schedule = steps.into();
    }

    /// Lets everything happen that is due by `now`, for statistics that are up to date.
    pub fn advance_to(&mut self, now: Time) {
        self.advance(now);
    }

    /// The present settings of a line.
    pub fn config(&self, line: LineId) -> &LineConfig {
        &self.lines[line.0].config
    }

    /// What happened on a line so far.
    pub fn statistics(&self, line: LineId) -> LineStatistics {
        self.lines[line.0].statistics()
    }

    /// Bytes that wait in one way of a line, as of the last call with a time.
    pub fn queue_len(&self, line: LineId, way: Way) -> u64 {
        self.lines[line.0].ways[way.index()].queue_len
    }

    fn delay_min(&self) -> Duration {
        let delays = self.lines.iter().flat_map(|line| [line.config.up.delay, line.config.down.delay]);
        delays.min().unwrap_or_default()
    }

    /// Lets everything happen that is due by `now`, each at its own time.
    fn advance(&mut self, now: Time) {
        while let Some((at, event)) = self.next_event().filter(|(at, _)| *at <= now.into()) {
            match event {
                Event::Sent { channel } => self.finish(channel, at),
                Event::Rested { channel } => self.start_next(channel, at),
                Event::Period { line, at } => self.next_period(LineId(line), at),
                Event::Scheduled { line } => {
                    if let Some((at, config)) = self.lines[line].schedule.pop_front() {
                        self.apply(LineId(line), config, at);
                    }
                }
            }
        }
    }

    fn next_event(&self) -> Option<(Nanos, Event)> {
        let mut next: Option<(Nanos, Event)> = None;
        let mut consider = |at: Nanos, event| {
            if next.is_none_or(|(earliest, _)| at < earliest) {
                next = Some((at, event));
            }
        };
        // What ends at the very time of a change is not touched by it, so it is considered first.
        for (channel, state) in self.channels.iter().enumerate() {
            if let Some(sending) = &state.sending {
                consider(sending.end, Event::Sent { channel });
            }
            if let Some(at) = self.rest_end(state) {
                consider(at, Event::Rested { channel });
            }
        }
        for (line, state) in self.lines.iter().enumerate() {
            if let Some(at) = state.period_end() {
                consider(at.into(), Event::Period { line, at });
            }
            if let Some((at, _)) = state.schedule.front() {
                consider((*at).into(), Event::Scheduled { line });
            }
        }
        next
    }

    /// When a channel that is silent may send what waits for it, if something does.
    fn rest_end(&self, channel: &Channel<P>) -> Option<Nanos> {
        if channel.sending.is_some() {
            return None;
        }
        let waiting = channel.queues.iter().filter(|(id, way)| !self.lines[id.0].ways[way.index()].queue.is_empty());
        let from = waiting.map(|(id, way)| self.lines[id.0].may_send_from(*way)).min()?;
        Some(from.max(channel.rests_until))
    }

    fn next_period(&mut self, id: LineId, at: Time) {
        let line = &mut self.lines[id.0];
        line.next_period(at);
        let spoiled = line.spoils();
        self.spoil(id, spoiled);
    }

    /// Marks what is being transmitted on a line.
    fn spoil(&mut self, line: LineId, spoiled: Spoiled) {
        for sending in self.channels.iter_mut().filter_map(|c| c.sending.as_mut()) {
            if sending.line == line && sending.spoiled == Spoiled::No {
                sending.spoiled = spoiled;
            }
        }
    }

    /// Begins the transmission of whoever is next, if the channel is free and has kept its gap.
    fn start_next(&mut self, channel: usize, at: Nanos) {
        let Channel { sending, queues, next, rests_until } = &mut self.channels[channel];
        if sending.is_some() || at < *rests_until {
            return;
        }
        for turn in 0..queues.len() {
            let position = (*next + turn) % queues.len();
            let (id, way) = queues[position];
            let line = &mut self.lines[id.0];
            if line.may_send_from(way) > at {
                continue;
            }
            let Some(Waiting { len, packet }) = line.ways[way.index()].queue.pop_front() else { continue };
            let rest = len + line.config.way(way).overhead_len;
            let end = line.ways[way.index()].bottleneck.departure(at, rest);
            let spoiled = line.spoils();
            *sending = Some(Transmission { line: id, way, packet, len, rest, start: at, end, spoiled });
            *next = position + 1;
            *rests_until = at + line.config.way(way).gap;
            return;
        }
    }

    /// Ends a transmission and begins the next.
    fn finish(&mut self, channel: usize, at: Nanos) {
        let Some(sent) = self.channels[channel].sending.take() else { return };
        let line = &mut self.lines[sent.line.0];
        line.ways[sent.way.index()].queue_len -= sent.len;
        let [first, second] = line.arrivals(sent.way, sent.spoiled, at, sent.len);
        if let Some(arrival) = second {
            self.fly(arrival, Flight { line: sent.line, way: sent.way, packet: sent.packet.clone() });
        }
        if let Some(arrival) = first {
            self.fly(arrival, Flight { line: sent.line, way: sent.way, packet: sent.packet });
        }
        self.start_next(channel, at);
    }

    fn fly(&mut self, arrival: Nanos, flight: Flight<P>) {
        self.flight_number += 1;
        self.flights.insert((arrival, self.flight_number), flight);
    }

    fn apply(&mut self, id: LineId, config: LineConfig, now: Time) {
        let line = &mut self.lines[id.0];
        let before = std::mem::replace(&mut line.config, config);
        if before.bad_periods != line.config.bad_periods {
            line.restart_bad_periods(now);
        }
        for way in Way::BOTH {
            let line = &mut self.lines[id.0];
            if before.way(way).capacity != line.config.way(way).capacity {
                self.change_capacity(id, way, now.into());
            }
            let line = &mut self.lines[id.0];
            if before.way(way).delay_trace != line.config.way(way).delay_trace {
                line.ways[way.index()].propagation.restart_trace(now.into());
            }
        }
        if self.lines[id.0].config.state == LineState::Cut {
            self.cut(id);
        }
        // What had to wait under the old settings may be free to go.
        for channel in 0..self.channels.len() {
            self.start_next(channel, now.into());
        }
    }

    /// What is left of a transmission goes on at the new rate.
    fn change_capacity(&mut self, id: LineId, way: Way, now: Nanos) {
        let line = &mut self.lines[id.0];
        let bottleneck = &mut line.ways[way.index()].bottleneck;
        *bottleneck = Bottleneck::new(line.config.way(way).capacity.clone(), now);
        for sending in self.channels.iter_mut().filter_map(|c| c.sending.as_mut()) {
            if sending.line == id && sending.way == way {
                let (left, whole) = (sending.end - now, (sending.end - sending.start).max(1));
                let rest = u128::from(sending.rest) * u128::from(left) / u128::from(whole);
                sending.rest = u64::try_from(rest).unwrap_or(sending.rest);
                sending.start = now;
                sending.end = bottleneck.departure(now, sending.rest);
            }
        }
    }

    fn cut(&mut self, id: LineId) {
        self.spoil(id, Spoiled::ByCut);
        for way in &mut self.lines[id.0].ways {
            for waiting in way.queue.drain(..) {
                way.queue_len -= waiting.len;
                way.statistics.lost_to_cuts += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests;
