//! Changes: a schedule of rates and a recorded trace, seen by a stream that always wants more.

use super::{Part, symmetric};
use crate::probe::{self, Planned, Probe};
use crate::{Aim, Axis, Context, Estimate, Figure, LabError, LinePlan, Origin, Row, Series, Style};
use std::time::Duration;
use wayfs_link::{Capacity, DirectionConfig, LineConfig};

/// Bytes of a packet with its headers: one opportunity of a trace.
const LEN: usize = 1500;
/// Mb/s in each of the periods of the run: rates go up and down, and the queue never empties.
const RATES: [u64; 5] = [1, 10, 2, 5, 1];
/// How far the bytes of a period may be off what the rate gives, and one packet.
const TOLERANCE: f64 = 0.01;
/// Time over which the curve is averaged.
const WINDOW: f64 = 0.1;

pub(super) fn run(context: &mut Context<'_>) -> Result<Part, LabError> {
    let period = context.choose(1.0, 4.0);
    let mut csv = context.csv("changes", &["line", "at_s", "received_bytes"])?;
    let mut part = Part { rows: Vec::new(), figures: Vec::new() };
    for (name, plan) in [("schedule", scheduled(period)), ("trace", recorded(period))] {
        let arrivals = measure(context, name, plan, period)?;
        for (at, _) in &arrivals {
            csv.row(&[name.to_owned(), at.to_string(), LEN.to_string()])?;
        }
        for (number, rate) in RATES.into_iter().enumerate() {
            let (from, to) = (number as f64 * period, (number as f64 + 1.0) * period);
            let packets = arrivals.iter().filter(|(at, _)| (from..to).contains(at)).count();
            let ours = Estimate::exact(packets as f64 * LEN as f64 * 8.0 / 1e6 / period);
            let slack = TOLERANCE * rate as f64 + LEN as f64 * 8.0 / 1e6 / period;
            let wanted = Aim::Between(rate as f64 - slack, rate as f64 + slack);
            part.rows.push(Row::new(format!("{name}, period {}", number + 1), "Mb/s", ours).aim(wanted));
        }
        part.figures.push(figure(name, &arrivals, period));
    }
    csv.finish()?;
    Ok(part)
}

fn direction(capacity: Capacity) -> DirectionConfig {
    DirectionConfig { capacity, queue_len_max: 64 * 1024, ..DirectionConfig::default() }
}

fn scheduled(period: f64) -> LinePlan {
    let config = |rate: u64| LineConfig::symmetric(direction(Capacity::Rate(rate * 1_000_000)));
    let steps = RATES.into_iter().enumerate().skip(1);
    LinePlan {
        schedule: steps.map(|(n, rate)| (Duration::from_secs_f64(n as f64 * period), config(rate))).collect(),
        ..symmetric(direction(Capacity::Rate(RATES[0] * 1_000_000)))
    }
}

/// The same as opportunities in milliseconds.
fn recorded(period: f64) -> LinePlan {
    let mut times = Vec::new();
    for (number, rate) in RATES.into_iter().enumerate() {
        let every = LEN as f64 * 8.0 / (rate as f64 * 1e6);
        let count = (period / every).round() as usize;
        times.extend((1..=count).map(|n| ((number as f64 * period + n as f64 * every) * 1000.0).round() as u64));
    }
    symmetric(direction(Capacity::Trace(times.into())))
}

/// Times of arrival in seconds after the line's begin, with their bytes.
fn measure(context: &mut Context<'_>, name: &str, plan: LinePlan, period: f64) -> Result<Vec<(f64, usize)>, LabError> {
    let mut lab = context.topology(name, context.seed())?;
    for host in ["sender", "receiver"] {
        lab.host(host)?;
    }
    let link = lab.link("sender", "receiver", LinePlan::default())?;
    // Twice the highest rate, so that the queue is never empty.
    let every = LEN as f64 * 8.0 / (2.0 * 1e6 * RATES.into_iter().max().unwrap_or(1) as f64);
    let count = (RATES.len() as f64 * period / every) as u64;
    let packets: Vec<Planned> =
        (0..count).map(|n| Planned { at: Duration::from_secs_f64(n as f64 * every), len: LEN }).collect();
    lab.shape(link, plan);
    let probes: Vec<Probe> = probe::packets(&lab, "sender", "receiver", &packets, Duration::from_secs(1))?;
    context.finish(&format!("changes, {name}"), lab);
    let begin = probes.first().map_or(0, |probe| probe.sent);
    let arrivals = probes.iter().filter_map(|probe| Some((probe.received? as f64 - begin as f64, probe.len)));
    Ok(arrivals.map(|(nanos, len)| (nanos / 1e9, len)).collect())
}

fn figure(name: &str, arrivals: &[(f64, usize)], period: f64) -> Figure {
    let windows = (RATES.len() as f64 * period / WINDOW).round() as usize;
    let mut received = vec![0.0; windows];
    for (at, len) in arrivals {
        if let Some(window) = received.get_mut((at / WINDOW) as usize) {
            *window += *len as f64 * 8.0 / 1e6 / WINDOW;
        }
    }
    let measured = received.into_iter().enumerate().map(|(n, rate)| ((n as f64 + 0.5) * WINDOW, rate));
    let wanted = (0..)
        .zip(RATES)
        .flat_map(|(n, rate)| [(f64::from(n) * period, rate as f64), (f64::from(n + 1) * period, rate as f64)]);
    Figure {
        title: format!("Changing rate: {name}"),
        x: Axis::linear("time", "s"),
        y: Axis::linear("received", "Mb/s"),
        series: vec![
            Series::new("ours", Style::Curve, Origin::Measured, measured),
            Series::new("settings", Style::Curve, Origin::Model, wanted),
        ],
        caption: format!(
            "A stream of twice the highest rate over a line whose rate changes; averages over {} ms.",
            WINDOW * 1000.0
        ),
    }
}
