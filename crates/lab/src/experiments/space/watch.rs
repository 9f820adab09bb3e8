//! Looks at disks while something happens.

use crate::usage::space;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often.
const EVERY: Duration = Duration::from_millis(500);
/// What may stay of a file that is gone: a tenth. Segments keep some of what is dead.
const LEFT_PART: u64 = 10;

/// Space at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Look {
    pub(super) at: Duration,
    /// Bytes in each place.
    pub(super) space: [u64; 5],
}

impl Look {
    /// Whether a place has no more than before and what may stay.
    pub(super) const fn is_back(&self, place: usize, before: [u64; 5], len: u64) -> bool {
        self.space[place] <= before[place] + len / LEFT_PART
    }
}

/// A thread that looks.
pub(super) struct Watch {
    start: Instant,
    looks: Arc<Mutex<Vec<Look>>>,
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Watch {
    /// Looks from now on.
    pub(super) fn start(places: Vec<PathBuf>) -> Self {
        let (start, looks) = (Instant::now(), Arc::<Mutex<Vec<Look>>>::default());
        let is_over = Arc::<AtomicBool>::default();
        let (seen, over) = (Arc::clone(&looks), Arc::clone(&is_over));
        let thread = std::thread::spawn(move || {
            while !over.load(Ordering::Relaxed) {
                let look = Look { at: start.elapsed(), space: look(&places) };
                seen.lock().unwrap_or_else(PoisonError::into_inner).push(look);
                std::thread::sleep(EVERY);
            }
        });
        Self { start, looks, is_over, thread }
    }

    /// Since the begin.
    pub(super) fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    /// Whether the file of so many bytes is gone from every place, by the last look.
    pub(super) fn is_back(&self, before: [u64; 5], len: u64) -> bool {
        let looks = self.looks.lock().unwrap_or_else(PoisonError::into_inner);
        looks.last().is_some_and(|last| (0..5).all(|place| last.is_back(place, before, len)))
    }

    /// Everything that was seen.
    pub(super) fn end(self) -> Vec<Look> {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().expect("looking does not panic");
        std::mem::take(&mut *self.looks.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Bytes in each place now.
pub(super) fn look(places: &[PathBuf]) -> [u64; 5] {
    std::array::from_fn(|place| places.get(place).map_or(0, |place| space(place)))
}
