//! Delay: Poisson arrivals at half the rate of a line, each compared with what the model of a queue says.

use super::{Part, Poisson, symmetric};
use crate::estimate::Hits;
use crate::probe::{self, Planned, Probe};
use crate::{Aim, Axis, Context, Estimate, Figure, LabError, Origin, Row, Series, quantile};
use std::time::Duration;
use wayfs_link::{Capacity, DirectionConfig};

/// Bytes of a probe with its headers: 1 ms at 10 Mb/s.
const LEN: usize = 1250;
/// What is wanted at 10 Mb/s.
const ERROR_P99_US_MAX: f64 = 100.0;

/// A line to measure.
struct Case {
    name: &'static str,
    rate: u64,
    delay: Duration,
}

const CASES: [Case; 4] = [
    Case { name: "10 Mb/s", rate: 10_000_000, delay: Duration::ZERO },
    Case { name: "10 Mb/s, 33.5 ms", rate: 10_000_000, delay: Duration::from_micros(33_500) },
    Case { name: "1 Mb/s, 55 ms", rate: 1_000_000, delay: Duration::from_millis(55) },
    Case { name: "100 Mb/s", rate: 100_000_000, delay: Duration::ZERO },
];

pub(super) fn run(context: &mut Context<'_>) -> Result<Part, LabError> {
    let mut csv = context.csv("delay", &["line", "sent_ns", "delay_us", "model_us", "error_us"])?;
    let mut part = Part { rows: Vec::new(), figures: Vec::new() };
    let mut series = Vec::new();
    for case in &CASES {
        let probes = measure(context, case)?;
        let mut errors = Vec::new();
        for (probe, model) in probes.iter().zip(model(&probes, case)) {
            if let Some(delay) = probe.delay_us() {
                errors.push(delay - model);
                let numbers = [probe.sent as f64, delay, model, delay - model].map(|number| number.to_string());
                csv.row(&[&[case.name.to_owned()][..], &numbers].concat())?;
            }
        }
        let (p50, p99) = (quantile(&mut errors, 0.5), quantile(&mut errors, 0.99));
        let wanted = if case.rate == 10_000_000 { Aim::AtMost(ERROR_P99_US_MAX) } else { Aim::None };
        let what = |which: &str| format!("delay error, {}, {which}", case.name);
        part.rows.push(Row::new(what("p50"), "us", Estimate { samples: errors.len() as u64, ..Estimate::exact(p50) }));
        part.rows.push(Row::new(what("p99"), "us", Estimate::exact(p99)).aim(wanted));
        let missing = probes.len() - errors.len();
        let share = Estimate::share(Hits { hits: missing as u64, trials: probes.len() as u64 }).times(100.0);
        part.rows.push(Row::new(what("packets lost"), "%", share).aim(Aim::AtMost(0.0)));
        series.push(Series::cumulative(case.name, Origin::Measured, errors));
    }
    csv.finish()?;
    part.figures.push(Figure {
        title: "Delay error".into(),
        x: Axis::logarithmic("measured delay minus the model's", "us"),
        y: Axis::linear("share of packets", ""),
        series,
        caption: "Cumulative share of packets by how much later the receiving kernel had them than the model says, for Poisson arrivals \
                  at half the rate of the line. The steep part is the cost of two devices and a wake-up; the tail is the machine."
            .into(),
    });
    Ok(part)
}

fn measure(context: &mut Context<'_>, case: &Case) -> Result<Vec<Probe>, LabError> {
    let mut lab = context.topology(&format!("delay {}", case.name.replace('/', " per ")), context.seed())?;
    for host in ["sender", "receiver"] {
        lab.host(host)?;
    }
    // The queue never overflows, even if the sender is held up for a while and then catches up.
    let direction = DirectionConfig {
        capacity: Capacity::Rate(case.rate),
        delay: case.delay,
        queue_len_max: 16 << 20,
        ..DirectionConfig::default()
    };
    lab.link("sender", "receiver", symmetric(direction))?;
    let seconds = context.choose(2.0, 20.0);
    let transmission = LEN as f64 * 8.0 / case.rate as f64;
    let mut at = 0.0;
    let waits = Poisson::new(context.seed(), 2.0 * transmission);
    let times = waits.map(|wait| {
        at += wait;
        at
    });
    let plan: Vec<Planned> = times
        .take_while(|at| *at < seconds)
        .take(100_000)
        .map(|at| Planned { at: Duration::from_secs_f64(at), len: LEN })
        .collect();
    let probes = probe::packets(&lab, "sender", "receiver", &plan, case.delay + Duration::from_secs(1))?;
    context.finish(&format!("delay, {}", case.name), lab);
    Ok(probes)
}

/// What the delay should be, from the times of sending alone: whoever comes while another is sent waits for it.
fn model(probes: &[Probe], case: &Case) -> Vec<f64> {
    let transmission_ns = LEN as f64 * 8.0 * 1e9 / case.rate as f64;
    let first = probes.first().map_or(0, |probe| probe.sent);
    let mut free = 0.0_f64;
    probes
        .iter()
        .map(|probe| {
            let sent = (probe.sent - first) as f64;
            free = free.max(sent) + transmission_ns;
            (free - sent) / 1000.0 + case.delay.as_secs_f64() * 1e6
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_lets_packets_wait_for_those_before_them() {
        let probe = |sent: u64| Probe { len: LEN, sent, received: None };
        let delays = model(&[probe(5_000), probe(405_000), probe(5_000_000)], &CASES[1]);
        assert_eq!(delays, [34_500.0, 35_100.0, 34_500.0]);
    }
}
