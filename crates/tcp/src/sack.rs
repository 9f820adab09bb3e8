//! Selective acknowledgements in blocks (RFC 2018), and the sender that uses them (RFC 6675, in the form of 1996: the
//! recovery begins with three duplicates, and then every gap below the highest block is taken for lost).

use crate::Seq;
use crate::flight::{Fate, Sent};
use crate::recovery::{Ack, Core, DUPLICATES, Recovery};
use wayfs_types::Time;

#[derive(Debug, Default)]
pub(crate) struct Sack {
    duplicates: u32,
    recover: Option<Seq>,
    /// The latest transmission that was known to have arrived when a loss was looked for.
    highest: Option<Seq>,
}

/// Takes the blocks of an acknowledgement in. Tells what is known newly to have arrived.
pub(crate) fn take_blocks(core: &mut Core, ack: &Ack<'_>) -> Vec<Sent> {
    let mut news = Vec::new();
    for (from, to) in &ack.segment.sack {
        news.extend(core.flight.mark_sacked(*from, *to));
    }
    core.delivered += news.iter().map(|sent| u64::from(sent.len)).sum::<u64>();
    news
}

impl Recovery for Sack {
    fn on_ack(&mut self, core: &mut Core, ack: &Ack<'_>) {
        take_blocks(core, ack);
        self.highest = core.flight.iter().filter(|sent| sent.fate == Fate::Sacked).map(Sent::end).last();
        if ack.is_new() {
            self.duplicates = 0;
            if self.recover.is_some_and(|recover| !core.una.before(recover)) {
                self.recover = None;
            }
        } else if ack.duplicate {
            self.duplicates += 1;
        }
        if self.recover.is_none() && self.duplicates >= DUPLICATES && self.highest.is_some() {
            self.recover = Some(core.nxt);
            core.fast_retransmits += 1;
            core.window.halve(core.peer_window);
            core.window.cwnd = core.window.ssthresh;
            self.mark_gaps(core);
            core.flight.urge_first_lost();
        } else if self.recover.is_some() {
            self.mark_gaps(core);
            // An acknowledgement of a part, and the first of what is left was sent before the recovery: it is lost, too.
            if ack.is_new() && self.highest.is_none() {
                core.flight.mark_lost(|sent| sent.seq == core.una && !sent.retransmitted);
            }
        } else if ack.is_new() {
            core.window.open(ack.acked_len());
        }
    }

    fn on_timeout(&mut self, core: &mut Core, _now: Time) {
        *self = Self::default();
        core.start_anew();
    }
}

impl Sack {
    /// What was sent once and lies below the highest block. What was sent again and is lost again, the timer finds.
    fn mark_gaps(&self, core: &mut Core) {
        if let Some(highest) = self.highest {
            core.flight.mark_lost(|sent| !sent.retransmitted && sent.seq.before(highest));
        }
    }
}
