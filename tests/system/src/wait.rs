//! Bounded waiting.

use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Looks every 20 ms until something is so; panics with `what` after `bound`.
pub fn eventually(what: &str, bound: Duration, mut so: impl FnMut() -> bool) {
    let end = Instant::now() + bound;
    while !so() {
        assert!(Instant::now() < end, "not within {bound:?}: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Runs a piece of work that may touch a mount on a thread of its own; panics if it is not done in
/// time, instead of hanging with it. The thread is left behind; ending the mount frees it.
pub fn within<T: Send + 'static>(what: &str, bound: Duration, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, result) = mpsc::channel();
    let worker = std::thread::spawn(move || {
        let _ = done.send(work());
    });
    match result.recv_timeout(bound) {
        Ok(value) => value,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("not within {bound:?}: {what}"),
        Err(mpsc::RecvTimeoutError::Disconnected) => match worker.join() {
            Err(panic) => std::panic::resume_unwind(panic),
            Ok(()) => panic!("{what}: ended without a result"),
        },
    }
}
