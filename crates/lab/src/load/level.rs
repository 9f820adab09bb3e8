//! What a load at one rate says.

use super::{Done, Planned};
use crate::{Estimate, quantile};
use std::time::Duration;

/// Parts of a window whose means give the interval: responses that follow each other are not independent, parts nearly are.
const PARTS: u32 = 8;

/// The time that counts: what comes before is for caches and queues to fill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Begin, after the start of the load.
    pub begin: Duration,
    /// End.
    pub end: Duration,
}

impl Window {
    /// All of a load but its first fifth.
    pub fn of(duration: Duration) -> Self {
        Self { begin: duration / 5, end: duration }
    }

    fn seconds(&self) -> f64 {
        self.end.saturating_sub(self.begin).as_secs_f64()
    }
}

/// What a load at one rate says.
#[derive(Debug, Clone, PartialEq)]
pub struct Level {
    /// Operations offered per second.
    pub offered: f64,
    /// Operations that ended per second.
    pub delivered: f64,
    /// Mean response in milliseconds.
    pub response_ms: Estimate,
    /// The response that 99 of 100 do not exceed, in milliseconds.
    pub p99_ms: f64,
    /// Operations that failed.
    pub failed: u64,
}

impl Level {
    /// Of what was planned and done in a window. Failed operations are counted apart and have no response.
    pub fn of(plan: &[Planned], done: &[Done], window: Window) -> Self {
        let per_second = |count: usize| count as f64 / window.seconds().max(f64::MIN_POSITIVE);
        let due = plan.iter().filter(|planned| (window.begin..window.end).contains(&planned.at)).count();
        let good = || done.iter().filter(|done| done.error.is_none());
        let ended = good().filter(|done| (window.begin..window.end).contains(&done.ended)).count();
        let parts: Vec<Vec<f64>> = (0..PARTS).map(|part| responses(good(), part_of(window, part))).collect();
        let parts_ms: Vec<f64> = parts.iter().filter(|part| !part.is_empty()).map(|part| mean(part)).collect();
        let mut all = parts.concat();
        let p99_ms = quantile(&mut all, 0.99);
        // The mean of all; the interval from the parts, which hold nearly as many each.
        let spread = Estimate::of(&parts_ms);
        let shift = mean(&all) - spread.mean;
        Self {
            offered: per_second(due),
            delivered: per_second(ended),
            response_ms: Estimate {
                mean: mean(&all),
                low: spread.low + shift,
                high: spread.high + shift,
                samples: all.len() as u64,
            },
            p99_ms,
            failed: done.iter().filter(|done| done.error.is_some()).count() as u64,
        }
    }

    /// Whether what was offered was delivered, but for what was on its way at either end of the window.
    pub(crate) fn keeps_up(&self) -> bool {
        self.delivered >= 0.95 * self.offered
    }
}

fn part_of(window: Window, part: u32) -> Window {
    let length = window.end.saturating_sub(window.begin) / PARTS;
    Window { begin: window.begin + length * part, end: window.begin + length * (part + 1) }
}

fn responses<'a>(done: impl Iterator<Item = &'a Done>, window: Window) -> Vec<f64> {
    done.filter(|done| (window.begin..window.end).contains(&done.begun))
        .map(|done| done.response().as_secs_f64() * 1000.0)
        .collect()
}

fn mean(samples: &[f64]) -> f64 {
    if samples.is_empty() { 0.0 } else { samples.iter().sum::<f64>() / samples.len() as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::Operation;

    #[test]
    fn only_what_is_in_the_window_counts_and_failures_have_no_response() {
        let ms = Duration::from_millis;
        let done = |begun, took, error: Option<&str>| Done {
            operation: Operation::Read,
            due: begun,
            begun,
            ended: begun + took,
            error: error.map(str::to_owned),
        };
        let planned = |n: u64| Planned { at: ms(10 * n), operation: Operation::Read, random: 0 };
        let plan: Vec<Planned> = (0..100).map(planned).collect();
        let mut all: Vec<Done> = (0..100).map(|n| done(ms(10 * n), ms(1 + n % 2), None)).collect();
        all.push(done(ms(500), ms(90), Some("no")));
        let level = Level::of(&plan, &all, Window::of(ms(1000)));
        assert!((level.delivered - 100.0).abs() < 1e-9, "{level:?}");
        assert!((level.response_ms.mean - 1.5).abs() < 1e-9 && level.response_ms.holds(1.5), "{level:?}");
        assert!((level.p99_ms - 2.0).abs() < 1e-9);
        assert_eq!((level.failed, level.response_ms.samples), (1, 80));
        assert!(level.keeps_up() && !Level::of(&plan, &all[..80], Window::of(ms(1000))).keeps_up());
        assert_eq!(Level::of(&plan, &[], Window::of(ms(1000))).delivered, 0.0);
    }
}
