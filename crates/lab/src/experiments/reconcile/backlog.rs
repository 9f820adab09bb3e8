//! One reconciliation: records gather at a station while its line is cut, then all go home at once.

use super::gauges::{Gauges, Spent};
use crate::experiments::noise::noise;
use crate::{LabError, Sites, station_of};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, Instant};
use wayfs_link::LineState;

/// Longest wait for records to become safe, or visible on a thin line.
const PATIENCE: Duration = Duration::from_secs(600);
/// Longest wait for a session to end that nobody hears from: the lease, and the look at it.
const SILENCE: Duration = Duration::from_secs(60);
/// Between two looks at the station. A look costs it a tenth of a millisecond.
const LOOK: Duration = Duration::from_millis(4);
/// Files in a directory.
const DIRECTORY_LEN: usize = 1000;

/// What is written to gather records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Load {
    /// Empty files: a record each, and nothing but the record.
    Empty,
    /// Files with so many bytes, all different.
    Bytes(usize),
}

/// A station at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sight {
    /// Since the line was restored.
    pub(super) at: Duration,
    /// Whether it has a session with the home.
    pub(super) connected: bool,
    /// Records that the home has not confirmed.
    pub(super) waiting: u64,
}

/// A reconciliation.
#[derive(Debug, Clone)]
pub(super) struct Reconciliation {
    /// Records that had gathered.
    pub(super) records: u64,
    /// The station, from the restoring of its line until everything was visible.
    pub(super) sights: Vec<Sight>,
    /// What the home spent on it.
    pub(super) spent: Spent,
    /// Bytes on the wire, with all headers, home and back, from the first to the last: also the handshake.
    pub(super) bytes: (u64, u64),
}

impl Reconciliation {
    /// Seconds from the restoring of the line until the station had a session.
    pub(super) fn reconnected(&self) -> f64 {
        self.first(|sight| sight.connected)
    }

    /// Seconds from the restoring until the first record was confirmed.
    pub(super) fn first_confirmed(&self) -> f64 {
        self.first(|sight| sight.waiting < self.records)
    }

    /// Seconds from the restoring until all were.
    pub(super) fn all_confirmed(&self) -> f64 {
        self.first(|sight| sight.waiting == 0)
    }

    /// Total time as the research means it: seen at the station, from the session on.
    pub(super) fn total(&self) -> f64 {
        self.all_confirmed() - self.reconnected()
    }

    fn first(&self, is_it: impl Fn(&Sight) -> bool) -> f64 {
        self.sights.iter().find(|sight| is_it(sight)).map_or(f64::NAN, |sight| sight.at.as_secs_f64())
    }
}

/// Cuts the line of a site.
pub(super) fn cut(sites: &Sites, site: usize) {
    sites.lab().set_state(sites.wide(site), LineState::Cut);
}

/// Files that are written while a line is cut.
#[derive(Debug, Clone, Copy)]
pub(super) struct Backlog<'a> {
    pub(super) site: usize,
    /// Names of its directories begin with it.
    pub(super) name: &'a str,
    pub(super) files: usize,
}

/// Makes the directories of a backlog, which everybody sees before the line is cut.
pub(super) fn prepare(sites: &Sites, Backlog { site, name, files }: Backlog<'_>) -> Result<(), LabError> {
    for directory in 0..files.div_ceil(DIRECTORY_LEN) {
        let path = sites.at(site).join(format!("{name}-{directory}"));
        std::fs::create_dir(&path).map_err(LabError::io(format!("make {}", path.display())))?;
    }
    sites.sync(site, "visible", PATIENCE)
}

/// Writes a backlog, until it is safe at the station; how many records wait there now.
pub(super) fn gather(sites: &Sites, backlog: Backlog<'_>, load: Load) -> Result<u64, LabError> {
    let Backlog { site, name, files } = backlog;
    for file in 0..files {
        let path = sites.at(site).join(format!("{name}-{}/{file}", file / DIRECTORY_LEN));
        let content = match load {
            Load::Empty => Vec::new(),
            Load::Bytes(len) => noise(seed_of(name, file), len),
        };
        std::fs::write(&path, content).map_err(LabError::io(format!("write {}", path.display())))?;
    }
    sites.sync(site, "safe", PATIENCE)?;
    Ok(Gauges::of(sites, &station_of(site))?.waiting())
}

/// A seed that no other file has.
fn seed_of(name: &str, file: usize) -> u64 {
    let mut seed = DefaultHasher::new();
    (name, file).hash(&mut seed);
    seed.finish()
}

/// Lets the station forget its session with the home, as if the line had been cut for long: it is started anew.
pub(super) fn end_session(sites: &mut Sites, site: usize) -> Result<(), LabError> {
    let station = station_of(site);
    sites.stop(&station)?;
    sites.serve(&station)
}

/// Waits until the station has noticed that its line is cut.
pub(super) fn await_silence(sites: &Sites, site: usize) -> Result<(), LabError> {
    let begin = Instant::now();
    while Gauges::of(sites, &station_of(site))?.is_connected() {
        if begin.elapsed() > SILENCE {
            return Err(LabError::TimedOut { what: "the end of a silent session".into(), within: SILENCE });
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

/// Restores the line and watches until everything is visible.
pub(super) fn release(sites: &mut Sites, site: usize, records: u64) -> Result<Reconciliation, LabError> {
    let before = (Spent::by_home(sites)?, sites.lab().statistics(sites.wide(site)));
    let restored = Instant::now();
    sites.lab().set_state(sites.wide(site), LineState::Connected);
    let sights = watch(sites, site, restored)?;
    let statistics = sites.lab().statistics(sites.wide(site));
    let spent = Spent::by_home(sites)?.since(before.0);
    let bytes = (
        statistics.up.delivered_len - before.1.up.delivered_len,
        statistics.down.delivered_len - before.1.down.delivered_len,
    );
    Ok(Reconciliation { records, sights, spent, bytes })
}

fn watch(sites: &Sites, site: usize, restored: Instant) -> Result<Vec<Sight>, LabError> {
    let station = station_of(site);
    let looking = || -> Result<Vec<Sight>, LabError> {
        let mut sights = Vec::new();
        while restored.elapsed() < PATIENCE {
            let gauges = Gauges::scrape().map_err(LabError::io(format!("ask {station} for its metrics")))?;
            let at = restored.elapsed();
            let sight = Sight { at, connected: gauges.is_connected(), waiting: gauges.waiting() };
            sights.push(sight);
            if sight.connected && sight.waiting == 0 {
                return Ok(sights);
            }
            std::thread::sleep(LOOK);
        }
        Err(LabError::TimedOut { what: format!("the reconciliation of {station}"), within: PATIENCE })
    };
    sites.lab().inside(&station, looking)?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_off_what_was_seen() {
        let sight = |ms, connected, waiting| Sight { at: Duration::from_millis(ms), connected, waiting };
        let seen = Reconciliation {
            records: 10,
            sights: vec![
                sight(0, false, 10),
                sight(500, true, 10),
                sight(700, true, 10),
                sight(800, true, 4),
                sight(900, true, 0),
            ],
            spent: Spent::default(),
            bytes: (0, 0),
        };
        assert_eq!((seen.reconnected(), seen.first_confirmed(), seen.all_confirmed()), (0.5, 0.8, 0.9));
        assert!((seen.total() - 0.4).abs() < 1e-9);
    }

    #[test]
    fn contents_differ() {
        let content = |file| noise(seed_of("a", file), 4096);
        assert_ne!(content(1), content(2));
        assert_eq!(content(1).len(), 4096);
    }
}
