//! What the other end sends: put in order, handed on, reported.

use super::{Arq, Due, Losses, Order, REPORT_DELAY};
use crate::frame::{Frame, Report};
use crate::packet::Packet;
use wayfs_types::Time;

/// Most ranges of a report.
const RANGES_MAX: usize = 16;

impl<P: Packet> Arq<P> {
    pub(super) fn receive(&mut self, now: Time, frame: Frame<P>) {
        let len: usize = frame.packets.iter().map(Packet::packet_len).sum();
        let known = frame.number < self.next || self.waiting.contains_key(&frame.number);
        let beyond = frame.number >= self.next.saturating_add(u64::from(self.config.window));
        if known {
            self.statistics.duplicates += 1;
            self.due = Due::By(now);
            return;
        }
        if beyond || self.receive_room() < len && self.receive_room() < self.config.receive_len_max {
            self.statistics.overflowed += 1;
            return;
        }
        match self.config.order {
            Order::Kept => {
                self.waiting.insert(frame.number, Some(frame.packets));
                self.waiting_len += len;
            }
            Order::AsTheyCome => {
                self.waiting.insert(frame.number, None);
                self.ready_len += len;
                self.ready.extend(frame.packets);
            }
        }
        self.take_in_order();
        self.waiting_since = if self.waiting.is_empty() { None } else { self.waiting_since.or(Some(now)) };
        self.unreported += 1;
        let every = self.unreported >= self.config.report_every;
        let by = if every || self.config.losses == Losses::Duplicates || self.config.hold.is_zero() {
            now
        } else if frame.wants_report {
            now + REPORT_DELAY
        } else {
            now + self.config.hold
        };
        self.due = Due::By(self.due_at().map_or(by, |at| at.min(by)));
    }

    pub(super) const fn due_at(&self) -> Option<Time> {
        match self.due {
            Due::Nothing => None,
            Due::By(at) => Some(at),
        }
    }

    fn take_in_order(&mut self) {
        while let Some(packets) = self.waiting.remove(&self.next) {
            self.next += 1;
            self.hand_on(packets);
        }
    }

    fn hand_on(&mut self, packets: Option<Vec<P>>) {
        for packet in packets.into_iter().flatten() {
            self.waiting_len -= packet.packet_len();
            self.ready_len += packet.packet_len();
            self.ready.push_back(packet);
        }
    }

    /// Nothing below will come any more.
    pub(super) fn raise_floor(&mut self, floor: u64) {
        while self.next < floor {
            let first = self.waiting.first_key_value().map_or(floor, |(number, _)| (*number).min(floor));
            self.next = self.next.max(first);
            self.take_in_order();
            if first == floor {
                break;
            }
        }
        if self.waiting.is_empty() {
            self.waiting_since = None;
        }
    }

    pub(super) fn report(&self) -> Report {
        let (mut have, mut told): (Vec<(u64, u64)>, u64) = (Vec::new(), u64::MAX);
        for number in self.waiting.keys() {
            let full = have.len() >= RANGES_MAX;
            match have.last_mut() {
                Some((_, end)) if end == number => *end += 1,
                Some((_, end)) if full => {
                    told = *end;
                    break;
                }
                Some(_) | None => have.push((*number, number + 1)),
            }
        }
        let room = u32::try_from(self.receive_room()).unwrap_or(u32::MAX);
        Report { next: self.next, order: self.order_seen, have, told, room }
    }
}
