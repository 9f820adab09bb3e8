//! What comes out, by line, controller and probing. All times are virtual.

use super::*;
use wayfs_link::{BadPeriods, Capacity, DirectionConfig, Durations, LineState, Probability};

const RTT: Duration = Duration::from_millis(20);
const MEGABIT: u64 = 1_000_000;

fn line(bits: u64, rtt: Duration, queue: u64) -> LineConfig {
    LineConfig::symmetric(DirectionConfig {
        capacity: Capacity::Rate(bits),
        delay: rtt / 2,
        queue_len_max: queue,
        ..DirectionConfig::default()
    })
}

fn at(seconds: f64) -> Time {
    Time::from_micros((seconds * 1e6) as u64)
}

/// A line that is dead for so long from the first second on, and how long after that the first bytes arrive; how many
/// probes were sent meanwhile, too.
fn after_a_burst(bits: u64, load: Load, burst: Duration, probing: Probing, seed: u64) -> (Duration, u64) {
    let line = line(bits, RTT, 64_000);
    let mut world = World::new(line.clone(), load, Congestion::Steady, probing, seed);
    // Bursts begin anywhere between two messages.
    let begins = at(1.0) + Duration::from_millis(seed * 7);
    let ends = begins + burst;
    let dead = LineConfig { state: LineState::Cut, ..line.clone() };
    world.medium.schedule(LINE, vec![(begins, dead), (ends, line)]);
    world.run_until(ends);
    let probes = world.ends[0].probes;
    let before = world.received();
    while world.received() == before {
        world.run_until(world.now + Duration::from_millis(1));
        assert!(world.now < ends + Duration::from_secs(60), "nothing comes any more");
    }
    (world.now - ends, probes)
}

/// They arrive in order: nothing new counts before what was lost.
const MESSAGES: Load = Load::Often(200, Duration::from_millis(10));

#[test]
fn what_a_burst_took_is_there_one_and_a_half_round_trips_and_20_ms_after_it() {
    // Two full packets take their time on the slower line, and bulk has a queue of its own.
    for (bits, load, more_ms) in [(MEGABIT, MESSAGES, 20), (10 * MEGABIT, MESSAGES, 0), (10 * MEGABIT, Load::Bulk, 40)]
    {
        for (burst, seed) in [20, 50, 100, 200, 350, 500].map(Duration::from_millis).into_iter().zip(1..) {
            let (took, probes) = after_a_burst(bits, load, burst, Probing::BySilence, seed);
            // A probe goes there, its acknowledgement comes back, and what was lost goes there.
            let limit = RTT * 3 / 2 + Duration::from_millis(20 + more_ms);
            assert!(took <= limit, "{bits} {load:?} {burst:?}: {took:?}, {probes} probes");
        }
    }
}

#[test]
fn what_6_seconds_of_silence_took_is_there_a_tenth_of_a_second_after_them() {
    let silence = Duration::from_secs(6);
    for load in [MESSAGES, Load::Bulk] {
        let (took, probes) = after_a_burst(MEGABIT, load, silence, Probing::BySilence, 1);
        assert!(took <= Duration::from_millis(110), "{load:?}: {took:?}");
        // 65 bytes each.
        let part = probes as f64 * 65.0 * 8.0 / silence.as_secs_f64() / MEGABIT as f64;
        assert!(probes > 50 && part < 0.03, "{probes} probes");
        let (without, none) = after_a_burst(MEGABIT, load, silence, Probing::Fixed, 1);
        assert!(without > 3 * took && none == 0, "{load:?}: {without:?} without probes");
    }
}

#[test]
fn who_has_nothing_under_way_sends_nothing() {
    let load = Load::Often(300, Duration::from_secs(3));
    let mut world = World::new(line(MEGABIT, RTT, 64_000), load, Congestion::Steady, Probing::BySilence, 1);
    world.run_until(at(31.0));
    assert_eq!(world.received(), 300 * 11);
    let probes = world.ends.each_ref().map(|end| end.probes);
    // The first acknowledgements of a connection may come later than was known.
    assert!(probes.iter().sum::<u64>() <= 2, "{probes:?}");
}

/// Seconds that a megabyte takes over the hop of the papers.
fn megabyte(bad_ms: u64, congestion: Congestion, probing: Probing, seed: u64) -> f64 {
    let mut line = line(MEGABIT, Duration::from_millis(10), 64_000);
    line.bad_periods = (bad_ms > 0).then_some(BadPeriods {
        good_mean: Duration::from_secs(1),
        bad_mean: Duration::from_millis(bad_ms),
        durations: Durations::Uniform,
        ..BadPeriods::default()
    });
    let mut world = World::new(line, Load::Bytes(1 << 20), congestion, probing, seed);
    world.run_until(at(300.0));
    world.now.as_micros() as f64 / 1e6
}

