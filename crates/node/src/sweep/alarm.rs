//! What wakes the thread that sweeps.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How often the room is looked at while something happens.
const LOOK_PERIOD: Duration = Duration::from_secs(1);
/// The same while nothing does.
const REST_PERIOD: Duration = Duration::from_secs(10);

#[derive(Default)]
struct State {
    stop: bool,
    wanted: bool,
    /// A reader found no room.
    pressed: bool,
    /// Something happened while it rested.
    stirred: bool,
    done: u64,
}

/// Why the thread woke up.
#[derive(Debug, Clone, Copy)]
pub(super) struct Woken {
    pub(super) wanted: bool,
    pub(super) pressed: bool,
}

/// Tells the thread when to sweep. A leaf in the order of locks.
#[derive(Default)]
pub(crate) struct SweepAlarm {
    state: Mutex<State>,
    changed: Condvar,
    rests: AtomicBool,
    /// Something happened since the last sleep began.
    happened: AtomicBool,
}

impl SweepAlarm {
    pub(crate) fn stop(&self) {
        self.lock().stop = true;
        self.changed.notify_all();
    }

    /// Sweeps now and waits until it is done, at most `patience`; whether it was.
    pub(crate) fn sweep_now(&self, patience: Duration) -> bool {
        let end = Instant::now() + patience;
        let mut state = self.lock();
        // A sweep that runs already may have marked before the caller's change: the one after it counts.
        let target = state.done + 1;
        state.wanted = true;
        self.changed.notify_all();
        while state.done < target && !state.stop {
            let Some(left) = end.checked_duration_since(Instant::now()) else { return false };
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        !state.stop
    }

    /// Somebody who reads found no room: sweeps as soon as it may.
    pub(crate) fn press(&self) {
        let mut state = self.lock();
        if !state.pressed {
            state.pressed = true;
            self.changed.notify_all();
        }
    }

    /// Something happens that may take room: the next look is within a second. Costs next to nothing.
    pub(crate) fn stir(&self) {
        // This before that, and the thread the other way round: one of the two sees what the other did.
        self.happened.store(true, Ordering::SeqCst);
        // Read first: nearly always the thread does not rest.
        if self.rests.load(Ordering::SeqCst) && self.rests.swap(false, Ordering::SeqCst) {
            self.lock().stirred = true;
            self.changed.notify_all();
        }
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.lock().stop
    }

    /// Sleeps until it is time for a look, but not before `not_before` unless a sweep was asked for; `None` when it is time to end.
    /// [`Pause::Rest`] is longer, until something happens.
    pub(super) fn sleep(&self, not_before: Instant, pause: Pause) -> Option<Woken> {
        let mut state = self.lock();
        state.stirred = false;
        self.rests.store(pause == Pause::Rest, Ordering::SeqCst);
        // What happened during the look was not seen by all of it.
        let period = if self.happened.swap(false, Ordering::SeqCst) { LOOK_PERIOD } else { pause.period() };
        let mut end = Instant::now() + period;
        loop {
            let now = Instant::now();
            if std::mem::take(&mut state.stirred) {
                end = end.min(now + LOOK_PERIOD);
            }
            let is_time = now >= end || (state.pressed && now >= not_before);
            if state.stop || state.wanted || is_time {
                break;
            }
            let until = if state.pressed { not_before.min(end) } else { end };
            let nap = until.saturating_duration_since(now);
            state = self.changed.wait_timeout(state, nap).unwrap_or_else(PoisonError::into_inner).0;
        }
        self.rests.store(false, Ordering::SeqCst);
        let woken = Woken { wanted: std::mem::take(&mut state.wanted), pressed: std::mem::take(&mut state.pressed) };
        (!state.stop).then_some(woken)
    }

    pub(super) fn finished(&self) {
        self.lock().done += 1;
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Looks after which the thread rests, if none of them saw anything happen.
const CALM_LOOKS: u32 = 5;

/// How long the thread sleeps between two looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pause {
    /// [`LOOK_PERIOD`].
    Short,
    /// [`REST_PERIOD`], or until something happens.
    Rest,
}

impl Pause {
    fn period(self) -> Duration {
        match self {
            Self::Short => LOOK_PERIOD,
            Self::Rest => REST_PERIOD,
        }
    }
}

/// Whether anything happens, by what each look saw.
#[derive(Debug, Default)]
pub(super) struct Calm<Seen> {
    seen: Option<Seen>,
    looks: u32,
}

impl<Seen: PartialEq> Calm<Seen> {
    /// A look saw this; `None`: there is something to do. How long the thread may sleep.
    pub(super) fn look(&mut self, seen: Option<Seen>) -> Pause {
        let is_same = seen.is_some() && seen == self.seen;
        self.looks = if is_same { self.looks.saturating_add(1) } else { 0 };
        self.seen = seen;
        if self.looks >= CALM_LOOKS { Pause::Rest } else { Pause::Short }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::mpsc;

    #[test]
    fn it_rests_after_some_looks_at_the_same_and_not_while_there_is_something_to_do() {
        let mut calm = Calm::default();
        let rests: Vec<bool> = (0..7).map(|_| calm.look(Some(3)) == Pause::Rest).collect();
        assert_eq!(rests, [false, false, false, false, false, true, true]);
        assert_eq!(calm.look(Some(4)), Pause::Short, "something came");
        for _ in 0..20 {
            assert_eq!(calm.look(None), Pause::Short);
        }
    }

    /// A writer found no room while the thread looked: it is to be seen within a second, and not when it was refused.
    #[test]
    fn what_happens_during_a_look_puts_a_rest_off() {
        let alarm = SweepAlarm::default();
        alarm.stir();
        let begin = Instant::now();
        assert!(alarm.sleep(begin, Pause::Rest).is_some());
        assert!(begin.elapsed() < REST_PERIOD);
    }

    #[test]
    fn what_happens_ends_a_rest_once() {
        let alarm = Arc::new(SweepAlarm::default());
        let resting = Arc::clone(&alarm);
        let (woke, wakes) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let begin = Instant::now();
            let woken = resting.sleep(begin, Pause::Rest);
            woke.send((begin.elapsed(), woken.is_some())).unwrap();
        });
        while !alarm.rests.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
        alarm.stir();
        let (slept, goes_on) = wakes.recv_timeout(Duration::from_secs(30)).unwrap();
        assert!(slept < REST_PERIOD && goes_on);
        assert!(!alarm.rests.load(Ordering::Relaxed));
        thread.join().unwrap();
    }
}
