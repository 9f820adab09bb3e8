//! The sending half: what may leave when, and the retransmission timer.

use crate::control::{Growth, InitialWindow, Window};
use crate::flight::{Fate, Flight, Sent, Stamp};
use crate::recovery::{Ack, Core, Recovery};
use crate::rto::Rto;
use crate::schemes::recovery;
use crate::{Config, Segment, Seq, Timers};
use wayfs_types::Time;

/// What a sender did.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct SenderStatistics {
    /// Segments sent, retransmissions included.
    pub sent: u64,
    /// Segments sent again.
    pub retransmitted: u64,
    /// Times that the timer ended.
    pub timeouts: u64,
    /// Losses found by acknowledgements, counted once per recovery.
    pub fast_retransmits: u64,
}

/// What a timeout calls for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TimedOut {
    /// Nothing beyond what the sender does by itself.
    GoesOn,
    /// It happened too often: the connection is dead.
    GaveUp,
}

/// The sending half.
#[derive(Debug)]
pub(crate) struct Sender {
    config: Config,
    core: Core,
    recovery: Box<dyn Recovery>,
    rto: Rto,
    timer: Option<Time>,
    /// The one segment that coarse timers time: its end, and when it was sent.
    timed: Option<(Seq, Time)>,
    /// After the last byte that was written.
    written: Seq,
    fin: Fin,
    order: u64,
    delivered_at: Time,
    paced_until: Time,
    /// Timeouts without progress.
    retries: u32,
    /// The receiver's window is shut and it is time to ask.
    probe_due: bool,
    statistics: SenderStatistics,
}

/// What became of the end of the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fin {
    Open,
    Queued,
    Sent,
}

/// What is to leave.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pub(crate) seq: Seq,
    pub(crate) len: u32,
    pub(crate) syn: bool,
    pub(crate) fin: bool,
}

impl Sender {
    pub(crate) fn new(config: Config, start: Seq, now: Time) -> Self {
        let growth = match config.timers {
            Timers::Coarse { .. } => Growth::PerAcknowledgement,
            Timers::Fine { .. } => Growth::PerSegment,
        };
        let core = Core {
            una: start,
            nxt: start,
            flight: Flight::default(),
            window: Window::new(InitialWindow { mss: config.mss, segments: config.initial_window }, growth),
            peer_window: 0,
            pacing: None,
            delivered: 0,
            fast_retransmits: 0,
        };
        Self {
            core,
            recovery: recovery(config.scheme),
            rto: Rto::new(config.timers),
            timer: None,
            timed: None,
            // The SYN comes first.
            written: start + 1,
            fin: Fin::Open,
            order: 0,
            delivered_at: now,
            paced_until: now,
            retries: 0,
            probe_due: false,
            statistics: SenderStatistics::default(),
            config,
        }
    }

    /// Takes bytes of the application into the buffer, as many as it has room for.
    pub(crate) fn write(&mut self, len: u32) -> u32 {
        let accepted = len.min(self.writable());
        self.written += accepted;
        accepted
    }

    /// Room of the buffer.
    pub(crate) fn writable(&self) -> u32 {
        if self.fin != Fin::Open {
            return 0;
        }
        self.config.buffer.saturating_sub(self.written.since(self.core.una))
    }

    /// Nothing more will be written.
    pub(crate) fn close(&mut self) {
        if self.fin == Fin::Open {
            self.fin = Fin::Queued;
        }
    }

    /// Whether the peer has everything, the end of the stream included.
    pub(crate) fn is_finished(&self) -> bool {
        self.fin == Fin::Sent && self.core.una == self.core.nxt
    }

    /// Whether the peer has everything that was written.
    #[cfg(test)]
    pub(crate) fn is_drained(&self) -> bool {
        !self.core.una.before(self.written)
    }

    /// Bytes acknowledged so far, as a place.
    pub(crate) const fn una(&self) -> Seq {
        self.core.una
    }

