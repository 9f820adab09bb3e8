//! The thread that sweeps.
//!
//! Once a period it removes what nobody refers to. Where room is short, in a cache with a bound or on the disk, it goes to work at
//! once: the grace of what nobody refers to yields, and what others have gives way, the least recently read first.

use super::alarm::{Calm, Pause, SweepAlarm};
use super::mark::{Marks, Torn, mark_all};
use crate::contents::{Contents, DiskShortage, Named, RoomWanted, Shortage, Want};
use crate::volume::Volume;
use rustix::time::{ClockId, clock_gettime};
use std::sync::Weak;
use std::time::{Duration, Instant};
use tracing::{debug, warn};
use wayfs_proto::{Full, Input};
use wayfs_store::Dead;
use wayfs_types::{Digest, StorageError, Ticket};

/// Chunks removed in one step: the lock is held that long.
const STEP: usize = 64;
/// Names read from the store at once.
const LIST: usize = 4096;
/// Pause between steps, so that a sweep never takes more than a part of the disk.
const STEP_PAUSE: Duration = Duration::from_millis(2);
/// A full cache is emptied by this part, so that sweeps are not needed for every chunk: a tenth,
const CACHE_GAP_PART: u64 = 10;
/// but by so many bytes at least, if it is twice as large: a few of the largest chunks.
const CACHE_GAP_MIN: u64 = 4 << 20;
/// What is in use is marked anew for each sweep, at a cost that grows with the volume. So a large volume is swept less often: once a
/// period, but for room, marking takes at most this part of one core's time, a hundredth.
const MARKING_FACTOR: u32 = 100;
/// So long is waited for a damaged list node from others.
const NODE_PATIENCE: Duration = Duration::from_secs(10);
/// A sweep for room takes at most this part of one core's time: a quarter. Meanwhile what is read passes through memory.
const REST_FACTOR: u32 = 3;
/// After a sweep for room that found nothing the next one waits so long, unless somebody asks for room.
const VAIN_PAUSE: Duration = Duration::from_secs(10);
/// The segments of a bounded cache take this part of the bound more than what is in them: an eighth.
const DEAD_PART: u64 = 8;

/// Who found no room since the last look.
#[derive(Debug, Clone, Copy)]
struct Refused {
    writers: RoomWanted,
    /// Whether a reader did.
    readers: bool,
}

/// What lacks room, and how much of it.
#[derive(Debug, Clone, Copy, Default)]
struct Need {
    /// Bytes that the cache is beyond what it is brought down to.
    of_cache: u64,
    disk: Option<DiskShortage>,
}

impl Need {
    fn shortage(&self) -> Shortage {
        if self.of_cache > 0 || self.disk.is_some() { Shortage::Room } else { Shortage::None }
    }

    /// Bytes of chunks to remove. What is dead already comes back by rewriting alone.
    fn excess(&self) -> u64 {
        self.of_cache.max(self.disk.map_or(0, |disk| disk.lacks.saturating_sub(disk.dead)))
    }
}

/// Runs until the volume stops.
pub(crate) fn run(alarm: &SweepAlarm, volume: &Weak<Volume>) {
    if let Some(volume) = volume.upgrade() {
        volume.report_torn();
    }
    let (mut last, mut not_before) = (Instant::now(), Instant::now());
    let mut marking = Duration::ZERO;
    let mut is_pressed = false;
    let (mut settled, mut calm, mut pause) = (None, Calm::default(), Pause::Short);
    while let Some(woken) = alarm.sleep(not_before, pause) {
        let Some(volume) = volume.upgrade() else { return };
        volume.contents.forget_passed();
        if let Some(room) = volume.disk_room.look() {
            volume.step(Input::Room { room });
        }
        is_pressed |= woken.pressed;
        let refused = Refused { writers: volume.contents.writers_room.take_wanted(), readers: is_pressed };
        let is_asked = refused.writers != RoomWanted::default();
        let need = need(&volume, refused);
        let is_needed = need.shortage() == Shortage::Room || is_asked || woken.wanted || is_pressed;
        pause = calm.look((!is_needed).then(|| standing(&volume)));
        let is_time = last.elapsed() >= volume.settings.sweep_period.max(marking * MARKING_FACTOR);
        let is_due = woken.wanted || is_time;
        let is_for_room = need.shortage() == Shortage::Room && (is_asked || Instant::now() >= not_before);
        if !is_due && !is_for_room {
            continue;
        }
        is_pressed = false;
        if !woken.wanted && !is_for_room && is_settled(&volume, settled) {
            last = Instant::now();
            continue;
        }
        let began = Instant::now();
        let Swept { won, left } = sweep(alarm, &volume, need, &mut marking).unwrap_or_else(|error| {
            warn!(%error, "sweep");
            Swept::default()
        });
        settled = left;
        last = Instant::now();
        let rest = (last - began) * REST_FACTOR;
        not_before = last + if won || need.shortage() == Shortage::None { rest } else { rest.max(VAIN_PAUSE) };
        alarm.finished();
    }
}

