//! One end of a repaired hop, to one other end: numbers frames, reports what arrived, repeats what did not.
//!
//! Words: a *frame* has a number that stays when it is sent again, and an *order* that counts transmissions. A *report* says which
//! numbers have arrived and the latest order. A radio does not reorder, so what was sent before the latest order
//! and has not arrived is lost ([`Losses::Selective`], no timer needed, retransmissions included); with
//! [`Losses::Duplicates`] a report that repeats asks for the first frame, as acknowledgements of TCP do.
//!
//! What keeps the air free: small packets (acknowledgements of higher layers) and reports wait while the other end has a backlog,
//! which every frame tells, for [`ArqConfig::hold`] at most, and then share a frame.
//!
//! Only the tail needs a timer. When nothing is heard for a timeout, the first frame that is not reported goes again and asks for a report; while
//! that is unanswered nothing else is sent (nothing goes into a bad channel). Its repetitions come at linearly growing
//! times first, since bad periods are short, and at doubling ones after [`LINEAR`] of them.
//!
//! With [`ArqConfig::reservation`] the sender asks for room (RTS) and has never more on its way than the receiver said (CTS), so a
//! receiver's buffer does not overflow.

mod config;
mod receiving;
#[cfg(test)]
mod tests;
mod timers;

use config::SHARED_LEN_MAX;
pub use config::{ArqConfig, ArqStatistics, Losses, Order};

use crate::estimate::RoundTrip;
use crate::frame::{Frame, Report};
use crate::packet::Packet;
use crate::signal::Signal;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;
use wayfs_types::Time;

/// Polls whose distance grows by a constant; from then on it doubles.
const LINEAR: u32 = 3;
/// A packet of at most so many bytes is small: it may wait to share a frame.
const SMALL: usize = 200;
/// While at least so many frames wait at the other end, small packets and reports may wait here.
const BACKLOG_TO_HOLD: u32 = 3;
/// A report that was asked for waits so long for a packet that takes it along.
const REPORT_DELAY: Duration = Duration::from_millis(8);

/// A frame that was sent and is not reported.
#[derive(Debug)]
struct Held<P> {
    packets: Vec<P>,
    len: usize,
    /// When its first packet came.
    since: Time,
    at: Time,
    order: u64,
    tries: u32,
}

/// When a report is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Due {
    Nothing,
    By(Time),
}

/// One end.
#[derive(Debug)]
pub struct Arq<P> {
    config: ArqConfig,
    queue: VecDeque<(Time, P)>,
    queue_len: usize,
    held: BTreeMap<u64, Held<P>>,
    held_len: usize,
    /// Numbers of held frames that are to go again.
    lost: BTreeSet<u64>,
    /// Bytes that the other end reported so far.
    delivered: u64,
    number: u64,
    order: u64,
    /// First transmission since anything was heard.
    silent_since: Option<Time>,
    /// The latest transmission asked for a report.
    asked: Option<Time>,
    /// Polls that are unanswered, and when the next goes.
    polls: u32,
    poll_due: bool,
    round_trip: RoundTrip,
    /// The shortest round trip, and the time between reports while frames flow: only from who measures them ([`Arq::measured`]).
    least: Option<Duration>,
    gaps: RoundTrip,
    /// The last report, if frames were on their way before and after it.
    flowing: Option<Time>,
    /// Room at the other end, if it said.
    room: Option<u32>,
    request_due: bool,
    requested: Option<Time>,
    duplicates: u32,
    last_next: u64,
    // Receiving.
    next: u64,
    waiting: BTreeMap<u64, Option<Vec<P>>>,
    waiting_len: usize,
    waiting_since: Option<Time>,
    order_seen: u64,
    peer_backlog: u32,
    ready: VecDeque<P>,
    ready_len: usize,
    due: Due,
    unreported: u32,
    down: bool,
    signals: VecDeque<Signal>,
    statistics: ArqStatistics,
}

/// Round trips that somebody measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Measured {
    /// The last one.
    pub last: Duration,
    /// The shortest of late.
    pub least: Duration,
}

