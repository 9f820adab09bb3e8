//! Contents that should be here and are not, or not as they were written.
//!
//! Every chunk of a content is read. What is damaged or gone is fetched anew from whoever has it; what nobody has is said
//! to the engine, which asks on.

use super::want::{FetchError, Want};
use crate::contents::ContentsError;
use crate::volume::Volume;
use bytes::Bytes;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tracing::{debug, info};
use wayfs_proto::{GivenUp, Input, Role};
use wayfs_transfer::Piece;
use wayfs_types::{Content, Digest, FileId, RecordId};

/// So long is waited for one chunk from others.
const PATIENCE: Duration = Duration::from_secs(10);

/// So often is asked for what somebody who is there did not answer for. Whoever is silent so long counts as not having it: what is
/// said to be lost is taken back when it turns up.
const ROUNDS_MAX: u32 = 3;

/// So many contents are looked for at a time, if somebody waits for the end.
const LOOKS_MAX: usize = 16;

/// How the look at a content ended.
#[derive(Debug)]
pub(crate) enum Repaired {
    /// All of it is here and sound.
    Whole,
    /// This chunk could be had from nobody.
    Lacks(Digest, FetchError),
    /// The local chunks cannot be read, or the tree makes no sense.
    Failed(ContentsError),
}

/// What became of a content that is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    Whole,
    Lacks,
    /// Somebody has it, and there is no room to keep it.
    NoRoom,
    /// Somebody who is there did not answer in time, or a disk failed: it may be there.
    Unknown,
}

impl Volume {
    /// Reads all of a content, and fetches what is damaged or gone.
    pub(crate) async fn repair(self: &Arc<Self>, file: FileId, version: RecordId, content: &Content) -> Repaired {
        let mut seen = BTreeSet::new();
        let mut stack: Vec<Piece> = Piece::top(content).into_iter().collect();
        while let Some(piece) = stack.pop() {
            if !seen.insert(piece) {
                continue;
            }
            let mut read = self.read_stored(piece.digest).await;
            if let Err(ContentsError::Missing(_) | ContentsError::Damaged(_)) = read {
                let want = Want { file, version, digest: piece.digest };
                if let Err(error) = self.fetch_chunk(want, None, PATIENCE).await {
                    return Repaired::Lacks(piece.digest, error);
                }
                self.metrics.chunks_repaired.add(1);
                info!(%version, digest = %piece.digest, "a chunk that was damaged or gone was fetched anew");
                read = self.contents.read(piece.digest).await;
            }
            match read {
                Err(error) => return Repaired::Failed(error),
                Ok(_) if piece.level == 0 => {}
                Ok(bytes) => match piece.children(&bytes) {
                    Some(children) => stack.extend(children),
                    None => return Repaired::Failed(ContentsError::Damaged(piece.digest)),
                },
            }
        }
        Repaired::Whole
    }

    /// Answers the engine what of this is here, one after the other. A server asks everybody below it for what lacks.
    pub(crate) fn look_for_all(&self, sought: Vec<(FileId, RecordId, Content)>) {
        let me = std::sync::Weak::clone(&self.me);
        self.settings.runtime.spawn(async move {
            for (file, version, content) in sought {
                let Some(volume) = me.upgrade().filter(|volume| !volume.is_stopped()) else { return };
                volume.look_for(file, version, content).await;
            }
        });
    }

