//! Timelines of a hop: one channel that both ends share, 1 ms a frame, and losses at chosen transmissions or times.

use super::*;
use crate::air::{Air, AirConfig};
use crate::packet::{Destination, TcpHeader};

const FRAME: Duration = Duration::from_millis(1);

/// A packet with a number and a length.
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

const fn ms(milliseconds: u64) -> Time {
    Time::from_micros(milliseconds * 1000)
}

/// Two ends; end 0 is the base station.
struct Hop {
    now: Time,
    ends: [Arq<Plain>; 2],
    turn: usize,
    /// Frames of end 0 so far.
    sent: u64,
    /// What arrived at each end, and when.
    arrived: [Vec<(u64, u32)>; 2],
    signals: Vec<Signal>,
    takes: bool,
}

impl Hop {
    fn new(config: ArqConfig) -> Self {
        Self {
            now: Time::ZERO,
            ends: [Arq::new(config), Arq::new(config)],
            turn: 0,
            sent: 0,
            arrived: [Vec::new(), Vec::new()],
            signals: Vec::new(),
            takes: true,
        }
    }

    /// Gives end 0 packets of 1000 bytes.
    fn offer(&mut self, numbers: std::ops::Range<u32>) {
        for number in numbers {
            self.ends[0].send(self.now, Plain(number, 1000)).unwrap();
        }
    }

    /// Runs until then. `lost` says of the n-th frame of end 0, begun at a time, whether it is lost; those of end 1 are counted apart.
    fn run(&mut self, until: Time, lost: &dyn Fn(usize, u64, Time) -> bool) {
        let mut others = 0;
        while self.now < until {
            let next = [0, 1].map(|n| (self.turn + n) % 2).into_iter().find(|end| self.ends[*end].wants_air(self.now));
            if let Some(end) = next
                && let Some(frame) = self.ends[end].poll_frame(self.now)
            {
                self.turn = 1 - end;
                let number = if end == 0 { &mut self.sent } else { &mut others };
                *number += 1;
                let lost = lost(end, *number - 1, self.now);
                self.now = self.now + FRAME;
                if !lost {
                    self.ends[1 - end].handle_frame(self.now, frame);
                }
            } else {
                let timeouts = [0, 1].map(|end| self.ends[end].poll_timeout(self.now));
                self.now = timeouts
                    .into_iter()
                    .flatten()
                    .min()
                    .unwrap_or(until)
                    .min(until)
                    .max(self.now + Duration::from_micros(1));
            }
            for end in 0..2 {
                self.ends[end].handle_timeout(self.now);
                while self.takes
                    && let Some(packet) = self.ends[end].poll_packet(self.now)
                {
                    self.arrived[end].push((self.now.as_micros() / 1000, packet.0));
                }
            }
            self.signals.extend(std::iter::from_fn(|| self.ends[0].poll_signal()));
        }
    }

    fn numbers(&self) -> Vec<u32> {
        self.arrived[1].iter().map(|(_, number)| *number).collect()
    }
}

