//! Room for new contents of our own in a bounded cache.
//!
//! A cache may be full of what nobody else has, or what one server only has: none of that can be evicted. Then who
//! writes waits for a moment, while servers are asked to bring contents home ([`wayfs_proto::Input::MakeRoom`]), and
//! gets `NoSpace` as from a full disk when that does not help. A full disk is treated alike: what can be fetched again gives way
//! before a writer hears of it.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Longest wait of one writer for room.
const WAIT_MAX: Duration = Duration::from_secs(5);
/// After a wait in vain nobody else waits for so long.
const REFUSE_FOR: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
struct State {
    /// Most bytes of chunks; `None`: no bound but the disk.
    most: Option<u64>,
    /// Bytes that were let in and are not counted among those kept yet.
    coming: u64,
    refused: Option<Instant>,
    /// Bytes for which room was looked for in vain since the last look of the sweep.
    wanted: u64,
    /// The same for the disk: bytes that are to be left for contents.
    wanted_on_disk: u64,
}

/// Bytes for which there was no room.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RoomWanted {
    pub(crate) in_cache: u64,
    /// To be left on the disk.
    pub(crate) on_disk: u64,
}

/// The bound for writers. A leaf in the order of locks.
#[derive(Debug, Default)]
pub(crate) struct WritersRoom {
    state: Mutex<State>,
    changed: Condvar,
}

impl WritersRoom {
    /// Sets the bound.
    pub(crate) fn bound(&self, most: Option<u64>) {
        self.lock().most = most;
    }

    /// Chunks were removed: who waits looks again.
    pub(crate) fn changed(&self) {
        drop(self.lock());
        self.changed.notify_all();
    }

    /// Bytes for which writers found no room since this was asked last.
    pub(crate) fn take_wanted(&self) -> RoomWanted {
        let mut state = self.lock();
        let in_cache = std::mem::take(&mut state.wanted);
        RoomWanted { in_cache, on_disk: std::mem::take(&mut state.wanted_on_disk) }
    }

    /// Whether so many bytes more fit beside those that `bytes` tells within the bound of the cache: for what can be fetched
    /// again, which leaves what is beyond the bound to writers. If so, they count until [`WritersRoom::has_come`].
    pub(crate) fn lets_in(&self, len: u64, bytes: impl Fn() -> u64) -> bool {
        let mut state = self.lock();
        let is_let_in = state.most.is_none_or(|most| bytes() + state.coming + len <= most - most / 17);
        if is_let_in {
            state.coming += len;
        }
        is_let_in
    }

    /// What was let in is kept, or is not to be.
    pub(crate) fn has_come(&self, len: u64) {
        let mut state = self.lock();
        state.coming = state.coming.saturating_sub(len);
    }

    /// Waits until `len` more bytes fit beside those that `bytes` tells, and `on_disk` bytes are left; whether they do.
    pub(crate) fn wait_for(&self, len: u64, bytes: impl Fn() -> u64, (on_disk, left): (u64, impl Fn() -> u64)) -> bool {
        let end = Instant::now() + WAIT_MAX;
        let mut state = self.lock();
        loop {
            let is_within_bound = state.most.is_none_or(|most| bytes().saturating_add(len) <= most);
            let is_on_disk = left() >= on_disk;
            if is_within_bound && is_on_disk {
                return true;
            }
            let patience = end.saturating_duration_since(Instant::now());
            if !is_within_bound {
                state.wanted = state.wanted.max(len);
            }
            if !is_on_disk {
                state.wanted_on_disk = state.wanted_on_disk.max(on_disk);
            }
            if state.refused.is_some_and(|at| at.elapsed() < REFUSE_FOR) {
                return false;
            }
            if patience.is_zero() {
                state.refused = Some(Instant::now());
                return false;
            }
            state = self.changed.wait_timeout(state, patience).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn who_finds_no_room_waits_for_it_and_is_refused_in_the_end() {
        let room = Arc::new(WritersRoom::default());
        assert!(room.wait_for(1 << 40, || u64::MAX, (0, || 0)), "no bound");
        room.bound(Some(100));
        assert!(room.wait_for(40, || 60, (0, || 0)));
        let bytes = Arc::new(AtomicU64::new(90));
        let (waiting, counted) = (Arc::clone(&room), Arc::clone(&bytes));
        let waiter = std::thread::spawn(move || waiting.wait_for(40, || counted.load(Ordering::SeqCst), (0, || 0)));
        bytes.store(50, Ordering::SeqCst);
        room.changed();
        assert!(waiter.join().unwrap());
        assert!(!room.wait_for(40, || 90, (0, || 0)), "nothing went");
        room.bound(Some(170));
        assert!(room.lets_in(60, || 90));
        assert!(!room.lets_in(60, || 90), "beside what is coming");
        room.has_come(60);
        assert!(room.lets_in(60, || 90));
    }
}
