//! Timelines of a hop that takes everything at once and carries it in its own time, both directions over one channel.

use super::*;
use crate::packet::TcpHeader;
use std::collections::VecDeque;

#[derive(Debug, Clone, PartialEq, Eq)]
struct Plain(u32, usize);

impl Packet for Plain {
    fn packet_len(&self) -> usize {
        self.1
    }

    fn tcp(&self) -> Option<TcpHeader> {
        None
    }

    fn mark_loss(&mut self) {}
}

/// What a run gave.
struct Outcome {
    arrived: Vec<u32>,
    statistics: ArqStatistics,
    /// Longest time that a frame waited in the hop's own queue.
    waited_max: Duration,
    ended: Time,
}

/// A channel that carries one frame at a time, the ends in turn, each from a queue of its own that takes everything.
struct Channel {
    rate: u64,
    delay: Duration,
    queues: [VecDeque<(Time, Frame<Plain>)>; 2],
    turn: usize,
    /// When what is on the air has gone, and whose it is; `None` in it was lost.
    busy: Option<(Time, usize, Option<Frame<Plain>>)>,
    flying: VecDeque<(Time, usize, Frame<Plain>)>,
    waited_max: Duration,
}

impl Channel {
    fn new(rate: u64, delay: Duration) -> Self {
        let (queues, flying) = ([VecDeque::new(), VecDeque::new()], VecDeque::new());
        Self { rate, delay, queues, turn: 0, busy: None, flying, waited_max: Duration::ZERO }
    }

    /// Lets what is due happen; gives what arrives, and for whom.
    fn advance(&mut self, now: Time, is_bad: &dyn Fn(Time) -> bool) -> Vec<(usize, Frame<Plain>)> {
        if let Some((at, from, frame)) = self.busy.take_if(|(at, ..)| *at <= now) {
            self.flying.extend(frame.map(|frame| (at + self.delay, 1 - from, frame)));
        }
        let waiting = [self.turn, 1 - self.turn].into_iter().find(|end| !self.queues[*end].is_empty());
        if self.busy.is_none()
            && let Some(from) = waiting
            && let Some((since, frame)) = self.queues[from].pop_front()
        {
            self.turn = 1 - from;
            self.waited_max = self.waited_max.max(now.since(since));
            let until = now + Duration::from_micros((frame.frame_len() as u64 + 58) * 1_000_000 / self.rate);
            let lost = is_bad(now) || is_bad(until);
            self.busy = Some((until, from, (!lost).then_some(frame)));
        }
        let mut arrived = Vec::new();
        while let Some((_, to, frame)) = self.flying.pop_front_if(|(at, ..)| *at <= now) {
            arrived.push((to, frame));
        }
        arrived
    }

    fn next(&self) -> Option<Time> {
        let busy = self.busy.as_ref().map(|(at, ..)| *at);
        // What was queued while nothing was on the air goes at once.
        let is_due = self.busy.is_none() && self.queues.iter().any(|queue| !queue.is_empty());
        let due = is_due.then_some(Time::ZERO);
        busy.into_iter().chain(due).chain(self.flying.front().map(|(at, ..)| *at)).min()
    }
}

/// End 0 sends `count` packets of 1360 bytes over a channel of so many bytes per second; nothing passes that touches a bad time.
fn run(count: u32, rate: u64, delay: Duration, is_bad: impl Fn(Time) -> bool) -> Outcome {
    let (window, delay_max) = (512, Duration::from_secs(60));
    let config = ArqConfig { window, delay_max, receive_len_max: 1 << 20, ..ArqConfig::default() };
    let mut ends = [Paced::new(config, QueueLimit::Fixed), Paced::new(config, QueueLimit::Fixed)];
    let mut channel = Channel::new(rate, delay);
    let (mut now, mut next, mut arrived) = (Time::ZERO, 0, Vec::new());
    while arrived.len() < count as usize && now < Time::from_micros(600_000_000) {
        while next < count && ends[0].arq().queue_len() < 100_000 && ends[0].send(now, Plain(next, 1360)) {
            next += 1;
        }
        for (end, frame) in channel.advance(now, &is_bad) {
            ends[end].handle_frame(now, frame);
        }
        ends.iter_mut().for_each(|end| end.handle_timeout(now));
        for end in [0, 1] {
            while let Some(frame) = ends[end].poll_frame(now) {
                channel.queues[end].push_back((now, frame));
            }
        }
        arrived.extend(std::iter::from_fn(|| ends[1].poll_packet(now)).map(|packet| packet.0));
        let timers = ends.iter().filter_map(|end| end.poll_timeout(now)).chain(channel.next());
        now = timers.min().unwrap().max(now + Duration::from_micros(10));
    }
    Outcome { arrived, statistics: ends[0].statistics(), waited_max: channel.waited_max, ended: now }
}