    /// Home: asks everybody who is there for contents, readers too, and takes what they have. Answers those that nobody
    /// has; what somebody did not answer for in time, or finds no room, is not among them. Of these it is known, too, whether what would
    /// be shown instead is whole. To be called outside the runtime.
    pub fn look_in_vain(&self, away: &[GivenUp], timeout: Duration) -> BTreeSet<RecordId> {
        let Some(me) = self.me.upgrade() else { return BTreeSet::new() };
        let end = Instant::now() + timeout;
        let (done, ended) = std::sync::mpsc::channel();
        for part in away.chunks(away.len().div_ceil(LOOKS_MAX).max(1)) {
            let (volume, done, part) = (Arc::clone(&me), done.clone(), part.to_vec());
            self.settings.runtime.spawn(async move {
                for away in part {
                    if volume.is_stopped() || Instant::now() >= end {
                        return;
                    }
                    let version = away.version;
                    let found = volume.look_before_loss(away).await;
                    if done.send((version, found)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(done);
        let mut in_vain = BTreeSet::new();
        while let Ok((version, found)) = ended.recv_timeout(end.saturating_duration_since(Instant::now())) {
            if found == Found::Lacks {
                in_vain.insert(version);
            }
        }
        in_vain
    }

    /// Looks for what somebody is about to give up, and, if that is nowhere, for what would be shown instead: the engine hears if
    /// that is nowhere either.
    async fn look_before_loss(self: &Arc<Self>, away: GivenUp) -> Found {
        let GivenUp { file, version, content, instead, .. } = away;
        let found = self.find_whole(file, version, &content).await;
        if found == Found::Whole && self.contents_durable().await.is_ok() {
            self.step(Input::Sought { file, version, content, is_here: true });
        }
        let Some(instead) = instead.filter(|_| found == Found::Lacks) else { return found };
        match self.find_whole(file, version, &instead).await {
            Found::Whole if self.contents_durable().await.is_ok() => {}
            Found::Whole | Found::NoRoom => return Found::NoRoom,
            Found::Unknown => return Found::Unknown,
            Found::Lacks => self.step(Input::Sought { file, version, content: instead, is_here: false }),
        }
        found
    }

    async fn look_for(self: &Arc<Self>, file: FileId, version: RecordId, content: Content) {
        let mut rounds = 0;
        let found = loop {
            let found = self.find_whole(file, version, &content).await;
            rounds += u32::from(found == Found::Unknown);
            let is_over = match found {
                Found::Whole | Found::Lacks => true,
                // Somebody has it: nothing is to be said of it before there is room to take it.
                Found::NoRoom => false,
                Found::Unknown => rounds >= ROUNDS_MAX,
            };
            if self.is_stopped() {
                return;
            }
            if is_over {
                break found;
            }
            tokio::time::sleep(PATIENCE).await;
        };
        let is_here = found == Found::Whole && self.contents_durable().await.is_ok();
        debug!(%file, %version, is_here, "the home looked for contents");
        self.step(Input::Sought { file, version, content, is_here });
    }

    /// Reads every chunk of a content, and gets what lacks from below: from readers, too, who are on no record. What is found here no
    /// record need name, so it is kept from the sweep until the engine has heard of it.
    pub(crate) async fn find_whole(self: &Arc<Self>, file: FileId, version: RecordId, content: &Content) -> Found {
        let mut stack: Vec<Piece> = Piece::top(content).into_iter().collect();
        stack.iter().for_each(|top| self.contents.protect_tree(*top));
        let mut seen = BTreeSet::new();
        while let Some(piece) = stack.pop() {
            if !seen.insert(piece) {
                continue;
            }
            let mut read = self.read_stored(piece.digest).await;
            if read.is_err() && self.role() != Role::Client {
                let want = Want { file, version, digest: piece.digest };
                match self.find_below(want, PATIENCE).await {
                    Ok(()) if self.contents.has(&piece.digest) => read = self.read_stored(piece.digest).await,
                    Ok(()) | Err(FetchError::Local(ContentsError::NoSpace)) => return Found::NoRoom,
                    Err(FetchError::NotHeld) => return Found::Lacks,
                    Err(_) => return Found::Unknown,
                }
            }
            match read {
                Ok(_) if piece.level == 0 => {}
                Ok(bytes) => match piece.children(&bytes) {
                    Some(children) => stack.extend(children),
                    None => return Found::Lacks,
                },
                Err(ContentsError::Missing(_) | ContentsError::Damaged(_)) => return Found::Lacks,
                Err(_) => return Found::Unknown,
            }
        }
        if seen.is_empty() { Found::Lacks } else { Found::Whole }
    }

    /// A chunk from the disk, read for its own sake: that says nothing about who uses it.
    async fn read_stored(self: &Arc<Self>, digest: Digest) -> Result<Bytes, ContentsError> {
        let volume = Arc::clone(self);
        let read = tokio::task::spawn_blocking(move || volume.contents.get_kept(&digest)).await;
        read.unwrap_or_else(|error| Err(ContentsError::Io(error.to_string())))
    }
}
