//! Explicit loss notification: an acknowledgement says that what it asks for was lost to errors.
//!
//! The segment goes again and the window stays. Without the notice it is NewReno. Published in two forms: after
//! three duplicates, and after the first.

use crate::Seq;
use crate::recovery::{Ack, Core, DUPLICATES, Recovery};
use wayfs_types::Time;

/// A recovery that goes on.
#[derive(Debug, Clone, Copy)]
struct Episode {
    /// Until this is acknowledged.
    recover: Seq,
    /// The window after it.
    cwnd: u32,
}

#[derive(Debug)]
pub(crate) struct Eln {
    /// Duplicates with a notice after which a segment goes again.
    patience: u32,
    duplicates: u32,
    episode: Option<Episode>,
    ignore_below: Option<Seq>,
}

impl Eln {
    pub(crate) const fn new(patience: u32) -> Self {
        Self { patience, duplicates: 0, episode: None, ignore_below: None }
    }

    fn begin(&mut self, core: &mut Core, notice: bool) {
        core.fast_retransmits += 1;
        if !notice {
            core.window.halve(core.peer_window);
            core.window.cwnd = core.window.ssthresh;
        }
        self.episode = Some(Episode { recover: core.nxt, cwnd: core.window.cwnd });
        core.window.cwnd += self.duplicates * core.window.mss;
        core.flight.urge_first();
    }

    fn on_new(&mut self, core: &mut Core, ack: &Ack<'_>) {
        self.duplicates = 0;
        if self.ignore_below.is_some_and(|below| !core.una.before(below)) {
            self.ignore_below = None;
        }
        match self.episode {
            Some(episode) if core.una.before(episode.recover) => {
                core.flight.urge_first();
                let window = &mut core.window;
                window.cwnd = window.cwnd.saturating_sub(ack.acked_len()).max(episode.cwnd) + window.mss;
            }
            Some(episode) => {
                self.episode = None;
                core.window.cwnd = episode.cwnd;
            }
            None => core.window.open(),
        }
    }
}

impl Recovery for Eln {
    fn on_ack(&mut self, core: &mut Core, ack: &Ack<'_>) {
        if ack.is_new() {
            self.on_new(core, ack);
        } else if ack.duplicate {
            self.duplicates += 1;
            let notice = ack.segment.loss_notice;
            let patience = if notice { self.patience } else { DUPLICATES };
            if self.episode.is_some() {
                core.window.cwnd += core.window.mss;
            } else if self.duplicates >= patience && (notice || self.ignore_below.is_none()) {
                self.begin(core, notice);
            }
        }
    }

    fn on_timeout(&mut self, core: &mut Core, _now: Time) {
        *self = Self { ignore_below: Some(core.nxt), ..Self::new(self.patience) };
        core.start_anew();
    }
}
