//! What was measured, and questions to it.

use super::phases::Outcome;
use super::trial::Trial;
use crate::Estimate;

/// Where the sources were.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// Only at the home.
    Cold,
    /// At the station, or in the client's caches.
    Warm,
}

impl State {
    pub(super) const BOTH: [Self; 2] = [Self::Cold, Self::Warm];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Cold => "cold",
            Self::Warm => "warm",
        }
    }

    /// How a trial went in this state.
    pub(super) const fn outcome(self, trial: &Trial) -> Option<&Outcome> {
        match self {
            Self::Cold => Some(&trial.cold),
            Self::Warm => trial.warm.as_ref(),
        }
    }
}

/// What was measured.
#[derive(Debug, Default)]
pub(super) struct Results {
    pub(super) local: Vec<Outcome>,
    pub(super) trials: Vec<Trial>,
    /// Peers that are not installed, and what they lack.
    pub(super) missing: Vec<String>,
    /// Trials of peers that failed, and why.
    pub(super) broken: Vec<String>,
}

impl Results {
    /// The trials of a system in a scenario.
    pub(super) fn of<'a>(&'a self, system: &'a str, scenario: &'a str) -> impl Iterator<Item = &'a Trial> {
        self.trials.iter().filter(move |trial| trial.system == system && trial.setting.scenario == scenario)
    }

    fn outcomes<'a>(&'a self, system: &'a str, scenario: &'a str, state: State) -> impl Iterator<Item = &'a Outcome> {
        self.of(system, scenario).filter_map(move |trial| state.outcome(trial))
    }

    /// Seconds of all phases; `None` if it was not measured. Runs that were given up count with their bound.
    pub(super) fn total(&self, system: &str, scenario: &str, state: State) -> Option<Estimate> {
        let totals: Vec<f64> = self.outcomes(system, scenario, state).map(Outcome::total).collect();
        (!totals.is_empty()).then(|| Estimate::of(&totals))
    }

    /// Whether a run was given up: its time is a lower bound.
    pub(super) fn is_bound(&self, system: &str, scenario: &str, state: State) -> bool {
        self.outcomes(system, scenario, state).any(|outcome| outcome.given_up.is_some())
    }

    /// Seconds of a phase.
    pub(super) fn phase(&self, system: &str, scenario: &str, state: State, phase: usize) -> Option<Estimate> {
        mean(self.outcomes(system, scenario, state).filter_map(|outcome| outcome.seconds.get(phase).copied()))
    }

    /// Seconds of processor time of the programs.
    pub(super) fn busy(&self, system: &str, scenario: &str, state: State) -> Option<Estimate> {
        let ended = self.outcomes(system, scenario, state).filter(|outcome| outcome.given_up.is_none());
        mean(ended.map(|outcome| outcome.busy))
    }

    /// Bytes that crossed the wide area, from the home and to it.
    pub(super) fn crossed(&self, system: &str, scenario: &str, state: State) -> Option<[Estimate; 2]> {
        let way = |at: usize| mean(self.outcomes(system, scenario, state).map(|outcome| outcome.crossed[at] as f64));
        Some([way(0)?, way(1)?])
    }

    /// What programs complained of on a system first, if they did.
    pub(super) fn complaint(&self, system: &str) -> Option<&str> {
        let trials = self.trials.iter().filter(|trial| trial.system == system);
        let outcomes = trials.flat_map(|trial| State::BOTH.into_iter().filter_map(|state| state.outcome(trial)));
        outcomes.filter_map(|outcome| outcome.complaint.as_deref()).next()
    }

    /// On the local disk: seconds of all phases, of one, and of processor time.
    pub(super) fn local_total(&self) -> Estimate {
        Estimate::of(&self.local.iter().map(Outcome::total).collect::<Vec<_>>())
    }

    /// Seconds of a phase on the local disk.
    pub(super) fn local_phase(&self, phase: usize) -> Option<Estimate> {
        mean(self.local.iter().filter_map(|outcome| outcome.seconds.get(phase).copied()))
    }

    /// Scenarios that were run, in the order in which they were.
    pub(super) fn scenarios(&self) -> Vec<&'static str> {
        distinct(self.trials.iter().map(|trial| trial.setting.scenario))
    }

    /// Systems that were run, ours first.
    pub(super) fn systems(&self) -> Vec<&'static str> {
        distinct(self.trials.iter().map(|trial| trial.system))
    }
}

fn mean(values: impl Iterator<Item = f64>) -> Option<Estimate> {
    let values: Vec<f64> = values.collect();
    (!values.is_empty()).then(|| Estimate::of(&values))
}

fn distinct(names: impl Iterator<Item = &'static str>) -> Vec<&'static str> {
    let mut found = Vec::new();
    for name in names {
        if !found.contains(&name) {
            found.push(name);
        }
    }
    found
}

#[cfg(test)]
pub(super) mod testing {
    use super::*;
    use crate::experiments::andrew::trial::Setting;
    use std::time::Duration;

    /// A trial with these totals.
    pub(in super::super) fn trial(system: &'static str, scenario: &'static str, cold: f64, warm: Option<f64>) -> Trial {
        let outcome = |total: f64| Outcome { seconds: vec![total / 5.0; 5], busy: total / 2.0, ..Outcome::default() };
        let setting = Setting { scenario, number: 0, bound: Duration::from_secs(600) };
        Trial { system, setting, cold: outcome(cold), drained: Some(0.5), warm: warm.map(outcome), safe: Some(10) }
    }

    #[test]
    fn what_was_not_run_has_no_time() {
        let results = Results { trials: vec![trial("WayFS", "local-area", 2.0, None)], ..Results::default() };
        assert_eq!(results.total("WayFS", "local-area", State::Cold).unwrap().mean, 2.0);
        assert!(results.total("WayFS", "local-area", State::Warm).is_none());
        assert!(results.total("sshfs", "local-area", State::Cold).is_none());
        assert_eq!(results.systems(), ["WayFS"]);
    }

    #[test]
    fn a_run_that_was_given_up_is_a_bound() {
        let mut given_up = trial("sshfs", "local-area", 2.0, None);
        given_up.cold.given_up = Some(Duration::from_secs(480));
        let results = Results { trials: vec![given_up], ..Results::default() };
        assert!(results.is_bound("sshfs", "local-area", State::Cold));
        assert_eq!(results.total("sshfs", "local-area", State::Cold).unwrap().mean, 480.0);
    }
}
