//! What a file takes of the disks of its writer, a reader, the stations and the home, over time, until it is removed.
//!
//! A file that is written lies in the cache of its writer as a body, and as chunks once it is cut and hashed; a reader's cache
//! has chunks that came, and a body that is read from. One of the two is enough. What is removed is kept for the grace of ten minutes,
//! since a record that needs its chunks may be on its way, and is to be gone a sweep later everywhere.

mod findings;
mod watch;

use super::chosen::number;
use super::noise::write_noise;
use crate::context::Parts;
use crate::experiments::noise::Noise;
use crate::{Context, Experiment, Findings, LabError, LinePlan, Sites, SitesPlan, client_of, station_of};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use watch::{Look, Watch};

/// The experiment.
pub(super) struct Space;

/// Longest time for a file to cross.
const PATIENCE: Duration = Duration::from_secs(600);
/// Where space is looked at, and what reports call it.
const PLACES: [&str; 5] = ["writer", "its station", "home", "reader's station", "reader"];
/// A writer has a body and chunks for so long at most.
const SETTLED: Duration = Duration::from_secs(60);
/// What is removed is to be gone within the grace and a minute.
const GRACE: Duration = Duration::from_secs(600);
/// Longest wait for it.
const GONE_MAX: Duration = Duration::from_secs(1_200);

/// What happened to the file, when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    Written,
    Safe,
    Stable,
    /// A minute later, or less in a quick run.
    Settled,
    Read,
    /// A minute after it was read, or less in a quick run.
    ReadLongAgo,
    Removed,
    /// The last look.
    End,
}

/// What was seen.
struct Story {
    len: u64,
    before: [u64; 5],
    looks: Vec<Look>,
    events: Vec<(Event, Duration)>,
}

/// How much is measured.
struct Extent {
    len: u64,
    settle: Duration,
    /// Whether the file is removed in the end, and waited for.
    is_removed: bool,
}

impl Experiment for Space {
    fn name(&self) -> &'static str {
        "space"
    }

    fn about(&self) -> &'static str {
        "What does a file take of the disks of writer, reader, stations and home, and when is it back after its removal?"
    }

    fn settings(&self) -> &'static [&'static str] {
        &["megabytes", "removal", "settle-s"]
    }

    fn run(&self, context: &mut Context<'_>) -> Result<Findings, LabError> {
        let removal = context.setting("removal").unwrap_or(context.choose("false", "true"));
        let extent = Extent {
            len: number(context, "megabytes", context.choose(32, 512))? << 20,
            settle: Duration::from_secs(number(context, "settle-s", context.choose(20, SETTLED.as_secs()))?),
            is_removed: match removal {
                "true" => true,
                "false" => false,
                typed => return Err(LabError::Experiment(format!("removal={typed}: true or false is wanted"))),
            },
        };
        let story = measure(context, &extent)?;
        findings::tell(context, &story)
    }
}

/// One file, from its begin to its end.
fn measure(context: &mut Context<'_>, extent: &Extent) -> Result<Story, LabError> {
    let local = LinePlan::default();
    let sites = Sites::start(
        context,
        "all",
        context.seed(),
        SitesPlan { local, ..SitesPlan::profiles(&["perfect", "perfect"])? },
    )?;
    let hosts = [client_of(0), station_of(0), "home".to_owned(), station_of(1), client_of(1)];
    let places: Vec<PathBuf> = hosts.iter().map(|host| sites.files_of(host)).collect::<Result<_, _>>()?;
    let before = watch::look(&places);
    let watch = Watch::start(places);
    let mut events = Vec::new();
    let result = live(context, &sites, extent, &mut |event| events.push((event, watch.elapsed())), &|| {
        watch.is_back(before, extent.len)
    });
    let looks = watch.end();
    result?;
    sites.finish(context, "all");
    Ok(Story { len: extent.len, before, looks, events })
}

/// What happens to the file; `note` hears of it, and `is_gone` says whether nothing of it is left.
fn live(
    context: &Context<'_>,
    sites: &Sites,
    extent: &Extent,
    note: &mut dyn FnMut(Event),
    is_gone: &dyn Fn() -> bool,
) -> Result<(), LabError> {
    let total = if extent.is_removed { 4 } else { 3 };
    let [written, read] = [0, 1].map(|site| sites.at(site).join("file"));
    context.progress(Parts { done: 0, total }, "writing");
    write_noise(&written, Noise { seed: context.seed(), len: extent.len })?;
    note(Event::Written);
    sites.sync(0, "safe", PATIENCE)?;
    note(Event::Safe);
    sites.sync(0, "stable", PATIENCE)?;
    note(Event::Stable);
    context.progress(Parts { done: 1, total }, "waiting for the writer's second copy to go");
    std::thread::sleep(extent.settle);
    note(Event::Settled);
    context.progress(Parts { done: 2, total }, "reading");
    let bytes = read_all(&read)?;
    if bytes != extent.len {
        return Err(LabError::Experiment(format!("{bytes} of {} bytes were read", extent.len)));
    }
    note(Event::Read);
    std::thread::sleep(extent.settle);
    note(Event::ReadLongAgo);
    if extent.is_removed {
        context
            .progress(Parts { done: 3, total }, "waiting for the space of what was removed: eleven minutes at least");
        std::fs::remove_file(&written).map_err(LabError::io("remove the file"))?;
        sites.sync(0, "stable", PATIENCE)?;
        note(Event::Removed);
        let removed = Instant::now();
        while !is_gone() && removed.elapsed() < GONE_MAX {
            std::thread::sleep(Duration::from_secs(1));
        }
    }
    note(Event::End);
    context.progress(Parts { done: total, total }, "done");
    Ok(())
}

/// The file may be known at the other site a moment later.
fn read_all(path: &std::path::Path) -> Result<u64, LabError> {
    let start = Instant::now();
    while !path.exists() && start.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(20));
    }
    let doing = || LabError::io(format!("read {}", path.display()));
    let mut file = std::fs::File::open(path).map_err(doing())?;
    std::io::copy(&mut file, &mut std::io::sink()).map_err(doing())
}
