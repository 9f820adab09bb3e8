use super::*;
use crate::{BadPeriods, Capacity, DirectionConfig, Durations, Judged, Met, Probability, ReceiverConfig, WhenFull};
use proptest::prelude::*;
use rand_chacha::rand_core::SeedableRng;
use rand_chacha::{ChaCha8Rng, rand_core::RngCore};

const LINE: LineId = LineId(0);

fn us(micros: u64) -> Time {
    Time::from_micros(micros)
}

fn ms(milliseconds: u64) -> Time {
    us(milliseconds * 1000)
}

fn rate(bits_per_second: u64) -> DirectionConfig {
    DirectionConfig { capacity: Capacity::Rate(bits_per_second), ..DirectionConfig::default() }
}

fn medium(config: LineConfig) -> Medium<u64> {
    Medium::new(vec![config], Duplex::Full, 1, Time::ZERO)
}

/// Everything that still comes out, with the time that the driver is told to wake at.
fn drain(medium: &mut Medium<u64>) -> Vec<(u64, u64)> {
    let mut arrivals = Vec::new();
    while let Some(at) = medium.poll_timeout() {
        while let Some(delivery) = medium.poll(at) {
            arrivals.push((delivery.packet, delivery.at.as_micros()));
        }
    }
    arrivals
}

#[test]
fn packets_leave_at_the_rate_and_arrive_after_the_delay() {
    let direction = DirectionConfig { delay: Duration::from_millis(5), ..rate(10_000_000) };
    let mut line = medium(LineConfig::symmetric(direction));
    for packet in 0..3 {
        assert_eq!(line.send(Time::ZERO, LINE, Way::Up, 1250, packet), None);
    }
    assert_eq!(drain(&mut line), [(0, 6000), (1, 7000), (2, 8000)]);
}

#[test]
fn headers_of_the_link_cost_time_too() {
    let mut line = medium(LineConfig::symmetric(DirectionConfig { overhead_len: 250, ..rate(10_000_000) }));
    line.send(Time::ZERO, LINE, Way::Up, 1000, 7);
    assert_eq!(drain(&mut line), [(7, 1000)]);
}

#[test]
fn packets_keep_the_gap_of_their_way_however_short_they_are() {
    let gap = Duration::from_millis(2);
    let up = DirectionConfig { gap, ..DirectionConfig::default() };
    let mut line = medium(LineConfig { up, down: rate(10_000_000), ..LineConfig::default() });
    for n in 0..2 {
        line.send(ms(1), LINE, Way::Up, 40, n);
        line.send(ms(1), LINE, Way::Down, 1250, 10 + n);
    }
    assert_eq!(drain(&mut line), [(0, 1000), (10, 2000), (1, 3000), (11, 3000)]);
    // The gap has passed: whoever comes now is not delayed.
    line.send(ms(5), LINE, Way::Up, 40, 2);
    assert_eq!(drain(&mut line), [(2, 5000)]);
}

#[test]
fn on_a_shared_channel_the_gap_after_one_line_delays_the_other() {
    let gap = Duration::from_millis(2);
    let slow = LineConfig::symmetric(DirectionConfig { gap, ..DirectionConfig::default() });
    let mut cell = Medium::new(vec![slow, LineConfig::default()], Duplex::Half, 1, Time::ZERO);
    for n in 0..2 {
        cell.send(Time::ZERO, LineId(0), Way::Up, 40, n);
        cell.send(Time::ZERO, LineId(1), Way::Up, 40, 10 + n);
    }
    assert_eq!(drain(&mut cell), [(0, 0), (10, 2000), (1, 2000), (11, 4000)]);
}

#[test]
fn a_cut_empties_a_queue_that_waits_for_the_gap() {
    let whole = LineConfig::symmetric(DirectionConfig { gap: Duration::from_millis(5), ..DirectionConfig::default() });
    let mut line = medium(whole.clone());
    for n in 0..3 {
        line.send(Time::ZERO, LINE, Way::Up, 40, n);
    }
    line.reconfigure(ms(6), LINE, LineConfig { state: LineState::Cut, ..whole });
    assert_eq!(drain(&mut line), [(0, 0), (1, 5000)]);
    assert_eq!(line.statistics(LINE).up.lost_to_cuts, 1);
}

