//! Seeds in bulk, the same seed twice, and the planted bugs.

use crate::{Bug, run, run_planned};

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
        let find = |seed| Some((seed, run_planned(bug.plan(seed), Some(bug), false).violations.into_iter().next()?));
        let (seed, violation) = (0..SEEDS).find_map(find).unwrap_or_else(|| panic!("{bug:?} went unnoticed"));
        println!("{bug:?}: seed {seed}: {violation}");
    }
}
