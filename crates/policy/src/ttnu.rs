//! Time to next use: is the next reader likely to come before the next write?
//!
//! Per file two averages with exponential decay: from the last write to the
//! next read by another node (`E_r`), and between consecutive writes by this
//! node (`E_w`, begun anew when the writer changes). An update is sent if
//! `E_r < E_w`. What was never observed counts as infinitely long.

use crate::file_memory::{FILES_MAX, FileMemory};
use crate::{Access, Decision, PropagationPolicy};
use std::time::Duration;
use wayfs_types::{FileId, Time};

/// The averages of the files of one station.
#[derive(Debug, Clone)]
pub struct TimeToNextUse {
    weight: f64,
    files: FileMemory<Uses>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Uses {
    written: Option<Time>,
    /// Whether a read since the last write was counted.
    was_read: bool,
    to_read: Option<f64>,
    to_write: Option<f64>,
}

impl TimeToNextUse {
    /// `weight` of the newest observation, 0 to 1 (clamped): 0.25, 0.5, 0.75 in the research. At 1 only the last counts, at 0 only the first.
    pub fn new(weight: f64) -> Self {
        let weight = if weight.is_nan() { 0.5 } else { weight.clamp(0.0, 1.0) };
        Self { weight, files: FileMemory::new(FILES_MAX) }
    }

    fn read(&mut self, file: FileId, age: Duration) {
        let weight = self.weight;
        let uses = self.files.entry(file);
        if !uses.was_read {
            uses.was_read = true;
            uses.to_read = Some(averaged(uses.to_read, age, weight));
        }
    }
}

fn averaged(average: Option<f64>, sample: Duration, weight: f64) -> f64 {
    let sample = sample.as_secs_f64();
    average.map_or(sample, |average| weight * sample + (1.0 - weight) * average)
}

impl PropagationPolicy for TimeToNextUse {
    fn on_update(&mut self, now: Time, file: FileId) -> Decision {
        let weight = self.weight;
        let uses = self.files.entry(file);
        if let Some(last) = uses.written {
            uses.to_write = Some(averaged(uses.to_write, now - last, weight));
        }
        uses.written = Some(now);
        uses.was_read = false;
        let to_read = uses.to_read.unwrap_or(f64::INFINITY);
        let to_write = uses.to_write.unwrap_or(f64::INFINITY);
        if to_read < to_write { Decision::Now } else { Decision::Keep }
    }

    fn on_back_fetch(&mut self, _now: Time, file: FileId, age: Duration) {
        self.read(file, age);
    }

    fn on_elsewhere(&mut self, _now: Time, file: FileId, access: Access, age: Option<Duration>) {
        match (access, age) {
            (Access::Read, Some(age)) => self.read(file, age),
            (Access::Read, None) => {}
            (Access::Write, _) => {
                let uses = self.files.entry(file);
                uses.written = None;
                uses.to_write = None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::propagator::tests::{at, file};

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn nothing_is_sent_before_anyone_read() {
        let mut policy = TimeToNextUse::new(0.5);
        assert_eq!(policy.on_update(at(0), file(1)), Decision::Keep);
        assert_eq!(policy.on_update(at(1000), file(1)), Decision::Keep);
    }

    #[test]
    fn a_reader_who_comes_before_the_next_write_is_sent_to() {
        let mut policy = TimeToNextUse::new(0.5);
        policy.on_update(at(0), file(1));
        policy.on_back_fetch(at(10), file(1), seconds(10));
        assert_eq!(policy.on_update(at(100), file(1)), Decision::Now);
        // 100 s, then many writes within a second: the next write comes first.
        for second in 101..110 {
            policy.on_update(at(second), file(1));
        }
        assert_eq!(policy.on_update(at(110), file(1)), Decision::Keep);
    }

    #[test]
    fn only_the_first_read_of_a_version_counts() {
        let mut policy = TimeToNextUse::new(1.0);
        policy.on_update(at(0), file(1));
        policy.on_back_fetch(at(10), file(1), seconds(10));
        policy.on_elsewhere(at(500), file(1), Access::Read, Some(seconds(500)));
        assert_eq!(policy.on_update(at(600), file(1)), Decision::Now);
    }

    #[test]
    fn another_writer_begins_the_time_between_writes_anew() {
        let mut policy = TimeToNextUse::new(0.5);
        policy.on_update(at(0), file(1));
        policy.on_back_fetch(at(50), file(1), seconds(50));
        policy.on_update(at(60), file(1));
        policy.on_update(at(61), file(1));
        assert_eq!(policy.on_update(at(62), file(1)), Decision::Keep);
        policy.on_elsewhere(at(63), file(1), Access::Write, None);
        assert_eq!(policy.on_update(at(64), file(1)), Decision::Now);
    }
}