#[test]
fn a_full_queue_gives_the_packet_back() {
    let mut line = medium(LineConfig::symmetric(DirectionConfig { queue_len_max: 5000, ..rate(1_000_000) }));
    let refused: Vec<u64> = (0..10).filter_map(|n| line.send(Time::ZERO, LINE, Way::Up, 1250, n)).collect();
    assert_eq!(refused, [4, 5, 6, 7, 8, 9]);
    assert_eq!(line.statistics(LINE).up.dropped, 6);
    assert_eq!(line.statistics(LINE).up.queue_len_highest, 5000);
}

#[test]
fn a_new_rate_holds_for_the_rest_of_a_packet_and_for_those_that_wait() {
    let mut line = medium(LineConfig::symmetric(rate(1_000_000)));
    for packet in 0..3 {
        line.send(Time::ZERO, LINE, Way::Up, 1250, packet);
    }
    // Half of the first packet is through when the line becomes ten times as fast.
    line.reconfigure(ms(5), LINE, LineConfig::symmetric(rate(10_000_000)));
    assert_eq!(drain(&mut line), [(0, 5500), (1, 6500), (2, 7500)]);
}

#[test]
fn a_schedule_does_the_same_even_if_nobody_looks_in_time() {
    let mut line = medium(LineConfig::symmetric(rate(1_000_000)));
    line.schedule(LINE, vec![(ms(5), LineConfig::symmetric(rate(10_000_000)))]);
    for packet in 0..3 {
        line.send(Time::ZERO, LINE, Way::Up, 1250, packet);
    }
    let late: Vec<u64> = std::iter::from_fn(|| line.poll(ms(100))).map(|d| d.at.as_micros()).collect();
    assert_eq!(late, [5500, 6500, 7500]);
}

#[test]
fn full_duplex_ways_do_not_disturb_each_other_and_half_duplex_ones_take_turns() {
    for (duplex, expected) in [
        (Duplex::Full, [(0, 1000), (10, 1000), (1, 2000), (11, 2000)]),
        (Duplex::Half, [(0, 1000), (10, 2000), (1, 3000), (11, 4000)]),
    ] {
        let mut line = Medium::new(vec![LineConfig::symmetric(rate(10_000_000))], duplex, 1, Time::ZERO);
        for n in 0..2 {
            line.send(Time::ZERO, LINE, Way::Up, 1250, n);
            line.send(Time::ZERO, LINE, Way::Down, 1250, 10 + n);
        }
        assert_eq!(drain(&mut line), expected, "{duplex:?}");
    }
}

#[test]
fn lines_of_a_shared_channel_are_served_in_turn() {
    let config = LineConfig::symmetric(rate(10_000_000));
    let mut cell = Medium::new(vec![config.clone(), config], Duplex::Half, 1, Time::ZERO);
    for n in 0..3 {
        cell.send(Time::ZERO, LineId(0), Way::Down, 1250, n);
    }
    cell.send(Time::ZERO, LineId(1), Way::Down, 1250, 100);
    assert_eq!(drain(&mut cell), [(0, 1000), (100, 2000), (1, 3000), (2, 4000)]);
}

#[test]
fn a_cut_line_swallows_what_waits_and_what_comes_but_not_what_is_on_its_way() {
    let direction = DirectionConfig { delay: Duration::from_millis(50), ..rate(10_000_000) };
    let whole = LineConfig::symmetric(direction);
    let mut line = medium(whole.clone());
    for packet in 0..3 {
        line.send(Time::ZERO, LINE, Way::Up, 1250, packet);
    }
    line.reconfigure(us(1500), LINE, LineConfig { state: LineState::Cut, ..whole.clone() });
    assert_eq!(line.send(ms(3), LINE, Way::Up, 1250, 3), Some(3));
    line.reconfigure(ms(4), LINE, whole);
    line.send(ms(5), LINE, Way::Up, 1250, 4);
    assert_eq!(drain(&mut line), [(0, 51_000), (4, 56_000)]);
    assert_eq!(line.statistics(LINE).up.lost_to_cuts, 3);
}

