//! Which cores threads run on: a host that is to have a processor of its own gets one.

use crate::LabError;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Lets the calling thread, and what it starts, run on one core only.
///
/// # Errors
/// [`LabError::Io`] if there is no such core.
pub(crate) fn pin(core: usize) -> Result<(), LabError> {
    let mut cores = CpuSet::new();
    cores.set(core);
    sched_setaffinity(None, &cores).map_err(|error| LabError::io(format!("run on core {core}"))(error.into()))
}

/// Keeps the calling thread off a core, unless it is the only one.
pub(crate) fn avoid(core: usize) {
    let Ok(mut cores) = sched_getaffinity(None) else { return };
    cores.unset(core);
    if cores.count() > 0 {
        // A thread that may not be moved stays where it is; it is then late, and the lateness shows it.
        let _ = sched_setaffinity(None, &cores);
    }
}
