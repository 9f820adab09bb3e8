//! Every order of events, to a bound, for two clients, two stations and a home.
//!
//! A seed of the simulator draws one order. Here small scripts are run with *all* orders in which each machine may take in its
//! messages, ends of syncs, timers, requests and what its choice of a parent comes by, that leave the order of time in at most so many places, with at most so many
//! faults (a machine loses power, a session is cut) at every point there is. At each quiet end the simulator's checkers look.
//!
//! An engine cannot be copied, so each path is run from the start. Paths with fewer deviations come first: what is found is
//! shortest. A state that was seen before is recognised by what each machine took in, in its order (`world/chosen.rs` says
//! why the order between machines does not matter); how late it was by its clock is left out of that, so that states are one
//! which differ by milliseconds.

pub(crate) mod path;
pub(crate) mod script;
#[cfg(test)]
mod tests;

pub use path::{Deviation, Path, PathError};

use crate::plan::{Limits, Plan};
use crate::planted::Bug;
use crate::violation::Violation;
use crate::world::chosen::{Course, Point};
use crate::world::{Notes, Verbosity, World};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use script::{Program, SCRIPTS, Script};
use std::collections::BTreeMap;
use std::time::Duration;

/// Drives what is drawn in every run: delays of lines, how long syncs take.
const SEED: u64 = 0;
/// All machines have their parents by then.
const ATTACHED: Duration = Duration::from_secs(10);
/// Longest time that a script takes.
const SPAN: Duration = Duration::from_secs(60);
/// The clients, and the station of each.
const CLIENTS: [(usize, usize); 2] = [(3, 1), (4, 2)];

/// What is explored.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Most places at which a machine takes in something else first. Default 1.
    pub delays: usize,
    /// Most faults. Default 0.
    pub faults: usize,
    /// Points of a run at which it may leave the order of time; behind them all goes by itself. Default 400: more than the
    /// scripts have without faults.
    pub points: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { delays: 1, faults: 0, points: 400 }
    }
}

/// What an exploration came by.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Explored {
    /// Different states at points.
    pub states: usize,
    /// Runs.
    pub paths: usize,
    /// Of these, ended where a state had been seen before.
    pub merged: usize,
    /// Most points of a run.
    pub depth: usize,
    /// All paths within the bounds were run, and none was longer than the points that are counted.
    pub is_finished: bool,
    /// The path with the fewest deviations that breaks a promise, and which.
    pub broken: Option<(Path, Violation)>,
}

/// Names of all scripts.
pub fn scripts() -> impl Iterator<Item = &'static str> {
    SCRIPTS.iter().map(|script| script.name)
}

/// Runs all paths of a script within bounds, as long as `goes_on` says so. `None`: there is no such script.
pub fn explore(
    name: &str,
    bug: Option<Bug>,
    bounds: Bounds,
    goes_on: &mut dyn FnMut(&Explored) -> bool,
) -> Option<Explored> {
    let script = SCRIPTS.iter().find(|script| script.name == name)?;
    let (mut explored, mut seen) = (Explored::default(), Seen::default());
    let mut level = vec![Path::default()];
    while !level.is_empty() {
        let mut next = Vec::new();
        for path in level {
            if !goes_on(&explored) {
                return Some(explored);
            }
            let ran = run(script, bug, &path, bounds, &mut seen, Notes::default());
            explored.paths += 1;
            explored.merged += usize::from(ran.is_merged);
            explored.depth = explored.depth.max(ran.points.len());
            explored.states = seen.0.len();
            if let Some(violation) = ran.violation {
                explored.broken = Some((path, violation));
                return Some(explored);
            }
            next.extend(longer(&path, &ran.points, bounds));
        }
        level = next;
    }
    explored.is_finished = explored.depth < bounds.points;
    Some(explored)
}

