//! The threads of a node's network.

use std::io;
use std::thread::available_parallelism;
use tokio::runtime::{Builder, Runtime};

/// Most of them: past it the engine's lock is what everything waits for.
const THREADS_MAX: usize = 8;

/// A runtime for endpoint, sessions and contents: a thread for every second core, since the others have disks, programs and
/// the engine to serve. On two cores a second thread would take tasks over from the first in the middle of a message: each
/// time a wake-up, and nothing done sooner. What computes for long goes to threads apart.
///
/// # Errors
/// When the system has no room for a thread.
pub fn runtime(name: &str) -> io::Result<Runtime> {
    let cores = available_parallelism().map_or(1, usize::from);
    Builder::new_multi_thread().worker_threads((cores / 2).clamp(1, THREADS_MAX)).thread_name(name).enable_all().build()
}
