//! The numbers.

use super::knob::Knob;
use super::plans::{FAR_CLOSED, FAR_COLD, FAR_SAFE, NFS_UDP};
use super::slope::slope;
use super::sweep::{Curve, Sweep};
use crate::{Aim, Estimate, Row};

/// Published for NFS over UDP: response time grows by so many microseconds per microsecond of latency.
pub(super) const PUBLISHED_SLOPE: f64 = 3.0;
/// A slope that would be seen by nobody: a hundredth of the two crossings of a request and its answer.
const UNSEEN: f64 = 0.02;
/// A request and its answer: what a read of contents that are elsewhere cannot do without.
pub(super) const ROUND_TRIP: f64 = 2.0;
/// How far from it a cold read may be; half a crossing more would be a second request now and then.
const ROUND_TRIP_SLACK: f64 = 0.2;

/// All rows of a sweep. Names are short: they stand in a narrow column.
pub(super) fn rows(sweep: &Sweep) -> Vec<Row> {
    match sweep.knob {
        Knob::Latency if is_cold(sweep) => cold(sweep),
        Knob::Latency => latency(sweep),
        Knob::Overhead => overhead(sweep),
        Knob::Gap | Knob::GapPerByte => rest(sweep),
    }
}

/// Growth of the response of one operation at a time with the parameter, in microseconds per unit.
pub(super) fn growth(sweep: &Sweep) -> Estimate {
    let pairs: Vec<(f64, f64)> = sweep
        .curves
        .iter()
        .flat_map(|curve| curve.alone().into_iter().map(|response| (curve.value, 1000.0 * response)))
        .collect();
    slope(&pairs)
}

/// Growth of the time that the bottleneck spends on an operation with the overhead per packet: the packets that an operation
/// costs.
pub(super) fn packets_paid(sweep: &Sweep) -> Estimate {
    let rounds = |curve: &Curve| curve.saturations.clone().into_iter().filter(|rate| *rate > 0.0);
    let pairs: Vec<(f64, f64)> =
        sweep.curves.iter().flat_map(|curve| rounds(curve).map(|rate| (curve.value, 1e6 / rate))).collect();
    slope(&pairs)
}

/// Packets per operation that were counted on the line, on average over the sweep.
pub(super) fn packets_counted(sweep: &Sweep) -> f64 {
    sweep.curves.iter().map(|curve| curve.packets).sum::<f64>() / sweep.curves.len().max(1) as f64
}

/// The most that is delivered at the last value of a sweep as a share of that at the first, in percent.
pub(super) fn kept(sweep: &Sweep) -> f64 {
    let saturation = |curve: Option<&Curve>| curve.map_or(0.0, |curve| curve.saturation().mean);
    100.0 * saturation(sweep.curves.last()) / saturation(sweep.curves.first()).max(f64::MIN_POSITIVE)
}

/// What is delivered under too much load as a share of the most that is delivered, at worst over the sweep, in percent.
pub(super) fn doubled_back(sweep: &Sweep) -> f64 {
    100.0 * sweep.curves.iter().map(Curve::kept_under_overload).fold(1.0, f64::min)
}

/// Whether the sweep is of the wide area, which warm operations are to be independent of.
pub(super) fn is_wide(sweep: &Sweep) -> bool {
    [FAR_CLOSED, FAR_SAFE].contains(&sweep.name)
}

/// Whether the sweep is of reads that have to wait for the wide area.
pub(super) fn is_cold(sweep: &Sweep) -> bool {
    sweep.name == FAR_COLD
}

/// Whether the sweep is of a line on which requests and answers cross.
pub(super) fn is_near(sweep: &Sweep) -> bool {
    !is_wide(sweep) && !is_cold(sweep)
}

fn cold(sweep: &Sweep) -> Vec<Row> {
    let wanted = Aim::Between(ROUND_TRIP - ROUND_TRIP_SLACK, ROUND_TRIP + ROUND_TRIP_SLACK);
    let row = Row::new(what(sweep, "response per us of L"), "us/us", growth(sweep)).aim(wanted);
    vec![row.note("2 is a request and its answer: contents come in one round trip"), base(sweep)]
}

