//! Explicit loss notification: an acknowledgement says that what it asks for was lost to errors.
//!
//! The segment goes again and the window stays; without the notice it is Reno. As in Reno the first new acknowledgement ends the
//! recovery, so each loss of a window has to be asked for anew. Published in two forms: the segment goes again after three
//! duplicates, and after the first.

use crate::recovery::{Ack, Core, DUPLICATES, Recovery};
use wayfs_types::Time;

#[derive(Debug)]
pub(crate) struct Eln {
    /// Duplicates with a notice after which a segment goes again.
    patience: u32,
    duplicates: u32,
    /// In recovery: the window after it.
    after: Option<u32>,
}

/// Why a segment was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    /// A queue was full.
    Congestion,
    /// The link lost it, as a notice says.
    Link,
}

impl Eln {
    pub(crate) const fn new(patience: u32) -> Self {
        Self { patience, duplicates: 0, after: None }
    }

    fn begin(&mut self, core: &mut Core, cause: Cause) {
        core.fast_retransmits += 1;
        if cause == Cause::Congestion {
            core.window.halve(core.peer_window);
            core.window.cwnd = core.window.ssthresh;
        }
        self.after = Some(core.window.cwnd);
        core.window.cwnd += self.duplicates * core.window.mss;
        core.flight.urge_first();
    }
}

impl Recovery for Eln {
    fn on_ack(&mut self, core: &mut Core, ack: &Ack<'_>) {
        if ack.is_new() {
            self.duplicates = 0;
            if let Some(cwnd) = self.after.take() {
                core.window.cwnd = cwnd;
            }
            core.window.open(ack.acked_len());
        } else if ack.duplicate {
            self.duplicates += 1;
            let cause = if ack.segment.loss_notice { Cause::Link } else { Cause::Congestion };
            let patience = match cause {
                Cause::Link => self.patience,
                Cause::Congestion => DUPLICATES,
            };
            if self.after.is_some() {
                core.window.cwnd += core.window.mss;
            } else if self.duplicates >= patience {
                self.begin(core, cause);
            }
        } else {
            // The receiver's window moved: as in 4.4BSD the count begins anew.
            self.duplicates = 0;
        }
    }

    fn on_timeout(&mut self, core: &mut Core, _now: Time) {
        *self = Self::new(self.patience);
        core.start_anew();
    }
}