/// What changes when something happens that takes room or wins some.
fn standing(volume: &Volume) -> (Option<Ticket>, u64, Full) {
    let committed = volume.look(|replica| replica.store().committed());
    (committed, volume.contents.bytes(), volume.disk_room.room().full)
}

/// What lacks room.
fn need(volume: &Volume, refused: Refused) -> Need {
    let contents = &volume.contents;
    let RoomWanted { in_cache, on_disk } = refused.writers;
    let of_cache = volume.settings.cache_bytes_max.map_or(0, |max| {
        let most = max.saturating_sub(in_cache);
        let gap = (max / CACHE_GAP_PART).max(CACHE_GAP_MIN.min(max / 2));
        let bytes = contents.bytes();
        if bytes > most || refused.readers { bytes.saturating_sub(most.saturating_sub(gap)) } else { 0 }
    });
    Need { of_cache, disk: contents.disk_shortage(on_disk) }
}

/// Processor time of this thread so far.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// What a sweep came to.
#[derive(Debug, Default, Clone, Copy)]
struct Swept {
    /// Whether it won any room.
    won: bool,
    /// By the records up to this one nothing is left that nobody refers to; `None`: something is, be it under a grace.
    left: Option<Ticket>,
}

/// Whether a sweep would find nothing: neither a record nor a chunk has come since one that left nothing. To mark what is in use costs
/// as much as the volume is large, and most volumes rest most of the time.
fn is_settled(volume: &Volume, settled: Option<Ticket>) -> bool {
    // Nothing else tells the engine of a quiet volume that time has passed.
    volume.step(Input::Tick);
    settled.is_some() && settled == volume.look(|replica| replica.store().committed()) && is_quiet(volume)
}

/// Whether nothing is kept for the sake of a record that may come.
fn is_quiet(volume: &Volume) -> bool {
    let announced = volume.look(wayfs_proto::Replica::tops_announced).unwrap_or_default();
    announced.is_empty() && volume.contents.lock().is_quiet()
}

/// Sweeps, and makes the room that is needed if it can. Says how much processor time it took to mark what is in
/// use.
fn sweep(alarm: &SweepAlarm, volume: &Volume, need: Need, marking: &mut Duration) -> Result<Swept, StorageError> {
    let contents = &volume.contents;
    let shortage = need.shortage();
    // In a quiet volume nothing else tells the engine that time has passed.
    volume.step(Input::Tick);
    if need.disk.is_some() {
        volume.hooks.room_is_short();
    }
    let announced = volume.look(wayfs_proto::Replica::tops_announced).unwrap_or_default();
    let trees = contents.lock().begin_sweep(&announced.into_iter().collect(), shortage);
    let committed = volume.look(|replica| replica.store().committed()).filter(|_| is_quiet(volume));
    let began = processor_time();
    let Some(mut marks) = mark_all(volume, need.disk)? else { return Ok(Swept::default()) };
    for tree in trees {
        marks.keep(contents, tree);
    }
    let before = contents.bytes();
    let victims = match marks.torn {
        None => unreferenced(contents, &marks),
        Some(_) => Vec::new(),
    };
    *marking = processor_time().saturating_sub(began);
    if let Some(torn) = marks.torn {
        mend(volume, torn);
    }
    if !victims.is_empty() && !is_agreed(volume, shortage) {
        return Ok(Swept::default());
    }
    let (found, is_whole) = (victims.len() as u64, marks.torn.is_none());
    let mut removed = remove(alarm, contents, &mut marks, (victims, shortage, Named::No));
    let left = committed.filter(|_| is_whole && removed == found);
    let excess = need.excess().saturating_sub(before.saturating_sub(contents.bytes()));
    let victims = least_recently_used(contents, &marks, excess);
    removed += remove(alarm, contents, &mut marks, (victims, shortage, Named::Yes));
    if volume.settings.cache_bytes_max.is_some_and(|max| contents.bytes() > max) || (need.excess() > 0 && removed == 0)
    {
        // What is left may be what one server only has: it gives way when the home has it, too.
        volume.step(Input::MakeRoom);
    }
    volume.metrics.chunks_swept.add(removed);
    if removed > 0 {
        debug!(removed, "sweep");
    }
    let is_compacted = compact(alarm, volume, need);
    contents.writers_room.changed();
    if !contents.keep_passed() {
        alarm.press();
    }
    Ok(Swept { won: removed > 0 || is_compacted, left })
}

