//! Which signals end the wait of an operation.
//!
//! On a local file system no signal that a program handles ends a call on names or bytes, and programs count on it: git is woken by a
//! timer while it removes files, Go programs by their scheduler. Here a call may wait for seconds, and whoever asks the program to end
//! (Ctrl-C, `kill`) is not to wait for the network. So such a signal ends the wait with `EINTR`, be it handled or not, and all others
//! let it go on. A wait for a lock ends with any signal, as POSIX has it: programs bound it by an alarm.
//!
//! The kernel tells of the first signal during a request only, and not of which. What waits to be delivered to the caller stands in
//! `/proc`; while somebody goes on waiting after a signal, that is looked at again ten times a second.

/// HUP, INT, QUIT, ABRT, KILL and TERM. A signal that ends the program because nothing handles it is there as KILL, too.
const ENDING: u64 = bit(1) | bit(2) | bit(3) | bit(6) | bit(9) | bit(15);

const fn bit(signal: u32) -> u64 {
    1 << (signal - 1)
}

/// Whether a thread was asked to end what it does. One that cannot be looked at (of another namespace, or gone) is taken to be.
pub(super) fn is_asked_to_end(thread: u32) -> bool {
    thread == 0
        || std::fs::read_to_string(format!("/proc/{thread}/status")).map_or(true, |status| has_ending_signal(&status))
}

/// Whether `/proc/TID/status` names one that is not blocked.
fn has_ending_signal(status: &str) -> bool {
    let mask = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|text| u64::from_str_radix(text.trim(), 16).ok()).unwrap_or(0)
    };
    (mask("SigPnd:") | mask("ShdPnd:")) & !mask("SigBlk:") & ENDING != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(pending: u64, shared: u64, blocked: u64) -> String {
        format!(
            "Name:\tgit\nSigPnd:\t{pending:016x}\nShdPnd:\t{shared:016x}\nSigBlk:\t{blocked:016x}\nSigIgn:\t{:016x}\n",
            0
        )
    }

    #[test]
    fn a_timer_ends_no_wait_and_a_wish_to_end_does() {
        for harmless in [10, 12, 14, 17, 18, 20, 23, 26, 27, 28, 29, 34] {
            assert!(!has_ending_signal(&status(bit(harmless), bit(harmless), 0)), "{harmless}");
        }
        for ending in [1, 2, 3, 6, 9, 15] {
            assert!(has_ending_signal(&status(bit(ending), 0, 0)), "{ending}");
            assert!(has_ending_signal(&status(bit(14), bit(ending), 0)), "{ending}");
            assert!(!has_ending_signal(&status(0, bit(ending), bit(ending))), "{ending} is blocked");
        }
        assert!(!has_ending_signal("no such lines"));
        assert!(is_asked_to_end(0));
        assert!(!is_asked_to_end(rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned()));
    }
}
