//! What is to be said, from what was measured.

use super::BASE;
use super::results::{Results, State};
use super::rows::{COLD_MAX, WARM_MAX};
use super::trial::OURS;
use super::workload::Workload;
use crate::Profile;
use crate::peers::PEERS;

pub(super) const EXPECTED: &str = "Updates go to the station only, so with warm caches the wide area is not felt: at most 1 % over the local area, in every \
scenario (published for the research prototype: 0.7 to 2.0 %). With cold caches the sources come from the home, once: at most 15 % over the local area (published: \
4 to 24 %), but for the 56 kb/s line, which needs longer for the sources than the whole benchmark takes; no aim is set there. Peers send every update, or every question \
whether a copy is good, across the wide area, and grow with its round trip; the one that answers first and sends later (rclone) stays quick, and loses what it has \
not sent when its client is lost. Ours is to be quicker than each of them everywhere, and its work safe.";

/// What came out.
pub(super) fn came_out(results: &Results, workload: &Workload) -> String {
    let program = workload.program();
    let mut text = format!(
        "The program: {} files, {} KB, {} compiled; {} files and {} KB afterwards. On the local disk the five phases took {:.2} s.",
        program.files().count(),
        program.len() / 1000,
        program.units(),
        workload.files(),
        workload.made_len() / 1000,
        results.local_total().mean,
    );
    for state in State::BOTH {
        text += &range(results, state);
    }
    text += "\n\n";
    text += &beside(results);
    text += &safety(results, workload);
    text += "\n\n";
    text += &peers(results);
    text
}

/// The least and the most that the wide area cost.
fn range(results: &Results, state: State) -> String {
    let Some(base) = results.total(OURS, BASE, state) else { return String::new() };
    let by_base = |name| Some((results.total(OURS, name, state)?.mean / base.mean, name));
    let mut all: Vec<(f64, &str)> =
        results.scenarios().into_iter().filter(|it| *it != BASE).filter_map(by_base).collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (Some(least), Some(most)) = (all.first(), all.last()) else { return String::new() };
    let max = match state {
        State::Cold => COLD_MAX,
        State::Warm => WARM_MAX,
    };
    let within = all.iter().filter(|(ratio, _)| *ratio <= max).count();
    format!(
        " {}: {:.2} s in the local area; {:.3} times that ({}) to {:.3} times ({}); {within} of {} scenarios at most {max}.",
        if state == State::Cold { "Cold" } else { "Warm" },
        base.mean,
        least.0,
        least.1,
        most.0,
        most.1,
        all.len(),
    )
}

/// Ours beside every peer.
fn beside(results: &Results) -> String {
    let mut quicker = Vec::new();
    let mut compared = 0;
    for system in results.systems().into_iter().filter(|it| *it != OURS) {
        for scenario in results.scenarios() {
            for state in State::BOTH {
                let (Some(theirs), Some(ours)) =
                    (results.total(system, scenario, state), results.total(OURS, scenario, state))
                else {
                    continue;
                };
                compared += 1;
                if theirs.mean < ours.mean {
                    quicker.push(format!("{system} in {scenario}, {}", state.name()));
                }
            }
        }
    }
    match (compared, quicker.is_empty()) {
        (0, _) => "No peer was measured beside ours.".into(),
        (_, true) => format!("{OURS} was quicker than every peer in all {compared} comparisons."),
        (_, false) => {
            format!("In {} of {compared} comparisons a peer was quicker: {}.", quicker.len(), quicker.join("; "))
        }
    }
}

/// Whose work was safe.
fn safety(results: &Results, workload: &Workload) -> String {
    let mut text =
        String::from(" Was the work safe on another machine when the last command returned and the client was lost?");
    for system in results.systems() {
        let safe: Vec<usize> =
            results.trials.iter().filter(|it| it.system == system).filter_map(|it| it.safe).collect();
        let (Some(least), Some(most)) = (safe.iter().min(), safe.iter().max()) else { continue };
        let all = workload.files();
        let trials = if safe.len() == 1 { "one trial".to_owned() } else { format!("{} trials", safe.len()) };
        text += &match (*least == all, least == most) {
            (true, _) => format!(" {system}: yes, all {all} files ({trials})."),
            (false, true) => format!(" {system}: no, {least} of {all} files ({trials})."),
            (false, false) => format!(" {system}: no, {least} to {most} of {all} files ({trials})."),
        };
        let drained = results.trials.iter().filter(|it| it.system == system).filter_map(|it| it.drained);
        let longest = drained.fold(0.0, f64::max);
        if *least < all && longest > 0.0 {
            text += &format!(" Left alone, it had all of it there {longest:.2} s after its return at the latest.");
        }
    }
    text
}

