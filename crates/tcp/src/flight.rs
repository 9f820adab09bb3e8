//! What was sent and is not acknowledged: the scoreboard of a sender.

use crate::Seq;
use std::collections::VecDeque;
use wayfs_types::Time;

/// What the sender believes of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// On its way.
    InFlight,
    /// The receiver has it, out of order.
    Sacked,
    /// To be sent again.
    Lost,
}

/// A segment that was sent at least once.
#[derive(Debug, Clone)]
pub(crate) struct Sent {
    pub(crate) seq: Seq,
    pub(crate) len: u32,
    pub(crate) syn: bool,
    pub(crate) fin: bool,
    /// Counts transmissions of all segments: which of two was sent later.
    pub(crate) order: u64,
    pub(crate) at: Time,
    pub(crate) retransmitted: bool,
    pub(crate) fate: Fate,
    /// To be sent again whatever the window says.
    pub(crate) urgent: bool,
    /// Bytes delivered when it was sent, and when that number was reached (for rates of delivery).
    pub(crate) delivered: u64,
    pub(crate) delivered_at: Time,
}

/// What is noted of a transmission, as in [`Sent`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stamp {
    pub(crate) order: u64,
    pub(crate) at: Time,
    pub(crate) delivered: u64,
    pub(crate) delivered_at: Time,
}

impl Sent {
    /// Sequence numbers that it occupies.
    pub(crate) fn seq_len(&self) -> u32 {
        self.len + u32::from(self.syn) + u32::from(self.fin)
    }

    pub(crate) fn end(&self) -> Seq {
        self.seq + self.seq_len()
    }
}

/// All of them, in the order of their places.
#[derive(Debug, Default)]
pub(crate) struct Flight {
    segments: VecDeque<Sent>,
    pipe: u32,
}

impl Flight {
    /// Sequence numbers that are believed to be on their way.
    pub(crate) const fn pipe(&self) -> u32 {
        self.pipe
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Sent> {
        self.segments.iter()
    }

    /// A new segment, sent just now.
    pub(crate) fn push(&mut self, sent: Sent) {
        self.pipe += sent.seq_len();
        self.segments.push_back(sent);
    }

    /// Takes out what lies before `ack`; a segment that it cuts in two loses its acknowledged part.
    pub(crate) fn acknowledge(&mut self, ack: Seq) -> Vec<Sent> {
        let mut acked = Vec::new();
        while self.segments.front().is_some_and(|first| !first.end().after(ack)) {
            let Some(first) = self.segments.pop_front() else { break };
            self.leave(&first);
            acked.push(first);
        }
        if let Some(first) = self.segments.front_mut()
            && first.seq.before(ack)
        {
            let cut = ack.since(first.seq);
            if first.fate == Fate::InFlight {
                self.pipe -= cut;
            }
            first.len -= cut.min(first.len);
            first.seq = ack;
            first.syn = false;
        }
        acked
    }

    fn leave(&mut self, sent: &Sent) {
        if sent.fate == Fate::InFlight {
            self.pipe -= sent.seq_len();
        }
    }

    /// The receiver has everything between these two places. Tells what it was not known to have.
    pub(crate) fn mark_sacked(&mut self, from: Seq, to: Seq) -> Vec<Sent> {
        let mut news = Vec::new();
        for sent in &mut self.segments {
            let inside = !sent.seq.before(from) && !sent.end().after(to);
            if inside && sent.fate != Fate::Sacked {
                if sent.fate == Fate::InFlight {
                    self.pipe -= sent.seq_len();
                }
                (sent.fate, sent.urgent) = (Fate::Sacked, false);
                news.push(sent.clone());
            }
        }
        news
    }

    /// Believes those lost that are on their way and of which this holds. Tells how many.
    pub(crate) fn mark_lost(&mut self, lost: impl Fn(&Sent) -> bool) -> usize {
        let mut count = 0;
        for sent in &mut self.segments {
            if sent.fate == Fate::InFlight && lost(sent) {
                sent.fate = Fate::Lost;
                self.pipe -= sent.seq_len();
                count += 1;
            }
        }
        count
    }

    /// Forgets what the receiver said it has: it may have thrown it away (RFC 2018, 8).
    pub(crate) fn renege(&mut self) {
        for sent in &mut self.segments {
            if sent.fate == Fate::Sacked {
                sent.fate = Fate::Lost;
            }
        }
    }

    /// The first of all goes again at once.
    pub(crate) fn urge_first(&mut self) {
        if let Some(first) = self.segments.front_mut() {
            first.urgent = true;
        }
    }

    /// The first that is lost goes again at once.
    pub(crate) fn urge_first_lost(&mut self) {
        if let Some(lost) = self.segments.iter_mut().find(|sent| sent.fate == Fate::Lost) {
            lost.urgent = true;
        }
    }

    /// The next to be sent again: an urgent one, else the first lost one if so much room is left.
    pub(crate) fn retransmit(&mut self, room: u32, stamp: Stamp) -> Option<Sent> {
        let next = self.segments.iter().position(|sent| sent.urgent).or_else(|| {
            self.segments
                .iter()
                .position(|sent| sent.fate == Fate::Lost)
                .filter(|n| self.segments[*n].seq_len() <= room)
        })?;
        let sent = &mut self.segments[next];
        if sent.fate == Fate::Lost {
            self.pipe += sent.seq_len();
        }
        (sent.fate, sent.urgent, sent.retransmitted) = (Fate::InFlight, false, true);
        (sent.order, sent.at) = (stamp.order, stamp.at);
        (sent.delivered, sent.delivered_at) = (stamp.delivered, stamp.delivered_at);
        Some(sent.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAMP: Stamp = Stamp { order: 9, at: Time::ZERO, delivered: 0, delivered_at: Time::ZERO };

    fn flight(count: u32) -> Flight {
        let mut flight = Flight::default();
        for n in 0..count {
            flight.push(Sent {
                seq: Seq::new(n * 100),
                len: 100,
                syn: false,
                fin: false,
                order: u64::from(n),
                at: Time::ZERO,
                retransmitted: false,
                fate: Fate::InFlight,
                urgent: false,
                delivered: 0,
                delivered_at: Time::ZERO,
            });
        }
        flight
    }

    #[test]
    fn the_pipe_holds_what_is_neither_acknowledged_nor_lost() {
        let mut flight = flight(5);
        assert_eq!(flight.mark_sacked(Seq::new(200), Seq::new(400)).len(), 2);
        assert_eq!(flight.mark_sacked(Seq::new(200), Seq::new(400)).len(), 0);
        assert_eq!((flight.mark_lost(|sent| sent.order < 2), flight.pipe()), (2, 100));
        assert!(flight.retransmit(99, STAMP).is_none());
        let again = flight.retransmit(100, STAMP).unwrap();
        assert_eq!((again.seq.number(), again.order, flight.pipe()), (0, 9, 200));
        assert_eq!(flight.acknowledge(Seq::new(400)).len(), 4);
        assert_eq!(flight.pipe(), 100);
    }

    #[test]
    fn an_acknowledgement_within_a_segment_cuts_it() {
        let mut flight = flight(1);
        assert_eq!(flight.acknowledge(Seq::new(30)).len(), 0);
        assert_eq!((flight.pipe(), flight.iter().next().unwrap().seq.number()), (70, 30));
    }

    #[test]
    fn what_is_urgent_goes_without_room() {
        let mut flight = flight(2);
        flight.urge_first();
        assert!(flight.retransmit(0, STAMP).is_some());
        assert!(flight.retransmit(0, STAMP).is_none());
        assert_eq!(flight.pipe(), 200);
    }
}
