//! One trial of one system in one scenario: cold, then warm, then the client is lost.

use super::phases::{self, Outcome};
use super::witness::Witness;
use super::workload::Workload;
use crate::peers::{Peer, PeerServer};
use crate::sites::VOLUME;
use crate::{Context, LabError, Sites, SitesPlan, client_of};
use std::path::Path;
use std::time::{Duration, Instant};
use wayfs_link::LineState;

/// Longest time for everything to be safe, and for the home to know.
const DRAINED: Duration = Duration::from_secs(300);
/// How long what left the client before it was lost may take to be looked at by the server.
const SETTLED: Duration = Duration::from_secs(2);
/// Directory of the sources in the volume.
const SOURCE: &str = "source";
/// Who is ours.
pub(super) const OURS: &str = "WayFS";

/// Where and how often.
#[derive(Debug, Clone, Copy)]
pub(super) struct Setting {
    pub(super) scenario: &'static str,
    pub(super) number: u32,
    /// After which a run is given up.
    pub(super) bound: Duration,
}

/// What came out of a trial.
#[derive(Debug, Clone)]
pub(super) struct Trial {
    pub(super) system: &'static str,
    pub(super) setting: Setting,
    pub(super) cold: Outcome,
    /// Seconds from the end of the cold run until all files were on another machine; `None`: they were not in time.
    pub(super) drained: Option<f64>,
    /// Missing if the cold run was given up.
    pub(super) warm: Option<Outcome>,
    /// Files that were whole on another machine although the client was lost at the end of the warm run.
    pub(super) safe: Option<usize>,
}

/// Ours: the sources are at the home; the station gets to have them by the cold run; the warm run begins with a new, empty cache
/// at the client.
pub(super) fn ours(context: &mut Context<'_>, setting: Setting, workload: &Workload) -> Result<Trial, LabError> {
    let part = part(OURS, setting);
    let mut sites = Sites::network(context, &part, context.seed() + u64::from(setting.number), plan(setting)?)?;
    let mut witness = Witness::on_the_lan_of(&mut sites, 0)?;
    sites.start_home()?;
    // The volume is full before anybody else joins, so that nobody else has anything of it.
    let stock = sites.lab().directory("home")?.join("stock");
    workload.program().write(&stock)?;
    let from = stock.display().to_string();
    sites.wayfs("home", &["volume", "import", VOLUME, &from, "--into", SOURCE], DRAINED)?;
    sites.start_station(0)?;
    sites.mount(0)?;
    let cold = run(&sites, sites.at(0), "cold", setting)?;
    let begin = Instant::now();
    let drained = sites.sync(0, "safe", DRAINED).is_ok().then(|| begin.elapsed().as_secs_f64());
    sites.sync(0, "visible", DRAINED)?;
    sites.mount_anew(0)?;
    let warm = run(&sites, sites.at(0), "warm", setting)?;
    sites.lab().set_state(sites.local(0), LineState::Cut);
    std::thread::sleep(SETTLED);
    let safe = witness.count(context, &sites, workload, "warm")?;
    drop(witness);
    sites.finish(context, &part);
    Ok(Trial { system: OURS, setting, cold, drained, warm: Some(warm), safe: Some(safe) })
}

/// A peer's: the sources are at its server; the warm run goes on with the caches that the cold run filled.
pub(super) fn peer(
    context: &mut Context<'_>,
    peer: &dyn Peer,
    setting: Setting,
    workload: &Workload,
) -> Result<Trial, LabError> {
    let part = part(peer.name(), setting);
    let sites = Sites::network(context, &part, context.seed() + u64::from(setting.number), plan(setting)?)?;
    let mut server = peer.serve(&sites)?;
    workload.program().write(&server.tree().join(SOURCE))?;
    let client = server.mount(&sites, 0)?;
    let cold = run(&sites, client.at(), "cold", setting)?;
    let mut trial = Trial { system: peer.name(), setting, cold, drained: None, warm: None, safe: None };
    if trial.cold.given_up.is_none() {
        trial.drained = drain(server.as_ref(), workload);
        let warm = run(&sites, client.at(), "warm", setting)?;
        sites.lab().set_state(sites.local(0), LineState::Cut);
        if warm.given_up.is_none() {
            std::thread::sleep(SETTLED);
            trial.safe = Some(on_server(server.as_ref(), workload, "warm"));
        }
        trial.warm = Some(warm);
    }
    drop(client);
    drop(server);
    sites.finish(context, &part);
    Ok(trial)
}

/// Name of a part of the run, as logs and lateness go by it.
fn part(system: &str, setting: Setting) -> String {
    format!("{}-{}-{}", system.to_lowercase(), setting.scenario, setting.number + 1)
}

fn plan(setting: Setting) -> Result<SitesPlan, LabError> {
    SitesPlan::profiles(&[setting.scenario])
}

fn run(sites: &Sites, mount: &Path, target: &str, setting: Setting) -> Result<Outcome, LabError> {
    let trees = [mount.join(SOURCE), mount.join(target)];
    let before = crossed(sites);
    let outcome = phases::run(sites.lab(), &client_of(0), [&trees[0], &trees[1]], setting.bound)?;
    let after = crossed(sites);
    Ok(Outcome { crossed: [after[0] - before[0], after[1] - before[1]], ..outcome })
}

/// Bytes that crossed the wide area so far: from the home, to the home.
fn crossed(sites: &Sites) -> [u64; 2] {
    let statistics = sites.lab().statistics(sites.wide(0));
    [statistics.down.delivered_len, statistics.up.delivered_len]
}

/// Waits until a peer's server has all that the cold run made; seconds.
fn drain(server: &dyn PeerServer, workload: &Workload) -> Option<f64> {
    let begin = Instant::now();
    loop {
        // The look itself takes time that is nobody's.
        let looked = begin.elapsed();
        if on_server(server, workload, "cold") == workload.files() {
            // Below a millisecond it was there already.
            return Some(looked.as_millis() as f64 / 1000.0);
        }
        if looked > DRAINED {
            return None;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn on_server(server: &dyn PeerServer, workload: &Workload, target: &str) -> usize {
    let tree = server.tree().join(target);
    workload.right(|path| std::fs::read(tree.join(path)).ok())
}
