//! One pass over what is in use, chunk by chunk.

use super::position::{ScrubCounts, ScrubPosition};
use super::scrubber::ScrubError;
use crate::contents::{ContentsError, FetchError, Want};
use crate::live_replica::LiveReplica;
use crate::relied_on::{is_home_with, is_relied_on};
use crate::volume::Volume;
use bytes::Bytes;
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use tracing::{info, warn};
use wayfs_proto::{ContentInUse, Input, Role};
use wayfs_transfer::Piece;
use wayfs_types::{Content, Digest, FileId, RecordId, StorageError};

/// Contents asked of the engine at once.
const PAGE: usize = 64;
/// So long is waited for one chunk from others.
const PATIENCE: Duration = Duration::from_secs(30);
/// Most chunks that one pass remembers to have read, so that what files share is read once.
const SEEN_MAX: usize = 1 << 20;

/// A content to be read.
#[derive(Debug)]
struct Wanted {
    file: FileId,
    /// Which version of it, to ask others for; none where the file is gone since.
    version: Option<RecordId>,
    content: Content,
    /// Others rely on this machine to have all of it. Else it is a copy that may be in parts.
    is_relied_on: bool,
    /// The view shows it: the pass goes by the order of these.
    is_shown: bool,
}

/// A content that is being read.
#[derive(Debug)]
struct Reading {
    wanted: Wanted,
    stack: Vec<Piece>,
    /// Chunks that are to be left out: an earlier life of this process has read them.
    skipped: u64,
    /// Chunks passed.
    chunks: u64,
    /// A chunk of it was fetched anew.
    is_renewed: bool,
    /// Nobody has a chunk of it.
    is_lost: bool,
}

/// A pass, and how far it is.
#[derive(Debug)]
pub(crate) struct Pass {
    queue: VecDeque<Wanted>,
    reading: Option<Reading>,
    /// From where the engine is asked next; `None` within: nothing more.
    next: Option<Option<FileId>>,
    /// Chunks of the first file that were read before.
    skip: Option<(Option<FileId>, u64)>,
    seen: HashSet<Piece>,
    /// Chunks that nobody has.
    lost: HashSet<Digest>,
}

impl Pass {
    /// A pass that goes on from a position. What others wait for is read anew in each life of the process: it is little, and
    /// there may be no other copy.
    pub(crate) fn new(position: &ScrubPosition) -> Self {
        let skip = (position.after.is_some() || position.into > 0).then_some((position.after, position.into));
        let (queue, seen, lost) = (VecDeque::new(), HashSet::new(), HashSet::new());
        Self { queue, reading: None, next: Some(None), skip, seen, lost }
    }

    /// Reads one chunk more, and notes what it finds. Answers how many bytes that were; `None`: the pass has ended.
    pub(crate) fn step(&mut self, volume: &Arc<Volume>, at: &mut ScrubPosition) -> Result<Option<u64>, ScrubError> {
        loop {
            if volume.is_stopped() {
                return Err(ScrubError::Stopped);
            }
            let Some(reading) = self.reading.as_mut() else {
                if !self.begin_next(volume)? {
                    return Ok(None);
                }
                continue;
            };
            let Some(piece) = reading.stack.pop() else {
                self.end_reading(volume, at)?;
                continue;
            };
            if let Some(bytes) = self.read(volume, piece, &mut at.found)? {
                if let Some(reading) = self.reading.as_ref().filter(|reading| reading.wanted.is_shown) {
                    at.into = reading.chunks;
                }
                return Ok(Some(bytes));
            }
        }
    }

    /// Takes the next content; whether there is one.
    fn begin_next(&mut self, volume: &Volume) -> Result<bool, ScrubError> {
        while self.queue.is_empty() {
            let Some(after) = self.next.take() else { return Ok(false) };
            let (queue, next) = page(volume, after)?;
            self.queue = queue;
            self.next = next.map(Some);
            if after.is_none()
                && let Some((Some(read), _)) = self.skip
            {
                self.queue.retain(|wanted| !wanted.is_shown);
                self.next = Some(Some(read));
            }
        }
        let Some(wanted) = self.queue.pop_front() else { return Ok(false) };
        let skipped = if wanted.is_shown { self.skip.take().map_or(0, |(_, into)| into) } else { 0 };
        let stack = Piece::top(&wanted.content).into_iter().collect();
        self.reading = Some(Reading { wanted, stack, skipped, chunks: 0, is_renewed: false, is_lost: false });
        Ok(true)
    }

    fn end_reading(&mut self, volume: &Arc<Volume>, at: &mut ScrubPosition) -> Result<(), ScrubError> {
        let Some(Reading { wanted, is_renewed, is_lost, .. }) = self.reading.take() else { return Ok(()) };
        let Wanted { file, version, content, is_shown, .. } = wanted;
        if is_renewed {
            volume.settings.runtime.block_on(volume.contents_durable())?;
        }
        if let Some(version) = version.filter(|_| is_lost) {
            warn!(%file, %version, "nobody who is reached has all bytes of this version");
            volume.metrics.contents_gone.add(1);
            volume.step(Input::ContentGone { file, version, content });
        }
        if is_shown {
            (at.after, at.into) = (Some(file), 0);
        }
        Ok(())
    }

