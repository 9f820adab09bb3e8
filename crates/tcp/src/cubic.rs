//! CUBIC (RFC 9438) with selective acknowledgements and losses found by the order of transmissions, as in Linux.

use crate::Seq;
use crate::recovery::{Ack, Core, Recovery};
use crate::sack::take_blocks;
use std::time::Duration;
use wayfs_types::Time;

/// Scale of the curve, in segments per second cubed.
const C: f64 = 0.4;
/// What is kept of the window at a loss.
const BETA: f64 = 0.7;

#[derive(Debug, Default)]
pub(crate) struct Cubic {
    /// Window at the last loss, in segments.
    w_max: f64,
    /// When growth since the last loss began.
    epoch: Option<Time>,
    /// Window then, in segments.
    w_epoch: f64,
    /// What Reno would have, in segments.
    w_reno: f64,
    recover: Option<Seq>,
    arrived: u64,
    srtt: Option<Duration>,
}

impl Recovery for Cubic {
    fn on_ack(&mut self, core: &mut Core, ack: &Ack<'_>) {
        let sacked = take_blocks(core, ack);
        let latest = ack.acked.iter().chain(&sacked).map(|sent| sent.order).max();
        self.arrived = self.arrived.max(latest.unwrap_or(0));
        self.srtt = ack.rtt.or(self.srtt);
        let ended = self.recover.is_some_and(|recover| !core.una.before(recover));
        if ended {
            self.recover = None;
        }
        let lost = core.mark_lost_before(self.arrived);
        if lost > 0 && self.recover.is_none() {
            self.recover = Some(core.nxt);
            core.fast_retransmits += 1;
            self.reduce(core);
            core.window.cwnd = core.window.ssthresh;
            core.flight.urge_first_lost();
        } else if ack.is_new() && self.recover.is_none() && !ended {
            // What ends a recovery may acknowledge a whole window, most of which was counted when it arrived.
            self.grow(core, ack);
        }
    }

    fn on_timeout(&mut self, core: &mut Core, _now: Time) {
        self.recover = None;
        self.reduce(core);
        core.window.collapse();
        core.flight.mark_lost(|_| true);
    }
}

impl Cubic {
    fn reduce(&mut self, core: &mut Core) {
        let window = &mut core.window;
        let segments = f64::from(window.cwnd) / f64::from(window.mss);
        // Fast convergence: who reached less than the last time leaves room to others.
        self.w_max = if segments < self.w_max { segments * (1.0 + BETA) / 2.0 } else { segments };
        self.epoch = None;
        window.ssthresh = ((f64::from(window.cwnd) * BETA) as u32).max(2 * window.mss);
    }

    fn grow(&mut self, core: &mut Core, ack: &Ack<'_>) {
        let window = &mut core.window;
        let mss = f64::from(window.mss);
        let acked = f64::from(ack.acked_len()) / mss;
        if window.cwnd < window.ssthresh {
            window.cwnd += ack.acked_len();
            return;
        }
        let segments = f64::from(window.cwnd) / mss;
        let epoch = *self.epoch.get_or_insert_with(|| {
            (self.w_epoch, self.w_reno) = (segments, segments);
            ack.now
        });
        let k = ((self.w_max - self.w_epoch).max(0.0) / C).cbrt();
        let t = ack.now.since(epoch).as_secs_f64() + self.srtt.unwrap_or_default().as_secs_f64();
        let target = (C * (t - k).powi(3) + self.w_max.max(self.w_epoch)).clamp(segments, 1.5 * segments);
        self.w_reno += 3.0 * (1.0 - BETA) / (1.0 + BETA) * acked / segments;
        let step = (target - segments) / segments * acked;
        window.cwnd = ((segments + step).max(self.w_reno) * mss) as u32;
    }
}
