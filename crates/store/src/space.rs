//! Free room on the file system of a store.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// Watches the free room of the file system that holds a directory.
#[derive(Debug)]
pub(crate) struct Space {
    directory: OwnedFd,
    /// Bytes that ordinary writes leave free.
    min_free: u64,
    /// Bytes promised to reservations and not used yet.
    reserved: AtomicU64,
}

/// There is not enough room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NoRoom {
    pub(crate) needed: u64,
    pub(crate) available: u64,
}

impl Space {
    pub(crate) fn watch(directory: &Path, min_free: u64) -> std::io::Result<Self> {
        let directory = OwnedFd::from(std::fs::File::open(directory)?);
        Ok(Self { directory, min_free, reserved: AtomicU64::new(0) })
    }

    /// Bytes that a write may still use.
    pub(crate) fn available(&self) -> std::io::Result<u64> {
        let free = self.free()?;
        Ok(free.saturating_sub(self.min_free).saturating_sub(self.reserved.load(Ordering::Relaxed)))
    }

    /// Bytes free on the file system, the kept ones included.
    pub(crate) fn free(&self) -> std::io::Result<u64> {
        let stat = rustix::fs::fstatvfs(&self.directory)?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    /// Checks that `needed` bytes may be written.
    pub(crate) fn check(&self, needed: u64) -> std::io::Result<Result<(), NoRoom>> {
        let available = self.available()?;
        Ok(if needed <= available { Ok(()) } else { Err(NoRoom { needed, available }) })
    }

    /// Promises bytes; [`Space::release`] takes the promise back.
    pub(crate) fn reserve(&self, needed: u64) -> std::io::Result<Result<(), NoRoom>> {
        // The promise comes before the check, so that two reservations cannot both count the same room.
        self.reserved.fetch_add(needed, Ordering::Relaxed);
        let left = self.free().map(|free| free.saturating_sub(self.min_free));
        let left = left.inspect_err(|_| self.release(needed))?;
        let promised = self.reserved.load(Ordering::Relaxed);
        if promised <= left {
            return Ok(Ok(()));
        }
        self.release(needed);
        Ok(Err(NoRoom { needed, available: left.saturating_sub(promised - needed) }))
    }

    pub(crate) fn release(&self, bytes: u64) {
        self.reserved.fetch_sub(bytes, Ordering::Relaxed);
    }
}
