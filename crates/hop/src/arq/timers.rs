//! What happens by itself: frames that go again after silence, and packets that are given up.

use super::{Arq, Due, Held, LINEAR, REPORT_DELAY};
use crate::packet::Packet;
use crate::signal::Signal;
use std::time::Duration;
use wayfs_types::Time;

/// Longest time between polls.
const POLL_MAX: Duration = Duration::from_secs(1);

impl<P: Packet> Arq<P> {
    /// When silence becomes suspicious.
    fn poll_at(&self) -> Option<Time> {
        if self.held.is_empty() || self.poll_due {
            return None;
        }
        let timeout = self.round_trip.timeout(self.config.timeout_initial).max(self.config.timeout_min);
        if self.polls == 0
            && let Some(last) = self.flowing.filter(|_| self.least.is_some() && self.asked.is_none())
        {
            // Reports that waited together come together; only the next one's due time says when it may be missed.
            let soonest = self.config.hold + self.config.timeout_min + self.least.unwrap_or_default();
            return Some(last + self.gaps.timeout(timeout + self.config.hold).max(soonest));
        }
        // Nothing is on its way before a question, so its answer takes the shortest time.
        let asking = self.least.filter(|_| self.polls > 0).map(|least| least * 2 + REPORT_DELAY);
        let timeout = asking.map_or(timeout, |asking| asking.max(self.config.timeout_min));
        let factor = if self.polls <= LINEAR { 1 + self.polls } else { (1 + LINEAR) << (self.polls - LINEAR).min(10) };
        let wait = (timeout * factor).min(POLL_MAX);
        let asked = self.asked.map(|at| at + wait);
        // Whoever was not asked reports after its hold at the latest.
        let silent = self.silent_since.map(|at| at + self.config.hold + wait);
        asked.into_iter().chain(silent).min()
    }

    fn request_at(&self, now: Time) -> Option<Time> {
        if !self.config.reservation || self.request_due || !self.held.is_empty() {
            return None;
        }
        let (_, packet) = self.queue.front()?;
        let short = self.room.is_none_or(|room| packet.packet_len() > room as usize);
        short.then(|| self.requested.map_or(now, |at| at + self.config.timeout_min))
    }

    fn give_up_at(&self) -> Option<Time> {
        // Numbers are given in the order in which packets came: the first is the oldest.
        let held = self.held.first_key_value().map(|(_, held)| held.since);
        let queued = self.queue.front().map(|(since, _)| *since);
        held.into_iter().chain(queued).min().map(|since| since + self.config.delay_max)
    }

    /// When to be woken. [`Self::wants_air`] may become true then.
    pub fn poll_timeout(&self, now: Time) -> Option<Time> {
        let held = self.queue.front().and_then(|(since, _)| self.hold_until(*since)).filter(|at| *at > now);
        let due = self.due_at().filter(|at| *at > now);
        let waiting = self.waiting_since.map(|since| since + self.config.delay_max);
        let times = [self.poll_at(), self.request_at(now), self.give_up_at(), held, due, waiting];
        times.into_iter().flatten().min()
    }

    /// Lets timers end whose time has come.
    pub fn handle_timeout(&mut self, now: Time) {
        if self.poll_at().is_some_and(|at| at <= now) {
            self.polls += 1;
            self.poll_due = true;
            self.statistics.polls += 1;
            (self.asked, self.silent_since, self.flowing) = (None, None, None);
        }
        if self.request_at(now).is_some_and(|at| at <= now) {
            self.request_due = true;
        }
        self.give_up(now);
        if self.waiting_since.is_some_and(|since| since + self.config.delay_max <= now)
            && let Some(last) = self.waiting.keys().next_back().copied()
        {
            // What is missing is older than the other end keeps it.
            self.raise_floor(last);
        }
    }

    fn give_up(&mut self, now: Time) {
        let (tries, delay) = (self.config.tries_max, self.config.delay_max);
        let hopeless = |number: &u64, held: &Held<P>| {
            held.since + delay <= now || held.tries >= tries && (self.lost.contains(number) || self.polls > 0)
        };
        let numbers: Vec<u64> =
            self.held.iter().filter(|(number, held)| hopeless(number, held)).map(|(number, _)| *number).collect();
        let mut count = 0;
        for number in &numbers {
            if let Some(held) = self.held.remove(number) {
                self.held_len -= held.len;
                self.lost.remove(number);
                count += held.packets.len();
            }
        }
        while self.queue.front().is_some_and(|(since, _)| *since + delay <= now) {
            if let Some((_, packet)) = self.queue.pop_front() {
                self.queue_len -= packet.packet_len();
                count += 1;
            }
        }
        if count == 0 {
            return;
        }
        self.statistics.given_up += count as u64;
        self.signals.push_back(Signal::GivenUp(u32::try_from(count).unwrap_or(u32::MAX)));
        if self.polls > 0 && !std::mem::replace(&mut self.down, true) {
            self.signals.push_back(Signal::Down);
        }
        if self.held.is_empty() {
            // The next packet tries the channel anew; the other end learns the floor from it.
            (self.polls, self.poll_due, self.silent_since, self.asked) = (0, false, None, None);
            self.due = Due::By(now);
        }
    }
}