impl<P: Packet> Arq<P> {
    /// Knows nothing of the other end.
    pub fn new(config: ArqConfig) -> Self {
        Self {
            config,
            queue: VecDeque::new(),
            queue_len: 0,
            held: BTreeMap::new(),
            held_len: 0,
            lost: BTreeSet::new(),
            delivered: 0,
            number: 0,
            order: 1,
            silent_since: None,
            asked: None,
            polls: 0,
            poll_due: false,
            round_trip: RoundTrip::default(),
            least: None,
            gaps: RoundTrip::default(),
            flowing: None,
            room: None,
            request_due: false,
            requested: None,
            duplicates: 0,
            last_next: 0,
            next: 0,
            waiting: BTreeMap::new(),
            waiting_len: 0,
            waiting_since: None,
            order_seen: 0,
            peer_backlog: 0,
            ready: VecDeque::new(),
            ready_len: 0,
            due: Due::Nothing,
            unreported: 0,
            down: false,
            signals: VecDeque::new(),
            statistics: ArqStatistics::default(),
        }
    }

    /// What it did so far.
    pub const fn statistics(&self) -> ArqStatistics {
        self.statistics
    }

    /// Bytes that wait, are on their way, or arrived and are not taken.
    pub const fn state_len(&self) -> usize {
        self.queue_len + self.held_len + self.waiting_len + self.ready_len
    }

    /// Bytes of packets that wait to be sent for the first time.
    pub const fn queue_len(&self) -> usize {
        self.queue_len
    }

    /// Whether nothing is on its way.
    pub fn is_idle(&self) -> bool {
        self.held.is_empty()
    }

    /// Bytes of packets that the other end has reported, each once.
    pub const fn delivered_len(&self) -> u64 {
        self.delivered
    }

    /// Whether the last packets were given up and nothing was heard since.
    pub const fn is_down(&self) -> bool {
        self.down
    }

    /// Whether the last things sent are unanswered for longer than a timeout.
    pub const fn is_silent(&self) -> bool {
        self.polls > 0
    }

    /// News; call until `None`.
    pub fn poll_signal(&mut self) -> Option<Signal> {
        self.signals.pop_front()
    }

    /// Somebody who sees more of the way than this end measured a round trip: between the two ends there is a queue.
    ///
    /// From then on silence is told by reports that stay out where they used to come, and a silent channel is asked as often as it can answer.
    pub fn measured(&mut self, measured: Measured) {
        self.round_trip.sample(measured.last);
        self.least = Some(measured.least);
    }

    /// A packet to be sent. The full queue gives it back.
    ///
    /// # Errors
    /// The packet, if the queue is full.
    pub fn send(&mut self, now: Time, packet: P) -> Result<(), P> {
        let len = packet.packet_len();
        if self.queue_len > 0 && self.queue_len + len > self.config.queue_len_max {
            self.statistics.refused += 1;
            return Err(packet);
        }
        self.queue_len += len;
        self.queue.push_back((now, packet));
        Ok(())
    }

    /// A packet that arrived; call until `None`, or leave them: then the room becomes less.
    pub fn poll_packet(&mut self, now: Time) -> Option<P> {
        let packet = self.ready.pop_front()?;
        let before = self.receive_room();
        self.ready_len -= packet.packet_len();
        if self.config.reservation && before < 2 * SHARED_LEN_MAX && self.receive_room() >= 2 * SHARED_LEN_MAX {
            self.due = Due::By(now);
        }
        Some(packet)
    }

    fn receive_room(&self) -> usize {
        self.config.receive_len_max.saturating_sub(self.ready_len + self.waiting_len)
    }

    /// The destination is about to be reached another way: what is unanswered counts from now.
    pub(crate) fn hand_off_coming(&mut self, now: Time) {
        // What is unanswered asks the new way at once.
        (self.polls, self.poll_due) = (0, !self.held.is_empty());
        (self.silent_since, self.asked, self.flowing) = (Some(now), None, None);
        self.signals.push_back(Signal::HandOffComing);
    }

    /// A frame came over the air.
    pub fn handle_frame(&mut self, now: Time, frame: Frame<P>) {
        self.heard(now);
        // Orders are counted one by one: one that is left out was lost.
        let gap = frame.order > self.order_seen.saturating_add(1);
        self.order_seen = self.order_seen.max(frame.order);
        self.peer_backlog = frame.backlog;
        if let Some(report) = &frame.report {
            self.take_report(now, report);
        }
        if frame.request.is_some() {
            self.due = Due::By(now);
        }
        self.raise_floor(frame.floor);
        if !frame.packets.is_empty() {
            self.receive(now, frame);
        }
        if gap {
            self.due = Due::By(now);
        }
    }