    pub(crate) const fn cwnd(&self) -> u32 {
        self.core.window.cwnd
    }

    pub(crate) const fn peer_window(&self) -> u32 {
        self.core.peer_window
    }

    pub(crate) const fn statistics(&self) -> SenderStatistics {
        SenderStatistics { fast_retransmits: self.core.fast_retransmits, ..self.statistics }
    }

    /// Takes an acknowledgement in. What acknowledges bytes that were never sent is ignored.
    pub(crate) fn handle(&mut self, now: Time, segment: &Segment) {
        let Some(ack) = segment.ack else { return };
        if ack.after(self.core.nxt) || ack.before(self.core.una) {
            return;
        }
        let same_window = segment.window == self.core.peer_window;
        let duplicate = ack == self.core.una && segment.seq_len() == 0 && same_window && !self.core.flight.is_empty();
        self.core.peer_window = segment.window;
        self.probe_due = false;
        let acked = self.core.flight.acknowledge(ack);
        self.core.una = ack;
        let fresh = acked.iter().filter(|sent| sent.fate != Fate::Sacked).map(|sent| u64::from(sent.len)).sum::<u64>();
        self.core.delivered += fresh;
        let rtt = self.sample(now, &acked);
        let before = self.core.delivered - fresh;
        let recoveries = self.core.fast_retransmits;
        let info = Ack { now, acked: &acked, duplicate, segment, rtt };
        self.recovery.on_ack(&mut self.core, &info);
        if self.core.delivered > before {
            self.delivered_at = now;
        }
        if info.is_new() {
            self.retries = 0;
            self.timer = None;
        }
        if self.core.flight.is_empty() {
            self.timer = None;
        } else if info.is_new() || self.timer.is_none() || self.core.fast_retransmits > recoveries {
            self.timer = Some(self.rto.deadline(now));
        }
        self.watch_a_shut_window(now);
    }

    /// Measures a round trip, never of a segment that was sent twice (Karn).
    fn sample(&mut self, now: Time, acked: &[Sent]) -> Option<std::time::Duration> {
        match self.config.timers {
            Timers::Coarse { .. } => {
                let (end, at) = self.timed?;
                if end.after(self.core.una) {
                    return None;
                }
                self.timed = None;
                self.rto.sample(at..now);
                Some(now.since(at))
            }
            Timers::Fine { .. } => {
                let last = acked.iter().rev().find(|sent| !sent.retransmitted && sent.fate != Fate::Sacked)?;
                self.rto.sample(last.at..now);
                Some(now.since(last.at))
            }
        }
    }

    /// Asks now and then whether there is room again: the news of it may have been lost.
    fn watch_a_shut_window(&mut self, now: Time) {
        let stuck = self.core.flight.is_empty() && self.has_unsent() && self.next_new(self.core.window.cwnd).is_none();
        // Nagle's rule keeps back what the application may still add to; only the receiver's window makes it wait in vain.
        if stuck && self.room_at_peer() < self.config.mss && self.timer.is_none() {
            self.timer = Some(self.rto.deadline(now));
        }
    }

    fn has_unsent(&self) -> bool {
        self.core.nxt.before(self.written) || self.fin == Fin::Queued
    }

    fn room_at_peer(&self) -> u32 {
        (self.core.una + self.core.peer_window).since(self.core.nxt)
    }

    /// Opens the connection.
    pub(crate) fn syn(&mut self, now: Time) -> Outgoing {
        let out = Outgoing { seq: self.core.nxt, len: 0, syn: true, fin: false };
        self.record(now, &out);
        out
    }

