//! How much of the disk programs may fill.

use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes written between two looks at the free space of the disk.
const SPACE_STEP: u64 = 8 << 20;

/// Refuses writes while the disk of the cache is nearly full, so that what was accepted can be committed.
#[derive(Debug)]
pub(super) struct SpaceGuard {
    /// Bytes of the disk that writes leave free.
    free_min: u64,
    /// Bytes that may still be written before the next look.
    left: AtomicU64,
}

impl SpaceGuard {
    pub(super) fn new(free_min: u64) -> Self {
        Self { free_min, left: AtomicU64::new(0) }
    }

    /// Whether there is room for `len` more bytes beyond those that are to be left free.
    pub(super) fn take(&self, len: u64, free: impl Fn() -> Option<u64>) -> bool {
        let taken = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(len));
        if taken.is_ok() {
            return true;
        }
        let Some(free) = free() else { return true };
        let room = free.saturating_sub(self.free_min);
        // Each byte may be needed twice: in the body file and in the chunk store.
        self.left.store((room / 2).min(SPACE_STEP), Ordering::Relaxed);
        room / 2 >= len
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guard_looks_once_per_step_and_refuses_when_the_disk_is_full() {
        let guard = SpaceGuard::new(1 << 20);
        let plenty = || Some(1 << 40);
        assert!(guard.take(4096, plenty));
        assert!(guard.take(4096, || None));
        let guard = SpaceGuard::new(1 << 20);
        assert!(!guard.take(4096, || Some(1 << 20)));
        assert!(!guard.take(4096, || Some((1 << 20) + 4096)));
        assert!(guard.take(4096, || Some((1 << 20) + 8192)));
    }
}
