//! Latencies of a replay, by kind of operation.

use super::player::Sample;
use super::trace::Operation;
use crate::quantile;
use std::collections::BTreeMap;
use std::time::Duration;

/// An operation that is issued this late or less was issued in time.
pub(super) const IN_TIME: Duration = Duration::from_millis(10);

/// The quantiles that are told, and their names.
pub(super) const QUANTILES: [(f64, &str); 4] = [(0.5, "p50"), (0.9, "p90"), (0.99, "p99"), (0.999, "p99.9")];

/// Latencies in microseconds of one kind of operation.
#[derive(Debug, Default, Clone)]
pub(super) struct Latencies {
    pub(super) took_us: Vec<f64>,
    pub(super) failed: u64,
}

impl Latencies {
    /// Quantiles, as [`QUANTILES`] names them.
    pub(super) fn quantiles(&self) -> [f64; 4] {
        let mut samples = self.took_us.clone();
        QUANTILES.map(|(share, _)| quantile(&mut samples, share))
    }
}

/// By kind of operation.
pub(super) fn by_operation(samples: &[Sample]) -> BTreeMap<Operation, Latencies> {
    let mut kinds: BTreeMap<Operation, Latencies> = BTreeMap::new();
    for sample in samples {
        let kind = kinds.entry(sample.operation).or_default();
        kind.took_us.push(sample.took.as_secs_f64() * 1e6);
        kind.failed += u64::from(!sample.is_success);
    }
    kinds
}

/// How many operations were issued later than [`IN_TIME`].
pub(super) fn late(samples: &[Sample]) -> u64 {
    samples.iter().filter(|sample| sample.late > IN_TIME).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_told_apart() {
        let sample = |operation, us, late_ms| Sample {
            operation,
            late: Duration::from_millis(late_ms),
            took: Duration::from_micros(us),
            is_success: us < 100,
        };
        let samples =
            [sample(Operation::Read, 10, 0), sample(Operation::Read, 500, 10), sample(Operation::Stat, 3, 11)];
        let kinds = by_operation(&samples);
        assert_eq!(kinds[&Operation::Read].quantiles(), [10.0, 500.0, 500.0, 500.0]);
        assert_eq!((kinds[&Operation::Read].failed, kinds[&Operation::Stat].failed, late(&samples)), (1, 0, 1));
    }
}
