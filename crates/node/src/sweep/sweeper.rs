//! The thread that sweeps.

use super::mark::{Marks, mark_all};
use crate::contents::Contents;
use crate::volume::Volume;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};
use tracing::{debug, warn};
use wayfs_proto::Input;
use wayfs_types::{Digest, StorageError};

/// Chunks removed in one step: the lock is held that long.
const STEP: usize = 64;
/// Names read from the store at once.
const LIST: usize = 4096;
/// Pause between steps, so that a sweep never takes more than a part of the disk.
const STEP_PAUSE: Duration = Duration::from_millis(2);
/// A full cache is brought down to this many parts of a hundred, so that sweeps are not needed for every chunk.
const CACHE_FILL_PERCENT: u64 = 90;
/// How often the size of a bounded cache is looked at.
const CACHE_LOOK_PERIOD: Duration = Duration::from_secs(1);

#[derive(Default)]
struct State {
    stop: bool,
    wanted: bool,
    done: u64,
}

/// Tells the thread when to sweep. A leaf in the order of locks.
#[derive(Default)]
pub(crate) struct Sweeper {
    state: Mutex<State>,
    changed: Condvar,
}

impl Sweeper {
    pub(crate) fn stop(&self) {
        self.lock().stop = true;
        self.changed.notify_all();
    }

