//! Real-time priority and exact timers for the calling thread.

use std::num::NonZeroU64;

/// Who is to run before every normal program, and after the kernel's own real-time threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Priority {
    /// A worker of the emulator.
    Emulator,
    /// A sender of probes, whose times of sending are to be true.
    Prober,
    /// What stands for the interrupts of a host.
    Processor,
}

/// Asks for both; a machine that refuses is served later, and the lateness shows it.
pub(crate) fn raise(priority: Priority) {
    // Sleeps end when they should, and not up to 50 us later.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    let sched_priority = match priority {
        Priority::Emulator => 10,
        Priority::Prober => 9,
        Priority::Processor => 8,
    };
    let parameters = libc::sched_param { sched_priority };
    // SAFETY: the structure is valid and lives for the call; 0 is the calling thread.
    let result =
        unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &raw const parameters) };
    if result != 0 {
        tracing::warn!(error = %std::io::Error::last_os_error(), ?priority, "no real-time priority");
    }
}
