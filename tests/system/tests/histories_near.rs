//! What programs on four clients of one server did and saw is recorded and checked: without locks it is as on one machine
//! ([S-close-open], [S-exclusive], [S-append]), and under locks ([S-locks], [S-lock-order]).
//!
//! `scripts/histories.sh MINUTES SEED near` runs it for longer (`$WAYFS_HISTORIES_SECONDS`).

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::fs;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};
use wayfs_system_tests::Site;
use wayfs_system_tests::histories::{
    Care, Counter, Lock, Log, Maker, Program, Recorded, Register, Token, judge, prepare,
};

/// How long the short run takes.
const SHORT: Duration = Duration::from_secs(10);
/// How long one set of files is in use: short, since each read of a log is all of it.
const ROUND: Duration = Duration::from_secs(2);
/// Longest pause of programs that leave each other time.
const PAUSE: Duration = Duration::from_millis(150);
/// The clients.
const NAMES: [&str; 4] = ["ann", "bob", "cat", "dan"];

/// One set of files, used by all clients at once. Answers how often each thing was done.
fn round(site: &Site, random: &mut StdRng, number: usize) -> [usize; 6] {
    let name = format!("round-{number}");
    prepare(&site.root(number % NAMES.len()).join(&name));
    let (recorded, life, end) = (Recorded::default(), AtomicU64::new(0), Instant::now() + ROUND);
    std::thread::scope(|scope| {
        // In turns: all at once, and two who leave each other time.
        let (clients, pause) = if number.is_multiple_of(2) { (NAMES.len(), Duration::ZERO) } else { (2, PAUSE) };
        for client in 0..clients {
            let (root, random) = (site.root(client).join(&name), StdRng::seed_from_u64(random.random()));
            let (recorded, life, care) = (&recorded, &life, Care::Closed);
            let mut program = Program { client, root, recorded, random, numbers: 0, pause, care, life };
            scope.spawn(move || program.run_while(|| Instant::now() < end));
        }
    });
    let counts = [
        judge::<Register>("register", &recorded.registers),
        judge::<Counter>("counter", &recorded.counters),
        judge::<Log>("log", &recorded.logs),
        judge::<Maker>("name", &recorded.makers),
        judge::<Token>("token", &recorded.tokens),
        judge::<Lock>("lock", &recorded.locks),
    ];
    fs::remove_dir_all(site.root(0).join(&name)).unwrap();
    counts
}

/// Proves [S-close-open], [S-exclusive], [S-append], [S-locks], [S-no-replace].
#[test]
fn what_programs_at_one_station_see_has_an_order() {
    let seconds = std::env::var("WAYFS_HISTORIES_SECONDS").ok().and_then(|text| text.parse().ok());
    let seed = std::env::var("WAYFS_HISTORIES_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    let end = Instant::now() + seconds.map_or(SHORT, Duration::from_secs);
    let (site, mut random) = (Site::of(&NAMES), StdRng::seed_from_u64(seed));
    let (mut counts, mut number) = ([0; 6], 0);
    while Instant::now() < end {
        for (count, more) in counts.iter_mut().zip(round(&site, &mut random, number)) {
            *count += more;
        }
        number += 1;
    }
    println!("{counts:?} operations of registers, counters, logs, names, tokens, locks in {number} rounds");
    assert!(counts.iter().all(|count| *count > 0), "something never happened: {counts:?}");
    let litter: Vec<_> = fs::read_dir(site.root(1)).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(litter.is_empty(), "conflict copies: {litter:?}");
}
