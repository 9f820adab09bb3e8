//! Worlds, one after the other, each with a few losses.

use super::diary::Diary;
use super::disaster::{self, Kind};
use super::numbers::{self, Compared};
use super::world::World;
use super::{statement, verdict, workload};
use rand::Rng;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::time::{Duration, Instant};

pub use super::report::Round;

/// What is to be done.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Seed of the first world; the others follow it.
    pub seed: u64,
    /// Losses in all.
    pub losses: u64,
    /// Losses in one world.
    pub losses_in_world: u64,
    /// Stations in a world.
    pub stations: usize,
    /// Clients in a world.
    pub clients: usize,
    /// Disasters to choose from.
    pub kinds: Vec<Kind>,
    /// Whether every daemon must say that nothing is left when all is stable. What was lost with its writer is counted by
    /// servers for ever, so that worlds with losses fail by it.
    pub is_strict: bool,
    /// No loss begins later than this.
    pub time: Duration,
    /// Where the diaries of failing worlds go.
    pub diaries: PathBuf,
}

/// Something that was claimed and is not so.
#[derive(Debug, Clone)]
pub struct Failure {
    /// Seed of its world.
    pub seed: u64,
    /// The disaster before it.
    pub during: Option<Kind>,
    /// What.
    pub what: String,
}

/// Does it. Failures end their world, not the run.
pub fn run(plan: &Plan) -> Round {
    let mut round = Round::default();
    let end = Instant::now() + plan.time;
    let mut seed = plan.seed;
    while round.losses() < plan.losses && Instant::now() < end {
        round.worlds += 1;
        println!("world {} with seed {seed}: {} of {} losses so far", round.worlds, round.losses(), plan.losses);
        let before = round.losses();
        let outcome = std::panic::catch_unwind(AssertUnwindSafe(|| one_world(plan, seed, end, &mut round)));
        if outcome.is_err() {
            // The panic's message is above; it is a wait that had no end, or a command that failed.
            let what = "a wait ran into its bound, or a command failed: see the output".to_owned();
            round.failures.push(Failure { seed, during: None, what });
        }
        seed += 1;
        if round.losses() == before && round.failures.len() > 20 {
            break;
        }
    }
    round
}

/// A world until its losses are done, or something is found.
fn one_world(plan: &Plan, seed: u64, end: Instant, round: &mut Round) {
    let _ = std::fs::create_dir_all(&plan.diaries);
    let path = plan.diaries.join(format!("claims-{seed}.txt"));
    let mut diary = Diary::default();
    diary.keep(&path);
    let mut world = World::new(seed, plan, diary);
    let mut during = None;
    let outcome = std::panic::catch_unwind(AssertUnwindSafe(|| losses(plan, &mut world, end, round, &mut during)));
    for (kind, count) in world.diary.claims() {
        *round.claims.entry(kind).or_default() += count;
    }
    round.shadowed += world.diary.shadowed();
    round.pieces += world.diary.pieces().len() as u64;
    let what = match outcome {
        Ok(Ok(())) => {
            let _ = std::fs::remove_file(path);
            return;
        }
        Ok(Err(what)) => what,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            text.unwrap_or_else(|| "a panic".to_owned())
        }
    };
    println!("FOUND with seed {seed} after {during:?}: {what}");
    world.diary.note(format!("FOUND after {during:?}: {what}"));
    println!("its diary: {}", path.display());
    round.failures.push(Failure { seed, during, what });
}

fn losses(
    plan: &Plan,
    world: &mut World,
    end: Instant,
    round: &mut Round,
    during: &mut Option<Kind>,
) -> Result<(), String> {
    for _ in 0..plan.losses_in_world {
        if round.losses() >= plan.losses || Instant::now() > end {
            break;
        }
        work(world, round)?;
        let kind = plan.kinds[world.random.random_range(0..plan.kinds.len())];
        *during = Some(kind);
        if !disaster::strike(world, kind) {
            continue;
        }
        *round.losses.entry(kind).or_default() += 1;
        // Mostly all is well at once; else the next losses meet a world that is not.
        let is_left_alone = world.random.random_bool(0.2) && kind != Kind::Kill;
        if is_left_alone {
            continue;
        }
        settle_and_check(plan, world)?;
    }
    settle_and_check(plan, world)?;
    verdict::settle(world, plan.is_strict)?;
    for reader in 0..world.clients.len() {
        verdict::check(world, reader)?;
    }
    Ok(())
}

fn settle_and_check(plan: &Plan, world: &mut World) -> Result<(), String> {
    world.heal();
    let reader = world.random.random_range(0..world.clients.len());
    verdict::check(world, reader)?;
    if world.random.random_bool(0.3) { verdict::settle(world, plan.is_strict) } else { Ok(()) }
}

/// Programs work, daemons talk.
fn work(world: &mut World, round: &mut Round) -> Result<(), String> {
    let steps = world.random.random_range(6..30);
    for _ in 0..steps {
        let Some(at) = world.some_client() else { break };
        workload::step(world, at);
        if world.random.random_bool(0.35) {
            statement::by_chance(world, at);
        }
        if world.random.random_bool(0.04) && numbers::compare(&world.clients[at])? == Compared::Equal {
            round.compared += 1;
        }
    }
    if world.random.random_bool(0.1) {
        let at = world.random.random_range(0..world.clients.len());
        if world.clients[at].runs() {
            numbers::compare_umount(world, at)?;
            round.compared += 1;
        }
    }
    // The loss comes just after a claim.
    if let Some(at) = world.some_client() {
        statement::by_chance(world, at);
    }
    Ok(())
}
