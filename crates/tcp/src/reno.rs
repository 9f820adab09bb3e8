//! Reno as in 4.4BSD.
//!
//! Three duplicates: the first segment goes again and the window is halved; each further duplicate means that one segment has left,
//! so the window is blown up by one; the first new acknowledgement ends that. With two losses in a window the second is
//! mostly found by the coarse timer. As in 4.4BSD nothing keeps duplicates that a go-back-N causes from
//! starting this anew.

use crate::recovery::{Ack, Core, DUPLICATES, Recovery};
use wayfs_types::Time;

#[derive(Debug, Default)]
pub(crate) struct Reno {
    duplicates: u32,
}

impl Recovery for Reno {
    fn on_ack(&mut self, core: &mut Core, ack: &Ack<'_>) {
        if ack.is_new() {
            if self.duplicates >= DUPLICATES {
                core.window.cwnd = core.window.cwnd.min(core.window.ssthresh);
            }
            self.duplicates = 0;
            core.window.open(ack.acked_len());
        } else if ack.duplicate {
            self.duplicates += 1;
            if self.duplicates == DUPLICATES {
                core.fast_retransmits += 1;
                core.window.halve(core.peer_window);
                core.window.cwnd = core.window.ssthresh + DUPLICATES * core.window.mss;
                core.flight.urge_first();
            } else if self.duplicates > DUPLICATES {
                core.window.cwnd += core.window.mss;
            }
        } else {
            self.duplicates = 0;
        }
    }

    fn on_timeout(&mut self, core: &mut Core, _now: Time) {
        self.duplicates = 0;
        core.start_anew();
    }
}