    /// What may leave now; call until `None`.
    pub(crate) fn poll(&mut self, now: Time) -> Option<Outgoing> {
        if self.core.pacing.is_some() && now < self.paced_until {
            return None;
        }
        let room = self.core.window.cwnd.saturating_sub(self.core.flight.pipe());
        let stamp =
            Stamp { order: self.order, at: now, delivered: self.core.delivered, delivered_at: self.delivered_at };
        if let Some(sent) = self.core.flight.retransmit(room, stamp) {
            self.order += 1;
            self.statistics.retransmitted += 1;
            // Nobody knows which of the two transmissions an acknowledgement is for.
            self.timed = None;
            self.account(now, sent.len);
            return Some(Outgoing { seq: sent.seq, len: sent.len, syn: sent.syn, fin: sent.fin });
        }
        let out = self.next_new(room)?;
        self.probe_due = false;
        self.record(now, &out);
        Some(out)
    }

    /// The next new segment, if congestion window, receiver and Nagle's rule let it go.
    fn next_new(&self, room: u32) -> Option<Outgoing> {
        let data = self.written.since(self.core.nxt);
        let peer = if self.probe_due { self.room_at_peer().max(1) } else { self.room_at_peer() };
        let len = data.min(self.config.mss).min(peer);
        let last = len == data;
        let fin = last && self.fin == Fin::Queued;
        if len == 0 && !fin || len > room {
            return None;
        }
        let alone = self.core.flight.is_empty();
        let whole = len == self.config.mss || last && (alone || fin);
        (whole || alone && self.probe_due).then_some(Outgoing { seq: self.core.nxt, len, syn: false, fin })
    }

    fn record(&mut self, now: Time, out: &Outgoing) {
        if self.core.flight.is_empty() {
            // A pause of the application is no time of delivery.
            self.delivered_at = now;
        }
        let sent = Sent {
            seq: out.seq,
            len: out.len,
            syn: out.syn,
            fin: out.fin,
            order: self.order,
            at: now,
            retransmitted: false,
            fate: Fate::InFlight,
            urgent: false,
            delivered: self.core.delivered,
            delivered_at: self.delivered_at,
        };
        self.order += 1;
        self.core.nxt = sent.end();
        if out.fin {
            self.fin = Fin::Sent;
        }
        self.timed = self.timed.or(Some((sent.end(), now)));
        self.core.flight.push(sent);
        self.account(now, out.len);
    }

    fn account(&mut self, now: Time, len: u32) {
        self.statistics.sent += 1;
        if self.timer.is_none() {
            self.timer = Some(self.rto.deadline(now));
        }
        if let Some(rate) = self.core.pacing {
            let micros = u64::from(len) * 8 * 1_000_000 / rate.max(1);
            self.paced_until = self.paced_until.max(now) + std::time::Duration::from_micros(micros);
        }
    }

    /// When to be woken.
    pub(crate) fn timeout(&self, now: Time) -> Option<Time> {
        let waits = self.core.pacing.is_some() && now < self.paced_until && self.may_send_once_paced();
        let paced = waits.then_some(self.paced_until);
        paced.into_iter().chain(self.timer).min()
    }

    fn may_send_once_paced(&self) -> bool {
        let room = self.core.window.cwnd.saturating_sub(self.core.flight.pipe());
        self.core.has_lost() || self.core.flight.iter().any(|sent| sent.urgent) || self.next_new(room).is_some()
    }

    /// Lets the timer end if its time has come.
    pub(crate) fn handle_timeout(&mut self, now: Time) -> TimedOut {
        if self.timer.is_none_or(|at| now < at) {
            return TimedOut::GoesOn;
        }
        self.timer = None;
        self.rto.back_off();
        if self.core.flight.is_empty() {
            self.probe_due = self.has_unsent();
            return TimedOut::GoesOn;
        }
        self.retries += 1;
        self.statistics.timeouts += 1;
        if self.retries > self.config.retries_max {
            return TimedOut::GaveUp;
        }
        self.timed = None;
        self.recovery.on_timeout(&mut self.core, now);
        self.timer = Some(self.rto.deadline(now));
        TimedOut::GoesOn
    }

    /// Place of the next new byte.
    pub(crate) const fn next_seq(&self) -> Seq {
        self.core.nxt
    }
}