    /// The channel carries something; but only a report says that it carries what this end sends.
    fn heard(&mut self, now: Time) {
        (self.polls, self.poll_due) = (0, false);
        self.silent_since = self.silent_since.or(Some(now));
        if std::mem::take(&mut self.down) {
            self.signals.push_back(Signal::Up);
        }
    }

    fn take_report(&mut self, now: Time, report: &Report) {
        self.room = Some(report.room);
        (self.requested, self.request_due) = (None, false);
        let arrived =
            |number: u64| number < report.next || report.have.iter().any(|(from, to)| (*from..*to).contains(&number));
        let done: Vec<u64> = self.held.keys().copied().filter(|number| arrived(*number)).collect();
        let mut latest: Option<(u64, Time, u32)> = None;
        for number in &done {
            if let Some(held) = self.held.remove(number) {
                self.held_len -= held.len;
                self.lost.remove(number);
                self.delivered += held.len as u64;
                if latest.is_none_or(|(order, ..)| order < held.order) {
                    latest = Some((held.order, held.at, held.tries));
                }
            }
        }
        // Only the report that answers the latest transmission at once tells a round trip without the other end's waiting.
        if let Some((order, at, _)) = latest.filter(|(order, _, tries)| *tries == 1 && *order == report.order)
            && self.asked == Some(at)
            && order + 1 == self.order
        {
            self.round_trip.sample(now.since(at));
        }
        let lost = match self.config.losses {
            Losses::Selective => self.mark_lost(report),
            Losses::Duplicates => self.count_duplicate(report.next, done.len()),
        };
        if lost > 0 {
            self.signals.push_back(Signal::Lost(lost));
        }
        if let Some(last) = self.flowing.filter(|_| !done.is_empty()) {
            self.gaps.sample(now.since(last));
        }
        self.silent_since = (!self.held.is_empty()).then_some(now);
        self.flowing = self.silent_since;
        if self.held.is_empty() {
            self.asked = None;
        }
    }

    /// What was sent before and did not arrive; of numbers that the report had no room for nothing is known.
    fn mark_lost(&mut self, report: &Report) -> u32 {
        let mut count = 0;
        for (number, held) in self.held.range(..report.told) {
            if held.order < report.order && self.lost.insert(*number) {
                count += 1;
            }
        }
        count
    }

    /// The first report that repeats, and names no frame that arrived since, asks for the first frame; as many more as frames were sent
    /// behind it are to be expected.
    fn count_duplicate(&mut self, next: u64, arrived: usize) -> u32 {
        let repeats = next == self.last_next && arrived == 0;
        self.duplicates = if repeats { self.duplicates + 1 } else { 0 };
        self.last_next = next;
        let behind = u32::try_from(self.held.len()).unwrap_or(u32::MAX).saturating_sub(1);
        let Some(first) = self.held.get(&next).filter(|_| repeats) else { return 0 };
        if first.tries > 1 && self.duplicates <= behind || !self.lost.insert(next) {
            return 0;
        }
        self.duplicates = 0;
        1
    }

    /// Whether something is to be sent now.
    pub(crate) fn wants_air(&self, now: Time) -> bool {
        self.poll_due
            || self.request_due
            || self.due_at().is_some_and(|at| at <= now)
            || self.polls == 0 && (!self.lost.is_empty() || self.may_send_new(now))
    }

    fn may_send_new(&self, now: Time) -> bool {
        let Some((since, packet)) = self.queue.front() else { return false };
        let window = (self.held.len() as u64) < u64::from(self.config.window)
            && self.held.first_key_value().is_none_or(|(first, _)| self.number < first + u64::from(self.config.window));
        let room = !self.config.reservation
            || self.room.is_some_and(|room| self.held_len + packet.packet_len() <= room as usize);
        window && room && self.hold_until(*since).is_none_or(|until| until <= now)
    }

