//! What a replay found, in rows, figures and words.

use super::Place;
use super::latencies::{self, Latencies, QUANTILES};
use super::trace::{Operation, Trace};
use crate::estimate::Hits;
use crate::{Aim, Axis, Csv, Estimate, Figure, Findings, LabError, Origin, Row, Series, Verdict, quantile};
use std::collections::BTreeMap;

/// Kinds with fewer operations have no percentiles to speak of; they are in the raw data.
const OPERATIONS_MIN: usize = 20;
/// Kinds that have rows: the most frequent. All are in the raw data.
const TOLD_MAX: usize = 6;
/// Kinds that are drawn: the most frequent.
const DRAWN_MAX: usize = 4;
/// Share of operations that may be issued late, in percent.
const LATE_PERCENT_MAX: f64 = 1.0;
/// By how much the median of warm operations may differ between lines: what a noisy machine adds.
const SPREAD_MAX: f64 = 1.5;

pub(super) fn findings(trace: &Trace, source: &str, speed: f64, places: &[Place]) -> Findings {
    let kinds = kinds(places);
    let mut rows = Vec::new();
    for kind in kinds.iter().take(TOLD_MAX) {
        let local = places.iter().find(|place| place.name == "local").map(|place| all(place, *kind).quantiles());
        rows.extend(places.iter().map(|place| row(place, *kind, local)));
    }
    rows.extend(places.iter().map(late_row));
    rows.extend(places.iter().filter(|place| !place.traffic.is_empty()).map(|place| traffic_row(trace, place)));
    rows.push(failed_row(places));
    rows.extend(spread_row(places));
    let figures =
        kinds.iter().take(DRAWN_MAX).flat_map(|kind| ["cold", "warm"].map(|state| figure(places, *kind, state)));
    let mut findings =
        Findings { expected: expected(trace, source, speed), figures: figures.collect(), rows, ..Findings::default() };
    tell(&mut findings, places, &kinds);
    findings
}

/// Percentiles of every kind at every place.
pub(super) fn write(csv: &mut Csv, places: &[Place]) -> Result<(), LabError> {
    for place in places {
        for kind in Operation::ALL {
            let latencies = all(place, kind);
            if latencies.took_us.is_empty() {
                continue;
            }
            let counts = [latencies.took_us.len() as f64, latencies.failed as f64];
            let numbers = counts.into_iter().chain(latencies.quantiles()).map(|number| number.to_string());
            let names = [place.name.clone(), kind.name().to_owned()];
            csv.row(&names.into_iter().chain(numbers).collect::<Vec<_>>())?;
        }
    }
    Ok(())
}

/// Kinds of operations that have percentiles, the most frequent first.
fn kinds(places: &[Place]) -> Vec<Operation> {
    let mut counts: BTreeMap<Operation, usize> = BTreeMap::new();
    for sample in places.iter().filter_map(|place| place.trials.first()).flatten() {
        *counts.entry(sample.operation).or_default() += 1;
    }
    let mut kinds: Vec<(usize, Operation)> = counts.into_iter().map(|(kind, count)| (count, kind)).collect();
    kinds.retain(|(count, _)| *count >= OPERATIONS_MIN * places.len());
    kinds.sort_unstable_by(|a, b| b.cmp(a));
    kinds.into_iter().map(|(_, kind)| kind).collect()
}

/// All trials of a kind at a place.
fn all(place: &Place, kind: Operation) -> Latencies {
    let mut found = Latencies::default();
    for samples in &place.trials {
        if let Some(one) = latencies::by_operation(samples).remove(&kind) {
            found.took_us.extend(one.took_us);
            found.failed += one.failed;
        }
    }
    found
}