#[test]
fn a_bad_period_takes_what_it_touches_in_either_direction() {
    let periods = BadPeriods {
        good_mean: Duration::from_millis(100),
        bad_mean: Duration::from_millis(50),
        durations: Durations::Fixed,
        ..BadPeriods::default()
    };
    let mut line = medium(LineConfig { bad_periods: Some(periods), ..LineConfig::symmetric(rate(10_000_000)) });
    // One millisecond each: ends as the bad period begins; overlaps its begin; inside; overlaps its end; after it.
    let sent = [99_000, 99_500, 120_000, 149_500, 150_000];
    for (packet, at) in sent.into_iter().enumerate() {
        line.send(us(at), LINE, Way::Up, 1250, packet as u64);
        line.send(us(at), LINE, Way::Down, 1250, packet as u64);
    }
    let mut arrived: Vec<u64> = drain(&mut line).into_iter().map(|(packet, _)| packet).collect();
    arrived.dedup();
    // The second waits behind the first and begins in the bad period; the fifth waits for the fourth.
    assert_eq!(arrived, [0, 4]);
    assert_eq!(line.statistics(LINE).up.lost_to_bad_periods, 3);
    assert_eq!(line.statistics(LINE).down.lost_to_bad_periods, 3);
}

/// Good for 100 ms, bad for 50.
fn at_the_driver(met: Met) -> Medium<u64> {
    let periods = BadPeriods {
        good_mean: Duration::from_millis(100),
        bad_mean: Duration::from_millis(50),
        durations: Durations::Fixed,
        judged: Judged::AtDriver,
        met,
        ..BadPeriods::default()
    };
    medium(LineConfig { bad_periods: Some(periods), ..LineConfig::symmetric(rate(10_000_000)) })
}

#[test]
fn a_driver_judges_what_it_sends_when_it_is_called_and_what_it_receives_after_its_transmission() {
    let mut line = at_the_driver(Met::Lost);
    // One millisecond each: before, across the begin of the bad period, inside, across its end.
    for (packet, at) in [98_000, 99_500, 120_000, 149_500].into_iter().enumerate() {
        line.send(us(at), LINE, Way::Up, 1250, packet as u64);
        line.send(us(at), LINE, Way::Down, 1250, 10 + packet as u64);
    }
    let mut arrived: Vec<u64> = drain(&mut line).into_iter().map(|(packet, _)| packet).collect();
    arrived.sort_unstable();
    assert_eq!(arrived, [0, 1, 10, 13]);
    let statistics = line.statistics(LINE);
    assert_eq!((statistics.up.lost_to_bad_periods, statistics.down.lost_to_bad_periods), (2, 2));
}

#[test]
fn a_driver_that_holds_lets_go_when_the_period_ends_and_loses_nothing() {
    let mut line = at_the_driver(Met::Held);
    for (packet, at) in [99_500, 120_000, 121_000].into_iter().enumerate() {
        line.send(us(at), LINE, Way::Up, 1250, packet as u64);
        line.send(us(at), LINE, Way::Down, 1250, 10 + packet as u64);
    }
    let mut arrived = drain(&mut line);
    arrived.sort_unstable();
    // What is sent waits at the driver; what is received has had its time on the air and comes out at once.
    let expected = [(0, 100_500), (1, 151_000), (2, 152_000), (10, 150_000), (11, 150_000), (12, 150_000)];
    assert_eq!(arrived, expected);
    assert_eq!(line.statistics(LINE).up.lost_to_bad_periods, 0);
}

#[test]
fn what_was_held_goes_when_bad_periods_are_taken_away() {
    let mut line = at_the_driver(Met::Held);
    line.send(ms(110), LINE, Way::Up, 1250, 1);
    line.reconfigure(ms(120), LINE, LineConfig::symmetric(rate(10_000_000)));
    assert_eq!(drain(&mut line), [(1, 121_000)]);
}

