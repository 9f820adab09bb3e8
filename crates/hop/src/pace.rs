//! How much may be on its way: enough to keep the hop busy, and not so much that a queue grows somewhere in it.
//!
//! A real radio says when the air is free; a socket says so only of the first device on the way. So an end measures what
//! the hop delivers (bytes reported between the sending of a frame and its report, the largest of the last seconds) and the round
//! trip (the shortest of the last seconds), and keeps on its way what their product and the other end's waiting before it
//! reports make necessary, and a quarter more. Losses do not shrink it: on this hop they say nothing about a queue. At first it doubles each
//! round trip until the rate stops growing.

use std::collections::VecDeque;
use std::time::Duration;
use wayfs_types::Time;

/// On its way at first: ten full frames.
const START_LEN: usize = 14_000;
/// Always allowed: below, a lost report would stop everything.
const LEN_MIN: usize = 6_000;
/// What was measured longer ago says nothing.
const MEMORY: Duration = Duration::from_secs(8);
/// Most transmissions that are remembered; the window of an end is smaller.
const SENT_MAX: usize = 8192;
/// Round trips without growth after which the start is over.
const FLAT_ROUNDS: u32 = 3;
/// A report comes after so many full frames at the latest.
const REPORT_LEN: u64 = 32 * 1400;

/// A transmission on its way.
#[derive(Debug, Clone, Copy)]
struct Sent {
    order: u64,
    len: usize,
    at: Time,
    /// What had been delivered by then, and since when that was known.
    delivered: u64,
    delivered_at: Time,
    /// Nothing waited behind it: the rate may be that of who sends, not of the hop.
    is_last: bool,
}

/// What the hop carries, as measured.
#[derive(Debug)]
pub struct Pace {
    sent: VecDeque<Sent>,
    in_flight: usize,
    delivered: u64,
    delivered_at: Time,
    /// Bytes per second, the largest first, each younger than the one before.
    rates: VecDeque<(Time, u64)>,
    round_trips: VecDeque<(Time, Duration)>,
    /// Longest time for which the other end holds a report back.
    hold: Duration,
    start: Option<Start>,
}

/// The doubling at first.
#[derive(Debug)]
struct Start {
    window: usize,
    rate: u64,
    flat: u32,
    round_ends: u64,
}

/// What a report says of what arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrived {
    /// The latest transmission.
    pub order: u64,
    /// Bytes so far.
    pub delivered: u64,
}

impl Pace {
    /// Knows nothing of the hop. `hold`: longest time for which the other end holds a report back.
    pub fn new(hold: Duration) -> Self {
        Self {
            sent: VecDeque::new(),
            in_flight: 0,
            delivered: 0,
            delivered_at: Time::ZERO,
            rates: VecDeque::new(),
            round_trips: VecDeque::new(),
            hold,
            start: Some(Start { window: START_LEN, rate: 0, flat: 0, round_ends: 0 }),
        }
    }

    /// Bytes per second that the hop carried when it was busy; zero: not known.
    pub fn rate(&self) -> u64 {
        self.rates.front().map_or(0, |(_, rate)| *rate)
    }

    /// The shortest round trip of late.
    pub fn round_trip(&self) -> Option<Duration> {
        self.round_trips.front().map(|(_, span)| *span)
    }

    /// Bytes that may be on their way.
    pub fn window(&self) -> usize {
        match &self.start {
            Some(start) => start.window.min((3 * self.full()).max(START_LEN)),
            None => self.full() + self.full() / 4,
        }
        .max(LEN_MIN)
    }

    /// Bytes that keep the hop busy.
    fn full(&self) -> usize {
        let rate = self.rate();
        let report = Duration::from_micros(REPORT_LEN * 1_000_000 / rate.max(1)).min(self.hold);
        let span = self.round_trip().unwrap_or(self.hold) + report;
        let full = rate.saturating_mul(u64::try_from(span.as_micros()).unwrap_or(u64::MAX)) / 1_000_000;
        usize::try_from(full).unwrap_or(usize::MAX).min(SENT_MAX * 1400)
    }

    /// Whether one more frame may go.
    pub(crate) fn may_send(&self) -> bool {
        self.in_flight < self.window()
    }

    /// A frame goes, behind which so much waits.
    pub fn sent(&mut self, now: Time, order: u64, len: usize, backlog: u32) {
        if self.sent.len() >= SENT_MAX
            && let Some(oldest) = self.sent.pop_front()
        {
            self.in_flight -= oldest.len;
        }
        if self.in_flight == 0 {
            // Time without anything on its way is not the hop's.
            self.delivered_at = now;
        }
        self.in_flight += len;
        let (delivered, delivered_at) = (self.delivered, self.delivered_at);
        self.sent.push_back(Sent { order, len, at: now, delivered, delivered_at, is_last: backlog == 0 });
    }

