//! Two sites share a source tree by version control, whose repository lies in the file system that they share.
//!
//! The published benchmark, with its sizes: two users check out, the first edits and commits, the second updates. CVS is
//! what was used then; git is used beside it. Both users have read the repository before the clock starts. All this is
//! made ready over perfect lines; then the wide areas become the scenario's, the stations begin new sessions, and what
//! is timed happens.

mod crossing;
mod cvs;
mod findings;
mod git;
mod tool;
mod tree;
mod trial;

use super::chosen::{chosen, number, scenarios};
use crate::context::Parts;
use crate::peers::{self, Peer};
use crate::sites::{client_of, station_of};
use crate::{Context, Experiment, Findings, LabError, Sites, SitesPlan, line};
use std::time::Duration;
use tool::{Tool, User};
use tree::{Edit, SourceFile};
use trial::{Counted, Shared, Trial, Users};

/// The experiment.
pub(super) struct Sharing;

const TOOLS: &[&dyn Tool] = &[&cvs::Cvs, &git::Git];
/// Name of our own system in rows.
const OURS: &str = "WayFS";
/// One directory on the local disk for both users: what the tools cost by themselves.
const LOCAL: &str = "local disk";
/// Longest time for one site to know what the other wrote over perfect lines.
const VISIBLE: Duration = Duration::from_secs(120);

/// Longest time for one user of our system to see what the other did, on the thinnest line.
const SEEN: Duration = Duration::from_secs(300);
/// The same with a peer. Who waits for longer does not share.
const SEEN_PEERS: Duration = Duration::from_secs(60);

/// Of the whole run, beside peers: near, middle, far. A peer that asks its server for every file takes minutes for each.
const SCENARIOS_PEERS: &[&str] = &["local-area", "medium-distance", "intercontinental"];

/// How much is done.
struct Extent {
    scenarios: Vec<&'static str>,
    trials: usize,
    scenarios_peers: Vec<&'static str>,
    trials_peers: usize,
}

impl Extent {
    fn of(context: &Context<'_>) -> Result<Self, LabError> {
        let listed = context.setting("scenarios").is_some();
        let all = if context.is_quick() && !listed { vec!["intercontinental"] } else { scenarios() };
        let scenarios = chosen(context, "scenarios", &all, |name| name)?;
        let with_peers = |scenario: &&&'static str| listed || SCENARIOS_PEERS.contains(*scenario);
        Ok(Self {
            scenarios_peers: scenarios.iter().filter(with_peers).copied().collect(),
            scenarios,
            trials: number(context, "trials", context.choose(1, 5))?,
            trials_peers: number(context, "trials", context.choose(1, 2))?,
        })
    }
}

/// Several trials of one tool on one system in one scenario.
struct Cell {
    system: String,
    tool: &'static str,
    scenario: &'static str,
    trials: Vec<Trial>,
    /// Why a trial came to nothing, if one did.
    failure: Option<String>,
}

/// What is shared in every trial.
struct Sources {
    tree: Vec<SourceFile>,
    edit: Edit,
}

impl Experiment for Sharing {
    fn name(&self) -> &'static str {
        "sharing"
    }

    fn about(&self) -> &'static str {
        "What do a commit at one site and an update at another cost, with the repository in the shared file system?"
    }

    fn settings(&self) -> &'static [&'static str] {
        &["peers", "scenarios", "trials"]
    }

    fn run(&self, context: &mut Context<'_>) -> Result<Findings, LabError> {
        let extent = Extent::of(context)?;
        let missing: Vec<&str> =
            TOOLS.iter().filter(|tool| !is_installed(tool.program())).map(|tool| tool.name()).collect();
        // In a quick run they are left out, unless one is asked for: each takes minutes.
        let all = if context.is_quick() && context.setting("peers").is_none() { &[] } else { peers::PEERS };
        let (peers, absent): (Vec<&dyn Peer>, Vec<&dyn Peer>) = chosen(context, "peers", all, |peer| peer.name())?
            .into_iter()
            .partition(|peer| peers::missing(*peer).is_empty());
        let tree = tree::tree(context.seed());
        let sources = Sources { edit: tree::edit(&tree, context.seed()), tree };
        let total = 1 + extent.scenarios.len() + peers.len() * extent.scenarios_peers.len();
        context.progress(Parts { done: 0, total }, LOCAL);
        let mut cells = local(context, &sources, extent.trials)?;
        for (done, scenario) in extent.scenarios.iter().enumerate() {
            context.progress(Parts { done: 1 + done, total }, &format!("{OURS}, {scenario}"));
            cells.extend(ours(context, &sources, scenario, extent.trials)?);
        }
        let mut done = 1 + extent.scenarios.len();
        for peer in &peers {
            for scenario in &extent.scenarios_peers {
                context.progress(Parts { done, total }, &format!("{}, {scenario}", peer.name()));
                cells.extend(theirs(context, &sources, *peer, scenario, extent.trials_peers)?);
                done += 1;
            }
        }
        context.progress(Parts { done: total, total }, "done");
        let absent = absent.iter().map(|peer| peer.name()).chain(missing).map(str::to_owned).collect::<Vec<_>>();
        findings::tell(context, &cells, &absent)
    }
}

fn is_installed(program: &str) -> bool {
    std::env::var_os("PATH").is_some_and(|path| std::env::split_paths(&path).any(|place| place.join(program).is_file()))
}

