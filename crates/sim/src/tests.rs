//! Seeds in bulk, the same seed twice, and the planted bugs.

use crate::{Bug, Disaster, Plan, Verbosity, run, run_planned};
use std::sync::atomic::{AtomicU64, Ordering};

/// Seeds that every test run goes through.
const SEEDS: u64 = 1000;
/// Seeds in which each planted bug is to be found (`cargo xtask sim --planted` says in which it is).
const PLANTED_SEEDS: u64 = 300;

#[test]
fn a_thousand_seeds_run_clean() {
    let next = AtomicU64::new(0);
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= SEEDS {
                        return;
                    }
                    let violations = run_planned(Plan::of_seed(seed), None, Verbosity::Quiet).violations;
                    assert!(violations.is_empty(), "seed {seed}: {}\nreplay: cargo xtask sim {seed}", violations[0]);
                }
            });
        }
    });
}

/// Of each no smaller test is known. They say something as long as what a seed draws stays as it is.
#[test]
fn seeds_that_found_something_run_clean() {
    let home_back = [Disaster::HomeBack].as_slice();
    let found = [
        (
            92_038_461,
            [].as_slice(),
            "a writer that missed the word that all is stable answers for its contents for ever",
        ),
        (92_042_544, &[], "a writer that was put back is asked under its former number only"),
        (97_000_579, home_back, "a station waits for contents of what it cancelled and that nobody has"),
        (111_003_298, &[], "a writer is not told what became of what was looked for if its line is cut just then"),
        (116_034_698, &[], "a writer pushes what was looked for and found meanwhile, and is told nothing of it"),
        (116_068_903, &[], "a home waits for contents from a station that knows them by another name"),
        (
            175_025_527,
            &[],
            "a kernel keeps that a name stands for nothing, of which its client knows by its own removal only",
        ),
    ];
    for (seed, with, what) in found {
        let plan = as_drawn_then(seed, with);
        let violations = run_planned(plan, None, Verbosity::Quiet).violations;
        assert!(violations.is_empty(), "seed {seed}, {what}: {}", violations[0]);
    }
}

/// The plan of a seed when it was found: the early ones had no open files, no locks but of exclusive directories, and no names in the kernel.
fn as_drawn_then(seed: u64, with: &[Disaster]) -> Plan {
    if seed >= 175_000_000 {
        return Plan::with(seed, &Disaster::ON, with);
    }
    let on: Vec<Disaster> = Disaster::ON.into_iter().filter(|disaster| *disaster != Disaster::OpenFiles).collect();
    Plan { locks: false, kernel_names: false, ..Plan::with(seed, &on, with) }
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
        let find = |seed| Some((seed, bug.found_by(seed)?));
        let (seed, violation) = (0..PLANTED_SEEDS).find_map(find).unwrap_or_else(|| panic!("{bug:?} went unnoticed"));
        println!("{bug:?}: seed {seed}: {violation}");
    }
}