/// Gets a list node anew that is damaged or gone. Nothing that seems to be needed by nobody is removed before that: it may be what is
/// below that node, and there may be no other copy. Where nobody has the node, a scrub tells the engine, and the content is no longer
/// one that this machine is to have.
fn mend(volume: &Volume, Torn { file, version, node }: Torn) {
    let Some(me) = volume.me.upgrade() else { return };
    if volume.contents.peek(&node).is_ok() {
        // It has come since it was looked for.
        return;
    }
    let want = Want { file, version, digest: node };
    let fetched = volume.settings.runtime.block_on(me.fetch_chunk(want, None, NODE_PATIENCE));
    if volume.contents.peek(&node).is_ok() {
        warn!(%file, %version, digest = %node, "a list node was damaged or gone, and was fetched anew");
        volume.metrics.chunks_repaired.add(1);
        return;
    }
    warn!(%file, %version, digest = %node, ?fetched, "a list node is damaged or gone: nothing is swept before it is here again");
}

/// How long a sweep waits until the disk has what it goes by.
const AGREED_MAX: Duration = Duration::from_secs(30);

/// Whether the disk has the records by which nothing refers to what is to be removed: a power cut would bring back those
/// that still did. A disk without room may have none for records either, so there a sweep does not wait for what fails.
fn is_agreed(volume: &Volume, shortage: Shortage) -> bool {
    match volume.sync(AGREED_MAX) {
        Ok(()) => true,
        Err(error) => {
            warn!(%error, "a sweep goes by records that are not on the disk yet");
            shortage == Shortage::Room
        }
    }
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

/// Cached chunks to drop, the least recently read first, until so many bytes are won.
fn least_recently_used(contents: &Contents, marks: &Marks, mut excess: u64) -> Vec<Digest> {
    if excess == 0 {
        return Vec::new();
    }
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
fn remove(
    alarm: &SweepAlarm,
    contents: &Contents,
    marks: &mut Marks,
    (victims, shortage, named): (Vec<Digest>, Shortage, Named),
) -> u64 {
    let mut removed = 0;
    let mut left = victims.as_slice();
    while !left.is_empty() && !alarm.is_stopped() {
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
            if protection.is_protected(digest, shortage, named) {
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

/// Wins back the room of what was removed, one segment at a time; whether there was any. Where room is short, segments with less to
/// win are rewritten, too.
fn compact(alarm: &SweepAlarm, volume: &Volume, need: Need) -> bool {
    let bound = volume.settings.cache_bytes_max.map_or(u64::MAX, |max| max + max / DEAD_PART);
    let mut is_any = false;
    while let Ok(store) = volume.contents.store() {
        let is_short = need.disk.is_some_and(|disk| volume.contents.disk_shortage(disk.wanted).is_some());
        let least = if is_short || store.stats().disk_bytes > bound { Dead::Eighth } else { Dead::Half };
        if alarm.is_stopped() {
            return is_any;
        }
        match store.compact_from(least) {
            Ok(Some(_)) => {
                is_any = true;
                std::thread::sleep(STEP_PAUSE);
            }
            Ok(None) => return is_any,
            Err(error) => {
                warn!(%error, "compact chunks");
                return is_any;
            }
        }
    }
    is_any
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Machine, eventually, noise};
    use wayfs_types::FileId;
    use wayfs_types::request::Change;

    fn sweep_once(volume: &Volume) -> Option<Ticket> {
        let mut marking = Duration::ZERO;
        sweep(&SweepAlarm::default(), volume, Need::default(), &mut marking).unwrap().left
    }

    /// To mark what is in use costs as much as the volume is large: one that rests is not marked again and again.
    #[test]
    fn a_volume_that_rests_is_settled_until_something_comes() {
        let dir = tempfile::tempdir().unwrap();
        let home = Machine::home(&dir.path().join("home"));
        home.write("kept", &noise(300_000, 1));
        home.write("gone", &noise(300_000, 2));
        let settle = || {
            let mut left = None;
            eventually("nothing is left to remove", || {
                left = sweep_once(&home.volume);
                left.is_some()
            });
            left
        };
        let settled = settle();
        assert!(is_settled(&home.volume, settled));
        assert!(!is_settled(&home.volume, None), "after a start nothing is known");
        home.change(Change::Unlink { parent: FileId::ROOT, name: crate::testing::name("gone") });
        assert!(!is_settled(&home.volume, settled), "a record came");
        let settled = settle();
        assert!(is_settled(&home.volume, settled));
        let stray = bytes::Bytes::from(noise(100_000, 3));
        home.volume.contents().put(Digest::of(&stray), stray.clone()).unwrap();
        assert!(!is_settled(&home.volume, settled), "a chunk came");
        assert_eq!(sweep_once(&home.volume), None, "it is kept for a record that may come");
        let settled = settle();
        assert!(is_settled(&home.volume, settled) && !home.volume.contents().has(&Digest::of(&stray)));
    }
}