/// Both users on one directory of the local disk.
fn local(context: &mut Context<'_>, sources: &Sources, trials: usize) -> Result<Vec<Cell>, LabError> {
    let sites = Sites::network(context, LOCAL, context.seed(), SitesPlan::profiles(&["perfect", "perfect"])?)?;
    let top = sites.lab().directory("home")?.join("shared");
    let batch = Batch { shared: Shared { first: top.clone(), second: top, patience: SEEN }, sources, trials };
    let prepared = batch.prepare(&sites)?;
    let cells = batch.measure(&sites, prepared, (LOCAL, "none"), None)?;
    sites.finish(context, LOCAL);
    Ok(cells)
}

/// Our own file system.
fn ours(
    context: &mut Context<'_>,
    sources: &Sources,
    scenario: &'static str,
    trials: usize,
) -> Result<Vec<Cell>, LabError> {
    let part = format!("{OURS} {scenario}");
    let mut sites = Sites::start(context, &part, context.seed(), SitesPlan::profiles(&["perfect", "perfect"])?)?;
    let shared = Shared { first: sites.at(0).to_owned(), second: sites.at(1).to_owned(), patience: SEEN };
    let batch = Batch { shared, sources, trials };
    let prepared = batch.prepare(&sites)?;
    for site in 0..2 {
        sites.sync(site, "visible", VISIBLE)?;
        // A path whose distance changes under a connection is another question: the session begins anew.
        let station = station_of(site);
        sites.stop(&station)?;
        sites.lab().shape(sites.wide(site), line(scenario)?);
        sites.serve(&station)?;
    }
    let counted = Counted::start(&sites, &batch.shared)?;
    let cells = batch.measure(&sites, prepared, (OURS, scenario), Some(&counted))?;
    drop(counted);
    sites.finish(context, &part);
    Ok(cells)
}

/// A peer, its server at the home.
fn theirs(
    context: &mut Context<'_>,
    sources: &Sources,
    peer: &dyn Peer,
    scenario: &'static str,
    trials: usize,
) -> Result<Vec<Cell>, LabError> {
    let part = format!("{} {scenario}", peer.name());
    let sites = Sites::network(context, &part, context.seed(), SitesPlan::profiles(&["perfect", "perfect"])?)?;
    let mut server = peer.serve(&sites)?;
    let (first, second) = (server.mount(&sites, 0)?, server.mount(&sites, 1)?);
    let shared = Shared { first: first.at().to_owned(), second: second.at().to_owned(), patience: SEEN_PEERS };
    let batch = Batch { shared, sources, trials };
    let prepared = batch.prepare(&sites)?;
    for site in 0..2 {
        sites.lab().shape(sites.wide(site), line(scenario)?);
    }
    let cells = batch.measure(&sites, prepared, (peer.name(), scenario), None)?;
    drop((first, second));
    drop(server);
    sites.finish(context, &part);
    Ok(cells)
}

/// Trials that follow each other in one shared directory.
struct Batch<'a> {
    shared: Shared,
    sources: &'a Sources,
    trials: usize,
}

/// Places that are ready for a tool, and why one is not.
struct Prepared {
    tool: &'static dyn Tool,
    places: Vec<Shared>,
    failure: Option<String>,
}

impl Batch<'_> {
    fn users<'s>(sites: &'s Sites) -> Result<Users<'s>, LabError> {
        Ok(Users { first: User::new(sites, client_of(0))?, second: User::new(sites, client_of(1))? })
    }

    /// Makes every trial ready.
    fn prepare(&self, sites: &Sites) -> Result<Vec<Prepared>, LabError> {
        let users = Self::users(sites)?;
        let mut all = Vec::new();
        for tool in TOOLS.iter().copied().filter(|tool| is_installed(tool.program())) {
            let mut prepared = Prepared { tool, places: Vec::new(), failure: None };
            for number in 0..self.trials {
                let place = self.shared.join(&format!("{}-{number}", tool.name()));
                match trial::prepare(&users, tool, &place, &self.sources.tree) {
                    Ok(()) => prepared.places.push(place),
                    Err(error) if error.is_forbidden() => return Err(error),
                    // A peer that cannot be used so is a finding, and the others go on.
                    Err(error) => {
                        prepared.failure = Some(error.to_string());
                        break;
                    }
                }
            }
            all.push(prepared);
        }
        Ok(all)
    }

    /// Carries every trial out.
    fn measure(
        &self,
        sites: &Sites,
        prepared: Vec<Prepared>,
        (system, scenario): (&str, &'static str),
        counted: Option<&Counted<'_>>,
    ) -> Result<Vec<Cell>, LabError> {
        let users = Self::users(sites)?;
        let mut cells = Vec::new();
        for Prepared { tool, places, failure } in prepared {
            let mut cell = Cell { system: system.to_owned(), tool: tool.name(), scenario, trials: Vec::new(), failure };
            for place in &places {
                match trial::measure(&users, tool, place, &self.sources.edit, counted) {
                    Ok(trial) => cell.trials.push(trial),
                    Err(error) if error.is_forbidden() => return Err(error),
                    Err(error) => {
                        cell.failure = Some(error.to_string());
                        break;
                    }
                }
            }
            cells.push(cell);
        }
        Ok(cells)
    }
}
