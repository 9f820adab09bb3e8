//! Another address, and a hand-off that is told, in the middle of a transfer. All times are virtual.

use super::*;
use wayfs_link::{Capacity, DirectionConfig, LineState};

const RTT: Duration = Duration::from_millis(20);
/// The new address reaches the peer, its acknowledgement comes back, what was lost goes again; the peer may sit on an acknowledgement for 25 ms, and
/// sends little to an address that has not answered yet.
const PAUSE_MAX: Duration = Duration::from_millis(100);

fn line(bits: u64) -> LineConfig {
    LineConfig::symmetric(DirectionConfig {
        capacity: Capacity::Rate(bits),
        delay: RTT / 2,
        queue_len_max: 64_000,
        ..DirectionConfig::default()
    })
}

fn at(seconds: f64) -> Time {
    Time::from_micros((seconds * 1e6) as u64)
}

fn world(bits: u64, load: Load) -> World {
    World::new(line(bits), load, Congestion::Steady, Probing::BySilence, 1)
}

impl World {
    /// The client is somewhere else, behind another line, and what was under way on the old one is lost.
    fn move_client(&mut self, number: u8, line: LineConfig) {
        self.client = ends::client(number);
        self.medium = Medium::new(vec![line], Duplex::Full, u64::from(number), self.now);
        self.ends[0].note_moved();
    }

    /// Longest time between two arrivals.
    fn longest_gap(&self, from: Time, to: Time) -> Duration {
        let within: Vec<Time> = self.arrived.iter().map(|(at, _)| *at).filter(|at| *at >= from && *at <= to).collect();
        within.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(to - from)
    }

    fn received_between(&mut self, from: Time, to: Time) -> u64 {
        self.run_until(from);
        let before = self.received();
        self.run_until(to);
        self.received() - before
    }
}

#[test]
fn another_address_in_the_middle_of_a_transfer_costs_a_tenth_of_a_second() {
    for (bits, load) in
        [(1_000_000, Load::Bulk), (10_000_000, Load::Bulk), (1_000_000, Load::Download), (10_000_000, Load::Download)]
    {
        let mut world = world(bits, load);
        let before = world.received_between(at(1.0), at(3.0));
        for number in 1..5 {
            let seconds = f64::from(number) * 2.0 + 1.0;
            let moved = at(seconds);
            world.run_until(moved);
            world.move_client(number, line(bits));
            let after = world.received_between(moved, moved + Duration::from_secs(2));
            let gap = world.longest_gap(at(seconds - 0.1), at(seconds + 1.0));
            assert!(gap <= PAUSE_MAX, "{bits} {load:?}, address {number}: {gap:?}");
            assert!(after * 20 > before * 19, "{bits} {load:?}, address {number}: {after} after {before}");
        }
    }
}

#[test]
fn a_hand_off_that_is_told_lasts_no_longer_than_the_link_is_away() {
    for (bits, load) in [(1_000_000, Load::Bulk), (10_000_000, Load::Bulk), (10_000_000, Load::Download)] {
        for away_ms in [100, 300, 2000] {
            let mut world = world(bits, load);
            let before = world.received_between(at(1.0), at(3.0));
            let (down, up) = (at(3.0), at(3.0) + Duration::from_millis(away_ms));
            let dead = LineConfig { state: LineState::Cut, ..line(bits) };
            world.medium.schedule(LINE, vec![(down, dead), (up, line(bits))]);
            world.ends.iter().for_each(End::note_down);
            world.run_until(up);
            world.ends.iter_mut().for_each(End::note_up);
            let after = world.received_between(up, up + Duration::from_secs(2));
            let first = world.arrived.iter().map(|(at, _)| *at).find(|at| *at > up).unwrap() - up;
            // On the slower line a full packet takes 10 ms, and some were sent into the silence.
            let limit = RTT * 3 / 2 + Duration::from_millis(if bits < 10_000_000 { 90 } else { 10 });
            assert!(first <= limit, "{bits} {load:?} {away_ms} ms: {first:?}");
            assert!(after * 20 > before * 19, "{bits} {load:?} {away_ms} ms: {after} after {before}");
        }
    }
}