    /// Looks at a piece, and gets it anew if need be. Answers its bytes if it was read; `Some(0)`: it cannot be had.
    fn read(&mut self, volume: &Arc<Volume>, piece: Piece, found: &mut ScrubCounts) -> Result<Option<u64>, ScrubError> {
        let Some(reading) = self.reading.as_mut() else { return Ok(None) };
        if piece.level == 0 {
            reading.chunks += 1;
            if reading.chunks <= reading.skipped {
                return Ok(None);
            }
        }
        if self.lost.contains(&piece.digest) {
            reading.is_lost |= reading.wanted.is_relied_on;
            return Ok(None);
        }
        // Below a list node that was seen may be what is lost, which concerns this content, too.
        if self.seen.contains(&piece) && (piece.level == 0 || self.lost.is_empty()) {
            return Ok(None);
        }
        let bytes = match volume.contents.get_kept(&piece.digest) {
            Ok(bytes) => bytes,
            Err(ContentsError::Missing(_)) if !reading.is_to_be_here(volume)? => return Ok(None),
            Err(ContentsError::Missing(_) | ContentsError::Damaged(_)) => {
                found.damaged += 1;
                match reading.renew(volume, piece.digest, found)? {
                    Renewed::Here(bytes) => bytes,
                    Renewed::Waiting => return Ok(Some(0)),
                    Renewed::Lost => {
                        self.lost.insert(piece.digest);
                        return Ok(Some(0));
                    }
                }
            }
            Err(error) => return Err(error.into()),
        };
        found.chunks += 1;
        found.bytes += bytes.len() as u64;
        if self.seen.len() < SEEN_MAX {
            self.seen.insert(piece);
        }
        if piece.level > 0 {
            // A node that makes no sense under its own name was written so.
            reading.stack.extend(piece.children(&bytes).unwrap_or_default());
        }
        Ok(Some(bytes.len() as u64))
    }
}

/// What became of a chunk that was damaged or gone.
enum Renewed {
    Here(Bytes),
    /// It may be had later.
    Waiting,
    Lost,
}

impl Reading {
    /// Whether a chunk of it that is not here ought to be: others rely on it, and it is still in use.
    fn is_to_be_here(&self, volume: &Volume) -> Result<bool, ScrubError> {
        if !self.wanted.is_relied_on {
            return Ok(false);
        }
        let Wanted { file, version, is_shown, .. } = self.wanted;
        let look = |replica: &LiveReplica| -> Result<bool, StorageError> {
            if is_shown {
                let shown = replica.inode(file)?.map(|inode| inode.version);
                return Ok(shown == version && is_home_with(replica, file, version)?);
            }
            let page = replica.contents_in_use(None, 0)?;
            Ok(page.contents.iter().any(|content| content.version == version && content.content == self.wanted.content))
        };
        Ok(volume.look(look).ok_or(ScrubError::Stopped)??)
    }

    /// Gets a chunk from whoever has it.
    fn renew(&mut self, volume: &Arc<Volume>, digest: Digest, found: &mut ScrubCounts) -> Result<Renewed, ScrubError> {
        let file = self.wanted.file;
        let fetched = match self.wanted.version {
            Some(version) => {
                let want = Want { file, version, digest };
                volume.settings.runtime.block_on(volume.fetch_chunk(want, None, PATIENCE))
            }
            None => Err(FetchError::NotHeld),
        };
        match (fetched, volume.contents.get_kept(&digest)) {
            (_, Ok(bytes)) => {
                info!(%file, %digest, "the scrub fetched a chunk anew that was damaged or gone");
                found.renewed += 1;
                volume.metrics.chunks_repaired.add(1);
                self.is_renewed = true;
                Ok(Renewed::Here(bytes))
            }
            (Err(FetchError::Local(ContentsError::Stopped)), _) => Err(ScrubError::Stopped),
            (Err(error), _) if self.wanted.is_relied_on && is_final(volume, &error) => {
                warn!(%file, %digest, %error, "a chunk is damaged or gone, and nobody who is reached has it");
                found.lost += 1;
                self.is_lost = true;
                Ok(Renewed::Lost)
            }
            // There was no room to keep it, or whoever has it is away.
            (fetched, _) => {
                warn!(%file, %digest, ?fetched, "a chunk is damaged or gone, and cannot be had at the moment");
                found.waiting += 1;
                Ok(Renewed::Waiting)
            }
        }
    }
}

/// Whether a failure to get a chunk is to be said to the engine. A server's engine knows who may have it and is away, and
/// has it sent by these. A client says so of its own only after its parent did, since nobody else would look for it.
fn is_final(volume: &Volume, error: &FetchError) -> bool {
    let is_local = matches!(error, FetchError::Local(_));
    match volume.role() {
        Role::Home | Role::Station => !is_local,
        Role::Client => *error == FetchError::NotHeld,
    }
}

/// Contents in use from after a file on, and from where to go on.
fn page(volume: &Volume, after: Option<FileId>) -> Result<(VecDeque<Wanted>, Option<FileId>), ScrubError> {
    let look = |replica: &LiveReplica| -> Result<_, StorageError> {
        let page = replica.contents_in_use(after, PAGE)?;
        let mut wanted = VecDeque::with_capacity(page.contents.len());
        for used in page.contents {
            let is_relied_on = is_relied_on(replica, &used)?;
            let ContentInUse { file, version, content, owed } = used;
            // What a home keeps in case that a newer one is lost has no version to ask for by itself.
            let version = match version {
                Some(version) => Some(version),
                None => replica.inode(file)?.map(|inode| inode.version),
            };
            wanted.push_back(Wanted { file, version, content, is_relied_on, is_shown: !owed });
        }
        Ok((wanted, page.next))
    };
    Ok(volume.look(look).ok_or(ScrubError::Stopped)??)
}
