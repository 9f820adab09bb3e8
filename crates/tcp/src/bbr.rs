//! BBR (version 1) as far as single flows over lossy hops need it.
//!
//! Bandwidth is the highest rate of delivery of ten round trips, the round trip the shortest of ten seconds. The sender is paced at
//! a gain times that bandwidth; losses are repaired and otherwise ignored.

use crate::flight::Sent;
use crate::recovery::{Ack, Core, Recovery};
use crate::sack::take_blocks;
use std::collections::VecDeque;
use std::time::Duration;
use wayfs_types::Time;

/// 2 / ln 2: doubles the rate per round trip.
const STARTUP_GAIN: f64 = 2.885;
/// Gains of the pacing rate, a round trip each.
const CYCLE: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
/// Round trips that a bandwidth counts.
const BANDWIDTH_ROUNDS: u64 = 10;
/// How long a round trip counts.
const RTT_AGE: Duration = Duration::from_secs(10);
/// Window in products of bandwidth and round trip.
const WINDOW_GAIN: f64 = 2.0;

#[derive(Debug, Clone, Copy, Default, PartialEq)]
enum Phase {
    #[default]
    Startup,
    Drain,
    Probe {
        step: usize,
        since: Time,
    },
}

#[derive(Debug, Default)]
pub(crate) struct Bbr {
    phase: Phase,
    /// Highest rates in bytes per second with the round in which they were seen, falling.
    rates: VecDeque<(u64, f64)>,
    round: u64,
    /// The round ends when what was sent after this count of delivered bytes is acknowledged.
    round_end: u64,
    rtt_min: Option<(Duration, Time)>,
    /// Highest rate at the last look, and rounds without a quarter more.
    full: (f64, u32),
    arrived: u64,
}

impl Recovery for Bbr {
    fn on_ack(&mut self, core: &mut Core, ack: &Ack<'_>) {
        let sacked = take_blocks(core, ack);
        let latest = ack.acked.iter().chain(&sacked).max_by_key(|sent| sent.order).cloned();
        if let Some(sent) = &latest {
            self.arrived = self.arrived.max(sent.order);
            self.measure(core, ack, sent);
        }
        core.mark_lost_before(self.arrived);
        self.act(core, ack);
    }

    fn on_timeout(&mut self, core: &mut Core, _now: Time) {
        core.flight.mark_lost(|_| true);
        core.flight.urge_first_lost();
    }
}

impl Bbr {
    fn bandwidth(&self) -> f64 {
        self.rates.front().map_or(0.0, |(_, rate)| *rate)
    }

    fn measure(&mut self, core: &Core, ack: &Ack<'_>, sent: &Sent) {
        if let Some(rtt) = ack.rtt
            && self.rtt_min.is_none_or(|(least, at)| rtt <= least || ack.now.since(at) > RTT_AGE)
        {
            self.rtt_min = Some((rtt, ack.now));
        }
        if sent.delivered >= self.round_end {
            self.round += 1;
            self.round_end = core.delivered;
            self.look_for_the_top();
        }
        let span = ack.now.since(sent.delivered_at);
        let least = self.rtt_min.map_or(Duration::ZERO, |(least, _)| least);
        // Quicker than any round trip: the acknowledgement is for an earlier copy than the one that was stamped.
        if !span.is_zero() && span >= least {
            let span = span.as_secs_f64();
            let rate = core.delivered.saturating_sub(sent.delivered) as f64 / span;
            while self.rates.back().is_some_and(|(_, lower)| *lower <= rate) {
                self.rates.pop_back();
            }
            self.rates.push_back((self.round, rate));
        }
        while self.rates.len() > 1 && self.rates.front().is_some_and(|(round, _)| round + BANDWIDTH_ROUNDS < self.round)
        {
            self.rates.pop_front();
        }
    }

    fn look_for_the_top(&mut self) {
        if self.phase != Phase::Startup {
            return;
        }
        let (before, rounds) = self.full;
        self.full = if self.bandwidth() >= 1.25 * before { (self.bandwidth(), 0) } else { (before, rounds + 1) };
        if self.full.1 >= 3 {
            self.phase = Phase::Drain;
        }
    }

    fn act(&mut self, core: &mut Core, ack: &Ack<'_>) {
        let Some((rtt, _)) = self.rtt_min else { return };
        let product = self.bandwidth() * rtt.as_secs_f64();
        if self.phase == Phase::Drain && f64::from(core.flight.pipe()) <= product {
            self.phase = Phase::Probe { step: 2, since: ack.now };
        }
        if let Phase::Probe { step, since } = self.phase
            && ack.now.since(since) > rtt
        {
            self.phase = Phase::Probe { step: (step + 1) % CYCLE.len(), since: ack.now };
        }
        let (pacing, window) = match self.phase {
            Phase::Startup => (STARTUP_GAIN, STARTUP_GAIN),
            Phase::Drain => (1.0 / STARTUP_GAIN, STARTUP_GAIN),
            Phase::Probe { step, .. } => (CYCLE[step], WINDOW_GAIN),
        };
        core.pacing = Some((pacing * self.bandwidth() * 8.0) as u64).filter(|rate| *rate > 0);
        let mss = core.window.mss;
        let grown = core.window.cwnd.saturating_add(ack.acked_len());
        let wanted = ((window * product) as u32).saturating_add(3 * mss);
        core.window.cwnd = if self.phase == Phase::Startup { grown } else { grown.min(wanted) };
        core.window.cwnd = core.window.cwnd.max(4 * mss);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::{Growth, Window};
    use crate::flight::{Fate, Flight};
    use crate::segment::Flags;
    use crate::{Segment, Seq};

    fn sent(at: Time, delivered: u64) -> Sent {
        Sent {
            seq: Seq::new(1),
            len: 1000,
            syn: false,
            fin: false,
            order: delivered,
            at,
            retransmitted: false,
            fate: Fate::InFlight,
            urgent: false,
            delivered,
            delivered_at: at,
        }
    }

    #[test]
    fn an_acknowledgement_that_is_quicker_than_any_round_trip_tells_no_rate() {
        let mut core = Core {
            una: Seq::new(1),
            nxt: Seq::new(1),
            flight: Flight::default(),
            window: Window::new(crate::control::InitialWindow { mss: 1000, segments: 10 }, Growth::PerSegment),
            peer_window: 1 << 20,
            pacing: None,
            delivered: 1000,
            fast_retransmits: 0,
        };
        let segment = Segment {
            flow: 1,
            seq: Seq::new(1),
            len: 0,
            ack: Some(Seq::new(1)),
            window: 1 << 20,
            flags: Flags::default(),
            sack: Vec::new(),
            echo: None,
            loss_notice: false,
        };
        let mut bbr = Bbr::default();
        let mut acknowledge = |core: &mut Core, now: u64, sent: Sent, rtt| {
            let acked = [sent];
            let now = Time::from_micros(now);
            bbr.on_ack(core, &Ack { now, acked: &acked, duplicate: false, segment: &segment, rtt });
            bbr.bandwidth()
        };
        let first = acknowledge(&mut core, 100_000, sent(Time::ZERO, 0), Some(Duration::from_millis(100)));
        // Five megabytes were there after all, and the last of them had just been sent a second time.
        core.delivered = 5_000_000;
        let second = acknowledge(&mut core, 200_001, sent(Time::from_micros(200_000), 1000), None);
        assert!(second <= first, "{second} after {first} bytes per second");
        assert!(core.window.cwnd < 20_000, "{}", core.window.cwnd);
    }
}
