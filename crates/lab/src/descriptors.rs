//! A table of descriptors of a thread's own.

use crate::LabError;
use std::io;

/// From now on the calling thread shares its descriptors with no other thread; those that are open stay so, as after a fork.
///
/// A program that a thread starts inherits every descriptor until it runs, and the kernel flushes each that it closes then. Without this,
/// who starts a program waits until the file systems of all other threads' files have answered, over whatever lines they do.
///
/// # Errors
/// [`LabError::Io`] if the kernel refuses.
pub(crate) fn own() -> Result<(), LabError> {
    // SAFETY: `unshare` takes no pointers; what other threads have open they keep.
    if unsafe { libc::unshare(libc::CLONE_FILES) } == 0 {
        Ok(())
    } else {
        Err(LabError::io("take a table of descriptors of its own")(io::Error::last_os_error()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::fd::{AsRawFd, RawFd};

    fn is_open(descriptor: RawFd) -> bool {
        // SAFETY: asks for flags only.
        unsafe { libc::fcntl(descriptor, libc::F_GETFD) != -1 }
    }

    #[test]
    fn what_such_a_thread_opens_no_other_has() {
        let before = File::open("/proc/self/stat").unwrap();
        let known = before.as_raw_fd();
        let (opened, tell) = std::sync::mpsc::channel();
        let (done, until) = std::sync::mpsc::channel::<()>();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                own().unwrap();
                assert!(is_open(known), "what was open stays so");
                // Beyond what tests beside this one may open meanwhile.
                // SAFETY: the descriptor is open, and the copy is closed with the thread's table.
                let high = unsafe { libc::fcntl(known, libc::F_DUPFD_CLOEXEC, 900) };
                assert!(is_open(high));
                opened.send(high).unwrap();
                until.recv().unwrap();
            });
            assert!(!is_open(tell.recv().unwrap()));
            done.send(()).unwrap();
        });
    }
}