    /// A report came. Gives the round trip, if it tells one.
    pub fn reported(&mut self, now: Time, Arrived { order, delivered }: Arrived) -> Option<Duration> {
        let news = delivered.saturating_sub(self.delivered);
        self.delivered = delivered;
        let mut latest = None;
        while self.sent.front().is_some_and(|sent| sent.order <= order) {
            let Some(sent) = self.sent.pop_front() else { break };
            self.in_flight -= sent.len;
            latest = Some(sent);
        }
        let sent = latest?;
        self.delivered_at = now;
        let round_trip = (sent.order == order).then(|| now.since(sent.at));
        if let Some(span) = round_trip {
            keep(&mut self.round_trips, now, span, |kept, new| kept >= new);
        }
        let span = u64::try_from(now.since(sent.delivered_at.min(sent.at)).as_micros()).unwrap_or(u64::MAX).max(1);
        let rate = delivered.saturating_sub(sent.delivered).saturating_mul(1_000_000) / span;
        if !sent.is_last || rate > self.rate() {
            keep(&mut self.rates, now, rate, |kept, new| kept <= new);
        }
        self.grow(sent, usize::try_from(news).unwrap_or(usize::MAX));
        round_trip
    }

    fn grow(&mut self, sent: Sent, news: usize) {
        let rate = self.rate();
        let last_order = self.sent.back().map_or(sent.order, |sent| sent.order);
        let Some(start) = &mut self.start else { return };
        start.window = start.window.saturating_add(news.min(start.window)).min(SENT_MAX * 1400);
        if sent.order < start.round_ends {
            return;
        }
        start.round_ends = last_order + 1;
        if rate > start.rate + start.rate / 4 {
            (start.rate, start.flat) = (rate, 0);
        } else {
            start.flat += 1;
        }
        if start.flat >= FLAT_ROUNDS {
            self.start = None;
        }
    }

    /// Everything on its way is lost, or was on a way that is left: it counts no more.
    pub(crate) fn forget_flight(&mut self) {
        self.sent.clear();
        self.in_flight = 0;
    }
}

/// Keeps the best of the last seconds in front.
fn keep<T: Copy>(values: &mut VecDeque<(Time, T)>, now: Time, new: T, worse: impl Fn(T, T) -> bool) {
    while values.back().is_some_and(|(_, kept)| worse(*kept, new)) {
        values.pop_back();
    }
    values.push_back((now, new));
    while values.len() > 1 && values.front().is_some_and(|(at, _)| now.since(*at) > MEMORY) {
        values.pop_front();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends full frames over a hop for two seconds; gives what was measured and the longest queue in the hop.
    fn run(bytes_per_second: u64, one_way: Duration, lost: impl Fn(u64) -> bool) -> (Pace, usize, u64) {
        let mut pace = Pace::new(Duration::from_millis(50));
        let (mut now, mut free, mut order, mut delivered, mut queue_max) = (Time::ZERO, Time::ZERO, 0, 0, 0);
        let mut arrivals: VecDeque<(Time, u64)> = VecDeque::new();
        let end = Time::from_micros(2_000_000);
        while now < end {
            while pace.may_send() {
                pace.sent(now, order, 1400, 1);
                free = free.max(now) + Duration::from_micros(1400 * 1_000_000 / bytes_per_second);
                arrivals.push_back((free + one_way + one_way, order));
                order += 1;
            }
            queue_max = queue_max.max(arrivals.iter().filter(|(at, _)| *at > now + one_way + one_way).count());
            let Some((at, arrived)) = arrivals.pop_front() else { break };
            now = at;
            if !lost(arrived) {
                delivered += 1400;
                pace.reported(now, Arrived { order: arrived, delivered });
            }
        }
        (pace, queue_max, delivered)
    }

    #[test]
    fn the_hop_is_kept_busy_and_its_queue_short() {
        for (rate, one_way) in [(125_000, 5), (1_250_000, 20), (12_500_000, 1)] {
            let (pace, queue, delivered) = run(rate, Duration::from_millis(one_way), |_| false);
            let share = delivered as f64 / (2.0 * rate as f64);
            assert!(share > 0.9, "{rate} B/s: {share}");
            assert!(pace.rate().abs_diff(rate) < rate / 10, "{rate} B/s, measured {}", pace.rate());
            // A quarter of what is on its way, what the other end's waiting makes necessary, and what the start overshot.
            let fits = rate as usize * (2 * one_way as usize + 50) / 1000;
            assert!(queue * 1400 < 4 * fits + 3 * LEN_MIN, "{rate} B/s: {queue} frames wait");
        }
    }

    #[test]
    fn losses_do_not_shrink_it() {
        let (clean, _, _) = run(1_250_000, Duration::from_millis(10), |_| false);
        let (lossy, _, _) = run(1_250_000, Duration::from_millis(10), |order| order % 5 == 4);
        assert!(lossy.window() * 10 > clean.window() * 7, "{} of {}", lossy.window(), clean.window());
    }

    #[test]
    fn what_was_forgotten_makes_room() {
        let mut pace = Pace::new(Duration::from_millis(50));
        let mut order = 0;
        while pace.may_send() {
            pace.sent(Time::ZERO, order, 1400, 0);
            order += 1;
        }
        pace.forget_flight();
        assert!(pace.may_send());
        pace.reported(Time::from_micros(9), Arrived { order, delivered: 1400 });
        assert!(pace.may_send());
    }
}
