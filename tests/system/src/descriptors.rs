//! A table of descriptors of a thread's own.

/// Of standard input, output and errors, which stay open.
const STANDARD: libc::c_uint = 3;

/// From now on the calling thread has descriptors of its own, as if it were another program: none that was open before but the standard
/// ones, and no other thread gets those that it opens.
///
/// A command that a thread starts inherits every descriptor until it runs, and the kernel flushes each that it closes then. Without this a
/// command waits until the mounts of all other threads' files have answered, whatever they wait for. What was open before is closed here:
/// a pipe to a command that another thread starts just now would not end with that command.
///
/// # Panics
/// If the kernel refuses.
#[allow(unsafe_code)]
pub fn own_descriptors() {
    // SAFETY: other threads keep what they have open, and callers come with paths only.
    let refused = unsafe { libc::close_range(STANDARD, libc::c_uint::MAX, libc::CLOSE_RANGE_UNSHARE as libc::c_int) };
    assert_eq!(refused, 0, "take a table of descriptors: {}", std::io::Error::last_os_error());
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::fd::{AsRawFd, RawFd};
    use std::sync::mpsc;

    fn is_open(descriptor: RawFd) -> bool {
        std::path::Path::new(&format!("/proc/thread-self/fd/{descriptor}")).exists()
    }

    #[test]
    fn a_thread_with_its_own_keeps_nothing_and_shows_nothing() {
        let before = File::open("/proc/self/stat").unwrap();
        let number = before.as_raw_fd();
        let (opened, tell) = mpsc::channel();
        let (done, until) = mpsc::channel::<()>();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                own_descriptors();
                assert!(!is_open(number), "it was closed for this thread");
                let files: Vec<_> = (0..64).map(|_| File::open("/proc/self/stat").unwrap()).collect();
                opened.send(files.last().unwrap().as_raw_fd()).unwrap();
                until.recv().unwrap();
            });
            let theirs = tell.recv().unwrap();
            assert!(!is_open(theirs), "what that thread opened is its own");
            assert!(is_open(number));
            done.send(()).unwrap();
        });
    }
}
