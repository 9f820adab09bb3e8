//! What each client may count on wherever it is, also where nothing is linearizable: it sees what it wrote, and nothing that
//! it saw is undone.
//!
//! Each key has one writer, who writes 1, 2, 3 and so on: then a number says how new a value is.

use std::collections::BTreeMap;

/// What a client did with a key, in the order in which it did it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// It wrote this number.
    Wrote {
        /// Which key.
        key: usize,
        /// The number.
        number: u64,
    },
    /// It read this number; 0: nothing.
    Read {
        /// Which key.
        key: usize,
        /// The number.
        number: u64,
    },
}

/// What is wrong with what a client saw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broken {
    /// It did not see what it had written before, or something newer.
    OwnWriteUnseen {
        /// Place in its history.
        at: usize,
    },
    /// It saw something older than it had seen before.
    WentBack {
        /// Place in its history.
        at: usize,
    },
    /// It saw what nobody had written.
    NeverWritten {
        /// Place in its history.
        at: usize,
    },
}

/// Looks for the first that is wrong. `written`: the last number that was written of each key, done for certain or not.
///
/// # Errors
/// [`Broken`] names it.
pub fn check_sessions(session: &[Seen], written: &BTreeMap<usize, u64>) -> Result<(), Broken> {
    let (mut own, mut seen) = (BTreeMap::new(), BTreeMap::new());
    for (at, event) in session.iter().enumerate() {
        match event {
            Seen::Wrote { key, number } => {
                own.insert(*key, *number);
            }
            Seen::Read { key, number } => {
                if *number > written.get(key).copied().unwrap_or(0) {
                    return Err(Broken::NeverWritten { at });
                }
                if own.get(key).is_some_and(|own| number < own) {
                    return Err(Broken::OwnWriteUnseen { at });
                }
                if seen.insert(*key, *number).is_some_and(|before| *number < before) {
                    return Err(Broken::WentBack { at });
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(key: usize, number: u64) -> Seen {
        Seen::Read { key, number }
    }

    fn wrote(key: usize, number: u64) -> Seen {
        Seen::Wrote { key, number }
    }

    #[test]
    fn old_values_may_be_seen_and_not_again_once_newer_ones_were() {
        let written = BTreeMap::from([(0, 9), (1, 9)]);
        assert_eq!(check_sessions(&[read(0, 0), read(0, 3), read(0, 3), read(1, 0), read(0, 9)], &written), Ok(()));
        let back = [read(0, 3), read(1, 9), read(0, 2)];
        assert_eq!(check_sessions(&back, &written), Err(Broken::WentBack { at: 2 }));
    }

    #[test]
    fn own_writes_are_seen() {
        let written = BTreeMap::from([(0, 9)]);
        assert_eq!(check_sessions(&[wrote(0, 4), read(0, 4), wrote(0, 5), read(0, 5)], &written), Ok(()));
        let unseen = [read(0, 3), wrote(0, 4), read(0, 3)];
        assert_eq!(check_sessions(&unseen, &written), Err(Broken::OwnWriteUnseen { at: 2 }));
    }

    #[test]
    fn nobody_sees_what_was_not_written() {
        assert_eq!(check_sessions(&[read(0, 2)], &BTreeMap::from([(0, 1)])), Err(Broken::NeverWritten { at: 0 }));
        assert_eq!(check_sessions(&[read(7, 1)], &BTreeMap::new()), Err(Broken::NeverWritten { at: 0 }));
    }
}
