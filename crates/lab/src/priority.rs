//! Real-time priority and exact timers for the calling thread.

use std::num::NonZeroU64;

/// Above every normal program, below the kernel's own real-time threads.
const PRIORITY: libc::c_int = 10;

/// Asks for both; a machine that refuses is served later, and the lateness shows it.
pub(crate) fn raise() {
    exact_timers();
    let parameters = libc::sched_param { sched_priority: PRIORITY };
    // SAFETY: the structure is valid and lives for the call; 0 is the calling thread.
    let result =
        unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &raw const parameters) };
    if result != 0 {
        tracing::warn!(error = %std::io::Error::last_os_error(), "no real-time priority for the emulator");
    }
}

/// Lets sleeps of this thread end when they should, and not up to 50 us later.
pub(crate) fn exact_timers() {
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
}
