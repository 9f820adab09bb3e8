//! The numbers.

use super::BASE;
use super::phases::PHASES;
use super::results::{Results, State};
use super::trial::OURS;
use super::workload::Workload;
use crate::estimate::Hits;
use crate::{Aim, Estimate, Row};

/// Relative running times of the research prototype (thesis, table 5.3): cold and warm.
pub(super) const PUBLISHED: [(&str, Option<f64>, f64); 6] = [
    ("small-distance", Some(1.040), 1.007),
    ("medium-distance", Some(1.103), 1.012),
    ("large-distance", Some(1.200), 1.013),
    ("intercontinental", Some(1.241), 1.020),
    ("low-bandwidth", None, 1.014),
    ("high-latency", None, 1.007),
];
/// Most that the wide area may cost.
pub(super) const COLD_MAX: f64 = 1.15;
pub(super) const WARM_MAX: f64 = 1.01;
/// Over 56 kb/s the sources alone take longer than everything else, whoever sends them.
const TOO_THIN: &str = "low-bandwidth";

/// All of them.
pub(super) fn rows(results: &Results, workload: &Workload) -> Vec<Row> {
    let mut rows = absolute(results);
    for state in State::BOTH {
        rows.extend(relative(results, state));
    }
    rows.extend(beside(results));
    rows.extend(safety(results, workload));
    rows
}

/// What was published for a scenario.
pub(super) fn published(scenario: &str, state: State) -> Option<f64> {
    let (_, cold, warm) = PUBLISHED.into_iter().find(|(name, ..)| *name == scenario)?;
    match state {
        State::Cold => cold,
        State::Warm => Some(warm),
    }
}

fn absolute(results: &Results) -> Vec<Row> {
    let local: Vec<f64> = (0..PHASES.len()).filter_map(|phase| Some(results.local_phase(phase)?.mean)).collect();
    let row = Row::new("the five phases on the local disk", "s", results.local_total());
    let busy = results.local.iter().map(|outcome| outcome.busy).collect::<Vec<_>>();
    let mut rows = vec![row.note(format!("{}; programs {:.2} s", by_phase(&local), Estimate::of(&busy).mean))];
    for state in State::BOTH {
        let Some(total) = results.total(OURS, BASE, state) else { continue };
        let phase = |phase| Some(results.phase(OURS, BASE, state, phase)?.mean);
        let phases: Vec<f64> = (0..PHASES.len()).filter_map(phase).collect();
        let busy = results.busy(OURS, BASE, state).map_or(0.0, |busy| busy.mean);
        let row = Row::new(format!("{OURS}, {BASE}, {}", state.name()), "s", total);
        rows.push(row.note(format!("{}; programs {busy:.2} s", by_phase(&phases))));
    }
    rows
}

fn by_phase(seconds: &[f64]) -> String {
    let named = PHASES.iter().zip(seconds).map(|(phase, seconds)| format!("{} {seconds:.2}", phase.name));
    named.collect::<Vec<_>>().join(", ")
}

/// Ours, by ours in the local area.
fn relative(results: &Results, state: State) -> Vec<Row> {
    let Some(base) = results.total(OURS, BASE, state) else { return Vec::new() };
    let mut rows = Vec::new();
    for scenario in results.scenarios().into_iter().filter(|scenario| *scenario != BASE) {
        let Some(total) = results.total(OURS, scenario, state) else { continue };
        let what = format!("{}, {scenario}: more than in the local area", state.name());
        let kilobytes = results.crossed(OURS, scenario, state).map_or([0.0; 2], |ways| ways.map(|it| it.mean / 1000.0));
        let note = format!("{:.2} s; {:.0} KB from the home, {:.0} KB to it", total.mean, kilobytes[0], kilobytes[1]);
        let mut row = Row::new(what, "%", more(total.over(&base))).note(note);
        row.published = published(scenario, state).map(percent);
        row.aim = match state {
            State::Cold if scenario == TOO_THIN => Aim::None,
            State::Cold => Aim::AtMost(percent(COLD_MAX)),
            State::Warm => Aim::AtMost(percent(WARM_MAX)),
        };
        rows.push(row);
    }
    rows
}