#[test]
fn a_hop_with_bursts_is_kept_busy() {
    let clean = megabyte(0, Congestion::Steady, Probing::BySilence, 1);
    assert!((8.4..9.0).contains(&clean), "{clean}");
    let mean = |bad_ms, congestion, probing| {
        (1..=3).map(|seed| megabyte(bad_ms, congestion, probing, seed)).sum::<f64>() / 3.0
    };
    for bad_ms in [40, 160] {
        let limit = clean * (1000.0 + bad_ms as f64) / 1000.0;
        let ours = mean(bad_ms, Congestion::Steady, Probing::BySilence);
        assert!(ours < 1.05 * limit, "bad {bad_ms} ms: {ours} of {limit}");
    }
    let textbook = mean(160, Congestion::NewReno, Probing::Fixed);
    assert!(textbook > 1.25 * clean, "{textbook}");
}

/// Bits per second of ours and of a CUBIC flow that comes later, over 20 s.
fn beside_cubic(rtt_ms: u64, queue: f64, congestion: Congestion) -> (f64, f64) {
    let rtt = Duration::from_millis(rtt_ms);
    let product = 10e6 / 8.0 * rtt.as_secs_f64();
    let mut world =
        World::new(line(10 * MEGABIT, rtt, (product * queue) as u64), Load::Bulk, congestion, Probing::BySilence, 1);
    world.run_until(at(5.0));
    world.add_rival();
    world.run_until(at(15.0));
    let (ours, theirs) = (world.received(), world.tcp_received);
    world.run_until(at(35.0));
    let rate = |bytes: u64| bytes as f64 * 8.0 / 20.0;
    (rate(world.received() - ours), rate(world.tcp_received - theirs))
}

#[test]
fn a_full_queue_is_shared_with_cubic() {
    for (rtt_ms, queue) in [(40, 1.0), (100, 1.0)] {
        let (ours, theirs) = beside_cubic(rtt_ms, queue, Congestion::Steady);
        assert!((0.5..=2.0).contains(&(ours / theirs)), "{rtt_ms} ms, {queue}: {ours} beside {theirs}");
        assert!(ours + theirs > 8.5e6, "{rtt_ms} ms, {queue}: {ours} beside {theirs}");
    }
}

#[test]
fn quinns_bbr_does_not_share() {
    let (ours, theirs) = beside_cubic(40, 1.0, Congestion::Bbr);
    assert!(ours / theirs > 4.0, "{ours} beside {theirs}");
}

#[test]
fn scattered_loss_costs_no_rate() {
    let rate = |congestion| {
        let mut line = line(20 * MEGABIT, Duration::from_millis(40), 100_000);
        line.up.loss = Probability::new(0.01).unwrap();
        let mut world = World::new(line, Load::Bulk, congestion, Probing::BySilence, 1);
        world.run_until(at(2.0));
        let before = world.received();
        world.run_until(at(7.0));
        (world.received() - before) as f64 * 8.0 / 5.0
    };
    let (ours, cubic) = (rate(Congestion::Steady), rate(Congestion::Cubic));
    assert!(ours > 16.5e6, "{ours}");
    assert!(cubic < ours / 2.0, "{cubic}");
}

#[test]
fn a_line_that_became_a_thousand_times_slower_is_not_flooded_for_long() {
    let load = Load::Often(1 << 20, Duration::from_secs(10));
    let fast = line(1000 * MEGABIT, Duration::from_millis(1), 1_000_000);
    let mut world = World::new(fast, load, Congestion::Steady, Probing::BySilence, 1);
    world.medium.schedule(LINE, vec![(at(5.0), line(MEGABIT, Duration::from_millis(10), 64_000))]);
    while world.received() < 2 << 20 {
        world.run_until(world.now + Duration::from_millis(10));
        assert!(world.now < at(60.0), "{} bytes came", world.received());
    }
    // The bytes alone take 8.4 s.
    let seconds = world.now.since(at(10.0)).as_secs_f64();
    assert!(seconds < 9.5, "{seconds} s");
}

/// A stream of quinn bears 1,024 holes and ends the connection at more (an end that loses its connection fails the test by itself).
#[test]
fn a_wide_path_that_is_found_full_keeps_its_connection() {
    let rtt = Duration::from_millis(100);
    // Twice and four times the rate that 2,000 packets in flight give.
    for (bits, queue) in [(500 * MEGABIT, 1_000_000), (1000 * MEGABIT, 500_000)] {
        let mut world = World::new(line(bits, rtt, queue), Load::Bulk, Congestion::Steady, Probing::BySilence, 1);
        world.run_until(at(3.0));
        let before = world.received();
        world.run_until(at(4.0));
        let rate = (world.received() - before) as f64 * 8.0;
        assert!(rate > 0.5 * bits as f64, "{bits} with a queue of {queue}: {rate}");
    }
}

#[test]
fn nobody_floods_a_line_that_he_has_alone() {
    let mut world =
        World::new(line(10 * MEGABIT, RTT, 1_000_000), Load::Bulk, Congestion::Steady, Probing::BySilence, 1);
    world.run_until(at(2.0));
    let mut highest = 0;
    while world.now < at(4.0) {
        world.run_until(world.now + Duration::from_millis(5));
        highest = highest.max(world.medium.queue_len(LINE, Way::Up));
    }
    // 0.1 s of 10 Mb/s.
    assert!(highest < 125_000, "{highest}");
    assert!(world.received() * 8 > 36_000_000, "{}", world.received());
}