#[test]
fn a_slow_host_loses_what_comes_too_fast_unless_it_says_how_much_room_it_has() {
    for (when_full, expected, lost) in [
        (WhenFull::Lost, vec![(0, 21_000), (1, 41_000), (10, 120_000)], 2),
        (WhenFull::NotSent, vec![(0, 21_000), (1, 41_000), (2, 61_000), (3, 81_000), (10, 120_000)], 0),
    ] {
        let receiver = ReceiverConfig { packets_max: 2, per_packet: Duration::from_millis(20), when_full };
        let down = DirectionConfig { receiver: Some(receiver), ..rate(10_000_000) };
        let mut line = medium(LineConfig { down, ..LineConfig::symmetric(rate(10_000_000)) });
        for n in 0..4 {
            line.send(Time::ZERO, LINE, Way::Down, 1250, n);
        }
        let mut arrived = Vec::new();
        while let Some(delivery) = line.poll(ms(90)) {
            arrived.push((delivery.packet, delivery.at.as_micros()));
        }
        line.send(ms(99), LINE, Way::Down, 1250, 10);
        arrived.extend(drain(&mut line));
        assert_eq!(arrived, expected, "{when_full:?}");
        assert_eq!(line.statistics(LINE).down.lost_to_overflow, lost);
    }
}

#[test]
fn a_line_that_is_seeded_anew_is_as_a_new_one() {
    let periods = BadPeriods { bad_mean: Duration::from_millis(200), ..BadPeriods::default() };
    let direction = DirectionConfig { loss: Probability::new(0.1).unwrap(), ..rate(10_000_000) };
    let config = LineConfig { bad_periods: Some(periods), ..LineConfig::symmetric(direction) };
    let fates = |medium: &mut Medium<u64>, begin: u64| {
        let mut arrived = Vec::new();
        for n in 0..3000 {
            medium.send(ms(begin + 2 * n), LINE, Way::Up, 500, n);
            arrived.extend(std::iter::from_fn(|| medium.poll(ms(begin + 2 * n))).map(|delivery| delivery.packet));
        }
        arrived
    };
    let mut used = Medium::new(vec![config.clone()], Duplex::Full, 8, Time::ZERO);
    let other = fates(&mut used, 0);
    drain(&mut used);
    used.reseed(ms(10_000), LINE, 9);
    let mut new = Medium::new(vec![config], Duplex::Full, 9, ms(10_000));
    let expected = fates(&mut new, 10_000);
    assert_eq!(fates(&mut used, 10_000), expected);
    assert_ne!(other, expected);
}

#[test]
fn the_time_in_bad_periods_is_counted() {
    let periods = BadPeriods {
        good_mean: Duration::from_millis(100),
        bad_mean: Duration::from_millis(50),
        durations: Durations::Fixed,
        ..BadPeriods::default()
    };
    let mut line = medium(LineConfig { bad_periods: Some(periods), ..LineConfig::default() });
    assert_eq!(line.poll(ms(1000)), None);
    let statistics = line.statistics(LINE);
    assert_eq!((statistics.bad_periods, statistics.bad_time), (6, Duration::from_millis(300)));
}

/// Poisson arrivals at a line of fixed service time: the mean wait of M/D/1 is `rho / (2 (1 - rho))` services.
#[test]
fn poisson_arrivals_wait_as_long_as_the_formula_says() {
    for (percent, tolerance) in [(30_u32, 0.03), (60, 0.04), (80, 0.08)] {
        let rho = f64::from(percent) / 100.0;
        let direction = DirectionConfig { queue_len_max: u64::MAX, ..rate(10_000_000) };
        let mut line = medium(LineConfig::symmetric(direction));
        let mut random = ChaCha8Rng::seed_from_u64(5);
        let service = 1000.0;
        let (mut now, mut waited) = (0.0, 0.0);
        let packets = 200_000;
        for _ in 0..packets {
            now += -(1.0 - crate::loss::unit(&mut random)).ln() * service / rho;
            let at = us(now as u64);
            while let Some(delivery) = line.poll(at) {
                waited += delivery.at.as_micros() as f64 - delivery.packet as f64 - service;
            }
            line.send(at, LINE, Way::Up, 1250, at.as_micros());
        }
        waited += drain(&mut line).into_iter().map(|(sent, at)| (at - sent) as f64 - service).sum::<f64>();
        let (mean, expected) = (waited / f64::from(packets) / service, rho / (2.0 * (1.0 - rho)));
        assert!((mean / expected - 1.0).abs() < tolerance, "load {rho}: waited {mean}, expected {expected}");
    }
}

