//! Loss: how often packets are lost, by the plain dice and by bit errors.

use super::{Part, symmetric};
use crate::estimate::Hits;
use crate::probe::{self, Planned};
use crate::{Aim, Context, Estimate, LabError, Row};
use std::time::Duration;
use wayfs_link::{DirectionConfig, Probability};

/// Bytes of a probe with its headers, as in the experiments with TCP over wireless links.
const LEN: usize = 1400;
/// Standard errors of counting within which a share must lie: one run in 16,000 lies outside by chance.
const SIGMAS: f64 = 4.0;

/// A line to measure, and the share that it should lose.
struct Case {
    name: String,
    direction: DirectionConfig,
    expected: f64,
}

pub(super) fn run(context: &mut Context<'_>) -> Result<Part, LabError> {
    let mut csv = context.csv("loss", &["line", "sent", "lost", "expected_share"])?;
    let mut rows = Vec::new();
    for case in cases() {
        let part = format!("loss, {}", case.name);
        let mut lab = context.topology(&part, context.seed())?;
        for host in ["sender", "receiver"] {
            lab.host(host)?;
        }
        lab.link("sender", "receiver", symmetric(case.direction))?;
        let count = context.choose(2_000, 50_000);
        let plan: Vec<Planned> = (0..count).map(|n| Planned { at: Duration::from_micros(100 * n), len: LEN }).collect();
        let probes = probe::packets(&lab, "sender", "receiver", &plan, Duration::from_millis(500))?;
        context.finish(&part, lab);
        let lost = probes.iter().filter(|probe| probe.received.is_none()).count() as u64;
        csv.row(&[case.name.clone(), count.to_string(), lost.to_string(), case.expected.to_string()])?;
        let error = SIGMAS * (case.expected * (1.0 - case.expected) / count as f64).sqrt();
        let wanted = Aim::Between(100.0 * (case.expected - error), 100.0 * (case.expected + error));
        let note = format!("{:.3} % expected, {SIGMAS} standard errors allowed", 100.0 * case.expected);
        rows.push(
            Row::new(part, "%", Estimate::share(Hits { hits: lost, trials: count }).times(100.0))
                .aim(wanted)
                .note(note),
        );
    }
    csv.finish()?;
    Ok(Part { rows, figures: Vec::new() })
}

fn cases() -> Vec<Case> {
    let plain = [0.001, 0.01, 0.1].map(|share| Case {
        name: format!("{} % of packets", 100.0 * share),
        direction: DirectionConfig {
            loss: Probability::new(share).expect("the shares above are probabilities"),
            ..DirectionConfig::default()
        },
        expected: share,
    });
    let errors = [16, 64, 256].map(|kib| {
        let bytes = f64::from(kib) * 1024.0;
        Case {
            name: format!("one bit error per {kib} KiB"),
            direction: DirectionConfig { bytes_per_bit_error: Some(bytes), ..DirectionConfig::default() },
            expected: 1.0 - (-(LEN as f64) / bytes).exp(),
        }
    });
    let none = Case { name: "none".into(), direction: DirectionConfig::default(), expected: 0.0 };
    plain.into_iter().chain(errors).chain([none]).collect()
}
