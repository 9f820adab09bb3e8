//! The thread that looks at the clock for the engine.
//!
//! It sleeps on a timer of the kernel that counts the time that the machine is suspended, as the engine's clock does: a resumed
//! laptop sees at once what is over, and a machine at rest is woken for nothing else.

use crate::clock;
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use wayfs_types::Time;

#[derive(Default)]
struct State {
    deadline: Option<Time>,
    stop: bool,
}

/// When to wake, shared by the engine and its thread. A leaf in the order of locks.
pub(crate) struct Timer {
    state: Mutex<State>,
    alarm: OwnedFd,
}

impl Timer {
    /// Wakes for nothing yet.
    ///
    /// # Errors
    /// The system has no room for a descriptor more.
    pub(crate) fn new() -> io::Result<Self> {
        let alarm = timerfd_create(TimerfdClockId::Boottime, TimerfdFlags::CLOEXEC)?;
        Ok(Self { state: Mutex::default(), alarm })
    }

    /// Wakes at `deadline` at the latest.
    pub(crate) fn arm(&self, deadline: Time) {
        let mut state = self.lock();
        if state.deadline.is_none_or(|armed| deadline < armed) {
            state.deadline = Some(deadline);
            self.set(deadline);
        }
    }

    pub(crate) fn stop(&self) {
        let mut state = self.lock();
        state.stop = true;
        self.set(Time::ZERO);
    }

    /// The kernel's timer; a moment that has passed wakes at once.
    fn set(&self, deadline: Time) {
        // A moment of zero would stop it.
        let since_boot = Duration::from_micros(deadline.as_micros().max(1));
        let it_value = Timespec::try_from(since_boot).expect("microseconds in 64 bits are seconds in fewer");
        let at = Itimerspec { it_interval: Timespec::default(), it_value };
        timerfd_settime(&self.alarm, TimerfdTimerFlags::ABSTIME, &at)
            .expect("a timer takes any moment from 0 on, and the descriptor is ours");
    }

    /// Sleeps until the deadline; `false` when it is time to end.
    fn sleep(&self) -> bool {
        loop {
            let mut times = [0; 8];
            match rustix::io::read(&self.alarm, &mut times) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => unreachable!("a timer that blocks can be read: {error}"),
            }
            let mut state = self.lock();
            if state.stop {
                return false;
            }
            match state.deadline {
                Some(deadline) if deadline <= clock::now() => {
                    state.deadline = None;
                    return true;
                }
                // Interrupted, or set to an earlier moment that the thread has seen already.
                Some(deadline) => self.set(deadline),
                None => {}
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs until [`Timer::stop`]; `tick` says whether to go on.
pub(crate) fn run(timer: &Arc<Timer>, mut tick: impl FnMut() -> bool) {
    while timer.sleep() {
        if !tick() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    const LONG: Duration = Duration::from_secs(20);

    #[test]
    fn it_wakes_for_the_earliest_deadline_and_for_the_next_one_when_that_is_armed() {
        let timer = Arc::new(Timer::new().unwrap());
        let (ticked, ticks) = mpsc::channel();
        let running = Arc::clone(&timer);
        let thread = std::thread::spawn(move || run(&running, || ticked.send(clock::now()).is_ok()));
        let begin = clock::now();
        timer.arm(begin + Duration::from_secs(3600));
        assert!(ticks.recv_timeout(Duration::from_millis(50)).is_err(), "not before its time");
        timer.arm(begin + Duration::from_millis(60));
        assert!(ticks.recv_timeout(LONG).unwrap() >= begin + Duration::from_millis(60));
        timer.arm(Time::ZERO);
        ticks.recv_timeout(LONG).expect("what has passed is due at once");
        timer.stop();
        thread.join().unwrap();
        assert!(ticks.try_recv().is_err(), "one tick for each deadline");
    }

    #[test]
    fn it_ends_when_it_is_stopped_before_it_runs() {
        let timer = Arc::new(Timer::new().unwrap());
        timer.stop();
        run(&timer, || panic!("nothing is due"));
    }
}