fn row(place: &Place, kind: Operation, local: Option<[f64; 4]>) -> Row {
    let medians: Vec<f64> = place
        .trials
        .iter()
        .filter_map(|samples| Some(latencies::by_operation(samples).get(&kind)?.quantiles()[0]))
        .collect();
    let latencies = all(place, kind);
    let told = |quantiles: [f64; 4]| {
        let pairs = QUANTILES.iter().zip(quantiles).skip(1);
        pairs.map(|((_, name), value)| format!("{name} {value:.0}")).collect::<Vec<_>>().join(", ")
    };
    let mut note = format!("{} of {} operations", told(latencies.quantiles()), latencies.took_us.len());
    if let Some(local) = local.filter(|_| place.name != "local") {
        note =
            format!("{note}; {:.1} times the local median", latencies.quantiles()[0] / local[0].max(f64::MIN_POSITIVE));
    }
    Row::new(format!("{}, {}, p50", kind.name(), place.name), "us", Estimate::of(&medians)).note(note)
}

fn late_row(place: &Place) -> Row {
    let late = place.trials.iter().map(|samples| latencies::late(samples)).sum();
    let issued = place.trials.iter().map(|samples| samples.len() as u64).sum();
    let mut lateness: Vec<f64> = place.trials.iter().flatten().map(|sample| sample.late.as_secs_f64() * 1e3).collect();
    let note =
        format!("p99 {:.1} ms, at most {:.0} ms late", quantile(&mut lateness, 0.99), quantile(&mut lateness, 1.0));
    let share = Estimate::share(Hits { hits: late, trials: issued }).times(100.0);
    Row::new(format!("issued more than 10 ms late, {}", place.name), "%", share)
        .aim(Aim::AtMost(LATE_PERCENT_MAX))
        .note(note)
}

fn traffic_row(trace: &Trace, place: &Place) -> Row {
    let asked: u64 = trace.steps.iter().filter(|step| step.operation == Operation::Read).map(|step| step.len).sum();
    let lan: Vec<f64> = place.traffic.iter().map(|bytes| bytes.lan as f64 / 1e6).collect();
    let wide = place.traffic.iter().map(|bytes| bytes.wide as f64 / 1e6).sum::<f64>() / place.traffic.len() as f64;
    let rate = Estimate::of(&lan).mean * 8.0 / trace.length().as_secs_f64().max(f64::MIN_POSITIVE);
    let note = format!(
        "{:.1} MB were asked for by reads; {rate:.0} Mb/s if it came in the time of the trace; over the wide area {wide:.2} MB",
        asked as f64 / 1e6
    );
    Row::new(format!("bytes between client and station, {}", place.name), "MB", Estimate::of(&lan)).note(note)
}

fn failed_row(places: &[Place]) -> Row {
    let failed = places.iter().flat_map(|place| &place.trials).flatten().filter(|sample| !sample.is_success).count();
    Row::new("operations that failed", "", Estimate::exact(failed as f64)).aim(Aim::AtMost(0.0))
}

/// Median of all operations of a place.
fn median(place: &Place) -> f64 {
    let mut took: Vec<f64> = place.trials.iter().flatten().map(|sample| sample.took.as_secs_f64() * 1e6).collect();
    quantile(&mut took, 0.5)
}

/// How much the line matters to a client that has everything: not at all, if all is well.
fn spread_row(places: &[Place]) -> Option<Row> {
    let mut medians: Vec<f64> = places.iter().filter(|place| place.name.starts_with("warm")).map(median).collect();
    if medians.len() < 2 {
        return None;
    }
    let (low, high) = (quantile(&mut medians, 0.0), quantile(&mut medians, 1.0));
    let row = Row::new("warm, slowest line to fastest, median of all operations", "", Estimate::exact(high / low));
    Some(row.aim(Aim::AtMost(SPREAD_MAX)).note(format!("{low:.0} to {high:.0} us")))
}

