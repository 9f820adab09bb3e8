//! Timelines of whole connections: two end points, a line of 10 ms each way, and losses at chosen places.

use crate::{Config, Endpoint, Event, Scheme, Segment, Seq, State, Timers};
use std::collections::BTreeMap;
use std::time::Duration;
use wayfs_types::Time;

const DELAY: Duration = Duration::from_millis(10);
/// A segment with payload takes the line so long.
const TRANSMISSION: Duration = Duration::from_millis(1);
const MSS: u32 = 1000;

/// Which end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    Left,
    Right,
}

/// What the line does with the n-th transmission of a place by the left end (both counted from zero, in segments).
type Drop = dyn Fn(u32, u32) -> bool;

struct Pair {
    now: Time,
    left: Endpoint,
    right: Endpoint,
    line: BTreeMap<(Time, u64), (End, Segment)>,
    free: [Time; 2],
    number: u64,
    times_sent: BTreeMap<u32, u32>,
    /// Milliseconds and place of each segment with payload that the left end sent.
    sent: Vec<(u64, u32)>,
    start: Seq,
    /// Marks acknowledgements that go to the left: a hop that knows about losses.
    notices: bool,
    read: u32,
    reads: bool,
}

impl Pair {
    fn new(config: Config, start: Seq) -> Self {
        let other = Config { scheme: config.scheme, ..config };
        Self {
            now: Time::ZERO,
            left: Endpoint::connect(config, 1, start, Time::ZERO),
            right: Endpoint::listen(other, 1, Seq::new(77), Time::ZERO),
            line: BTreeMap::new(),
            free: [Time::ZERO; 2],
            number: 0,
            times_sent: BTreeMap::new(),
            sent: Vec::new(),
            start: start + 1,
            notices: false,
            read: 0,
            reads: true,
        }
    }

    fn offer(&mut self, from: End, mut segment: Segment, drop: &Drop) {
        if from == End::Left && segment.len > 0 {
            let place = segment.seq.since(self.start) / MSS;
            let nth = self.times_sent.entry(place).or_default();
            self.sent.push((self.now.as_micros() / 1000, place));
            *nth += 1;
            if drop(place, *nth - 1) {
                return;
            }
        }
        if from == End::Right {
            segment.loss_notice = self.notices;
        }
        let free = &mut self.free[from as usize];
        *free = (*free).max(self.now) + if segment.len > 0 { TRANSMISSION } else { Duration::ZERO };
        self.number += 1;
        self.line.insert((*free + DELAY, self.number), (from, segment));
    }

    /// Runs until nothing happens any more or until then.
    fn run(&mut self, until: Time, drop: &Drop) {
        loop {
            while let Some(segment) = self.left.poll_segment(self.now) {
                self.offer(End::Left, segment, drop);
            }
            while let Some(segment) = self.right.poll_segment(self.now) {
                self.offer(End::Right, segment, drop);
            }
            let arrival = self.line.first_key_value().map(|((at, _), _)| *at);
            let timers = [self.left.poll_timeout(self.now), self.right.poll_timeout(self.now)];
            let Some(next) = arrival.into_iter().chain(timers.into_iter().flatten()).min() else { return };
            if next > until {
                self.now = until;
                return;
            }
            self.now = next;
            while let Some(entry) = self.line.first_entry().filter(|entry| entry.key().0 <= self.now) {
                let (from, segment) = entry.remove();
                match from {
                    End::Left => self.right.handle_segment(self.now, &segment),
                    End::Right => self.left.handle_segment(self.now, &segment),
                }
            }
            if self.reads {
                self.read += self.right.read(u32::MAX);
            }
            self.left.handle_timeout(self.now);
            self.right.handle_timeout(self.now);
        }
    }

    /// When each transmission of a place left, in milliseconds.
    fn times_of(&self, place: u32) -> Vec<u64> {
        self.sent.iter().filter(|(_, sent)| *sent == place).map(|(at, _)| *at).collect()
    }
}

fn config(scheme: Scheme) -> Config {
    Config { mss: MSS, initial_window: 8, buffer: 16_000, scheme, ..Config::default() }
}

const fn secs(seconds: u64) -> Time {
    Time::from_micros(seconds * 1_000_000)
}

/// Sends so many segments and ends the stream; runs to the end.
fn transfer(config: Config, segments: u32, drop: &Drop) -> Pair {
    let mut pair = Pair::new(config, Seq::new(u32::MAX - 3000));
    pair.notices = matches!(config.scheme, Scheme::Eln | Scheme::ElnFirst);
    let mut left = segments * MSS;
    for step in 0..10_000 {
        left -= pair.left.write(left);
        if left == 0 {
            pair.left.close();
            pair.right.close();
        }
        pair.run(Time::from_micros((step + 1) * 5000), drop);
    }
    assert_eq!(pair.read, segments * MSS, "{config:?}");
    assert_eq!((pair.left.state(), pair.right.state()), (State::Finished, State::Finished));
    pair
}

