//! The thread that scrubs, and a pass at once.

use super::pace::{Pace, Portion};
use super::pass::Pass;
use super::position::{ScrubCounts, ScrubPosition};
use crate::clock;
use crate::contents::ContentsError;
use crate::volume::Volume;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};
use tracing::{debug, warn};
use wayfs_types::StorageError;

/// A daemon that starts has other work; in tests, whose periods are short, a hundredth of the period.
const FIRST_REST: Duration = Duration::from_secs(300);
/// How often the position is kept.
const SAVE_PERIOD: Duration = Duration::from_secs(60);
/// Pause between two looks whether it is time for a pass, and after a failure.
const LOOK_PERIOD: Duration = Duration::from_secs(60);
/// While others work, this is waited for them,
const YIELD: Duration = Duration::from_secs(1);
/// but so many times at most: a machine that is never idle is read, too.
const YIELDS_MAX: u32 = 60;

/// Why a pass ended before it had read everything.
#[derive(Debug, thiserror::Error)]
pub enum ScrubError {
    /// The volume has stopped.
    #[error("the volume has stopped")]
    Stopped,
    /// Whoever asked for it does not wait any more.
    #[error("called off")]
    CalledOff,
    /// The tables.
    #[error("{0}")]
    Storage(#[from] StorageError),
    /// The chunks: not a damaged one, but a disk that fails.
    #[error("{0}")]
    Contents(#[from] ContentsError),
}

/// Tells the thread when to end, and others how far it is. Leaves in the order of locks, but for `turn`.
pub(crate) struct Scrubber {
    is_stopped: Mutex<bool>,
    changed: Condvar,
    position: Mutex<ScrubPosition>,
    /// Held by whoever reads: the thread for a chunk, a pass at once for all of it. Taken before any other lock.
    turn: Mutex<()>,
}

impl Scrubber {
    pub(crate) fn new(position: ScrubPosition) -> Self {
        let (is_stopped, position) = (Mutex::default(), Mutex::new(position));
        Self { is_stopped, changed: Condvar::new(), position, turn: Mutex::default() }
    }

    pub(crate) fn stop(&self) {
        *self.is_stopped.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }

    /// How far it is.
    pub(crate) fn position(&self) -> ScrubPosition {
        *self.lock()
    }

    /// Rests; whether it is to go on.
    fn rest(&self, span: Duration) -> bool {
        let stopped = self.is_stopped.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(stopped, span, |stopped| !*stopped);
        !*waited.unwrap_or_else(PoisonError::into_inner).0
    }

    fn lock(&self) -> MutexGuard<'_, ScrubPosition> {
        self.position.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Volume {
    /// How far the scrub is.
    pub fn scrub_position(&self) -> ScrubPosition {
        self.scrubber.position()
    }

    /// Reads everything now. `tell` hears what was found so far, and answers whether to go on.
    ///
    /// # Errors
    /// [`ScrubError`]; what was found by then was told.
    pub fn scrub(self: &Arc<Self>, tell: &mut dyn FnMut(&ScrubCounts) -> bool) -> Result<ScrubCounts, ScrubError> {
        let _turn = self.scrubber.turn();
        let mut at = ScrubPosition { began: None, after: None, into: 0, ..self.scrubber.position() };
        at.begin(clock::wall());
        let mut pass = Pass::new(&at);
        while pass.step(self, &mut at)?.is_some() {
            if !tell(&at.found) {
                return Err(ScrubError::CalledOff);
            }
        }
        at.end(clock::wall());
        at.save(&self.settings.directory);
        *self.scrubber.lock() = at;
        Ok(at.found_before)
    }
}

/// Makes one pass after the other, each a period long, until the volume stops.
pub(crate) fn run(scrubber: &Scrubber, volume: &Weak<Volume>, directory: &Path, period: Duration) {
    be_humble();
    let mut go_on = scrubber.rest(FIRST_REST.min(period / 100));
    let mut thread = Thread { scrubber, volume, pace: Pace::new(period), period, pass: None, saved: Instant::now() };
    while go_on {
        go_on = match thread.step() {
            Ok(rest) => rest.is_none_or(|rest| thread.rest(rest)),
            Err(ScrubError::Stopped | ScrubError::CalledOff) => false,
            Err(error) => {
                warn!(%error, "scrub");
                scrubber.rest(LOOK_PERIOD)
            }
        };
    }
    scrubber.position().save(directory);
}

struct Thread<'a> {
    scrubber: &'a Scrubber,
    volume: &'a Weak<Volume>,
    pace: Pace,
    period: Duration,
    /// The pass that is under way.
    pass: Option<Pass>,
    saved: Instant,
}

impl Thread<'_> {
    /// Reads a chunk if it is time to. Answers how long to rest.
    fn step(&mut self) -> Result<Option<Duration>, ScrubError> {
        let volume = self.volume.upgrade().ok_or(ScrubError::Stopped)?;
        let _turn = self.scrubber.turn();
        let mut at = self.scrubber.position();
        if !at.is_due(clock::wall(), self.period) {
            self.pass = None;
            return Ok(Some(LOOK_PERIOD.min(self.period / 10)));
        }
        if at.began.is_none() {
            at.begin(clock::wall());
            self.pass = None;
        }
        let pass = self.pass.get_or_insert_with(|| Pass::new(&at));
        let started = Instant::now();
        let read = pass.step(&volume, &mut at)?;
        if read.is_none() {
            debug!(found = ?at.found, "everything was read");
            at.end(clock::wall());
            self.pass = None;
        }
        if read.is_none() || self.saved.elapsed() >= SAVE_PERIOD {
            at.save(&volume.settings.directory);
            self.saved = Instant::now();
        }
        *self.scrubber.lock() = at;
        let portion = read.map(|bytes| Portion { bytes, of: volume.contents.bytes() });
        Ok(portion.and_then(|portion| self.pace.rest_after(portion, started.elapsed())))
    }

    /// Rests, and longer while others work; whether it is to go on.
    fn rest(&self, span: Duration) -> bool {
        let mut before = self.work();
        if !self.scrubber.rest(span) {
            return false;
        }
        for _ in 0..YIELDS_MAX {
            let now = self.work();
            if now == before {
                return true;
            }
            before = now;
            if !self.scrubber.rest(YIELD.min(self.period / 10)) {
                return false;
            }
        }
        true
    }

    /// A number that moves when somebody changes, reads, gets or sends something.
    fn work(&self) -> u64 {
        let Some(volume) = self.volume.upgrade() else { return 0 };
        let stats = volume.contents.stats().unwrap_or_default();
        let moved = volume.metrics.bytes_up.value().wrapping_add(volume.metrics.bytes_down.value());
        volume.commits().wrapping_add(stats.gets).wrapping_add(stats.puts).wrapping_add(moved)
    }
}

/// This thread reads when nobody else wants to compute.
fn be_humble() {
    // A system that does not allow it has it read with the others.
    let _ = rustix::process::setpriority_process(None, 19);
}
