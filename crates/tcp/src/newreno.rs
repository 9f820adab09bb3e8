//! NewReno (RFC 6582): an acknowledgement of a part of what was sent before the recovery began points at the next loss.

use crate::Seq;
use crate::recovery::{Ack, Core, DUPLICATES, Recovery};
use wayfs_types::Time;

#[derive(Debug, Default)]
pub(crate) struct NewReno {
    duplicates: u32,
    /// In recovery until this is acknowledged.
    recover: Option<Seq>,
    /// Duplicates below this are echoes of a timeout's retransmissions.
    ignore_below: Option<Seq>,
}

impl Recovery for NewReno {
    fn on_ack(&mut self, core: &mut Core, ack: &Ack<'_>) {
        if ack.is_new() {
            self.duplicates = 0;
            self.on_new(core, ack);
        } else if ack.duplicate {
            self.duplicates += 1;
            self.on_duplicate(core);
        }
    }

    fn on_timeout(&mut self, core: &mut Core, _now: Time) {
        *self = Self { ignore_below: Some(core.nxt), ..Self::default() };
        core.start_anew();
    }
}

impl NewReno {
    fn on_new(&mut self, core: &mut Core, ack: &Ack<'_>) {
        if self.ignore_below.is_some_and(|below| !core.una.before(below)) {
            self.ignore_below = None;
        }
        match self.recover {
            Some(recover) if core.una.before(recover) => {
                core.flight.urge_first();
                let window = &mut core.window;
                window.cwnd = window.cwnd.saturating_sub(ack.acked_len()).max(window.mss) + window.mss;
            }
            Some(_) => {
                self.recover = None;
                core.window.cwnd = core.window.ssthresh;
            }
            None => core.window.open(ack.acked_len()),
        }
    }

    fn on_duplicate(&mut self, core: &mut Core) {
        if self.recover.is_some() {
            core.window.cwnd += core.window.mss;
        } else if self.duplicates == DUPLICATES && self.ignore_below.is_none() {
            core.fast_retransmits += 1;
            self.recover = Some(core.nxt);
            core.window.halve(core.peer_window);
            core.window.cwnd = core.window.ssthresh + DUPLICATES * core.window.mss;
            core.flight.urge_first();
        }
    }
}
