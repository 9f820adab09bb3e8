//! Work at three places, in turns: a plain directory, a plain loopback, and a mount with a station and a home beside it.
//!
//! All daemons are on the machine that measures. They stand for three machines, so what each of them computes is a row of its own.

use crate::ground::Ground;
use crate::measure::{Measure, median};
use crate::meter::processor_seconds;
use crate::site::{Client, Site};
use crate::table::Row;
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// The three places.
pub(crate) struct Beside {
    // It is taken away before those that it is connected to.
    pub(crate) client: Client,
    pub(crate) site: Site,
    pub(crate) ground: Ground,
}

/// What is done in a directory beforehand.
pub(crate) type Prepare<'a> = Box<dyn Fn(&Path) -> Result<()> + 'a>;

/// Something to do in a directory of its own.
pub(crate) struct Work<'a> {
    pub(crate) what: String,
    pub(crate) unit: &'static str,
    pub(crate) is_time: bool,
    pub(crate) limit: &'static str,
    /// What is needed beforehand, in the same directory.
    pub(crate) prepare: Prepare<'a>,
    pub(crate) run: Measure<'a>,
    /// Of what processor time is told.
    pub(crate) per: Option<Per>,
}

/// A part of the work that processor time is told of.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Per {
    /// In us for each of so many files.
    File(usize),
    /// In us for each of so many operations.
    Operation(usize),
    /// In seconds for a GiB, of so many.
    Gib(f64),
}

impl Per {
    /// Name and unit, and what a second of it all is.
    const fn told(self) -> (&'static str, &'static str, f64) {
        match self {
            Self::File(files) => ("a file", "us", 1e6 / files as f64),
            Self::Operation(operations) => ("an operation", "us", 1e6 / operations as f64),
            Self::Gib(gib) => ("a GiB", "s", 1.0 / gib),
        }
    }
}

/// Processor time of loopback, client, station and home.
type Spent = [f64; 4];
/// Whose it is.
const MACHINES: [&str; 3] = ["client", "station", "home"];

/// What came of a work.
#[derive(Default)]
struct Samples {
    figures: [Vec<f64>; 3],
    spent: [Vec<f64>; 4],
}

impl Beside {
    /// Sets all up; `more` are arguments of the mount.
    pub(crate) fn new(more: &[&str]) -> Result<Self> {
        let ground = Ground::new()?;
        let site = Site::new();
        let client = site.client("client", more);
        Ok(Self { client, site, ground })
    }

    /// Name and directory of each place.
    pub(crate) fn all(&self) -> [(&'static str, PathBuf); 3] {
        let [native, loopback] = self.ground.both();
        [native, loopback, ("wayfs", self.client.mount.root().to_owned())]
    }

    /// Does each work at each place, `rounds` times.
    pub(crate) fn rows(&self, works: &[Work<'_>], rounds: usize) -> Result<Vec<Row>> {
        let mut samples: Vec<Samples> = works.iter().map(|_| Samples::default()).collect();
        for round in 0..rounds {
            for (work, samples) in works.iter().zip(&mut samples) {
                eprintln!("round {} of {rounds}: {}", round + 1, work.what);
                for (place, (name, directory)) in self.all().iter().enumerate() {
                    let (figure, spent) =
                        self.once(work, directory).with_context(|| format!("{} at {name}", work.what))?;
                    samples.figures[place].push(figure);
                    // The loopback's is that of its own turn, those of the others are of the mount's.
                    let whose = match place {
                        1 => 0..1,
                        2 => 1..4,
                        _ => 0..0,
                    };
                    whose.for_each(|who| samples.spent[who].push(spent[who]));
                }
            }
        }
        Ok(works.iter().zip(samples).flat_map(|(work, samples)| told(work, samples)).collect())
    }

    /// In a new directory, which is taken away again.
    fn once(&self, work: &Work<'_>, directory: &Path) -> Result<(f64, Spent)> {
        let directory = directory.join("work");
        fs::create_dir(&directory)?;
        (work.prepare)(&directory)?;
        self.client.settle("stable")?;
        let before = self.spent()?;
        let figure = (work.run)(&directory)?;
        // Whose processor time nobody wants need not be at the home.
        self.client.settle(if work.per.is_some() { "stable" } else { "safe" })?;
        let after = self.spent()?;
        fs::remove_dir_all(&directory)?;
        Ok((figure, std::array::from_fn(|who| after[who] - before[who])))
    }

    fn spent(&self) -> Result<Spent> {
        let processes =
            [self.ground.loopback(), self.client.process(), self.site.station.process(), self.site.home.process()];
        let mut spent = Spent::default();
        for (spent, process) in spent.iter_mut().zip(processes) {
            *spent = processor_seconds(process)?;
        }
        Ok(spent)
    }
}

fn told(work: &Work<'_>, samples: Samples) -> Vec<Row> {
    let Samples { figures, spent } = samples;
    let mut rows = vec![Row {
        what: work.what.clone(),
        unit: work.unit,
        figures: figures.map(|mut samples| median(&mut samples)),
        limit: work.limit.to_owned(),
        is_time: work.is_time,
    }];
    let Some(per) = work.per else { return rows };
    let (each, unit, scale) = per.told();
    let [loopback, client, station, home] = spent.map(|mut samples| median(&mut samples).map(|time| time * scale));
    for (machine, time) in MACHINES.into_iter().zip([client, station, home]) {
        rows.push(Row {
            what: format!("{}: processor time of the {machine}, {each}", work.what),
            unit,
            figures: [None, loopback.filter(|_| machine == MACHINES[0]), time],
            limit: "until all is at the home, network and disk and all".to_owned(),
            is_time: true,
        });
    }
    rows
}

/// Nothing to prepare.
pub(crate) fn nothing<'a>() -> Prepare<'a> {
    Box::new(|_| Ok(()))
}
