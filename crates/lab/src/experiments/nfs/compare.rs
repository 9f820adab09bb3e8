//! What each experiment asks beyond its cells.

use super::Nfs;
use super::plan::{BAD_MS, BLOCK, BOTH, BOTH_REAL, Condition, HELD, HYBRID, NO_CHANGES, OURS, REAL, Way};
use super::published::{FIGURE_9_KBPS, TWO_CLIENTS_GAIN};
use super::table::Table;
use crate::{Aim, Estimate, Row};

/// A chosen block size is never worse than the best fixed one by more than this, in per cent.
const CHOSEN_BEYOND: f64 = 5.0;
/// The real retransmission takes at most this much longer than the held one, in per cent.
const REAL_BEYOND: f64 = 3.0;
/// Both mechanisms together take at most this much longer than the better one alone, in per cent.
const INTERFERENCE: f64 = 5.0;
/// Jain's index of clients that share a hop, at least.
const FAIR: f64 = 0.95;
const SIZES: [u32; 4] = [1024, 2048, 4096, 8192];

impl Table<'_> {
    pub(super) fn comparisons(&self, which: Nfs) -> Vec<Row> {
        let both_ways = |rows: &dyn Fn(Way) -> Vec<Row>| Way::BOTH.into_iter().flat_map(rows).collect();
        match which {
            Nfs::Backoff => both_ways(&|way| self.timer_and_shape(way)),
            Nfs::BlockSize => both_ways(&|way| self.sizes(way)),
            Nfs::Link => both_ways(&|way| self.real_beside_held(way, HELD, REAL)),
            Nfs::Both => both_ways(&|way| {
                [self.real_beside_held(way, BOTH, BOTH_REAL), self.interference(way), self.figure_9(way)].concat()
            }),
            Nfs::TwoClients => both_ways(&|way| [self.gains(way), self.fairness(way)].concat()),
            Nfs::Overflow => self.overflow(),
        }
    }

    /// Conditions of one client in this way, that were run.
    fn bad(&self, way: Way) -> Vec<u64> {
        BAD_MS.into_iter().filter(|bad_ms| self.work.conditions.contains(&one(way, *bad_ms))).collect()
    }

    /// How much of what is gained is the first timeout, and how much the shape of what follows.
    fn timer_and_shape(&self, way: Way) -> Vec<Row> {
        let mut rows = Vec::new();
        for bad_ms in self.bad(way).into_iter().filter(|bad_ms| *bad_ms > 0) {
            let Some(before) = self.mean(NO_CHANGES, way, bad_ms) else { continue };
            for (name, row) in [
                ("the shape alone", HYBRID),
                ("the timer alone (0.1 s)", "first 0.1 s, exponential"),
                ("both", "first 0.1 s, hybrid"),
            ] {
                let Some(after) = self.mean(row, way, bad_ms) else { continue };
                let gain = Estimate::exact(before - after);
                rows.push(Row::new(format!("gained by {name}: {}, bad {bad_ms} ms", way.name()), "s", gain));
            }
        }
        let sum = |row: &str| self.bad(way).iter().map(|bad_ms| self.mean(row, way, *bad_ms)).sum::<Option<f64>>();
        let steps = [
            (0.02, "hybrid, c = 0.02 s"),
            (0.05, "hybrid, c = 0.05 s"),
            (0.1, HYBRID),
            (0.2, "hybrid, c = 0.2 s"),
            (0.5, "hybrid, c = 0.5 s"),
        ];
        let times = steps.iter().filter_map(|(step, row)| Some((*step, sum(row)?)));
        if let Some((step, _)) = times.min_by(|a, b| a.1.total_cmp(&b.1)) {
            let what = format!("best c of hybrid, all bad periods together: {}", way.name());
            rows.push(Row::new(what, "s", Estimate::exact(step)).note("r = 3, first timeout 0.7 s"));
        }
        rows
    }

    /// Where the best block size lies, and how far the chosen one is from it.
    fn sizes(&self, way: Way) -> Vec<Row> {
        let mut rows = Vec::new();
        for bad_ms in self.bad(way) {
            for suffix in ["", ", both"] {
                let time = |size: u32| self.mean(&format!("{size} bytes{suffix}"), way, bad_ms);
                let best =
                    SIZES.into_iter().filter_map(|size| Some((size, time(size)?))).min_by(|a, b| a.1.total_cmp(&b.1));
                let Some((size, best)) = best else { continue };
                let what = format!("best block size{suffix}: {}, bad {bad_ms} ms", way.name());
                let mut row = Row::new(what, "bytes", Estimate::exact(f64::from(size)));
                if let Some(four) = time(BLOCK) {
                    row = row.note(format!("4096 bytes take {:.1} % longer", 100.0 * (four / best - 1.0)));
                }
                if bad_ms >= 120 && suffix.is_empty() {
                    row = row.published(f64::from(BLOCK)).aim(Aim::AtMost(f64::from(BLOCK)));
                }
                rows.push(row);
                let Some(chosen) = self.mean("chosen size", way, bad_ms).filter(|_| suffix.is_empty()) else {
                    continue;
                };
                let more = Estimate::exact(100.0 * (chosen / best - 1.0));
                let what = format!("chosen size over the best fixed one: {}, bad {bad_ms} ms", way.name());
                rows.push(Row::new(what, "%", more).aim(Aim::AtMost(CHOSEN_BEYOND)));
            }
        }
        rows
    }

    fn real_beside_held(&self, way: Way, held: &str, real: &str) -> Vec<Row> {
        let row = |bad_ms: u64| {
            let (held_s, real_s) = (self.mean(held, way, bad_ms)?, self.mean(real, way, bad_ms)?);
            let what = format!("{real} over {held}: {}, bad {bad_ms} ms", way.name());
            Some(Row::new(what, "%", Estimate::exact(100.0 * (real_s / held_s - 1.0))).aim(Aim::AtMost(REAL_BEYOND)))
        };
        self.bad(way).into_iter().filter_map(row).collect()
    }

    fn interference(&self, way: Way) -> Vec<Row> {
        let row = |bad_ms: u64| {
            let alone = self.mean(HYBRID, way, bad_ms)?.min(self.mean(HELD, way, bad_ms)?);
            let more = 100.0 * (self.mean(BOTH, way, bad_ms)? / alone - 1.0);
            let what = format!("both over the better one alone: {}, bad {bad_ms} ms", way.name());
            Some(Row::new(what, "%", Estimate::exact(more)).aim(Aim::AtMost(INTERFERENCE)))
        };
        self.bad(way).into_iter().filter_map(row).collect()
    }

    /// Throughput of a read at the longest bad periods.
    fn figure_9(&self, way: Way) -> Vec<Row> {
        let rate = |row: &str, published: Option<f64>| {
            let seconds = self.time(row, &one(way, 160)).filter(|_| way == Way::Read)?.mean;
            let kilobits = f64::from(self.work.kilobytes) * 8.192 / seconds;
            let mut row = Row::new(format!("throughput, bad 160 ms: {row}"), "kb/s", Estimate::exact(kilobits));
            row.published = published;
            Some(row)
        };
        let rows = [
            (NO_CHANGES, Some(FIGURE_9_KBPS[0])),
            (BOTH, Some(FIGURE_9_KBPS[1])),
            (OURS, None),
            (super::plan::OURS_TOOL, None),
        ];
        rows.into_iter().filter_map(|(row, published)| rate(row, published)).collect()
    }

    /// What two clients gain.
    fn gains(&self, way: Way) -> Vec<Row> {
        let published = TWO_CLIENTS_GAIN[usize::from(way == Way::Write)];
        let row = |bad_ms: u64| {
            let condition = Condition { way, bad_ms, clients: 2 };
            let (before, after) = (self.time(NO_CHANGES, &condition)?.mean, self.time(BOTH, &condition)?.mean);
            let gain = Estimate::exact(100.0 * (1.0 - after / before));
            let what = format!("gained by both, two clients: {}, bad {bad_ms} ms", way.name());
            let row = Row::new(what, "%", gain);
            Some(if bad_ms == 80 {
                row.published(published).aim(Aim::AtLeast(0.0))
            } else {
                row.aim(Aim::AtLeast(0.0))
            })
        };
        self.bad(way).into_iter().filter(|bad_ms| *bad_ms > 0).filter_map(row).collect()
    }

    /// Jain's index of the rates of clients that began together.
    fn fairness(&self, way: Way) -> Vec<Row> {
        let mut rows = Vec::new();
        for of in &self.work.rows {
            for condition in self.work.conditions.iter().filter(|it| it.way == way && it.clients > 1) {
                let Some(cell) = self.cell(&of.name, condition) else { continue };
                let index = |clients: &Vec<super::room::Transferred>| {
                    let rates: Vec<f64> = clients.iter().map(|client| 1.0 / client.seconds).collect();
                    jain(&rates)
                };
                let all: Vec<f64> = cell.runs.iter().map(index).collect();
                let what = format!("fairness: {}", super::table::what(&of.name, condition));
                rows.push(Row::new(what, "", Estimate::of(&all)).aim(Aim::AtLeast(FAIR)));
            }
        }
        rows
    }

    /// Whether a small receive buffer makes reads slower than writes, and reservation ends that.
    fn overflow(&self) -> Vec<Row> {
        let ratio = |row: &str| Some(self.mean(row, Way::Read, 0)? / self.mean(row, Way::Write, 0)?);
        let host = {
            // 1480 bytes of a block in each packet.
            let packets =
                f64::from(self.work.kilobytes) * 1024.0 / f64::from(BLOCK) * f64::from((BLOCK + 132).div_ceil(1480));
            packets * super::plan::SMALL_PER_PACKET.as_secs_f64()
        };
        let row = |name: &str, aim| {
            Some(Row::new(format!("reads over writes: {name}"), "", Estimate::exact(ratio(name)?)).aim(aim))
        };
        let reserved = self.mean("small buffer, reservation", Way::Read, 0).map(|seconds| {
            Row::new("reads with reservation over what the mobile itself takes", "", Estimate::exact(seconds / host))
                .aim(Aim::AtMost(1.15))
                .note(format!("{host:.1} s for its packets"))
        });
        let published = row("small buffer", Aim::AtLeast(1.5)).map(|row| row.published(30.7 / 14.2));
        [row("ample buffer", Aim::AtMost(1.1)), published, row("small buffer, reservation", Aim::None), reserved]
            .into_iter()
            .flatten()
            .collect()
    }
}

const fn one(way: Way, bad_ms: u64) -> Condition {
    Condition { way, bad_ms, clients: 1 }
}

/// 1 if all have the same, `1 / n` if one has all.
fn jain(rates: &[f64]) -> f64 {
    let sum: f64 = rates.iter().sum();
    let squares: f64 = rates.iter().map(|rate| rate * rate).sum();
    if squares > 0.0 { sum * sum / (rates.len() as f64 * squares) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jains_index_is_the_textbooks() {
        assert!((jain(&[1.0, 1.0, 1.0]) - 1.0).abs() < 1e-9);
        assert!((jain(&[1.0, 0.0, 0.0, 0.0]) - 0.25).abs() < 1e-9);
        assert!((jain(&[2.0, 1.0]) - 0.9).abs() < 1e-9);
    }
}
