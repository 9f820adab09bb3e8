//! What the trials say: rows, plots, words, raw data.

use super::crossing::Crossing;
use super::tool::Timed;
use super::trial::Trial;
use super::{Cell, LOCAL, OURS};
use crate::{Aim, Axis, Context, Estimate, Figure, Findings, LabError, Origin, Row, Series, Style};
use std::collections::BTreeSet;
use wayfs_link::Profile;

/// Files that the edit changes or makes.
const CHANGED_FILES: usize = 17;

pub(super) fn tell(context: &mut Context<'_>, cells: &[Cell], absent: &[String]) -> Result<Findings, LabError> {
    write(context, cells)?;
    Ok(Findings {
        expected: EXPECTED.into(),
        came_out: came_out(cells, absent),
        why_they_differ: why(cells),
        rows: cells.iter().flat_map(rows).collect(),
        figures: figures(cells),
    })
}

const EXPECTED: &str = "A commit goes to the nearby station only, so it should cost the same in every scenario, little more than on a local \
disk; peers without a station pay the wide area for every file that the tool looks at or writes. An update fetches the changed files over two wide \
areas, from the first station to the home and on to the second, so it grows with distance and shrinks with bandwidth, but only for what was \
changed. The published benchmark (Fluid Replication against AFS and Coda, bars without numbers) found both cheaper than with its peers, since lock \
and temporary files stayed at the station: it reconciled every 15 s, longer than a commit takes. Ours tells the home after 50 ms to 1 s, so that \
others see changes sooner; what lives longer than that crosses. Locks that never cross do not exclude the other site, in the published system and \
in ours: two commits at once would be a conflict, not a wait.";

fn busy(trials: &[Trial], of: impl Fn(&Trial) -> Timed) -> Estimate {
    Estimate::of(&trials.iter().map(|trial| of(trial).busy().as_secs_f64()).collect::<Vec<_>>())
}

fn mean(trials: &[Trial], of: impl Fn(&Trial) -> f64) -> Estimate {
    Estimate::of(&trials.iter().map(of).collect::<Vec<_>>())
}

fn rows(cell: &Cell) -> Vec<Row> {
    let (trials, name) = (&cell.trials, format!("{}, {}, {}", cell.tool, cell.system, cell.scenario));
    let mut rows = Vec::new();
    if let Some(failure) = &cell.failure {
        rows.push(Row::new(format!("trials done, {name}"), "", Estimate::exact(trials.len() as f64)).note(failure));
    }
    if trials.is_empty() {
        return rows;
    }
    let asleep = |of: &dyn Fn(&Trial) -> Timed| {
        let slept = mean(trials, |trial| of(trial).asleep.as_secs_f64()).mean;
        if slept > 0.01 {
            format!("without {slept:.2} s in which the tool waited for the clock")
        } else {
            String::new()
        }
    };
    let (commit, update) = (|trial: &Trial| trial.commit, |trial: &Trial| trial.update);
    rows.push(Row::new(format!("commit, {name}"), "s", busy(trials, commit)).note(asleep(&commit)));
    if cell.system != LOCAL {
        let waited = mean(trials, |trial| trial.waited.as_secs_f64());
        rows.push(Row::new(format!("commit until the other site has it, {name}"), "s", waited));
    }
    rows.push(Row::new(format!("update, {name}"), "s", busy(trials, update)).note(asleep(&update)));
    let differences = mean(trials, |trial| trial.differences as f64);
    rows.push(
        Row::new(format!("files that differ after the update, {name}"), "", differences)
            .aim(if cell.system == OURS { Aim::AtMost(0.0) } else { Aim::None })
            .note("of the 17 that were changed or new"),
    );
    for (what, of) in [
        ("commit", (|trial: &Trial| trial.commit_crossing.clone()) as fn(&Trial) -> Option<Crossing>),
        ("update", |trial: &Trial| trial.update_crossing.clone()),
    ] {
        let crossings: Vec<Crossing> = trials.iter().filter_map(of).collect();
        if !crossings.is_empty() {
            rows.extend(crossing_rows(what, &name, &crossings));
        }
    }
    rows
}

