//! SMART: each acknowledgement names the segment that caused it.
//!
//! Where packets are not reordered, everything that was sent before that segment and is not acknowledged is lost, without waiting for
//! duplicates. As in the experiments of 1996 that holds of first transmissions: an acknowledgement does not say which transmission of a segment caused
//! it, so a retransmission that is lost is found by the timer. The window is halved once per window of losses.

use crate::Seq;
use crate::recovery::{Ack, Core, Recovery};
use wayfs_types::Time;

#[derive(Debug, Default)]
pub(crate) struct Smart {
    /// The window is not halved again until this is acknowledged.
    recover: Option<Seq>,
    /// The latest transmission that is known to have arrived.
    arrived: u64,
}

impl Recovery for Smart {
    fn on_ack(&mut self, core: &mut Core, ack: &Ack<'_>) {
        let named = ack
            .segment
            .echo
            .and_then(|echo| core.flight.iter().find(|sent| sent.seq == echo))
            .map(|s| (s.seq, s.end()));
        let sacked = named.map(|(from, to)| core.flight.mark_sacked(from, to)).unwrap_or_default();
        core.delivered += sacked.iter().map(|sent| u64::from(sent.len)).sum::<u64>();
        let latest = ack.acked.iter().chain(&sacked).map(|sent| sent.order).max();
        self.arrived = self.arrived.max(latest.unwrap_or(0));
        if self.recover.is_some_and(|recover| !core.una.before(recover)) {
            self.recover = None;
        }
        let arrived = self.arrived;
        let lost = core.flight.mark_lost(|sent| !sent.retransmitted && sent.order < arrived);
        if lost > 0 && self.recover.is_none() {
            self.recover = Some(core.nxt);
            core.fast_retransmits += 1;
            core.window.halve(core.peer_window);
            core.window.cwnd = core.window.ssthresh;
            core.flight.urge_first_lost();
        } else if ack.is_new() && self.recover.is_none() {
            core.window.open(ack.acked_len());
        }
    }

    fn on_timeout(&mut self, core: &mut Core, _now: Time) {
        self.recover = None;
        core.start_anew();
    }
}