/// Runs one path again. What it breaks.
pub fn run_path(name: &str, bug: Option<Bug>, path: &Path, verbosity: Verbosity) -> Option<Result<(), Violation>> {
    let script = SCRIPTS.iter().find(|script| script.name == name)?;
    let ran = run(script, bug, path, Bounds::default(), &mut Seen::default(), verbosity.notes());
    Some(ran.violation.map_or(Ok(()), Err))
}

/// States, and the most deviations of each kind that were left there.
#[derive(Default)]
struct Seen(BTreeMap<u64, Vec<(usize, usize)>>);

impl Seen {
    /// Notes a state. Whether it was seen with as many deviations left.
    fn note(&mut self, key: u64, (delays, faults): (usize, usize)) -> bool {
        let known = self.0.entry(key).or_default();
        if known.iter().any(|(of_delays, of_faults)| *of_delays >= delays && *of_faults >= faults) {
            return true;
        }
        known.push((delays, faults));
        false
    }
}

struct Ran {
    points: Vec<Point>,
    is_merged: bool,
    violation: Option<Violation>,
}

fn run(script: &Script, bug: Option<Bug>, path: &Path, bounds: Bounds, seen: &mut Seen, notes: Notes) -> Ran {
    let left = (bounds.delays.saturating_sub(path.delays()), bounds.faults.saturating_sub(path.faults()));
    let mut world = ready(script, notes);
    world.bug = bug;
    let mut is_seen = |key| seen.note(key, left);
    let programs = CLIENTS.iter().zip(script.clients).map(|((client, _), ops)| (*client, Program::new(ops)));
    let mut course = Course::new(path, programs.collect(), bounds.points, &mut is_seen);
    world.is_chosen = true;
    let end = world.now + SPAN;
    let is_merged = world.run_along(&mut course, end);
    let points = std::mem::take(&mut course.points);
    world.is_chosen = false;
    if !is_merged && world.violations.is_empty() {
        world.check_quiet_end();
    }
    Ran { points, is_merged, violation: world.violations.into_iter().next() }
}

/// The paths with one deviation more, behind all others.
fn longer(path: &Path, points: &[Point], bounds: Bounds) -> Vec<Path> {
    let (delays_left, faults_left) = (path.delays() < bounds.delays, path.faults() < bounds.faults);
    let mut longer = Vec::new();
    for (number, point) in points.iter().enumerate().skip(path.behind()) {
        let deviations = point.deviations.iter().filter(|of| if of.is_fault() { faults_left } else { delays_left });
        longer.extend(deviations.map(|deviation| path.and(number, *deviation)));
    }
    longer
}

/// A world in which all is as the script begins.
fn ready(script: &Script, notes: Notes) -> World {
    let mut world = World::new(plan(script), None, ChaCha8Rng::seed_from_u64(SEED), notes);
    world.place();
    for (client, station) in CLIENTS {
        world.hosts[client].pinned = Some(station);
    }
    (1..world.hosts.len()).for_each(|index| world.start(index));
    let attached = world.now + ATTACHED;
    world.run_until(attached);
    let (path, mut is_seen) = (Path::default(), |_| false);
    let programs = [(CLIENTS[0].0, Program::new(script.before))].into_iter().collect();
    let mut course = Course::new(&path, programs, 0, &mut is_seen);
    world.run_along(&mut course, attached + SPAN);
    let seen = world.now + ATTACHED;
    world.run_until(seen);
    world
}

/// Two stations, two clients, lines that lose nothing, nothing rare.
fn plan(script: &Script) -> Plan {
    Plan {
        stations: 2,
        clients: 2,
        fault_every: None,
        loss: 0.0,
        wide_delay: Duration::from_millis(20),
        measure_period: Duration::from_secs(3600),
        policies: script.policies,
        close_to_open: false,
        exclusive: false,
        locks: false,
        limits: Limits::USUAL,
        cache_chunks_max: None,
        kernel_names: false,
        open_files: None,
        ..Plan::with(SEED, &[], &[])
    }
}
