//! Worlds, some side by side, each with a few losses.

use super::diary::Diary;
use super::disaster::{self, Kind};
use super::numbers::{self, Compared};
use super::world::World;
use super::{server_numbers, statement, verdict, workload};
use rand::Rng;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

pub use super::report::Round;

/// A run with more failures than this ends.
const FAILURES_MAX: usize = 40;

/// What is to be done.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Seed of the first world; the others follow it.
    pub seed: u64,
    /// Losses in all.
    pub losses: u64,
    /// Worlds side by side. They share nothing but the machine; most of a world's time it waits.
    pub worlds: usize,
    /// Losses in one world.
    pub losses_in_world: u64,
    /// Stations in a world.
    pub stations: usize,
    /// Clients in a world.
    pub clients: usize,
    /// Disasters to choose from.
    pub kinds: Vec<Kind>,
    /// Whether every daemon must say that nothing is left when all is stable, and all whose disks are gone are revoked.
    pub is_strict: bool,
    /// No loss begins later than this.
    pub time: Duration,
    /// Where the diaries of failing worlds go.
    pub diaries: PathBuf,
    /// Where the report goes after each world, so that a run that is cut short has one.
    pub report: Option<PathBuf>,
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

/// What worlds that run side by side have in common.
#[derive(Debug)]
struct Campaign<'a> {
    plan: &'a Plan,
    end: Instant,
    seed: AtomicU64,
    losses: AtomicU64,
    /// Of the worlds that are over.
    round: Mutex<Round>,
}

/// Does it. Failures end their world, not the run.
pub fn run(plan: &Plan) -> Round {
    let campaign = Campaign {
        plan,
        end: Instant::now() + plan.time,
        seed: AtomicU64::new(plan.seed),
        losses: AtomicU64::new(0),
        round: Mutex::default(),
    };
    std::thread::scope(|scope| {
        for _ in 0..plan.worlds {
            scope.spawn(|| {
                crate::own_descriptors();
                campaign.worlds();
            });
        }
    });
    campaign.round.into_inner().expect("no world panics while it adds up")
}

impl Campaign<'_> {
    fn is_over(&self) -> bool {
        self.losses.load(Ordering::Relaxed) >= self.plan.losses || Instant::now() > self.end
    }

    /// One world after the other.
    fn worlds(&self) {
        while !self.is_over() {
            let seed = self.seed.fetch_add(1, Ordering::Relaxed);
            println!(
                "world with seed {seed}: {} of {} losses so far",
                self.losses.load(Ordering::Relaxed),
                self.plan.losses
            );
            let mut round = Round { worlds: 1, ..Round::default() };
            let outcome = std::panic::catch_unwind(AssertUnwindSafe(|| self.one_world(seed, &mut round)));
            if outcome.is_err() {
                // The panic's message is above; it is a wait that had no end, or a command that failed.
                let what = "a wait ran into its bound, or a command failed: see the output".to_owned();
                round.failures.push(Failure { seed, during: None, what });
            }
            if self.add(round) > FAILURES_MAX {
                return;
            }
        }
    }

    /// Adds a world that is over; how many failures there are.
    fn add(&self, world: Round) -> usize {
        let mut round = self.round.lock().expect("no world panics while it adds up");
        round.add(world);
        if let Some(path) = &self.plan.report {
            std::fs::write(path, round.text()).expect("write the report");
        }
        round.failures.len()
    }

    /// A world until its losses are done, or something is found.
    fn one_world(&self, seed: u64, round: &mut Round) {
        let _ = std::fs::create_dir_all(&self.plan.diaries);
        let path = self.plan.diaries.join(format!("claims-{seed}.txt"));
        let mut diary = Diary::default();
        diary.keep(&path);
        let mut world = round.spend("set-up", || World::new(seed, self.plan, diary));
        let mut during = None;
        let outcome = std::panic::catch_unwind(AssertUnwindSafe(|| self.live(&mut world, round, &mut during)));
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
        verdict::keep_logs(&world, &path.with_extension("logs"));
        round.failures.push(Failure { seed, during, what });
    }

    fn live(&self, world: &mut World, round: &mut Round, during: &mut Option<Kind>) -> Result<(), String> {
        for _ in 0..self.plan.losses_in_world {
            if self.is_over() {
                break;
            }
            work(world, round)?;
            let kind = self.plan.kinds[world.random.random_range(0..self.plan.kinds.len())];
            *during = Some(kind);
            if !round.spend("disasters", || disaster::strike(world, kind)) {
                continue;
            }
            self.losses.fetch_add(1, Ordering::Relaxed);
            *round.losses.entry(kind).or_default() += 1;
            // Mostly all is well at once; else the next losses meet a world that is not.
            let is_left_alone = world.random.random_bool(0.2) && kind != Kind::Kill;
            if is_left_alone {
                continue;
            }
            self.settle_and_check(world, round)?;
        }
        self.settle_and_check(world, round)?;
        round.spend("revoking", || world.revoke_gone());
        round.spend("waits for stable", || verdict::settle(world, self.plan.is_strict))?;
        for reader in 0..world.clients.len() {
            round.spend("verdicts", || verdict::check(world, reader))?;
        }
        Ok(())
    }

    fn settle_and_check(&self, world: &mut World, round: &mut Round) -> Result<(), String> {
        round.spend("healing", || world.heal());
        // Owners learn of a loss sooner or later.
        if world.random.random_bool(0.5) {
            round.spend("revoking", || world.revoke_gone());
        }
        let reader = world.random.random_range(0..world.clients.len());
        round.spend("verdicts", || verdict::check(world, reader))?;
        if world.random.random_bool(0.3) {
            round.spend("revoking", || world.revoke_gone());
            round.spend("waits for stable", || verdict::settle(world, self.plan.is_strict))?;
        }
        Ok(())
    }
}

/// Programs work, daemons talk.
fn work(world: &mut World, round: &mut Round) -> Result<(), String> {
    let steps = world.random.random_range(6..30);
    for _ in 0..steps {
        let Some(at) = world.some_client() else { break };
        round.spend("work", || workload::step(world, at));
        if world.random.random_bool(0.35) {
            round.spend("statements", || statement::by_chance(world, at));
        }
        if world.random.random_bool(0.04) {
            let compared = round.spend("numbers", || numbers::compare(&world.clients[at]))?;
            round.compared += u64::from(compared == Compared::Equal);
        }
        if world.random.random_bool(0.06) {
            let pick = world.random.random_range(0..=world.stations.len());
            let site = world.stations.get(pick).unwrap_or(&world.home);
            let compared = round.spend("numbers", || server_numbers::compare(site))?;
            round.compared += u64::from(compared == Compared::Equal);
        }
    }
    if world.random.random_bool(0.1) {
        let at = world.random.random_range(0..world.clients.len());
        if world.clients[at].runs() {
            let compared = round.spend("numbers", || numbers::compare_umount(world, at))?;
            round.compared += u64::from(compared == Compared::Equal);
        }
    }
    // The loss comes just after a claim.
    if let Some(at) = world.some_client() {
        round.spend("statements", || statement::by_chance(world, at));
    }
    Ok(())
}
