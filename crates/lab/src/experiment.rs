//! An experiment: what it is called, what it is about, and how it runs.

use crate::context::SETTINGS_OF_NETWORKS;
use crate::summary::{Findings, Machine, Summary};
use crate::{Context, LabError, Options, Progress, report};
use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Instant, SystemTime};

/// An experiment.
pub trait Experiment: Sync {
    /// Its name, as the command line takes it.
    fn name(&self) -> &'static str;

    /// What it asks, in a line.
    fn about(&self) -> &'static str;

    /// Keys of the settings that it knows beside those of every network ([`Context::topology`]); it may ask for no others.
    fn settings(&self) -> &'static [&'static str] {
        &[]
    }

    /// Carries it out. Raw data goes to [`Context::csv`], networks come from [`Context::topology`].
    ///
    /// # Errors
    /// [`LabError`] if it could not be carried out. A number that did not come out as wanted is a finding, not an error.
    fn run(&self, context: &mut Context<'_>) -> Result<Findings, LabError>;
}

/// Refuses settings that none of some experiments knows, which a run would not heed.
///
/// # Errors
/// [`LabError::Experiment`] for the first of them, with those that there are.
pub fn check_settings(experiments: &[&dyn Experiment], options: &Options) -> Result<(), LabError> {
    let own = experiments.iter().flat_map(|experiment| experiment.settings());
    let known: BTreeSet<&str> = own.chain(SETTINGS_OF_NETWORKS).copied().collect();
    match options.settings.keys().find(|key| !known.contains(key.as_str())) {
        Some(key) => {
            let known = known.into_iter().collect::<Vec<_>>().join(", ");
            Err(LabError::Experiment(format!("no setting is called `{key}` here: there are {known}")))
        }
        None => Ok(()),
    }
}

/// Runs an experiment and writes `summary.json` and `report.html` into `OUT/NAME`.
///
/// # Errors
/// [`LabError`] if it could not be carried out or written down.
pub fn run(experiment: &dyn Experiment, options: &Options, progress: &dyn Progress) -> Result<Summary, LabError> {
    let machine = Machine::this();
    let began = Instant::now();
    let started = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let mut context = Context::new(options, experiment, progress)?;
    let directory = context.directory().to_owned();
    let findings = experiment.run(&mut context)?;
    let (lateness, data, idle_cores) = context.into_parts();
    let summary = Summary {
        experiment: experiment.name().to_owned(),
        about: experiment.about().to_owned(),
        seed: options.seed,
        quick: options.quick,
        started,
        seconds: began.elapsed().as_secs_f64(),
        machine,
        idle_cores,
        lateness,
        data,
        findings,
    };
    write(&summary, &directory)?;
    Ok(summary)
}

fn write(summary: &Summary, directory: &Path) -> Result<(), LabError> {
    let json = serde_json::to_string_pretty(summary).map_err(|error| LabError::Experiment(error.to_string()))?;
    let path = directory.join(SUMMARY);
    std::fs::write(&path, json + "\n").map_err(LabError::io(format!("write {}", path.display())))?;
    report::write_page(summary, directory)
}

/// Name of the file with a summary.
pub(crate) const SUMMARY: &str = "summary.json";
