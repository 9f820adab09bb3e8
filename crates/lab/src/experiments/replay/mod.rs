//! Replay: the file operations of a trace, issued at their times against a mount, and how long each took.
//!
//! The files of the trace are made at a client and sent to its station. Then a client that has nothing cached replays the
//! trace (*cold*: everything comes from the station over the LAN), and replays it again (*warm*). A directory on the local
//! disk replays the same, as the baseline.

mod conversation;
mod latencies;
mod nfs_table;
mod nfsdump;
mod order;
mod player;
mod report;
mod source;
mod strace;
mod system_call;
mod trace;
mod tree;

pub(crate) use source::read_all;

use super::scenarios::scenarios;
use crate::context::Parts;
use crate::{Context, Csv, Experiment, Findings, LabError, Sites, SitesPlan, client_of};
use player::Sample;
use std::time::Duration;
use trace::Trace;
use tree::Tree;

/// Longest wait for the files of a trace to be at the station.
const PATIENCE: Duration = Duration::from_secs(600);

/// The experiment.
pub(super) struct Replay;

/// Replays at one place.
struct Place {
    /// `local`, or a scenario and whether the client had anything.
    name: String,
    /// What each trial saw.
    trials: Vec<Vec<Sample>>,
    /// In each trial.
    traffic: Vec<WireBytes>,
}

/// Bytes on the wire, both ways.
#[derive(Debug, Clone, Copy)]
struct WireBytes {
    /// Between client and station.
    lan: u64,
    /// Between station and home.
    wide: u64,
}

impl Place {
    const fn new(name: String) -> Self {
        Self { name, trials: Vec::new(), traffic: Vec::new() }
    }

    /// Replays at the client's mount.
    fn replay(&mut self, sites: &Sites, trace: &Trace, speed: f64) {
        let before = traffic(sites);
        self.trials.push(player::play(trace, &Tree::new(sites.at(0)), speed));
        let after = traffic(sites);
        self.traffic.push(WireBytes { lan: after.lan - before.lan, wide: after.wide - before.wide });
    }
}

/// Bytes that went over each line so far, both ways.
fn traffic(sites: &Sites) -> WireBytes {
    let carried = |link| {
        let statistics = sites.lab().statistics(link);
        statistics.up.delivered_len + statistics.down.delivered_len
    };
    WireBytes { lan: carried(sites.local(0)), wide: carried(sites.wide(0)) }
}

impl Experiment for Replay {
    fn name(&self) -> &'static str {
        "replay"
    }

    fn about(&self) -> &'static str {
        "How long does each operation of recorded work take on a mount, issued at its time?"
    }

    fn settings(&self) -> &'static [&'static str] {
        &["below", "scenarios", "seconds", "speed", "trace"]
    }

    fn run(&self, context: &mut Context<'_>) -> Result<Findings, LabError> {
        let (trace, source) = source::load(context)?;
        let speed = source::setting(context, "speed")?.unwrap_or(1.0);
        let kept = context.directory().join("trace.csv");
        std::fs::write(&kept, trace.write()).map_err(LabError::io(format!("write {}", kept.display())))?;
        let scenarios = scenarios(context, &["local-area", "intercontinental"])?;
        let mut csv = context.csv("operations", &["place", "trial", "operation", "late_us", "took_us", "success"])?;
        let mut places = Vec::new();
        for (number, scenario) in scenarios.iter().enumerate() {
            context.progress(Parts { done: number, total: scenarios.len() }, scenario);
            // The disk is the same beside every wide area.
            let on = if number == 0 { On::MountAndDisk } else { On::Mount };
            places.extend(measure(context, scenario, &trace, speed, on)?);
        }
        for place in &places {
            write(&mut csv, place)?;
        }
        csv.finish()?;
        let columns = ["place", "operation", "operations", "failed", "p50_us", "p90_us", "p99_us", "p999_us"];
        let mut csv = context.csv("latencies", &columns)?;
        report::write(&mut csv, &places)?;
        csv.finish()?;
        Ok(report::findings(&trace, &source, speed, &places))
    }
}

/// On what the trace is replayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum On {
    Mount,
    MountAndDisk,
}

/// Replays with one wide area.
fn measure(
    context: &mut Context<'_>,
    scenario: &str,
    trace: &Trace,
    speed: f64,
    on: On,
) -> Result<Vec<Place>, LabError> {
    // Contents that cross the wide area ahead of need are another experiment's.
    let serve = ["--policy", "on-demand"].map(str::to_owned).to_vec();
    let plan = SitesPlan { serve, ..SitesPlan::profiles(&[scenario])? };
    let mut sites = Sites::start(context, scenario, context.seed(), plan)?;
    let mut local = Place::new("local".into());
    let mut cold = Place::new(format!("cold, {scenario}"));
    let mut warm = Place::new(format!("warm, {scenario}"));
    for _ in 0..context.choose(1, 3) {
        if on == On::MountAndDisk {
            local.trials.push(on_disk(&sites, trace, speed)?);
        }
        Tree::new(sites.at(0)).make(trace)?;
        sites.sync(0, "safe", PATIENCE)?;
        forget(&mut sites)?;
        cold.replay(&sites, trace, speed);
        // What the trace removed is there again.
        Tree::new(sites.at(0)).make(trace)?;
        sites.sync(0, "safe", PATIENCE)?;
        warm.replay(&sites, trace, speed);
    }
    sites.finish(context, scenario);
    Ok([local, cold, warm].into_iter().filter(|place| !place.trials.is_empty()).collect())
}

/// On the disk on which the mounts have their caches.
fn on_disk(sites: &Sites, trace: &Trace, speed: f64) -> Result<Vec<Sample>, LabError> {
    let root = sites.lab().directory(&client_of(0))?.join("local");
    std::fs::create_dir_all(&root).map_err(LabError::io(format!("make {}", root.display())))?;
    let tree = Tree::new(&root);
    tree.make(trace)?;
    Ok(player::play(trace, &tree, speed))
}

/// Lets the client begin anew, as a machine that never had the volume.
fn forget(sites: &mut Sites) -> Result<(), LabError> {
    sites.unmount(0)?;
    let cache = sites.lab().directory(&client_of(0))?.join("volume-cache");
    std::fs::remove_dir_all(&cache).map_err(LabError::io(format!("remove {}", cache.display())))?;
    sites.mount(0)
}

fn write(csv: &mut Csv, place: &Place) -> Result<(), LabError> {
    for (trial, samples) in place.trials.iter().enumerate() {
        for sample in samples {
            csv.row(&[
                place.name.clone(),
                trial.to_string(),
                sample.operation.name().to_owned(),
                sample.late.as_micros().to_string(),
                (sample.took.as_nanos() as f64 / 1e3).to_string(),
                sample.is_success.to_string(),
            ])?;
        }
    }
    Ok(())
}
