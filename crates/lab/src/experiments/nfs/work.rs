//! Works a list of runs off, many side by side, and runs again what does not count.

use super::plan::{Condition, Row};
use super::room::{Furniture, Ran, Room, Run, Transferred};
use crate::context::Parts;
use crate::{Context, LabError};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use wayfs_link::BadPeriods;

/// How often a run is made at most, if it is cut or the emulator was late.
const TRIES_MAX: u32 = 4;
/// How often whoever watches is told.
const TELL_EVERY: Duration = Duration::from_millis(500);

/// What is to be run.
#[derive(Debug, Clone)]
pub(super) struct Work {
    pub(super) rows: Vec<Row>,
    pub(super) conditions: Vec<Condition>,
    pub(super) runs: u32,
    pub(super) kilobytes: u32,
    /// Channels at the same time.
    pub(super) side_by_side: usize,
    pub(super) model: BadPeriods,
}

/// Runs of a row under a condition.
#[derive(Debug, Clone, Default)]
pub(super) struct Cell {
    /// Of each run that counts, its clients.
    pub(super) runs: Vec<Vec<Transferred>>,
    /// Runs that were cut, and those in which the emulator was late, whether or not they were made again.
    pub(super) cut: u32,
    pub(super) late: u32,
    /// Runs for which no try counted.
    pub(super) missing: u32,
}

/// A cell by the places of its row and its condition.
pub(super) type Cells = BTreeMap<(usize, usize), Cell>;

#[derive(Debug, Clone, Copy)]
struct Job {
    row: usize,
    condition: usize,
    run: u32,
    tries: u32,
}

impl Work {
    /// Carries everything out, room by room; what the link tool failed at is told beside the cells.
    pub(super) fn carry_out(&self, context: &mut Context<'_>) -> Result<(Cells, Vec<String>), LabError> {
        let mut rooms: BTreeMap<Furniture, VecDeque<Job>> = BTreeMap::new();
        // Runs outermost: what else the machine does falls on all cells alike.
        for run in 0..self.runs {
            for (row, of) in self.rows.iter().enumerate() {
                for (condition, under) in self.conditions.iter().enumerate() {
                    let job = Job { row, condition, run, tries: 0 };
                    rooms.entry(Furniture::of(of, under)).or_default().push_back(job);
                }
            }
        }
        let total = rooms.values().map(VecDeque::len).sum();
        let done = AtomicUsize::new(0);
        let cells = Mutex::new(Cells::new());
        let mut failed = Vec::new();
        for (furniture, jobs) in rooms {
            let seats = (self.side_by_side / furniture.clients).clamp(1, jobs.len());
            let room = match Room::start(context, furniture, seats, self.kilobytes) {
                // What needs no tool is not lost with it.
                Err(error) if furniture.scheme.is_some() && !error.is_forbidden() => {
                    failed.push(format!("{}: {error}", furniture.name()));
                    done.fetch_add(jobs.len(), Ordering::Relaxed);
                    continue;
                }
                other => other?,
            };
            let list = Mutex::new(jobs);
            self.fill(context, &room, &list, &cells, (&done, total))?;
            room.finish(context, &furniture.name());
        }
        context.progress(Parts { done: total, total }, "done");
        Ok((cells.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner), failed))
    }

    /// Lets every seat of a room work until the list is empty.
    fn fill(
        &self,
        context: &Context<'_>,
        room: &Room,
        list: &Mutex<VecDeque<Job>>,
        cells: &Mutex<Cells>,
        (done, total): (&AtomicUsize, usize),
    ) -> Result<(), LabError> {
        let seed = context.seed();
        std::thread::scope(|scope| {
            let sit = |seat| scope.spawn(move || self.sit(seed, room, seat, list, cells, done));
            let workers: Vec<_> = room.seats.iter().map(sit).collect();
            while workers.iter().any(|worker| !worker.is_finished()) {
                context.progress(Parts { done: done.load(Ordering::Relaxed), total }, "transfers");
                std::thread::sleep(TELL_EVERY);
            }
            workers.into_iter().try_for_each(|worker| worker.join().expect("a seat does not panic"))
        })
    }

    fn sit(
        &self,
        seed: u64,
        room: &Room,
        seat: &super::room::Seat,
        list: &Mutex<VecDeque<Job>>,
        cells: &Mutex<Cells>,
        done: &AtomicUsize,
    ) -> Result<(), LabError> {
        loop {
            let Some(job) = locked(list).pop_front() else { return Ok(()) };
            let (row, condition) = (&self.rows[job.row], self.conditions[job.condition]);
            // The same periods for all who run under a condition, others in each run and each try.
            let seed = seed
                .wrapping_mul(1_000_003)
                .wrapping_add(condition.bad_ms * 10_007 + u64::from(job.run) * 101 + u64::from(job.tries) * 11);
            let run = Run { row, condition, model: self.model, seed };
            // A failure ends the experiment: nobody begins anything more.
            let ran = room.run(seat, run).inspect_err(|_| locked(list).clear())?;
            let mut cells = locked(cells);
            let cell = cells.entry((job.row, job.condition)).or_default();
            let again = match ran {
                Ran::Cut => {
                    cell.cut += 1;
                    true
                }
                Ran::Through(_, lateness) if lateness.is_rejected() => {
                    cell.late += 1;
                    true
                }
                Ran::Through(clients, _) => {
                    cell.runs.push(clients);
                    false
                }
            };
            if again && job.tries + 1 < TRIES_MAX {
                locked(list).push_back(Job { tries: job.tries + 1, ..job });
            } else {
                cell.missing += u32::from(again);
                done.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// Somebody who panicked elsewhere ends the run there.
fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