#[test]
fn losses_come_as_often_as_asked_and_bit_errors_by_length() {
    let direction = DirectionConfig { loss: Probability::new(0.02).unwrap(), ..DirectionConfig::default() };
    let errors = DirectionConfig { bytes_per_bit_error: Some(65_536.0), ..DirectionConfig::default() };
    let mut line = medium(LineConfig { up: direction, down: errors, ..LineConfig::default() });
    let packets = 200_000_u64;
    for n in 0..packets {
        line.send(us(n), LINE, Way::Up, 1400, n);
        line.send(us(n), LINE, Way::Down, 1400, n);
        while line.poll(us(n)).is_some() {}
    }
    let statistics = line.statistics(LINE);
    let up = statistics.up.lost_at_random as f64 / packets as f64;
    let down = statistics.down.lost_to_errors as f64 / packets as f64;
    let expected = 1.0 - (-1400.0_f64 / 65_536.0).exp();
    assert!((up - 0.02).abs() < 0.001, "{up}");
    assert!((down - expected).abs() < 0.001, "{down} instead of {expected}");
}

#[test]
fn an_error_takes_as_many_packets_in_a_row_as_asked() {
    let errors = DirectionConfig { bytes_per_bit_error: Some(65_536.0), error_run: 4, ..DirectionConfig::default() };
    let mut line = medium(LineConfig { up: errors, ..LineConfig::default() });
    let mut arrived = Vec::new();
    for n in 0..100_000_u64 {
        line.send(us(n), LINE, Way::Up, 1400, n);
        while let Some(delivery) = line.poll(us(n)) {
            arrived.push(delivery.packet);
        }
    }
    let gaps: Vec<u64> = arrived.windows(2).map(|pair| pair[1] - pair[0] - 1).filter(|lost| *lost > 0).collect();
    assert!(gaps.len() > 1000, "{} errors", gaps.len());
    // One error may follow the other at once.
    assert!(gaps.iter().all(|lost| lost % 4 == 0), "{gaps:?}");
}

#[test]
fn drawing_losses_in_one_way_leaves_the_other_alone() {
    let jittery = DirectionConfig { jitter: Duration::from_millis(3), ..rate(10_000_000) };
    let arrivals_down = |up: DirectionConfig| {
        let mut line = medium(LineConfig { up, down: jittery.clone(), ..LineConfig::default() });
        for n in 0..100 {
            line.send(ms(n), LINE, Way::Up, 1000, 1000 + n);
            line.send(ms(n), LINE, Way::Down, 1000, n);
        }
        drain(&mut line).into_iter().filter(|(packet, _)| *packet < 1000).collect::<Vec<_>>()
    };
    let lossy = DirectionConfig { loss: Probability::new(0.5).unwrap(), ..rate(10_000_000) };
    assert_eq!(arrivals_down(rate(10_000_000)), arrivals_down(lossy));
}

fn any_direction() -> impl Strategy<Value = DirectionConfig> {
    (0..3_u8, 10_000..1_000_000_000_u64, 0..100_000_u64, 0..50_000_u64, 0..5_000_u64, any::<bool>(), 0..50_u32)
        .prop_map(|(kind, speed, queue, delay, jitter, reordering, loss)| DirectionConfig {
            capacity: match kind {
                0 => Capacity::Unlimited,
                1 => Capacity::Rate(speed),
                _ => Capacity::Trace(vec![1, 1, 4, 9, speed % 100 + 10].into()),
            },
            queue_len_max: queue,
            gap: Duration::from_micros(if speed % 3 == 0 { speed % 3000 } else { 0 }),
            delay: Duration::from_micros(delay),
            jitter: Duration::from_micros(jitter),
            reordering,
            loss: Probability::new(f64::from(loss) / 100.0).unwrap(),
            duplication: Probability::new(f64::from(loss % 7) / 100.0).unwrap(),
            receiver: (loss % 4 == 1).then_some(ReceiverConfig {
                packets_max: speed as usize % 5,
                per_packet: Duration::from_micros(delay % 3000),
                when_full: if loss % 8 == 1 { WhenFull::Lost } else { WhenFull::NotSent },
            }),
            ..DirectionConfig::default()
        })
}