#[test]
fn every_scheme_brings_everything_over_whatever_is_lost_and_across_the_wrap() {
    let patterns: [(&str, Box<Drop>); 5] = [
        ("nothing", Box::new(|_, _| false)),
        ("one", Box::new(|place, nth| place == 9 && nth == 0)),
        ("a run", Box::new(|place, nth| (9..15).contains(&place) && nth == 0)),
        ("one, three times", Box::new(|place, nth| place == 9 && nth < 3)),
        (
            "every fifth, and each seventh retransmission",
            Box::new(|place, nth| place % 5 == 0 && nth == 0 || nth == 1 && place % 7 == 0),
        ),
    ];
    for scheme in Scheme::ALL {
        for fine in [false, true] {
            for (name, drop) in &patterns {
                let timers = Timers::Fine { rto_min: Duration::from_millis(200) };
                let timers = if fine { timers } else { Config::default().timers };
                let pair = transfer(Config { timers, ..config(scheme) }, 60, drop);
                let lost = pair.times_sent.iter().any(|(place, _)| drop(*place, 0));
                assert_eq!(lost, pair.left.statistics().retransmitted > 0, "{scheme:?}, {name}");
            }
        }
    }
}

#[test]
fn reno_sends_again_on_the_third_duplicate_and_halves_its_window() {
    let pair = transfer(config(Scheme::Reno), 60, &|place, nth| place == 9 && nth == 0);
    let statistics = pair.left.statistics();
    assert_eq!((statistics.retransmitted, statistics.timeouts, statistics.fast_retransmits), (1, 0, 1));
    let [first, second] = pair.times_of(9)[..] else { panic!("{:?}", pair.times_of(9)) };
    // A round trip, and the three segments behind it.
    assert!((20..=40).contains(&(second - first)), "{first} {second}");
}

#[test]
fn reno_waits_for_its_coarse_timer_where_newreno_goes_on() {
    let two = |place: u32, nth: u32| (place == 9 || place == 10 || place == 12) && nth == 0;
    let reno = transfer(config(Scheme::Reno), 60, &two);
    let newreno = transfer(config(Scheme::NewReno), 60, &two);
    assert!(reno.left.statistics().timeouts > 0, "{:?}", reno.left.statistics());
    assert_eq!(newreno.left.statistics().timeouts, 0);
    // Newreno repairs one loss per round trip.
    let repaired: Vec<u64> = [9, 10, 12].map(|place| newreno.times_of(place)[1]).to_vec();
    for pair in repaired.windows(2) {
        assert!((20..=24).contains(&(pair[1] - pair[0])), "{repaired:?}");
    }
}

#[test]
fn selective_acknowledgements_repair_a_run_within_a_round_trip_or_two() {
    let run = |place: u32, nth: u32| (9..12).contains(&place) && nth == 0;
    for scheme in [Scheme::Smart, Scheme::Sack, Scheme::Cubic] {
        let pair = transfer(config(scheme), 60, &run);
        let again: Vec<u64> = [9, 10, 11].map(|place| pair.times_of(place)[1]).to_vec();
        assert_eq!(pair.left.statistics().timeouts, 0, "{scheme:?}");
        assert!(again[2] - again[0] <= 45, "{scheme:?}: {again:?}");
        assert_eq!(pair.left.statistics().retransmitted, 3, "{scheme:?}");
    }
}

#[test]
fn a_lost_retransmission_waits_for_the_timer() {
    let twice = |place: u32, nth: u32| place == 9 && nth < 2;
    for scheme in [Scheme::NewReno, Scheme::Smart, Scheme::Sack] {
        let statistics = transfer(config(scheme), 60, &twice).left.statistics();
        assert_eq!(statistics.timeouts, 1, "{scheme:?}");
    }
}

#[test]
fn a_loss_notice_keeps_the_window_and_may_spare_two_duplicates() {
    let one = |place: u32, nth: u32| place == 20 && nth == 0;
    let reno = transfer(config(Scheme::NewReno), 40, &one);
    let eln = transfer(config(Scheme::Eln), 40, &one);
    let first = transfer(config(Scheme::ElnFirst), 40, &one);
    assert!(eln.left.cwnd() > reno.left.cwnd(), "{} {}", eln.left.cwnd(), reno.left.cwnd());
    assert!(first.times_of(20)[1] < eln.times_of(20)[1], "{:?} {:?}", first.times_of(20), eln.times_of(20));
}

#[test]
fn a_loss_in_a_window_too_small_for_three_duplicates_waits_for_the_timer() {
    // Two segments: one is lost, one duplicate comes.
    let small = Config { initial_window: 2, buffer: 2000, ..config(Scheme::Sack) };
    let pair = transfer(small, 20, &|place, nth| place == 6 && nth == 0);
    assert_eq!(pair.left.statistics().timeouts, 1);
    let [first, second] = pair.times_of(6)[..] else { panic!("{:?}", pair.times_of(6)) };
    assert!(second - first >= 500, "{first} {second}");
}