fn figure(places: &[Place], kind: Operation, state: &str) -> Figure {
    let wanted = places.iter().filter(|place| place.name == "local" || place.name.starts_with(state));
    let series = wanted.map(|place| Series::cumulative(&place.name, Origin::Measured, all(place, kind).took_us));
    Figure {
        title: format!("{}, {state} client", kind.name()),
        x: Axis::logarithmic("latency", "us"),
        y: Axis::linear("share of operations", ""),
        series: series.collect(),
        caption: match state {
            "cold" => "Cumulative share of operations by how long they took, on a client that had nothing; its station had everything.".into(),
            _ => "The same again: the client has what it looked at.".into(),
        },
    }
}

fn expected(trace: &Trace, source: &str, speed: f64) -> String {
    let seconds = trace.length().as_secs_f64() / speed;
    let left: u64 = trace.left_out.values().sum();
    let left = match left {
        0 => String::new(),
        _ => {
            let names: Vec<String> = trace.left_out.iter().map(|(name, count)| format!("{count} {name}")).collect();
            format!(" Left out of its source: {}.", names.join(", "))
        }
    };
    format!(
        "The trace ({source}): {} operations in {seconds:.1} s on {} files and directories, all through one mount, at their times{}.{left}\n\n\
         A client that has everything answers from the kernel's caches and its own disk: the wide area should not show, and operations that reach the daemon should cost \
         some 20 to 60 us more than on the local disk. A client that has nothing asks its station over the LAN: the first look at a file costs \
         a round trip (some 0.5 ms) and a first read the way of a chunk at 100 Mb/s; it is busy with that, not with the wide area. If the mount cannot keep up, operations are issued late; that is \
         told, since latencies behind such a queue would flatter.",
        trace.steps.len(),
        trace.before.len(),
        if (speed - 1.0).abs() < f64::EPSILON { String::new() } else { format!(", {speed} times as fast") },
    )
}

fn tell(findings: &mut Findings, places: &[Place], kinds: &[Operation]) {
    let mut said = Vec::new();
    for state in ["local", "cold", "warm"] {
        let medians: Vec<f64> = places.iter().filter(|place| place.name.starts_with(state)).map(median).collect();
        let (low, high) =
            (medians.iter().copied().fold(f64::INFINITY, f64::min), medians.iter().copied().fold(0.0, f64::max));
        match (state, medians.is_empty()) {
            (_, true) => {}
            ("local", _) => said.push(format!("On the local disk the median of all operations was {low:.0} us.")),
            _ => said.push(format!("On a {state} client it was {low:.0} to {high:.0} us, by line.")),
        }
    }
    let tails: Vec<String> = kinds.iter().take(DRAWN_MAX).filter_map(|kind| tail(places, *kind)).collect();
    said.push(format!("99 of 100 operations took, at most: {}.", tails.join("; ")));
    findings.came_out = said.join(" ");
    let missed: Vec<&str> =
        findings.rows.iter().filter(|row| row.verdict() == Verdict::Missed).map(|row| row.what.as_str()).collect();
    if missed.iter().any(|what| what.starts_with("issued")) {
        findings.why_they_differ = format!(
            "Not in time: {}. There the mount, or the machine, did not keep up with the trace; latencies of those places are of a mount with all workers waiting.",
            missed.join("; ")
        );
    } else if !missed.is_empty() {
        findings.why_they_differ = format!("Not as wanted: {}.", missed.join("; "));
    }
}

/// The 99th percentile of a kind: local, and the worst of the cold and of the warm places.
fn tail(places: &[Place], kind: Operation) -> Option<String> {
    let worst = |state: &str| {
        let of =
            places.iter().filter(|place| place.name.starts_with(state)).map(|place| all(place, kind).quantiles()[2]);
        of.fold(None, |worst: Option<f64>, one| Some(worst.map_or(one, |worst| worst.max(one))))
    };
    let (local, cold, warm) = (worst("local")?, worst("cold")?, worst("warm")?);
    Some(format!("{} {local:.0} us locally, {cold:.0} us cold, {warm:.0} us warm", kind.name()))
}
