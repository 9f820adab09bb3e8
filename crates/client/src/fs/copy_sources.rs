//! Which programs may be copying: those that have a large file of the mount open to read.

use crate::files::Access;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Files below this are copied as quickly as they are shared, in bytes. Two chunks of average length.
const SHARED_MIN: u64 = 512 * 1024;

/// How many large files each program has open to read. A program that has none is not in it.
#[derive(Debug, Default)]
pub(super) struct Sources(Mutex<HashMap<u32, u32>>);

impl Sources {
    fn counts(&self) -> MutexGuard<'_, HashMap<u32, u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A program opens a file to read it; answers who is to be named when it is closed, if that matters.
    pub(super) fn opened(&self, pid: u32, access: Access, size: u64) -> Option<u32> {
        if access != Access::Read || size < SHARED_MIN {
            return None;
        }
        *self.counts().entry(pid).or_default() += 1;
        Some(pid)
    }

    /// It is closed.
    pub(super) fn closed(&self, pid: u32) {
        let mut counts = self.counts();
        if let Some(count) = counts.get_mut(&pid) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&pid);
            }
        }
    }

    /// Whether what a program makes now may become a copy.
    pub(super) fn has(&self, pid: u32) -> bool {
        self.counts().contains_key(&pid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_may_copy_while_it_has_a_large_file_open_to_read() {
        let sources = Sources::default();
        assert_eq!(sources.opened(7, Access::Read, SHARED_MIN - 1), None);
        assert_eq!(sources.opened(7, Access::Write, SHARED_MIN), None);
        assert!(!sources.has(7));
        let (one, other) = (sources.opened(7, Access::Read, SHARED_MIN), sources.opened(7, Access::Read, SHARED_MIN));
        assert_eq!((one, other), (Some(7), Some(7)));
        sources.closed(7);
        assert!(sources.has(7) && !sources.has(8));
        sources.closed(7);
        assert!(!sources.has(7) && sources.counts().is_empty());
    }
}