fn any_line() -> impl Strategy<Value = LineConfig> {
    (any_direction(), any_direction(), prop::option::of((1..100_u64, 0..50_u64, 0..4_u8)), 0..10_u8).prop_map(
        |(up, down, periods, cut)| LineConfig {
            up,
            down,
            bad_periods: periods.map(|(good, bad, kind)| BadPeriods {
                good_mean: Duration::from_millis(good),
                bad_mean: Duration::from_millis(bad),
                durations: Durations::Exponential,
                tick: Duration::from_millis(u64::from(kind % 2) * 3),
                judged: if kind < 2 { Judged::ByTouch } else { Judged::AtDriver },
                met: if kind == 3 { Met::Held } else { Met::Lost },
            }),
            state: if cut == 0 { LineState::Cut } else { LineState::Connected },
        },
    )
}

proptest! {
    /// Whatever the settings and changes: every packet has one fate, nothing comes early, out of order
    /// (unless allowed) or later than the driver was told to wake, and a second run gives the same.
    #[test]
    fn every_packet_has_one_fate(
        configs in prop::collection::vec(any_line(), 1..4),
        changes in prop::collection::vec((0..300_u64, any_line()), 0..4),
        half in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let duplex = if half { Duplex::Half } else { Duplex::Full };
        let (first, medium) = run(&configs, &changes, duplex, seed);
        let (second, _) = run(&configs, &changes, duplex, seed);
        prop_assert_eq!(&first, &second);
        for line in (0..configs.len()).map(LineId) {
            let statistics = medium.statistics(line);
            for (way, s) in Way::BOTH.into_iter().zip([statistics.up, statistics.down]) {
                let fates = s.delivered + s.dropped + s.lost_to_errors + s.lost_at_random
                    + s.lost_to_bad_periods + s.lost_to_cuts + s.lost_to_overflow;
                prop_assert_eq!(s.offered, fates);
                prop_assert_eq!(medium.queue_len(line, way), 0);
                let arrived = first.iter().filter(|a| a.line == line && a.way == way);
                prop_assert_eq!(arrived.count() as u64, s.delivered + s.duplicated);
            }
        }
        prop_assert!(first.iter().all(|arrival| arrival.at >= arrival.packet));
        let ordered = |c: &LineConfig| !c.up.reordering && !c.down.reordering;
        if configs.iter().chain(changes.iter().map(|(_, c)| c)).all(ordered) {
            for (line, way) in (0..configs.len()).flat_map(|l| Way::BOTH.map(|w| (LineId(l), w))) {
                let sent: Vec<u64> =
                    first.iter().filter(|a| a.line == line && a.way == way).map(|a| a.packet).collect();
                prop_assert!(sent.is_sorted());
            }
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Arrival {
    line: LineId,
    way: Way,
    packet: u64,
    at: u64,
}

/// A load that depends on the seed alone; packets carry the time at which they were offered.
fn run(
    configs: &[LineConfig],
    changes: &[(u64, LineConfig)],
    duplex: Duplex,
    seed: u64,
) -> (Vec<Arrival>, Medium<u64>) {
    let mut medium = Medium::new(configs.to_vec(), duplex, seed, Time::ZERO);
    medium.schedule(LINE, changes.iter().map(|(at, config)| (ms(*at), config.clone())).collect());
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut arrivals = Vec::new();
    let mut now = Time::ZERO;
    for _ in 0..300 {
        let next = now + Duration::from_micros(random.next_u64() % 2000);
        collect(&mut medium, next, &mut arrivals);
        now = next;
        let line = LineId(random.next_u64() as usize % configs.len());
        let way = Way::BOTH[random.next_u64() as usize % 2];
        medium.send(now, line, way, 40 + random.next_u64() as usize % 1461, now.as_micros());
    }
    let end = Time::from_micros(u64::MAX / 4000);
    collect(&mut medium, end, &mut arrivals);
    (arrivals, medium)
}

/// Drives the medium as a live driver does: wakes when told, and must then find things due at that time.
fn collect(medium: &mut Medium<u64>, until: Time, arrivals: &mut Vec<Arrival>) {
    while let Some(at) = medium.poll_timeout().filter(|at| *at <= until) {
        while let Some(delivery) = medium.poll(at) {
            assert_eq!(delivery.at, at, "the driver was told too late");
            let Delivery { line, way, at, packet } = delivery;
            arrivals.push(Arrival { line, way, packet, at: at.as_micros() });
        }
    }
}
