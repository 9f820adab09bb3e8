//! Explicit loss notification: which acknowledgements ask for what was lost on the hop.
//!
//! Towards the mobile the base station remembers what it sent: an acknowledgement that repeats and asks for such a place asks for a
//! loss of the hop. From the mobile it remembers the gaps of what arrives: what is missing there was lost on the hop, for
//! nothing lies between the mobile and it. What neither list holds was lost on the wire, and that is congestion.

use crate::packet::{Span, before};
use std::collections::VecDeque;

/// Most ranges that are remembered of a connection; the oldest go first.
const RANGES_MAX: usize = 256;

/// Ranges of places, in the order of their begin.
#[derive(Debug, Default, Clone)]
pub(crate) struct Ranges {
    ranges: VecDeque<Span>,
}

impl Ranges {
    /// Adds one; joins it to the last if they touch.
    pub(crate) fn insert(&mut self, span: Span) {
        if let Some(last) = self.ranges.back_mut()
            && !before(last.to, span.from)
            && !before(span.from, last.from)
        {
            if before(last.to, span.to) {
                last.to = span.to;
            }
            return;
        }
        let place = self.ranges.iter().position(|other| before(span.from, other.from)).unwrap_or(self.ranges.len());
        self.ranges.insert(place, span);
        if self.ranges.len() > RANGES_MAX {
            self.ranges.pop_front();
        }
    }

    /// Whether one of them holds a place.
    pub(crate) fn holds(&self, place: u32) -> bool {
        self.ranges.iter().any(|span| !before(place, span.from) && before(place, span.to))
    }

    /// Forgets what lies before a place.
    pub(crate) fn forget_before(&mut self, place: u32) {
        self.ranges.retain(|span| before(place, span.to));
    }
}

/// What was lost on the hop, of one connection.
#[derive(Debug, Default, Clone)]
pub(crate) struct Holes {
    /// Sent towards the mobile.
    sent: Ranges,
    /// The last acknowledgement of the mobile, and how often it came.
    acked: Option<u32>,
    /// Gaps in what came from the mobile.
    gaps: Ranges,
    /// The place after the furthest byte from the mobile.
    seen: Option<u32>,
    /// The last acknowledgement towards the mobile.
    acked_to_mobile: Option<u32>,
}

impl Holes {
    /// Something was sent over the air.
    pub(crate) fn sent(&mut self, span: Span) {
        self.sent.insert(span);
    }

    /// An acknowledgement of the mobile: does it repeat, and ask for what was lost on the hop?
    pub(crate) fn acknowledged(&mut self, ack: u32) -> bool {
        let repeats = self.acked == Some(ack);
        self.acked = Some(ack);
        self.sent.forget_before(ack);
        repeats && self.sent.holds(ack)
    }

    /// Data arrived from the mobile.
    pub(crate) fn arrived(&mut self, span: Span) {
        if let Some(seen) = self.seen
            && before(seen, span.from)
        {
            self.gaps.insert(Span { from: seen, to: span.from });
        }
        if self.seen.is_none_or(|seen| before(seen, span.to)) {
            self.seen = Some(span.to);
        }
    }

    /// An acknowledgement towards the mobile: does it repeat, and ask for what never reached the base station?
    pub(crate) fn acknowledged_to_mobile(&mut self, ack: u32) -> bool {
        let repeats = self.acked_to_mobile == Some(ack);
        self.acked_to_mobile = Some(ack);
        self.gaps.forget_before(ack);
        repeats && self.gaps.holds(ack)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_repeats_and_was_sent_over_the_air_is_a_loss_of_the_hop() {
        let mut holes = Holes::default();
        let start = u32::MAX - 50;
        holes.sent(Span { from: start, to: start.wrapping_add(100) });
        // From 49 to 149 nothing came over the wire.
        holes.sent(Span { from: 149, to: 249 });
        assert!(!holes.acknowledged(start.wrapping_add(20)));
        assert!(holes.acknowledged(start.wrapping_add(20)));
        assert!(!holes.acknowledged(49));
        assert!(!holes.acknowledged(49), "lost on the wire");
    }

    #[test]
    fn gaps_of_what_the_mobile_sends_are_losses_of_the_hop() {
        let mut holes = Holes::default();
        holes.arrived(Span { from: 0, to: 100 });
        holes.arrived(Span { from: 200, to: 300 });
        assert!(!holes.acknowledged_to_mobile(100) && holes.acknowledged_to_mobile(100));
        assert!(!holes.acknowledged_to_mobile(300) && !holes.acknowledged_to_mobile(300));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut ranges = Ranges::default();
        for n in 0..10_000_u32 {
            ranges.insert(Span { from: n * 10, to: n * 10 + 5 });
        }
        assert_eq!(ranges.ranges.len(), RANGES_MAX);
        assert!(ranges.holds(99_990) && !ranges.holds(0));
    }
}