fn scheme(name: &str) -> ArqConfig {
    match name.parse().unwrap() {
        crate::Scheme::Arq(config) => config,
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_scheme_brings_everything_once_and_those_that_keep_the_order_keep_it() {
    // Every fourth frame of either end is lost, and a stretch of time.
    let lost = |_: usize, n: u64, at: Time| n % 4 == 1 || ms(30) <= at && at < ms(70);
    for name in ["ll", "ll-order", "ll-sack", "ours"] {
        // The published timer of 200 ms repairs one frame at a time: the last of them is late.
        let mut hop = Hop::new(ArqConfig { delay_max: Duration::from_secs(30), ..scheme(name) });
        hop.offer(0..60);
        hop.run(ms(60_000), &lost);
        let mut numbers = hop.numbers();
        if matches!(name, "ll-order" | "ours") {
            assert!(numbers.is_sorted(), "{name}");
        } else {
            assert!(!numbers.is_sorted(), "{name}");
        }
        numbers.sort_unstable();
        assert_eq!(numbers, (0..60).collect::<Vec<u32>>(), "{name}");
        assert_eq!(hop.ends[0].state_len() + hop.ends[1].state_len(), 0, "{name}");
    }
}

#[test]
fn a_run_of_losses_is_repaired_without_a_timer() {
    let mut hop = Hop::new(ArqConfig::default());
    hop.offer(0..20);
    hop.run(ms(100), &|end, n, _| end == 0 && (4..10).contains(&n));
    assert_eq!(hop.numbers(), (0..20).collect::<Vec<u32>>());
    let statistics = hop.ends[0].statistics();
    assert_eq!((statistics.retransmitted, statistics.polls), (6, 0));
    // Frame 10 shows the gap; its report, and six frames.
    assert!(hop.arrived[1][9].0 <= 20, "{:?}", hop.arrived[1]);
    assert_eq!(hop.signals, [Signal::Lost(6)]);
}

#[test]
fn a_lost_retransmission_is_found_by_what_was_sent_after_it() {
    let mut hop = Hop::new(ArqConfig::default());
    hop.offer(0..30);
    // The retransmission of frame 3 is the seventh or so; lose frames 3 and the next one that carries its number.
    let mut hop_lost = 0;
    hop.run(ms(3), &|_, _, _| false);
    while hop.now < ms(100) {
        let until = hop.now + FRAME;
        let drops =
            hop.ends[0].held.get(&3).is_none_or(|held| held.tries < 3) && hop.ends[0].lost.contains(&3) && hop_lost < 3;
        hop_lost += u32::from(drops);
        hop.run(until, &|end, _, _| end == 0 && drops);
    }
    assert_eq!(hop.numbers(), (0..30).collect::<Vec<u32>>());
    assert_eq!(hop.ends[0].statistics().polls, 0);
}

#[test]
fn a_lost_tail_is_polled_for_at_linear_then_doubling_times() {
    let mut hop = Hop::new(ArqConfig::default());
    hop.offer(0..1);
    let begins = std::cell::RefCell::new(Vec::new());
    hop.run(ms(3000), &|end, _, at| {
        if end == 0 {
            begins.borrow_mut().push(at.as_micros() / 1000);
        }
        true
    });
    let begins = begins.into_inner();
    let gaps: Vec<u64> = begins.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps.len() > 5, "{gaps:?}");
    let growth: Vec<i64> = gaps.windows(2).map(|pair| pair[1] as i64 - pair[0] as i64).collect();
    assert!(growth[0] > 0 && (growth[0] - growth[1]).abs() <= 2, "{gaps:?}");
    assert!(gaps[5] >= 2 * gaps[4] - 2 && gaps.iter().all(|gap| *gap <= 1001), "{gaps:?}");
}

#[test]
fn after_a_burst_data_flows_within_a_poll_of_its_end() {
    for bad in [20_u64, 40, 80, 160] {
        let mut hop = Hop::new(ArqConfig::default());
        hop.offer(0..100);
        hop.run(ms(600), &|_, _, at| ms(10) <= at && at < ms(10 + bad));
        assert_eq!(hop.numbers().len(), 100);
        let first_after = hop.arrived[1].iter().map(|(at, _)| *at).find(|at| *at > 11).unwrap();
        assert!(first_after <= 10 + bad + 20 + bad, "bad {bad}: {first_after}");
        // Little was sent into the bad period once it was known.
        assert!(hop.ends[0].statistics().polls <= 6, "{:?}", hop.ends[0].statistics());
    }
}

#[test]
fn delay_and_tries_are_bounded_and_what_is_given_up_is_told_and_skipped() {
    let config = ArqConfig { delay_max: Duration::from_millis(500), ..ArqConfig::default() };
    let mut hop = Hop::new(config);
    hop.offer(0..5);
    hop.run(ms(1000), &|_, _, at| at < ms(900));
    assert_eq!(hop.signals, [Signal::GivenUp(5), Signal::Down]);
    hop.offer(5..8);
    hop.run(ms(2000), &|_, _, _| false);
    assert_eq!(hop.numbers(), [5, 6, 7]);
    assert_eq!(hop.signals, [Signal::GivenUp(5), Signal::Down, Signal::Up]);
    assert_eq!(hop.ends[0].state_len(), 0);

    let config = ArqConfig { tries_max: 3, ..ArqConfig::default() };
    let mut hop = Hop::new(config);
    hop.offer(0..1);
    hop.run(ms(4000), &|_, _, _| true);
    assert_eq!(hop.ends[0].statistics().given_up, 1);
    assert_eq!(hop.sent, 3 + hop.ends[0].statistics().bare);
}

#[test]
fn a_receiver_is_never_overrun_when_room_is_reserved_and_is_without() {
    for reservation in [true, false] {
        let mut hop = Hop::new(ArqConfig { receive_len_max: 5000, reservation, ..ArqConfig::default() });
        hop.takes = false;
        hop.offer(0..20);
        hop.run(ms(400), &|_, _, _| false);
        let overflowed = hop.ends[1].statistics().overflowed;
        assert_eq!(overflowed == 0, reservation, "{overflowed}");
        hop.takes = true;
        hop.run(ms(9000), &|_, _, _| false);
        assert_eq!(hop.numbers(), (0..20).collect::<Vec<u32>>());
    }
}

#[test]
fn small_packets_share_frames_while_the_other_end_has_much_to_send() {
    let mut hop = Hop::new(ArqConfig::default());
    hop.offer(0..40);
    let count = std::cell::Cell::new(0);
    for number in 0..20 {
        hop.run(ms(2 * (number + 1)), &|end, _, _| {
            count.set(count.get() + end);
            false
        });
        hop.ends[1].send(hop.now, Plain(number as u32, 40)).unwrap();
    }
    hop.run(ms(300), &|end, _, _| {
        count.set(count.get() + end);
        false
    });
    assert_eq!(hop.arrived[0].len(), 20);
    assert!(count.get() <= 8, "{}", count.get());
    // Nobody waits longer than the hold and a frame or two.
    assert!(hop.arrived[0].iter().enumerate().all(|(n, (at, _))| *at <= 2 * n as u64 + 2 + 55), "{:?}", hop.arrived[0]);
}

#[test]
fn a_hand_off_resets_the_timers() {
    let mut hop = Hop::new(ArqConfig::default());
    hop.offer(0..3);
    hop.run(ms(900), &|_, _, _| true);
    assert!(hop.ends[0].is_silent());
    let now = hop.now;
    hop.ends[0].hand_off_coming(now);
    assert!(!hop.ends[0].is_silent());
    hop.run(ms(1000), &|_, _, _| false);
    assert_eq!(hop.numbers(), [0, 1, 2]);
    assert!(hop.arrived[1][0].0 < 960, "{:?}", hop.arrived[1]);
    assert!(hop.signals.contains(&Signal::HandOffComing));
}

#[test]
fn a_full_queue_refuses_and_hostile_frames_grow_nothing() {
    let mut end = Arq::new(ArqConfig { queue_len_max: 3000, ..ArqConfig::default() });
    let refused = (0..10).filter(|n| end.send(Time::ZERO, Plain(*n, 1000)).is_err()).count();
    assert_eq!((refused, end.statistics().refused), (7, 7));
    let mut end: Arq<Plain> = Arq::new(ArqConfig::default());
    for n in 0..10_000_u64 {
        let report =
            Report { next: u64::MAX - n, order: u64::MAX, have: vec![(5, 1), (0, u64::MAX)], told: u64::MAX, room: 0 };
        let frame = Frame {
            order: u64::MAX - n,
            number: n * 77_777,
            floor: 0,
            backlog: u32::MAX,
            packets: vec![Plain(0, 1000)],
            report: Some(report),
            wants_report: true,
            request: Some(u32::MAX),
        };
        end.handle_frame(Time::ZERO, frame);
    }
    assert!(end.state_len() <= 256 * 1024, "{}", end.state_len());
}

#[test]
fn destinations_are_served_in_turn_and_a_silent_one_costs_the_others_little() {
    let mut air: Air<Plain> = Air::new(AirConfig::default());
    let mut mobiles: BTreeMap<Destination, Arq<Plain>> =
        (0..3).map(|n| (Destination(n), Arq::new(ArqConfig::default()))).collect();
    for n in 0..300 {
        for mobile in 0..3 {
            // Those of the third wait before anybody else's.
            air.send(Time::ZERO, Destination(2 - mobile), Plain(n, 700)).unwrap();
        }
    }
    let (mut now, mut got, mut into_silence) = (Time::ZERO, [0_u32; 3], 0);
    while now < ms(500) {
        air.handle_timeout(now);
        if let Some((to, frame)) = air.poll_frame(now) {
            now = now + FRAME;
            if to == Destination(2) {
                into_silence += 1;
            } else if let Some(mobile) = mobiles.get_mut(&to) {
                mobile.handle_frame(now, frame);
            }
        } else {
            now = now + Duration::from_micros(100);
        }
        for (from, mobile) in &mut mobiles {
            while let Some(_packet) = mobile.poll_packet(now) {
                got[from.0 as usize] += 1;
            }
            mobile.handle_timeout(now);
            if let Some(frame) = mobile.poll_frame(now) {
                now = now + FRAME;
                air.handle_frame(now, *from, frame);
            }
        }
    }
    assert!(got[0] > 190 && got[0].abs_diff(got[1]) <= 2, "{got:?}");
    assert_eq!(got[2], 0);
    assert!(into_silence < 40, "{into_silence}");
}

#[test]
fn one_start_is_one_timeline() {
    let lost = |_: usize, n: u64, _: Time| n % 5 == 2;
    let runs = [0, 1].map(|_| {
        let mut hop = Hop::new(ArqConfig::default());
        hop.offer(0..50);
        hop.run(ms(2000), &lost);
        hop.arrived
    });
    assert_eq!(runs[0], runs[1]);
}