/// How the peers were set up, which are missing, and which broke.
fn peers(results: &Results) -> String {
    let systems = results.systems();
    let run: Vec<_> = PEERS.iter().filter(|peer| systems.contains(&peer.name())).collect();
    let mut text: String = run.iter().map(|peer| format!("{}: {}. ", peer.name(), peer.about())).collect();
    for system in systems {
        if let Some(complaint) = results.complaint(system) {
            text += &format!("On {system} programs complained: \u{201c}{complaint}\u{201d}. ");
        }
    }
    if !results.missing.is_empty() {
        text += &format!("Not installed: {}. ", results.missing.join("; "));
    }
    if !results.broken.is_empty() {
        text += &format!("Failed: {}.", results.broken.join("; "));
    }
    text.trim_end().to_owned()
}

/// Why what came out is not what was expected, as far as the numbers tell.
pub(super) fn why(results: &Results) -> String {
    let mut text = Vec::new();
    for state in State::BOTH {
        let Some(base) = results.total(OURS, BASE, state) else { continue };
        for scenario in results.scenarios() {
            let max = if state == State::Cold { COLD_MAX } else { WARM_MAX };
            let Some(total) = results.total(OURS, scenario, state) else { continue };
            if total.mean / base.mean > max {
                text.push(excess(results, scenario, state, total.mean - base.mean));
            }
        }
    }
    text.join(" ")
}

/// Where the time went that a scenario took longer than the local area.
fn excess(results: &Results, scenario: &str, state: State, seconds: f64) -> String {
    let mean = |name, phase| results.phase(OURS, name, state, phase).map_or(0.0, |it| it.mean);
    let more: Vec<String> = super::PHASES
        .iter()
        .enumerate()
        .map(|(at, phase)| format!("{} {:+.2}", phase.name, mean(scenario, at) - mean(BASE, at)))
        .collect();
    let busy = |name| results.busy(OURS, name, state).map_or(0.0, |it| it.mean);
    format!(
        "{scenario}, {}, took {seconds:.2} s more ({} s); the programs' own processor time is {:+.2} s of it.{}",
        state.name(),
        more.join(", "),
        busy(scenario) - busy(BASE),
        on_the_line(results, scenario, state),
    )
}

/// How long the line is busy with what came from the home, whoever sends it.
fn on_the_line(results: &Results, scenario: &str, state: State) -> String {
    let rate = Profile::named(scenario).map_or(0, |profile| profile.down_bits_per_second);
    let Some([from_home, _]) = results.crossed(OURS, scenario, state).filter(|_| rate > 0) else {
        return String::new();
    };
    let seconds = from_home.mean * 8.0 / rate as f64;
    format!(" {:.0} KB came from the home, which keep its line busy for {seconds:.2} s.", from_home.mean / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::super::results::testing::trial;
    use super::*;

    #[test]
    fn words_follow_the_numbers() {
        let trials = vec![
            trial(OURS, BASE, 2.0, Some(2.0)),
            trial(OURS, "intercontinental", 3.0, Some(2.0)),
            trial("sshfs", BASE, 1.0, Some(4.0)),
        ];
        let results = Results { trials, ..Results::default() };
        assert_eq!(beside(&results), "In 1 of 2 comparisons a peer was quicker: sshfs in local-area, cold.");
        assert!(range(&results, State::Cold).contains("1.500 times (intercontinental); 0 of 1"));
        assert!(range(&results, State::Warm).contains("1 of 1 scenarios at most 1.01"));
        let why = why(&results);
        assert!(why.contains("intercontinental, cold, took 1.00 s more") && !why.contains("warm"), "{why}");
    }
}
