//! What an experiment has at hand.

use crate::csv::Csv;
use crate::experiment::Experiment;
use crate::summary::LatenessOf;
use crate::{IdleCores, LabError, Lateness, Topology};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Keys of settings that every network heeds.
pub(crate) const SETTINGS_OF_NETWORKS: &[&str] = &["awake"];

/// How far an experiment is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parts {
    /// Parts that are done.
    pub done: usize,
    /// All of them.
    pub total: usize,
}

/// Somebody who watches.
pub trait Progress {
    /// So many parts are done, and `what` comes next.
    fn show(&self, parts: Parts, what: &str);
}

/// What a run is to be like.
#[derive(Debug, Clone)]
pub struct Options {
    /// Everything random comes from it.
    pub seed: u64,
    /// Whether it is cut short to see that it works; numbers of such a run say little.
    pub quick: bool,
    /// Directory of results; a run writes below `OUT/EXPERIMENT`.
    pub out: PathBuf,
    /// The program `wayfs`.
    pub program: PathBuf,
    /// Settings of single experiments, `KEY=VALUE` (see `docs/lab.md`); an experiment does not see those that it does not know.
    pub settings: BTreeMap<String, String>,
}

impl Options {
    /// Takes a setting of an experiment in, as it was typed: `KEY=VALUE`.
    ///
    /// # Errors
    /// [`LabError::Experiment`] if it has another form.
    pub fn set(&mut self, typed: &str) -> Result<(), LabError> {
        match typed.split_once('=') {
            Some((key, value)) if !key.is_empty() => self.settings.insert(key.to_owned(), value.to_owned()),
            Some(_) | None => return Err(LabError::Experiment(format!("a setting is KEY=VALUE, not `{typed}`"))),
        };
        Ok(())
    }
}

/// What an experiment has at hand.
pub struct Context<'a> {
    options: &'a Options,
    known: &'static [&'static str],
    directory: PathBuf,
    progress: &'a dyn Progress,
    lateness: Vec<LatenessOf>,
    data: Vec<String>,
    idle_cores: IdleCores,
}

impl<'a> Context<'a> {
    /// For a run of an experiment, whose results of earlier runs are replaced.
    pub(crate) fn new(
        options: &'a Options,
        experiment: &dyn Experiment,
        progress: &'a dyn Progress,
    ) -> Result<Self, LabError> {
        let (directory, known) = (options.out.join(experiment.name()), experiment.settings());
        std::fs::create_dir_all(&directory).map_err(LabError::io(format!("make {}", directory.display())))?;
        let (lateness, data) = (Vec::new(), Vec::new());
        Ok(Self { options, known, directory, progress, lateness, data, idle_cores: IdleCores::Asleep })
    }

    /// Everything random comes from it.
    pub const fn seed(&self) -> u64 {
        self.options.seed
    }

    /// Whether the run is only to see that it works.
    pub const fn is_quick(&self) -> bool {
        self.options.quick
    }

    /// The first if the run is quick, else the second.
    pub fn choose<T>(&self, quick: T, whole: T) -> T {
        if self.options.quick { quick } else { whole }
    }

    /// A setting of the experiment, if it was given.
    ///
    /// # Panics
    /// The experiment does not list it among its own: `wayfs lab run` would refuse it.
    pub fn setting(&self, key: &str) -> Option<&str> {
        assert!(
            self.known.contains(&key) || SETTINGS_OF_NETWORKS.contains(&key),
            "{key} is not among Experiment::settings"
        );
        self.options.settings.get(key).map(String::as_str)
    }

    /// The program `wayfs`.
    pub fn program(&self) -> &Path {
        &self.options.program
    }

    /// Where the results go.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// An empty topology whose programs' logs stay with the results, in `logs/PART`. Give it back to [`Self::finish`].
    /// It keeps cores awake unless the setting `awake` is `false`.
    ///
    /// # Errors
    /// [`LabError::Forbidden`] if this machine or user may not; [`LabError::Experiment`] for another value of that setting.
    pub fn topology(&self, part: &str, seed: u64) -> Result<Topology, LabError> {
        let mut topology = Topology::new(seed)?;
        match self.setting("awake") {
            None | Some("true") => {}
            Some("false") => topology.let_cores_sleep(),
            Some(typed) => return Err(LabError::Experiment(format!("awake={typed}: true or false is wanted"))),
        }
        topology.keep_logs(&self.directory.join("logs").join(part));
        Ok(topology)
    }

    /// Ends a topology and keeps how late its emulator was. A part that is rejected is shown so in the report; an
    /// experiment may repeat it.
    pub fn finish(&mut self, part: &str, topology: Topology) -> Lateness {
        let lateness = topology.take_lateness();
        self.idle_cores = topology.idle_cores().clone();
        self.lateness.push(LatenessOf { part: part.to_owned(), lateness });
        drop(topology);
        lateness
    }

    /// A file of raw data, `NAME.csv`.
    ///
    /// # Errors
    /// [`LabError::Io`] if it cannot be written.
    pub fn csv(&mut self, name: &str, columns: &[&str]) -> Result<Csv, LabError> {
        let name = format!("{name}.csv");
        let csv = Csv::create(&self.directory.join(&name), columns)?;
        self.data.push(name);
        Ok(csv)
    }

    /// Tells who watches: so many parts are done, and `what` comes next.
    pub fn progress(&self, parts: Parts, what: &str) {
        self.progress.show(parts, what);
    }

    /// What idle cores did in the last topology that was given back.
    pub(crate) const fn idle_cores(&self) -> &IdleCores {
        &self.idle_cores
    }

    pub(crate) fn into_parts(self) -> (Vec<LatenessOf>, Vec<String>, IdleCores) {
        (self.lateness, self.data, self.idle_cores)
    }
}