fn crossing_rows(what: &str, name: &str, crossings: &[Crossing]) -> Vec<Row> {
    let mean =
        |of: &dyn Fn(&Crossing) -> u64| Estimate::of(&crossings.iter().map(|one| of(one) as f64).collect::<Vec<_>>());
    let row = |words: &str, of: &dyn Fn(&Crossing) -> u64| Row::new(format!("{what}: {words}, {name}"), "", mean(of));
    let wire = |of: &dyn Fn(&Crossing) -> u64| mean(of).times(1e-3);
    vec![
        row("records that the station took", &|one| one.taken),
        row("of these cancelled there", &|one| one.taken.saturating_sub(one.arrived))
            .note("they crossed empty: their places are counted, nothing is said of them"),
        row("lock and temporary names", &|one| one.passing),
        row("of these heard of at the other site", &|one| one.heard),
        Row::new(format!("{what}: to the home over the wide area, {name}"), "kB", wire(&|one| one.wire_bytes.up)),
        Row::new(format!("{what}: from the home over the wide area, {name}"), "kB", wire(&|one| one.wire_bytes.down)),
    ]
}

fn of<'a>(cells: &'a [Cell], system: &str, tool: &str) -> Vec<&'a Cell> {
    let wanted = |cell: &&Cell| cell.system == system && cell.tool == tool && !cell.trials.is_empty();
    cells.iter().filter(wanted).collect()
}

fn names<'a>(cells: &'a [Cell], name: impl Fn(&'a Cell) -> &'a str) -> Vec<&'a str> {
    let mut seen = BTreeSet::new();
    cells.iter().map(name).filter(|name| seen.insert(*name)).collect()
}

fn came_out(cells: &[Cell], absent: &[String]) -> String {
    let mut words = String::new();
    for tool in names(cells, |cell| cell.tool) {
        let ours = of(cells, OURS, tool);
        for (what, phase) in
            [("commit", (|trial: &Trial| trial.commit) as fn(&Trial) -> Timed), ("update", |trial| trial.update)]
        {
            let seconds = |cell: &Cell| busy(&cell.trials, phase).mean;
            let least = ours.iter().min_by(|a, b| seconds(a).total_cmp(&seconds(b)));
            let most = ours.iter().max_by(|a, b| seconds(a).total_cmp(&seconds(b)));
            if let (Some(least), Some(most)) = (least, most) {
                let local = of(cells, LOCAL, tool)
                    .first()
                    .map_or(String::new(), |local| format!("; {:.2} s on a local disk", seconds(local)));
                words.push_str(&format!(
                    "{tool}, {what}: {:.2} s ({}) to {:.2} s ({}){local}. ",
                    seconds(least),
                    least.scenario,
                    seconds(most),
                    most.scenario
                ));
            }
            for cell in cells
                .iter()
                .filter(|cell| cell.tool == tool && ![OURS, LOCAL].contains(&&*cell.system) && !cell.trials.is_empty())
            {
                if let Some(ours) = ours.iter().find(|ours| ours.scenario == cell.scenario) {
                    words.push_str(&format!(
                        "{} took {:.1} times as long ({}). ",
                        cell.system,
                        seconds(cell) / seconds(ours).max(1e-3),
                        cell.scenario
                    ));
                }
            }
        }
    }
    let failed: Vec<String> = cells
        .iter()
        .filter(|cell| cell.failure.is_some())
        .map(|cell| format!("{} with {} ({})", cell.tool, cell.system, cell.scenario))
        .collect();
    if !failed.is_empty() {
        words.push_str(&format!("Not carried through: {}; the rows say why. ", failed.join(", ")));
    }
    if !absent.is_empty() {
        words.push_str(&format!("Not installed, and so left out: {}.", absent.join(", ")));
    }
    words
}

/// How much stayed at the station, and what did not.
fn why(cells: &[Cell]) -> String {
    let mut words = String::new();
    for tool in names(cells, |cell| cell.tool) {
        let crossings: Vec<Crossing> = of(cells, OURS, tool)
            .iter()
            .flat_map(|cell| cell.trials.iter().filter_map(|trial| trial.commit_crossing.clone()))
            .collect();
        let sum = |of: fn(&Crossing) -> u64| crossings.iter().map(of).sum::<u64>();
        let (passing, heard) = (sum(|one| one.passing), sum(|one| one.heard));
        let (taken, arrived) = (sum(|one| one.taken), sum(|one| one.arrived));
        if taken == 0 {
            continue;
        }
        words.push_str(&format!(
            "Over all commits with {tool}, the station took {taken} records and cancelled {} ({:.0} %) before they crossed; of {passing} lock and temporary \
             names the other site heard of {heard}. ",
            taken.saturating_sub(arrived),
            100.0 * taken.saturating_sub(arrived) as f64 / taken as f64,
        ));
        if heard > 0 {
            words.push_str(
                "Those were held for longer than the station gathers records before it tells the home, or are of a kind that it does not cancel \
                 (files that are renamed over others). ",
            );
        }
        words.push_str(&trips(cells, tool));
    }
    words
}

