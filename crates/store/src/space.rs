//! Free room on the file system of a store.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use wayfs_disk::{Disk, FreeRoom};

/// Most that metadata leave free, in bytes: a memtable that goes to a table, and what that is merged with.
const META_MAX: u64 = 64 << 20;
/// Least that metadata leave free, in bytes. Below it an engine that flushes may fail in the middle.
const META_MIN: u64 = 16 << 20;
/// A segment is at most this part of a disk.
const SEGMENT_PART: u64 = 64;
/// Bytes of the smallest segments, two of the largest chunks, and of the largest.
const SEGMENT_MIN: u64 = 2 << 20;
const SEGMENT_MAX: u64 = 64 << 20;
/// On small disks metadata leave this part free: a sixteenth.
const META_PART: u64 = 16;

/// What the stores of one directory leave free on its disk: contents twice as much as metadata, so that there is room for
/// records of what is renamed and removed where there is none for contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reserves {
    /// Bytes that metadata leave free. 64 MiB from disks of 1 GiB on, at least 16 MiB.
    pub meta: u64,
    /// Bytes that contents leave free.
    pub contents: u64,
    /// Most bytes of one segment of chunks: a small part of the disk, since rewriting one takes as much room again.
    pub segment: u64,
}

impl Reserves {
    /// Those for the disk that a directory is on; the largest, if it does not say how large it is.
    pub fn of_disk(directory: &Path) -> Self {
        let size = rustix::fs::statvfs(directory).map_or(u64::MAX, |disk| disk.f_blocks.saturating_mul(disk.f_frsize));
        Self::of_size(size)
    }

    fn of_size(size: u64) -> Self {
        let meta = (size / META_PART).clamp(META_MIN, META_MAX);
        Self { meta, contents: meta * 2, segment: (size / SEGMENT_PART).clamp(SEGMENT_MIN, SEGMENT_MAX) }
    }
}

/// Watches the free room of the file system that holds a directory.
pub(crate) struct Space {
    room: FreeRoom,
    /// Bytes that ordinary writes leave free.
    min_free: u64,
    /// Bytes promised and not used yet.
    reserved: AtomicU64,
    /// Bytes that may be accepted while a merge is under way, which needs the rest; [`NO_MERGE`] if none is.
    beside_merge: AtomicU64,
}

/// No bound for what is accepted but the disk's.
const NO_MERGE: u64 = u64::MAX;

/// There is not enough room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NoRoom {
    pub(crate) needed: u64,
    pub(crate) available: u64,
}

/// What a merge needs of the disk, in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MergeRoom {
    /// Most that it writes.
    pub(crate) needed: u64,
    /// Least that it leaves to the file system.
    pub(crate) margin: u64,
}

impl Space {
    pub(crate) fn watch(disk: &dyn Disk, directory: &Path, min_free: u64) -> std::io::Result<Self> {
        let room = disk.watch_room(directory)?;
        Ok(Self { room, min_free, reserved: AtomicU64::new(0), beside_merge: AtomicU64::new(NO_MERGE) })
    }

    /// Bytes that ordinary writes leave free.
    pub(crate) fn min_free(&self) -> u64 {
        self.min_free
    }

    /// Bytes that a write may still use.
    pub(crate) fn available(&self) -> std::io::Result<u64> {
        let free = self.free()?;
        Ok(free.saturating_sub(self.min_free).saturating_sub(self.reserved.load(Ordering::Relaxed)))
    }

    /// Bytes free on the file system, the kept ones included.
    pub(crate) fn free(&self) -> std::io::Result<u64> {
        (self.room)()
    }

    /// Checks that `needed` bytes may be written.
    pub(crate) fn check(&self, needed: u64) -> std::io::Result<Result<(), NoRoom>> {
        let available = self.available()?.min(self.beside_merge.load(Ordering::Relaxed));
        if needed > available {
            return Ok(Err(NoRoom { needed, available }));
        }
        let take = |left: u64| (left != NO_MERGE).then(|| left.saturating_sub(needed));
        // No merge: nothing to count.
        let _ = self.beside_merge.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        Ok(Ok(()))
    }

    /// Checks that there is room for a merge, and keeps it from what is accepted until [`Space::end_merge`]. The merge may
    /// use half of what ordinary writes leave free.
    pub(crate) fn begin_merge(&self, room: MergeRoom) -> std::io::Result<Result<(), NoRoom>> {
        let margin = room.margin.max(self.min_free / 2);
        let left = self.free()?.saturating_sub(self.reserved.load(Ordering::Relaxed));
        let Some(beside) = left.checked_sub(room.needed.saturating_add(margin)) else {
            return Ok(Err(NoRoom { needed: room.needed, available: left.saturating_sub(margin) }));
        };
        self.beside_merge.store(beside, Ordering::Relaxed);
        Ok(Ok(()))
    }

    /// The merge ended.
    pub(crate) fn end_merge(&self) {
        self.beside_merge.store(NO_MERGE, Ordering::Relaxed);
    }

    /// Promises bytes that nobody can refuse any more; [`Space::release`] takes the promise back.
    pub(crate) fn promise(&self, bytes: u64) {
        self.reserved.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn release(&self, bytes: u64) {
        self.reserved.fetch_sub(bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_disks_keep_less_and_contents_twice_as_much() {
        assert_eq!(Reserves::of_size(1 << 40), Reserves { meta: 64 << 20, contents: 128 << 20, segment: 64 << 20 });
        assert_eq!(Reserves::of_size(400 << 20), Reserves { meta: 25 << 20, contents: 50 << 20, segment: 25 << 18 });
        assert_eq!(Reserves::of_size(60 << 20), Reserves { meta: 16 << 20, contents: 32 << 20, segment: 2 << 20 });
    }

    #[test]
    fn what_a_merge_needs_is_kept_from_what_is_accepted() {
        let scratch = tempfile::tempdir().unwrap();
        let Some(disk) = crate::tests::SmallDisk::mount_at(scratch.path(), 8) else { return };
        let space = Space::watch(&wayfs_disk::SystemDisk, disk.path(), 2 << 20).unwrap();
        let free = space.free().unwrap();
        let merge = |needed| space.begin_merge(MergeRoom { needed, margin: 0 }).unwrap();
        assert_eq!(merge(free), Err(NoRoom { needed: free, available: free - (1 << 20) }));
        assert_eq!(space.check(5 << 20).unwrap(), Ok(()), "none began");
        // Half of the reserve stays, a mebibyte.
        assert_eq!(merge(free - (3 << 20)), Ok(()));
        assert_eq!(space.check(1 << 20).unwrap(), Ok(()));
        assert_eq!(space.check(1 << 20).unwrap(), Ok(()));
        assert_eq!(space.check(1).unwrap(), Err(NoRoom { needed: 1, available: 0 }));
        space.end_merge();
        assert_eq!(space.check(5 << 20).unwrap(), Ok(()));
    }
}