    /// Small packets wait for others while the other end has much to send itself.
    fn hold_until(&self, since: Time) -> Option<Time> {
        let small =
            self.queue.iter().all(|(_, packet)| packet.packet_len() <= SMALL) && self.queue_len < SHARED_LEN_MAX;
        let holds = small && self.peer_backlog >= BACKLOG_TO_HOLD && !self.config.hold.is_zero();
        holds.then(|| since + self.config.hold)
    }

    /// The air is free: the frame that goes over it now, if any.
    pub fn poll_frame(&mut self, now: Time) -> Option<Frame<P>> {
        if std::mem::take(&mut self.poll_due)
            && let Some(number) = self.held.keys().next().copied()
        {
            return self.again(now, number);
        }
        if self.polls == 0 {
            if let Some(number) = self.lost.first().copied() {
                return self.again(now, number);
            }
            if self.may_send_new(now) {
                return Some(self.first_time(now));
            }
        }
        self.poll_bare(now)
    }

    /// Only what does not wait for room on the way: the question of a silent channel, a request, a report that is due.
    pub(crate) fn poll_short_frame(&mut self, now: Time) -> Option<Frame<P>> {
        if std::mem::take(&mut self.poll_due)
            && let Some(number) = self.held.keys().next().copied()
        {
            return self.again(now, number);
        }
        self.poll_bare(now)
    }

    fn poll_bare(&mut self, now: Time) -> Option<Frame<P>> {
        if std::mem::take(&mut self.request_due) {
            self.requested = Some(now);
            let len = u32::try_from(self.queue_len).unwrap_or(u32::MAX);
            return Some(Frame { request: Some(len), ..self.bare() });
        }
        self.due_at().is_some_and(|at| at <= now).then(|| self.bare())
    }

    fn bare(&mut self) -> Frame<P> {
        self.statistics.bare += 1;
        let frame = self.frame(0, Vec::new());
        // It is not numbered, so it must not count as a later transmission than what is not sent yet.
        self.order += 1;
        frame
    }

    fn frame(&mut self, number: u64, packets: Vec<P>) -> Frame<P> {
        let report = (self.unreported > 0 || self.due != Due::Nothing).then(|| self.report());
        (self.due, self.unreported) = (Due::Nothing, 0);
        let backlog = u32::try_from(self.queue.len() + self.lost.len()).unwrap_or(u32::MAX);
        let floor = self.held.keys().next().copied().unwrap_or(self.number).min(if packets.is_empty() {
            u64::MAX
        } else {
            number
        });
        let wants_report = !packets.is_empty() && (backlog == 0 || self.polls > 0);
        Frame { order: self.order, number, floor, backlog, packets, report, wants_report, request: None }
    }

    fn again(&mut self, now: Time, number: u64) -> Option<Frame<P>> {
        let order = self.order;
        let held = self.held.get_mut(&number)?;
        (held.order, held.at) = (order, now);
        self.lost.remove(&number);
        held.tries += 1;
        let packets = held.packets.clone();
        self.statistics.retransmitted += 1;
        Some(self.numbered(now, number, packets))
    }

    fn first_time(&mut self, now: Time) -> Frame<P> {
        let since = self.queue.front().map_or(now, |(since, _)| *since);
        let (mut packets, mut len) = (Vec::new(), 0);
        while let Some((_, packet)) = self.queue.front() {
            let next = packet.packet_len();
            if !packets.is_empty() && (len + next > self.config.shared_len_max || self.config.hold.is_zero()) {
                break;
            }
            len += next;
            packets.extend(self.queue.pop_front().map(|(_, packet)| packet));
        }
        self.queue_len -= len;
        self.held_len += len;
        let number = self.number;
        self.number += 1;
        let copy = packets.clone();
        self.held.insert(number, Held { packets, len, since, at: now, order: self.order, tries: 1 });
        self.statistics.sent += 1;
        self.numbered(now, number, copy)
    }

    fn numbered(&mut self, now: Time, number: u64, packets: Vec<P>) -> Frame<P> {
        let frame = self.frame(number, packets);
        self.order += 1;
        if self.held.len() == 1 {
            // Nothing was on its way before: silence counts from now.
            self.silent_since = Some(now);
        }
        self.silent_since = self.silent_since.or(Some(now));
        self.asked = frame.wants_report.then_some(now);
        frame
    }
}