/// How many round trips each changed file costs an update in the farthest scenario.
fn trips(cells: &[Cell], tool: &str) -> String {
    let update = |cell: &Cell| busy(&cell.trials, |trial| trial.update).mean;
    let ours = of(cells, OURS, tool);
    let farthest = ours.iter().max_by(|a, b| round_trip_ms(a).total_cmp(&round_trip_ms(b)));
    let (Some(far), Some(local)) = (farthest, of(cells, LOCAL, tool).first().copied()) else { return String::new() };
    let trip = round_trip_ms(far) / 1000.0;
    if trip == 0.0 {
        return String::new();
    }
    format!(
        "Beyond what it takes on a local disk, the update of {tool} took {:.1} round trips for each of the {CHANGED_FILES} files that were changed or new \
         ({}). What the second site lacks comes from the first by way of the home: fetched one after the other, that would be 2. ",
        (update(far) - update(local)) / trip / CHANGED_FILES as f64,
        far.scenario,
    )
}

/// One plot for each phase of each tool: time over the round trip, whose scenarios are the points.
fn figures(cells: &[Cell]) -> Vec<Figure> {
    let mut figures = Vec::new();
    for tool in names(cells, |cell| cell.tool) {
        for (what, phase) in
            [("commit", (|trial: &Trial| trial.commit) as fn(&Trial) -> Timed), ("update", |trial| trial.update)]
        {
            let series =
                names(cells, |cell| &cell.system).into_iter().filter(|system| *system != LOCAL).map(|system| {
                    let points = of(cells, system, tool)
                        .into_iter()
                        .map(|cell| (round_trip_ms(cell), busy(&cell.trials, phase)));
                    Series::estimates(system, Style::Points, Origin::Measured, points)
                });
            figures.push(Figure {
                title: format!("{tool}: {what}"),
                x: Axis::linear("round trip of the wide area", "ms"),
                y: Axis::logarithmic("time", "s"),
                series: series.collect(),
                caption: "A point for each scenario, with its 95 % interval: round trips of 0 ms are local-area and low-bandwidth (the slower one), 30 small, \
                          67 medium, 90 large distance, 110 intercontinental, 164 passive-propagation, 400 high latency."
                    .into(),
            });
        }
    }
    figures
}

fn round_trip_ms(cell: &Cell) -> f64 {
    Profile::named(cell.scenario).map_or(0.0, |profile| 2.0 * profile.delay_us as f64 / 1000.0)
}

fn write(context: &mut Context<'_>, cells: &[Cell]) -> Result<(), LabError> {
    let columns = [
        "tool",
        "system",
        "scenario",
        "commit_s",
        "commit_asleep_s",
        "until_seen_s",
        "update_s",
        "update_asleep_s",
        "differences",
        "records",
        "records_arrived",
        "passing_names",
        "passing_names_heard",
        "up_bytes",
        "down_bytes",
    ];
    let mut csv = context.csv("trials", &columns)?;
    for cell in cells {
        for trial in &cell.trials {
            let mut row = vec![cell.tool.to_owned(), cell.system.clone(), cell.scenario.to_owned()];
            for time in [trial.commit.total, trial.commit.asleep, trial.waited, trial.update.total, trial.update.asleep]
            {
                row.push(format!("{:.4}", time.as_secs_f64()));
            }
            row.push(trial.differences.to_string());
            row.extend(match &trial.commit_crossing {
                Some(one) => [one.taken, one.arrived, one.passing, one.heard, one.wire_bytes.up, one.wire_bytes.down]
                    .map(|number| number.to_string()),
                None => Default::default(),
            });
            csv.row(&row)?;
        }
    }
    csv.finish()
}
