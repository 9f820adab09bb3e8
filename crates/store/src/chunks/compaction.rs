//! Winning back dead space: a segment that is mostly dead is copied and removed, and so is one that a power cut tore.
//!
//! The live records of the segment are appended again like new ones, those are synced,
//! and only then the old file goes. A crash before that leaves both copies, which the
//! next open takes for one. Marks of removals move along while the segment that they
//! speak of exists.

use crate::chunks::error::ChunkError;
use crate::chunks::index::{Located, Segment};
use crate::chunks::scan::{Payloads, Record, scan};
use crate::chunks::segment::{Kind, Place, RecordHeader, SegmentId, TOMBSTONE_LEN, encode_tombstone};
use crate::chunks::store::{Inner, read_verified};
use crate::chunks::writer::Append;
use std::sync::atomic::Ordering;
use wayfs_types::Digest;

/// What one compaction did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Compacted {
    /// Chunks moved.
    pub moved: u64,
    /// Their bytes.
    pub moved_bytes: u64,
    /// Bytes of the segment file that is gone.
    pub freed_bytes: u64,
    /// Chunks that were found damaged on the way and put aside.
    pub corrupt: u64,
}

/// How much of a segment must be dead for it to be worth rewriting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dead {
    /// More than half: what is moved is less than what is won.
    Half,
    /// More than an eighth: where room is short.
    Eighth,
}

impl Dead {
    fn is_in(self, segment: &Segment) -> bool {
        let part = match self {
            Self::Half => 2,
            Self::Eighth => 8,
        };
        segment.dead().saturating_mul(part) > segment.total
    }
}

pub(crate) fn compact(inner: &Inner, least: Dead) -> Result<Option<Compacted>, ChunkError> {
    let _one = inner.compaction.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let Some((id, segment)) = choose(inner, least)? else { return Ok(None) };
    let scanned = scan(&*segment.file, segment.salt, segment.total, Payloads::Trust);
    let scanned = scanned.map_err(ChunkError::io("scan segment"))?;
    let mut done = Compacted { freed_bytes: segment.total, ..Compacted::default() };
    for record in scanned.records {
        match record {
            Record::Chunk { digest, offset, len } => {
                let located = Located { place: Place { segment: id, offset }, len };
                move_chunk(inner, &segment, &digest, located, &mut done)?;
            }
            Record::Tombstone { digest, dead } => move_tombstone(inner, id, &digest, dead)?,
        }
    }
    move_unlisted(inner, id, &segment, &mut done)?;
    inner.sync()?;
    // Nothing points into the segment any more; readers that found it before hold its file open.
    {
        // Taken in this order, no append can be on its way into the segment.
        let mut writer = inner.writer()?;
        writer.unsynced.retain(|(unsynced, _)| *unsynced != id);
        inner.index_mut().segments.remove(&id);
    }
    let disk = inner.data.disk();
    let removed = disk.remove(&id.path(&inner.directory)).and_then(|()| disk.sync_directory(&inner.directory));
    removed.map_err(ChunkError::io("remove segment"))?;
    // A torn one that came back would be taken at its word.
    inner.writer()?.torn.remove(&id);
    inner.counters.compactions.fetch_add(1, Ordering::Relaxed);
    Ok(Some(done))
}

/// A torn segment, or the one with most to win among those that are dead enough; never the one that takes appends.
fn choose(inner: &Inner, least: Dead) -> Result<Option<(SegmentId, Segment)>, ChunkError> {
    let mut writer = inner.writer()?;
    let is_newest_worth_it = inner
        .index()
        .segments
        .get(&writer.id)
        .is_some_and(|newest| least.is_in(newest) && newest.total * 4 >= inner.config.segment_bytes);
    if is_newest_worth_it || writer.torn.contains(&writer.id) {
        inner.roll(&mut writer)?;
    }
    let index = inner.index();
    if let Some((id, segment)) = writer.torn.iter().find_map(|torn| index.segments.get_key_value(torn)) {
        return Ok(Some((*id, segment.clone())));
    }
    let candidates = index.segments.iter().filter(|(id, segment)| **id != writer.id && least.is_in(segment));
    Ok(candidates.max_by_key(|(_, segment)| segment.dead()).map(|(id, segment)| (*id, segment.clone())))
}

fn move_chunk(
    inner: &Inner,
    segment: &Segment,
    digest: &Digest,
    located: Located,
    done: &mut Compacted,
) -> Result<(), ChunkError> {
    let is_live = || inner.index().chunks.get(digest) == Some(&located);
    if !is_live() {
        return Ok(());
    }
    let bytes = match read_verified(&*segment.file, digest, located) {
        Ok(bytes) => bytes,
        Err(ChunkError::Corrupt(_)) => {
            inner.quarantine(&*segment.file, digest, located);
            done.corrupt += 1;
            return Ok(());
        }
        Err(other) => return Err(other),
    };
    let mut writer = inner.writer()?;
    // It may have been removed while it was read.
    if !is_live() {
        return Ok(());
    }
    let header = RecordHeader { kind: Kind::Chunk, len: located.len, digest: *digest };
    let place = inner.append(&mut writer, &Append { header, payload: &bytes })?;
    inner.index_mut().insert(*digest, Located { place, len: located.len });
    done.moved += 1;
    done.moved_bytes += u64::from(located.len);
    Ok(())
}

/// Moves live chunks that the scan did not list, because their headers rotted since the open:
/// the index still knows their places, and their bytes may be whole.
fn move_unlisted(inner: &Inner, id: SegmentId, segment: &Segment, done: &mut Compacted) -> Result<(), ChunkError> {
    let live = inner.index().segments.get(&id).map_or(0, |segment| segment.live);
    if live == 0 {
        return Ok(());
    }
    let unlisted: Vec<_> = {
        let index = inner.index();
        let here = index.chunks.iter().filter(|(_, located)| located.place.segment == id);
        here.map(|(digest, located)| (*digest, *located)).collect()
    };
    for (digest, located) in unlisted {
        move_chunk(inner, segment, &digest, located, done)?;
    }
    Ok(())
}

fn move_tombstone(inner: &Inner, from: SegmentId, digest: &Digest, dead: Place) -> Result<(), ChunkError> {
    let is_needed = dead.segment != from && inner.index().segments.contains_key(&dead.segment);
    if !is_needed {
        return Ok(());
    }
    let mut writer = inner.writer()?;
    let header = RecordHeader { kind: Kind::Tombstone, len: TOMBSTONE_LEN, digest: *digest };
    let payload = encode_tombstone(dead, digest);
    inner.append(&mut writer, &Append { header, payload: &payload }).map(drop)
}
