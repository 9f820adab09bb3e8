//! Seeds in bulk, the same seed twice, and the planted bugs.

use crate::{Bug, run};

/// Seeds that every test run goes through.
const SEEDS: u64 = 1000;

#[test]
fn a_thousand_seeds_run_clean() {
    for seed in 0..SEEDS {
        let report = run(seed, None);
        assert!(report.violations.is_empty(), "seed {seed}: {}\nreplay: cargo xtask sim {seed}", report.violations[0]);
    }
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    for seed in 0..20 {
        assert_eq!(run(seed, None), run(seed, None), "seed {seed}");
    }
}

#[test]
fn every_planted_bug_is_caught() {
    for bug in Bug::ALL {
        let caught = (0..300).find_map(|seed| Some((seed, run(seed, Some(bug)).violations.into_iter().next()?)));
        let (seed, violation) = caught.unwrap_or_else(|| panic!("{bug:?} went unnoticed for 300 seeds"));
        println!("{bug:?}: seed {seed}: {violation}");
    }
}