/// What a ratio is above one, in per cent. No more digits than such times have.
fn percent(ratio: f64) -> f64 {
    ((ratio - 1.0) * 10_000.0).round() / 100.0
}

fn more(ratio: Estimate) -> Estimate {
    Estimate { mean: percent(ratio.mean), low: percent(ratio.low), high: percent(ratio.high), ..ratio }
}

/// Peers, by ours in the same scenario and state.
fn beside(results: &Results) -> Vec<Row> {
    let mut rows = Vec::new();
    for system in results.systems().into_iter().filter(|system| *system != OURS) {
        for scenario in results.scenarios() {
            for state in State::BOTH {
                let (Some(theirs), Some(ours)) =
                    (results.total(system, scenario, state), results.total(OURS, scenario, state))
                else {
                    continue;
                };
                let more = if results.is_bound(system, scenario, state) { "more than " } else { "" };
                let what = format!("{system}, {scenario}, {}, by {OURS}", state.name());
                let note = format!("{more}{:.1} s beside {:.1} s", theirs.mean, ours.mean);
                rows.push(Row::new(what, "times", theirs.over(&ours)).aim(Aim::AtLeast(1.0)).note(note));
            }
        }
    }
    rows
}

/// Was the work safe on another machine when the last command returned?
fn safety(results: &Results, workload: &Workload) -> Vec<Row> {
    let mut rows = Vec::new();
    for system in results.systems() {
        for scenario in results.scenarios() {
            let safe: Vec<u64> =
                results.of(system, scenario).filter_map(|trial| trial.safe).map(|it| it as u64).collect();
            let drained: Vec<f64> = results.of(system, scenario).filter_map(|trial| trial.drained).collect();
            if !safe.is_empty() {
                let all = workload.files() as u64 * safe.len() as u64;
                let share = Estimate::share(Hits { hits: safe.iter().sum(), trials: all });
                let answer = if share.mean >= 1.0 { "yes" } else { "no" };
                let note = format!("{answer}: {} of {all} files", safe.iter().sum::<u64>());
                let what = format!("safe elsewhere at return, {system}, {scenario}");
                rows.push(Row::new(what, "%", Estimate { samples: 1, ..share.times(100.0) }).note(note));
            }
            if !drained.is_empty() {
                let what = format!("until all was safe elsewhere, {system}, {scenario}");
                rows.push(Row::new(what, "s", Estimate::of(&drained)).note("after the last command of the cold run"));
            }
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::super::results::testing::trial;
    use super::*;
    use crate::Verdict;

    #[test]
    fn aims_are_set_and_judged() {
        let trials = vec![
            trial(OURS, BASE, 2.0, Some(2.0)),
            trial(OURS, "medium-distance", 2.2, Some(2.1)),
            trial(OURS, "low-bandwidth", 30.0, Some(2.0)),
            trial("sshfs", BASE, 1.0, None),
        ];
        let results = Results { trials, ..Results::default() };
        let verdict = |rows: &[Row], start: &str| {
            rows.iter().find(|row| row.what.starts_with(start)).unwrap_or_else(|| panic!("{start}")).verdict()
        };
        let cold = relative(&results, State::Cold);
        assert_eq!(verdict(&cold, "cold, medium-distance"), Verdict::Met);
        assert_eq!(verdict(&cold, "cold, low-bandwidth"), Verdict::Open);
        assert_eq!(verdict(&relative(&results, State::Warm), "warm, medium-distance"), Verdict::Missed);
        assert_eq!(verdict(&relative(&results, State::Warm), "warm, low-bandwidth"), Verdict::Met);
        let beside = beside(&results);
        assert_eq!((beside.len(), verdict(&beside, "sshfs, local-area, cold")), (1, Verdict::Missed));
    }
}
