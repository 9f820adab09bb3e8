//! A thread that looks once a second while something happens, and seldom while nothing does.

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Tells such a thread that something happens. A leaf in the order of locks.
#[derive(Debug, Default)]
pub struct Stir {
    rests: AtomicBool,
    /// Something happened since the last sleep began.
    happened: AtomicBool,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    is_stirred: bool,
    is_over: bool,
}

impl Stir {
    /// Something happens. Costs next to nothing.
    pub fn stir(&self) {
        // This before that, and the thread the other way round: one of the two sees what the other did.
        self.happened.store(true, Ordering::SeqCst);
        // Read first: nearly always the thread does not rest.
        if self.rests.load(Ordering::SeqCst) && self.rests.swap(false, Ordering::SeqCst) {
            self.lock().is_stirred = true;
            self.changed.notify_all();
        }
    }

    /// The thread is to end.
    pub fn end(&self) {
        self.lock().is_over = true;
        self.changed.notify_all();
    }

    /// Sleeps for the longest span, or until something happens, but for the shortest at least; answers whether the thread is to end.
    pub fn sleep(&self, span: RangeInclusive<Duration>) -> bool {
        let (least, most) = span.into_inner();
        let begin = Instant::now();
        let mut state = self.lock();
        state.is_stirred = false;
        self.rests.store(most > least, Ordering::SeqCst);
        // The caller may have looked before it.
        state.is_stirred |= self.happened.swap(false, Ordering::SeqCst);
        loop {
            let end = begin + if state.is_stirred { least } else { most };
            let left = end.saturating_duration_since(Instant::now());
            if state.is_over || left.is_zero() {
                break;
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        self.rests.store(false, Ordering::SeqCst);
        state.is_over
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    const LONG: Duration = Duration::from_secs(60);

    fn sleeping(stir: &Arc<Stir>) -> std::thread::JoinHandle<(bool, Duration)> {
        let of = Arc::clone(stir);
        let thread = std::thread::spawn(move || {
            let begin = Instant::now();
            (of.sleep(Duration::from_millis(5)..=LONG), begin.elapsed())
        });
        while !stir.rests.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
        thread
    }

    #[test]
    fn what_happens_ends_a_rest_and_so_does_the_end() {
        let stir = Arc::new(Stir::default());
        stir.stir();
        let begin = Instant::now();
        assert!(!stir.sleep(Duration::from_millis(5)..=LONG) && begin.elapsed() < LONG, "it happened before the sleep");
        let thread = sleeping(&stir);
        stir.stir();
        let (is_over, slept) = thread.join().unwrap();
        assert!(!is_over && slept < LONG);
        // What was told of twice may end one more sleep.
        let of = Arc::clone(&stir);
        let thread = std::thread::spawn(move || while !of.sleep(Duration::from_millis(5)..=LONG) {});
        let begin = Instant::now();
        stir.end();
        thread.join().unwrap();
        assert!(begin.elapsed() < LONG);
        assert!(stir.sleep(LONG..=LONG), "it stays over");
    }
}