    /// Sweeps now and waits until it is done, at most `patience`; whether it was.
    pub(crate) fn sweep_now(&self, patience: Duration) -> bool {
        let end = Instant::now() + patience;
        let mut state = self.lock();
        // A sweep that runs already may have marked before the caller's change: the one after it counts.
        let target = state.done + 1;
        state.wanted = true;
        self.changed.notify_all();
        while state.done < target && !state.stop {
            let Some(left) = end.checked_duration_since(Instant::now()) else { return false };
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        !state.stop
    }

    fn is_stopped(&self) -> bool {
        self.lock().stop
    }

    /// Sleeps until it is time for a look; `None` when it is time to end, else whether a sweep was asked for.
    fn sleep(&self, nap: Duration) -> Option<bool> {
        let mut state = self.lock();
        if !state.stop && !state.wanted {
            state = self.changed.wait_timeout(state, nap).unwrap_or_else(PoisonError::into_inner).0;
        }
        let wanted = std::mem::take(&mut state.wanted);
        (!state.stop).then_some(wanted)
    }

    fn finished(&self) {
        self.lock().done += 1;
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs until the volume stops.
pub(crate) fn run(sweeper: &Sweeper, volume: &Weak<Volume>) {
    if let Some(volume) = volume.upgrade() {
        volume.report_torn();
    }
    let mut last = Instant::now();
    while let Some(wanted) = sweeper.sleep(CACHE_LOOK_PERIOD) {
        let Some(volume) = volume.upgrade() else { return };
        let room = volume.contents.writers_room.take_wanted();
        let over = volume.settings.cache_bytes_max.is_some_and(|max| room > 0 || volume.contents.bytes() > max);
        if !wanted && !over && last.elapsed() < volume.settings.sweep_period {
            continue;
        }
        if let Err(error) = sweep(sweeper, &volume, room) {
            warn!(%error, "sweep");
        }
        last = Instant::now();
        sweeper.finished();
    }
}

/// Sweeps, and leaves `room` in a bounded cache if it can.
fn sweep(sweeper: &Sweeper, volume: &Volume, room: u64) -> Result<(), StorageError> {
    let contents = &volume.contents;
    // In a quiet volume nothing else tells the engine that time has passed.
    volume.step(Input::Tick);
    let announced = volume.look(wayfs_proto::Replica::roots_announced).unwrap_or_default();
    let trees = contents.lock().begin_sweep(&announced.into_iter().collect());
    let Some(mut marks) = mark_all(volume)? else { return Ok(()) };
    for tree in trees {
        marks.keep(contents, tree);
    }
    let victims = unreferenced(contents, &marks);
    let mut removed = remove(sweeper, contents, &mut marks, victims);
    if let Some(max) = volume.settings.cache_bytes_max {
        let max = max.saturating_sub(room);
        let victims = least_recently_used(contents, &marks, max);
        removed += remove(sweeper, contents, &mut marks, victims);
        if contents.bytes() > max {
            // What is left may be what one server only has: it gives way when the home has it, too.
            volume.step(Input::MakeRoom);
        }
        contents.writers_room.changed();
    }
    volume.metrics.chunks_swept.add(removed);
    if removed > 0 {
        debug!(removed, "sweep");
    }
    compact(sweeper, contents);
    Ok(())
}

/// Chunks that nothing refers to.
fn unreferenced(contents: &Contents, marks: &Marks) -> Vec<Digest> {
    let mut found = Vec::new();
    for_each_chunk(contents, |digest, _| {
        if !marks.kept.contains(&digest) && !marks.cached.contains(&digest) {
            found.push(digest);
        }
    });
    found
}

/// Cached chunks to drop, the least recently read first, until the cache is well below its bound.
fn least_recently_used(contents: &Contents, marks: &Marks, max: u64) -> Vec<Digest> {
    let bytes = contents.bytes();
    if bytes <= max {
        return Vec::new();
    }
    let mut excess = bytes - max / 100 * CACHE_FILL_PERCENT;
    let mut candidates = Vec::new();
    for_each_chunk(contents, |digest, len| {
        if marks.cached.contains(&digest) && !marks.kept.contains(&digest) {
            candidates.push((contents.lock().last_read(&digest), digest, len));
        }
    });
    candidates.sort_unstable();
    let mut victims = Vec::new();
    for (_, digest, len) in candidates {
        if excess == 0 {
            break;
        }
        excess = excess.saturating_sub(u64::from(len));
        victims.push(digest);
    }
    victims
}

fn for_each_chunk(contents: &Contents, mut visit: impl FnMut(Digest, u32)) {
    let mut after = None;
    while let Ok(store) = contents.store() {
        let page = store.list(after.as_ref(), LIST);
        let Some((last, _)) = page.last() else { return };
        after = Some(*last);
        for (digest, len) in page {
            visit(digest, len);
        }
    }
}

/// Removes in small steps what is still unprotected; trees that were promised meanwhile are marked first.
fn remove(sweeper: &Sweeper, contents: &Contents, marks: &mut Marks, victims: Vec<Digest>) -> u64 {
    let mut removed = 0;
    let mut left = victims.as_slice();
    while !left.is_empty() && !sweeper.is_stopped() {
        let Ok(store) = contents.store() else { break };
        let fresh = contents.lock().take_fresh();
        for tree in fresh {
            marks.keep(contents, tree);
        }
        let mut protection = contents.lock();
        if protection.is_held() {
            break;
        }
        if protection.has_fresh() {
            continue;
        }
        protection.removing();
        let (step, rest) = left.split_at(left.len().min(STEP));
        for digest in step.iter().filter(|digest| !marks.kept.contains(digest)) {
            if protection.is_protected(digest) {
                continue;
            }
            match store.remove(digest) {
                Ok(_) => {
                    protection.forget_read(digest);
                    removed += 1;
                }
                Err(error) => {
                    warn!(%error, "remove chunk");
                    return removed;
                }
            }
        }
        drop(protection);
        left = rest;
        std::thread::sleep(STEP_PAUSE);
    }
    removed
}

/// Wins back the room of what was removed, one segment at a time.
fn compact(sweeper: &Sweeper, contents: &Contents) {
    while let Ok(store) = contents.store() {
        if sweeper.is_stopped() {
            return;
        }
        match store.compact() {
            Ok(Some(_)) => std::thread::sleep(STEP_PAUSE),
            Ok(None) => return,
            Err(error) => return warn!(%error, "compact chunks"),
        }
    }
}