fn latency(sweep: &Sweep) -> Vec<Row> {
    let growth = growth(sweep);
    let row = Row::new(what(sweep, "response per us of L"), "us/us", growth);
    let mut rows = Vec::new();
    if is_wide(sweep) {
        let largest = growth.low.abs().max(growth.high.abs());
        rows.push(row.aim(Aim::Holds(0.0)).note("a warm operation does not wait for the wide area: 0 within noise"));
        let hidden = Row::new(what(sweep, "slope that noise could hide"), "us/us", Estimate::exact(largest));
        rows.push(
            hidden.aim(Aim::AtMost(UNSEEN)).note("the farther end of the interval above; 2 would be a whole wait"),
        );
    } else if sweep.name == NFS_UDP {
        rows.push(row.published(PUBLISHED_SLOPE).note("2 is a request and its answer"));
    } else {
        rows.push(row);
    }
    rows.push(base(sweep));
    rows.push(best(sweep));
    rows.push(share_kept(sweep));
    rows
}

fn overhead(sweep: &Sweep) -> Vec<Row> {
    if is_wide(sweep) {
        return rest(sweep);
    }
    let paid = Row::new(what(sweep, "server time per us of o"), "us/us", packets_paid(sweep)).note(format!(
        "per operation; {:.1} packets of one were counted, each costs o / 0.9 at saturation",
        packets_counted(sweep)
    ));
    vec![paid, share_kept(sweep), overloaded(sweep)]
}

fn rest(sweep: &Sweep) -> Vec<Row> {
    if !is_wide(sweep) {
        return vec![share_kept(sweep)];
    }
    let letter = sweep.knob.letter();
    let row = Row::new(what(sweep, &format!("response per unit of {letter}")), "us", growth(sweep));
    let row = row.note(format!("unit: {}", sweep.knob.unit()));
    let row = if sweep.knob == Knob::GapPerByte { row.aim(Aim::Holds(0.0)) } else { row };
    vec![row, share_kept(sweep)]
}

/// The response of one operation at a time over the best line.
fn base(sweep: &Sweep) -> Row {
    let first = sweep.curves.first();
    let alone = first.map(Curve::alone).unwrap_or_default();
    let p99 = first.map_or(0.0, Curve::alone_p99);
    let model = first.and_then(|curve| curve.model).map_or_else(String::new, |model| {
        format!("; model: {:.2} ms, and {:.3} ms for each 100 op/s", model.base(), 100.0 * model.slope())
    });
    Row::new(what(sweep, "base response"), "ms", Estimate::of(&alone))
        .note(format!("99th percentile {p99:.2} ms{model}"))
}

/// The saturation over the best line.
fn best(sweep: &Sweep) -> Row {
    let saturation = sweep.curves.first().map_or(Estimate::of(&[]), Curve::saturation);
    Row::new(what(sweep, "saturation"), "op/s", saturation).note("the most that was delivered, best line")
}

fn share_kept(sweep: &Sweep) -> Row {
    let (letter, unit) = (sweep.knob.letter(), sweep.knob.unit());
    let value = |curve: Option<&Curve>| curve.map_or(0.0, |curve| curve.value);
    let (first, last) = (value(sweep.curves.first()), value(sweep.curves.last()));
    let name = format!("saturation kept over {letter}");
    Row::new(what(sweep, &name), "%", Estimate::exact(kept(sweep))).note(format!("{last} instead of {first} {unit}"))
}

fn overloaded(sweep: &Sweep) -> Row {
    Row::new(what(sweep, "kept under too much load"), "%", Estimate::exact(doubled_back(sweep)))
        .note("of the most, at worst; below 100 the curve doubles back")
}

fn what(sweep: &Sweep, what: &str) -> String {
    format!("{}: {what}", sweep.name)
}
