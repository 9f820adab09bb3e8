//! An open file under a model kernel, over random steps, against plain bytes.
//!
//! The reference is what this machine acknowledged (`view`) and the newest content that the engine has (`newest`). After every step:
//! nothing acknowledged is lost or in a version where it was not written; a program sees what programs of its machine wrote; each page
//! of the kernel is of a version that was current; in the end all is clean, and the kernel reads what the engine has.
//!
//! `WAYFS_LIFE_SEEDS` is how many worlds are run, `WAYFS_LIFE_SEED` the first of them. A failure is shrunk and printed as steps.

mod disasters;
mod kernel;
mod programs;
mod steps;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};
use steps::{Random, Step};
use world::World;

/// Worlds of a run of the unit tests: some ten seconds.
const WORLDS: u64 = 300;
const STEPS: usize = 30;

fn run(steps: &[Step]) {
    let mut world = World::new();
    for step in steps {
        world.take(step);
    }
    world.end();
}

fn fails(steps: &[Step]) -> bool {
    catch_unwind(AssertUnwindSafe(|| run(steps))).is_err()
}

/// Leaves steps out as long as the rest fails.
fn shrink(mut steps: Vec<Step>) -> Vec<Step> {
    let mut at = 0;
    while at < steps.len() {
        let mut fewer = steps.clone();
        fewer.remove(at);
        match fails(&fewer) {
            true => (steps, at) = (fewer, 0),
            false => at += 1,
        }
    }
    steps
}

fn steps(seed: u64) -> Vec<Step> {
    let mut random = Random::of(seed);
    (0..STEPS).map(|_| random.step()).collect()
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// A handle that appends, and another machine's version of which the kernel was told.
fn appended_beside_news() -> Vec<Step> {
    let opened = Step::Open { writes: true, truncates: false, is_passthrough: false, appends: true };
    let elsewhere = Step::Elsewhere { len: 131_000, byte: 7, is_appended: true, is_during_commit: false };
    let write = Step::Write { handle: 0, offset: 0, len: 40, byte: 9 };
    let seen = Step::Read { handle: 0, offset: 0, len: 100 };
    vec![opened, write, elsewhere, Step::SendAway, Step::News, Step::Forget, Step::Look, seen]
}

#[test]
fn the_kernel_is_told_of_what_a_commit_moved_that_no_program_waits_for() {
    run(&[&appended_beside_news()[..], &[Step::Wait { seconds: 6 }, Step::Settle]].concat());
}

#[test]
fn the_kernel_is_told_of_what_a_commit_moved_before_it_had_to_wait() {
    run(&[&appended_beside_news()[..], &[Step::Flush { handle: 0 }, Step::Settle]].concat());
}

#[test]
fn what_was_changed_before_a_file_was_emptied_to_be_written_whole_does_not_come_undone() {
    let truncated = Step::Truncate { size: 5000, is_through_handle: false };
    let emptied = Step::Open { writes: true, truncates: true, is_passthrough: true, appends: false };
    let elsewhere = Step::Elsewhere { len: 1402, byte: 47, is_appended: true, is_during_commit: false };
    run(&[Step::Refuse { refuses: true }, elsewhere, truncated, emptied, Step::Kill]);
}

#[test]
fn whatever_happens_in_the_life_of_a_file_no_byte_is_lost_or_in_the_wrong_version() {
    let (first, count) = (number("WAYFS_LIFE_SEED").unwrap_or(0), number("WAYFS_LIFE_SEEDS").unwrap_or(WORLDS));
    for seed in first..first + count {
        let steps = steps(seed);
        if fails(&steps) {
            let shrunk = shrink(steps);
            eprintln!("WAYFS_LIFE_SEED={seed} fails with {shrunk:#?}");
            run(&shrunk);
        }
    }
}
