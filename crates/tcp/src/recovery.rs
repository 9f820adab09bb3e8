//! What all schemes share: the state that they act upon, and when they are asked.

use crate::control::Window;
use crate::flight::{Fate, Flight, Sent};
use crate::{Segment, Seq};
use std::time::Duration;
use wayfs_types::Time;

/// Duplicate acknowledgements after which a segment is taken for lost.
pub(crate) const DUPLICATES: u32 = 3;

/// What a scheme acts upon.
#[derive(Debug)]
pub(crate) struct Core {
    /// First byte that is not acknowledged.
    pub(crate) una: Seq,
    /// Next byte to be sent for the first time.
    pub(crate) nxt: Seq,
    pub(crate) flight: Flight,
    pub(crate) window: Window,
    /// Bytes that the receiver has room for, from `una` on.
    pub(crate) peer_window: u32,
    /// Bits per second at most; `None` sends as the window allows.
    pub(crate) pacing: Option<u64>,
    /// Bytes that arrived, in order or not.
    pub(crate) delivered: u64,
    /// Times that a loss was found by acknowledgements.
    pub(crate) fast_retransmits: u64,
}

/// An acknowledgement.
#[derive(Debug)]
pub(crate) struct Ack<'a> {
    pub(crate) now: Time,
    /// What it takes out of the flight.
    pub(crate) acked: &'a [Sent],
    /// It acknowledges nothing new, carries nothing, and something is in flight.
    pub(crate) duplicate: bool,
    pub(crate) segment: &'a Segment,
    /// A round trip, if one was measured.
    pub(crate) rtt: Option<Duration>,
}

impl Ack<'_> {
    /// Whether it acknowledges something new.
    pub(crate) const fn is_new(&self) -> bool {
        !self.acked.is_empty()
    }

    /// Sequence numbers that it acknowledges.
    pub(crate) fn acked_len(&self) -> u32 {
        self.acked.iter().map(Sent::seq_len).sum()
    }
}

/// How losses are found, and what the window does.
pub(crate) trait Recovery: std::fmt::Debug + Send {
    /// An acknowledgement came; `core` has already taken it in.
    fn on_ack(&mut self, core: &mut Core, ack: &Ack<'_>);

    /// Nothing came for too long.
    fn on_timeout(&mut self, core: &mut Core, now: Time);
}

impl Core {
    /// What every window-based scheme does when its timer ends: everything goes again, from the first on, slowly.
    pub(crate) fn start_anew(&mut self) {
        self.window.halve(self.peer_window);
        self.window.collapse();
        self.flight.renege();
        self.flight.mark_lost(|_| true);
    }

    /// Those on their way lost that were sent more than three transmissions before the latest one that is known to have arrived.
    pub(crate) fn mark_lost_before(&mut self, arrived: u64) -> usize {
        self.flight.mark_lost(|sent| sent.order + u64::from(DUPLICATES) < arrived)
    }

    /// Whether something waits to be sent again.
    pub(crate) fn has_lost(&self) -> bool {
        self.flight.iter().any(|sent| sent.fate == Fate::Lost)
    }
}
