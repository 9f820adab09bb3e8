//! Cells as numbers, and what is wanted of them.

use super::plan::{Condition, GOOD_MS, OURS, OURS_TOOL, Way};
use super::published;
use super::work::{Cell, Cells, Work};
use crate::{Aim, Estimate, Row};

/// What ours may take beyond the time without errors, stretched by the share of bad time: with `wayfs link`, and without.
const BEYOND_TOOL: f64 = 1.03;
const BEYOND_BARE: f64 = 1.15;
/// Share of the hop's capacity that ours carries without errors.
const CAPACITY: f64 = 0.95;
/// No transfer of ours takes longer than the time without errors by this factor.
const LONGEST: f64 = 2.0;
/// The hop.
const BITS_PER_SECOND: f64 = 1e6;

/// What was published is for files of this size.
pub(super) const PUBLISHED_KILOBYTES: u32 = 1024;

/// What came out, with the names of rows and conditions.
#[derive(Debug, Clone, Copy)]
pub(super) struct Table<'a> {
    pub(super) work: &'a Work,
    pub(super) cells: &'a Cells,
}

impl Cell {
    /// Seconds of each run, the mean of its clients.
    pub(super) fn seconds(&self) -> Vec<f64> {
        let mean = |clients: &Vec<super::room::Transferred>| {
            clients.iter().map(|client| client.seconds).sum::<f64>() / clients.len().max(1) as f64
        };
        self.runs.iter().map(mean).collect()
    }

    fn extremes(&self) -> (f64, f64) {
        let all = self.runs.iter().flatten().map(|client| client.seconds);
        all.fold((f64::INFINITY, 0.0), |(low, high), seconds| (low.min(seconds), high.max(seconds)))
    }
}

impl Table<'_> {
    /// The cell of a row under a condition, if a run of it counted.
    pub(super) fn cell(&self, row: &str, condition: &Condition) -> Option<&Cell> {
        let row = self.work.rows.iter().position(|it| it.name == row)?;
        let condition = self.work.conditions.iter().position(|it| it == condition)?;
        self.cells.get(&(row, condition)).filter(|cell| !cell.runs.is_empty())
    }

    pub(super) fn time(&self, row: &str, condition: &Condition) -> Option<Estimate> {
        self.cell(row, condition).map(|cell| Estimate::of(&cell.seconds()))
    }

    /// Mean time of a row, one client.
    pub(super) fn mean(&self, row: &str, way: Way, bad_ms: u64) -> Option<f64> {
        self.time(row, &Condition { way, bad_ms, clients: 1 }).map(|time| time.mean)
    }

    /// Rows of the report: every cell, and the bars of ours.
    pub(super) fn rows(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        for (n, of) in self.work.rows.iter().enumerate() {
            for (m, condition) in self.work.conditions.iter().enumerate() {
                if let Some(cell) = self.cells.get(&(n, m)) {
                    rows.extend(self.row(&of.name, condition, cell));
                }
            }
        }
        rows
    }

    fn row(&self, name: &str, condition: &Condition, cell: &Cell) -> Vec<Row> {
        let what = what(name, condition);
        let (low, high) = cell.extremes();
        let mut notes = Vec::new();
        if !cell.runs.is_empty() {
            notes.push(format!("{low:.1} to {high:.1} s"));
        }
        let published = published::seconds(name, condition).filter(|_| self.work.kilobytes == PUBLISHED_KILOBYTES);
        notes.extend(published.map(|[low, _, high]| format!("published {low} to {high}")));
        for (count, meaning) in [
            (cell.cut, "cut after 300 s"),
            (cell.late, "rejected for lateness"),
            (cell.missing, "without any try that counts"),
        ] {
            if count > 0 {
                notes.push(format!("{count} {meaning}"));
            }
        }
        let mut row = Row::new(&what, "s", Estimate::of(&cell.seconds())).note(notes.join("; "));
        row.published = published.map(|[_, mean, _]| mean);
        let (limit, beyond) = match name {
            OURS => (self.limit(name, condition), BEYOND_BARE),
            OURS_TOOL => (self.limit(name, condition), BEYOND_TOOL),
            _ => return vec![row],
        };
        if condition.bad_ms == 0 {
            return vec![row.aim(Aim::AtMost(self.capacity(condition) / CAPACITY))];
        }
        let Some(limit) = limit else { return vec![row] };
        let share = Row::new(format!("{what}: over the limit"), "", Estimate::of(&cell.seconds()).times(1.0 / limit))
            .aim(Aim::AtMost(beyond))
            .note("the limit is its own time without errors, stretched by the share of bad time");
        let clean = limit * GOOD_MS as f64 / (GOOD_MS + condition.bad_ms) as f64;
        let longest = Row::new(format!("{what}: longest over T0"), "", Estimate::exact(high / clean));
        vec![row, share, longest.aim(Aim::AtMost(LONGEST))]
    }

    /// What the bytes of all clients of a condition take of the hop.
    fn capacity(&self, condition: &Condition) -> f64 {
        f64::from(self.work.kilobytes) * 1024.0 * 8.0 * condition.clients as f64 / BITS_PER_SECOND
    }

    /// The least that a client can take that keeps the hop busy: its own time without errors, stretched.
    pub(super) fn limit(&self, row: &str, condition: &Condition) -> Option<f64> {
        let clean = self.time(row, &Condition { bad_ms: 0, ..*condition })?;
        Some(clean.mean * (GOOD_MS + condition.bad_ms) as f64 / GOOD_MS as f64)
    }
}

/// Name of a cell.
pub(super) fn what(row: &str, condition: &Condition) -> String {
    let clients = if condition.clients > 1 { format!(", {} clients", condition.clients) } else { String::new() };
    format!("{row}: {}, bad {} ms{clients}", condition.way.name(), condition.bad_ms)
}
