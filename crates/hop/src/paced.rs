//! An end of a hop that has a queue somewhere on the way: [`Arq`] says what goes, [`Pace`] says when.
//!
//! Where the air is given frame by frame, [`Arq`] alone is enough. A socket takes everything at once, so here new frames and repetitions go
//! only while few enough are on their way; questions to a silent channel and reports always go. The pace's round trips tell the [`Arq`]
//! what silence means.

use crate::arq::{Arq, ArqConfig, ArqStatistics, Measured};
use crate::frame::Frame;
use crate::pace::{Arrived, Pace};
use crate::packet::Packet;
use crate::signal::Signal;
use std::time::Duration;
use wayfs_types::Time;

/// Without a limit that was set, what waits is what the hop carries in so long: more would only be late.
const QUEUE_MS: u64 = 300;
/// But at least this, in bytes: what hops have themselves. A few blocks of NFS over UDP fill 32 KiB, and each that loses a fragment goes again as a whole.
const QUEUE_LEN_MIN: usize = 64 * 1024;
/// Silence before any round trip was measured: the first frames may meet a full queue.
const TIMEOUT_INITIAL: Duration = Duration::from_millis(500);

/// How long the queue may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueLimit {
    /// As [`ArqConfig::queue_len_max`] says.
    Fixed,
    /// As many bytes as the hop carries in 300 ms, at least 64 KiB.
    ByRate,
}

/// An end with a pace.
#[derive(Debug)]
pub struct Paced<P> {
    arq: Arq<P>,
    pace: Pace,
    limit: QueueLimit,
    refused: u64,
}

impl<P: Packet> Paced<P> {
    /// Knows nothing of the hop.
    pub fn new(config: ArqConfig, limit: QueueLimit) -> Self {
        let timeout_initial = config.timeout_initial.max(TIMEOUT_INITIAL);
        let arq = Arq::new(ArqConfig { timeout_initial, ..config });
        Self { arq, pace: Pace::new(config.hold), limit, refused: 0 }
    }

    /// The end without its pace.
    pub const fn arq(&self) -> &Arq<P> {
        &self.arq
    }

    /// What the hop carries.
    pub const fn pace(&self) -> &Pace {
        &self.pace
    }

    /// What it did so far.
    pub const fn statistics(&self) -> ArqStatistics {
        let mut statistics = self.arq.statistics();
        statistics.refused += self.refused;
        statistics
    }

    /// A packet to be sent. False: the queue is full, and it is dropped.
    pub fn send(&mut self, now: Time, packet: P) -> bool {
        let carried = usize::try_from(self.pace.rate().saturating_mul(QUEUE_MS) / 1000).unwrap_or(usize::MAX);
        if self.limit == QueueLimit::ByRate && self.arq.queue_len() > carried.max(QUEUE_LEN_MIN) {
            self.refused += 1;
            return false;
        }
        self.arq.send(now, packet).is_ok()
    }

    /// The frame that goes now, if any; call until `None`.
    pub fn poll_frame(&mut self, now: Time) -> Option<Frame<P>> {
        if self.arq.is_idle() {
            self.pace.forget_flight();
        }
        let frame = if self.pace.may_send() { self.arq.poll_frame(now) } else { self.arq.poll_short_frame(now) }?;
        if !frame.packets.is_empty() {
            let len = frame.packets.iter().map(Packet::packet_len).sum();
            self.pace.sent(now, frame.order, len, frame.backlog);
        }
        Some(frame)
    }

    /// A frame came.
    pub fn handle_frame(&mut self, now: Time, frame: Frame<P>) {
        let order = frame.report.as_ref().map(|report| report.order);
        self.arq.handle_frame(now, frame);
        if let Some(order) = order
            && let Some(span) = self.pace.reported(now, Arrived { order, delivered: self.arq.delivered_len() })
        {
            self.arq.measured(Measured { last: span, least: self.pace.round_trip().unwrap_or(span) });
        }
    }

    /// A packet that arrived; call until `None`.
    pub fn poll_packet(&mut self, now: Time) -> Option<P> {
        self.arq.poll_packet(now)
    }

    /// News; call until `None`.
    pub fn poll_signal(&mut self) -> Option<Signal> {
        self.arq.poll_signal()
    }

    /// When to be woken.
    pub fn poll_timeout(&self, now: Time) -> Option<Time> {
        self.arq.poll_timeout(now)
    }

    /// Lets timers end whose time has come.
    pub fn handle_timeout(&mut self, now: Time) {
        self.arq.handle_timeout(now);
    }

    /// The other end is, or is about to be, reached another way.
    pub fn hand_off(&mut self, now: Time) {
        self.pace.forget_flight();
        self.arq.hand_off_coming(now);
    }
}

#[cfg(test)]
mod tests;