#[test]
fn timeouts_back_off_and_a_silent_peer_is_given_up() {
    let mut pair = Pair::new(Config { retries_max: 3, ..config(Scheme::Reno) }, Seq::new(0));
    pair.run(secs(1), &|_, _| false);
    assert_eq!(pair.left.write(1000), 1000);
    pair.run(secs(600), &|_, _| true);
    let times = pair.times_of(0);
    assert_eq!(times.len(), 4, "{times:?}");
    let gaps: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps[1] >= 2 * gaps[0] - 500 && gaps[2] >= 2 * gaps[1] - 500, "{gaps:?}");
    let events: Vec<Event> = std::iter::from_fn(|| pair.left.poll_event()).collect();
    assert_eq!(events, [Event::Connected, Event::GaveUp]);
    assert_eq!(pair.left.state(), State::Dead);
}

#[test]
fn a_reader_that_stops_shuts_the_window_and_opens_it_again() {
    let mut pair = Pair::new(Config { buffer: 4000, ..config(Scheme::Reno) }, Seq::new(0));
    pair.reads = false;
    pair.run(secs(1), &|_, _| false);
    assert_eq!(pair.left.write(10_000), 4000);
    pair.run(secs(2), &|_, _| false);
    assert_eq!((pair.right.readable(), pair.left.peer_window()), (4000, 0));
    assert_eq!(pair.left.write(10_000), 4000);
    pair.run(secs(20), &|_, _| false);
    // Asked now and then, never flooded.
    let probes = pair.left.statistics().sent;
    assert!((5..20).contains(&probes), "{probes}");
    pair.reads = true;
    pair.right.read(4000);
    pair.run(secs(60), &|_, _| false);
    assert!(pair.left.is_drained());
}

#[test]
fn one_half_ends_and_the_other_goes_on() {
    let mut pair = Pair::new(config(Scheme::Reno), Seq::new(5));
    pair.run(secs(1), &|_, _| false);
    pair.right.close();
    pair.run(secs(3), &|_, _| false);
    assert_eq!(pair.left.write(3000), 3000);
    pair.run(secs(5), &|_, _| false);
    assert_eq!(pair.read, 3000);
    pair.left.close();
    pair.run(secs(9), &|_, _| false);
    assert_eq!((pair.left.state(), pair.right.state()), (State::Finished, State::Finished));
}

#[test]
fn a_reset_counts_only_inside_the_window() {
    let mut pair = Pair::new(config(Scheme::Reno), Seq::new(5));
    pair.run(secs(1), &|_, _| false);
    let mut forged = Segment {
        flow: 1,
        seq: Seq::new(1_000_000),
        len: 0,
        ack: None,
        window: 0,
        flags: crate::Flags { rst: true, ..Default::default() },
        sack: Vec::new(),
        echo: None,
        loss_notice: false,
    };
    pair.right.handle_segment(pair.now, &forged);
    assert_eq!(pair.right.state(), State::Established);
    forged.ack = Some(Seq::new(3_000_000_000));
    forged.flags.rst = false;
    pair.right.handle_segment(pair.now, &forged);
    pair.left.abort();
    pair.run(secs(2), &|_, _| false);
    assert_eq!(pair.right.state(), State::Dead);
    assert_eq!(std::iter::from_fn(|| pair.right.poll_event()).last(), Some(Event::Reset));
}

#[test]
fn a_lost_syn_is_sent_again() {
    let mut pair = Pair::new(config(Scheme::Reno), Seq::new(5));
    let syn = pair.left.poll_segment(Time::ZERO).unwrap();
    assert!(syn.flags.syn && syn.ack.is_none());
    pair.run(secs(20), &|_, _| false);
    assert_eq!((pair.left.state(), pair.right.state()), (State::Established, State::Established));
}

#[test]
fn bbr_fills_the_line_in_spite_of_losses() {
    // One in fifty is lost; the line takes a segment per millisecond.
    let bbr = Config { mss: MSS, ..Config::modern(Scheme::Bbr) };
    let reno = Config { mss: MSS, ..Config::modern(Scheme::NewReno) };
    let lossy = |place: u32, nth: u32| place % 50 == 7 && nth == 0;
    let last = |pair: &Pair| pair.sent.last().unwrap().0;
    let (fast, slow) = (last(&transfer(bbr, 4000, &lossy)), last(&transfer(reno, 4000, &lossy)));
    assert!(fast < 5500, "{fast}");
    assert!(fast < slow, "{fast} {slow}");
}

#[test]
fn one_start_is_one_timeline() {
    let lossy = |place: u32, nth: u32| place % 11 == 3 && nth == 0;
    for scheme in Scheme::ALL {
        let runs = [0, 1].map(|_| transfer(config(scheme), 100, &lossy).sent);
        assert_eq!(runs[0], runs[1]);
    }
}