fn seconds(time: Time) -> f64 {
    time.since(Time::ZERO).as_secs_f64()
}

#[test]
fn a_queue_on_the_way_is_no_silence_and_stays_short() {
    for (rate, delay) in [(125_000, 0), (125_000, 20), (1_250_000, 5), (12_500_000, 1)] {
        let count = (rate / 1360 * 8) as u32;
        let outcome = run(count, rate, Duration::from_millis(delay), |_| false);
        assert!(outcome.arrived.iter().copied().eq(0..count), "{rate} B/s: {} arrived", outcome.arrived.len());
        // One question too many, when the start filled the queue.
        assert!(outcome.statistics.retransmitted <= 1, "{rate} B/s, {delay} ms: {:?}", outcome.statistics);
        let ideal = f64::from(count) * 1360.0 / rate as f64;
        assert!(seconds(outcome.ended) < ideal / 0.87, "{rate} B/s: {} of {ideal} s", seconds(outcome.ended));
        assert!(outcome.waited_max < Duration::from_millis(450), "{rate} B/s: {:?}", outcome.waited_max);
    }
}

#[test]
fn bad_periods_cost_little_more_than_themselves() {
    for bad in [40_u64, 160] {
        let count = 1500;
        let is_bad = |at: Time| at.as_micros() / 1000 % (1000 + bad) >= 1000;
        let outcome = run(count, 125_000, Duration::ZERO, is_bad);
        assert_eq!(outcome.statistics.given_up, 0, "bad {bad} ms: {:?}", outcome.statistics);
        assert!(outcome.arrived.iter().copied().eq(0..count), "bad {bad} ms: {} arrived", outcome.arrived.len());
        let clean = seconds(run(count, 125_000, Duration::ZERO, |_| false).ended);
        let limit = clean * (1000 + bad) as f64 / 1000.0;
        let share = seconds(outcome.ended) / limit;
        assert!(share < 1.12, "bad {bad} ms: {share} of the limit; {:?}", outcome.statistics);
    }
}

/// End 1 asks with a packet of 150 bytes for so many packets of 1360 (a block in fragments), `in_flight` such calls at a time, until 720 have
/// come; gives the share of the hop that they took.
fn calls(packets: u32, in_flight: u32, rate: u64) -> f64 {
    let config = ArqConfig { window: 512, delay_max: Duration::from_secs(60), ..ArqConfig::default() };
    let mut ends = [Paced::new(config, QueueLimit::ByRate), Paced::new(config, QueueLimit::ByRate)];
    let mut channel = Channel::new(rate, Duration::from_micros(500));
    let (mut now, mut asked, mut got) = (Time::ZERO, 0, 0);
    while got < 720 && now < Time::from_micros(600_000_000) {
        while asked * packets < 720 && asked < got / packets + in_flight {
            assert!(ends[1].send(now, Plain(asked, 150)));
            asked += 1;
        }
        for (end, frame) in channel.advance(now, &|_| false) {
            ends[end].handle_frame(now, frame);
        }
        ends.iter_mut().for_each(|end| end.handle_timeout(now));
        while ends[0].poll_packet(now).is_some() {
            for number in 0..packets {
                assert!(ends[0].send(now, Plain(number, 1360)), "{packets} packets, {in_flight} calls: one is dropped");
            }
        }
        got += std::iter::from_fn(|| ends[1].poll_packet(now)).count() as u32;
        for end in [0, 1] {
            while let Some(frame) = ends[end].poll_frame(now) {
                channel.queues[end].push_back((now, frame));
            }
        }
        let timers = ends.iter().filter_map(|end| end.poll_timeout(now)).chain(channel.next());
        now = timers.min().unwrap().max(now + Duration::from_micros(10));
    }
    720.0 * 1360.0 / rate as f64 / seconds(now)
}

#[test]
fn who_asks_for_blocks_keeps_the_hop_busy_and_loses_none() {
    // 16 KiB, 8 KiB and 4 KiB. Headers take 5 % of full packets, requests and reports the rest.
    for (packets, in_flight) in [(12, 2), (12, 3), (6, 3), (6, 6), (3, 4)] {
        let share = calls(packets, in_flight, 125_000);
        assert!(share > 0.88, "{packets} packets, {in_flight} calls: {share}");
    }
}
