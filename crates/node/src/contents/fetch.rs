//! Getting chunks that are not here from whoever holds them.
//!
//! Any number may want the same chunk: one task gets it, all wait for that task, each as long as it
//! likes: so long a silence, for as long as bytes come a wait goes on. Who asked us is not asked back, nor kept waiting for its own
//! answer: while the task asks it, it gets a look of its own. So no machine waits for itself by way of others.

use super::inflow::{Inflow, Spoilt};
use super::pace::UNKNOWN;
use super::search::Told;
use super::wait::Wait;
use super::want::{FetchError, Fetched, Want};
use crate::contents::ContentsError;
use crate::volume::Volume;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use wayfs_content::CHUNK_AVG;
use wayfs_proto::PeerId;
use wayfs_transfer::Piece;
use wayfs_transfer::search::LOOK_PERIOD;
use wayfs_types::{Content, Digest, FileId, RecordId};

/// Chunks of a content whose names are gathered before they are fetched.
const GATHERED: usize = 64;
type Progress = watch::Receiver<Standing>;

/// How it stands with a chunk that is looked for.
#[derive(Debug, Clone)]
enum Standing {
    UnderWay {
        /// Who is asked at the moment.
        asked: Option<PeerId>,
        /// How often something came of it, or of what shares its line.
        moves: u64,
        /// What comes of it, if it can go on as it comes.
        inflow: Option<Inflow>,
    },
    Over(Fetched),
}

impl Standing {
    const BEGUN: Self = Self::UnderWay { asked: None, moves: 0, inflow: None };

    fn moved(&mut self) {
        if let Self::UnderWay { moves, .. } = self {
            *moves += 1;
        }
    }

    fn asks(&mut self, peer: PeerId) {
        if let Self::UnderWay { asked, inflow, .. } = self {
            *asked = Some(peer);
            *inflow = None;
        }
    }

    fn comes(&mut self, flow: Inflow) {
        if let Self::UnderWay { inflow, .. } = self {
            *inflow = Some(flow);
        }
    }
}

/// What a wait for a chunk is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Until {
    /// It is here.
    Here,
    /// The same, or it comes in a way in which it can go on.
    Comes,
}

/// How a wait for somebody else's look ended.
enum Waited {
    Over(Fetched),
    Comes(Inflow),
    /// That look waits for the one on whose behalf this wait is.
    AsksTheAsker,
}

/// Chunks under way. A leaf in the order of locks.
#[derive(Default)]
pub(crate) struct Fetches {
    under_way: Mutex<HashMap<Digest, Progress>>,
    spoilt: Mutex<Spoilt>,
}

impl Fetches {
    fn lock(&self) -> MutexGuard<'_, HashMap<Digest, Progress>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn spoilt(&self) -> MutexGuard<'_, Spoilt> {
        self.spoilt.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Volume {
    /// Gets chunks of a version into the local chunk store and waits for them, as long as bytes come: until nothing came
    /// for `patience`, and at most 120 times as long for each chunk.
    ///
    /// # Errors
    /// The first [`FetchError`]; other chunks may have come.
    pub fn fetch(
        self: &Arc<Self>,
        file: FileId,
        version: RecordId,
        digests: &[Digest],
        patience: Duration,
    ) -> Result<(), FetchError> {
        let (send, receive) = std::sync::mpsc::sync_channel(1);
        self.fetch_then(file, version, digests.to_vec(), patience, move |result| {
            let _ = send.send(result);
        });
        // The sender is gone if the runtime ended.
        receive.recv().unwrap_or(Err(FetchError::Unreachable))
    }

    /// Chunks that are looked for.
    #[cfg(test)]
    pub(crate) fn fetches_under_way(&self) -> usize {
        self.fetches.lock().len()
    }

    /// The same without waiting: `done` is called on a thread of the runtime, or on this one if all is here.
    pub fn fetch_then(
        self: &Arc<Self>,
        file: FileId,
        version: RecordId,
        digests: Vec<Digest>,
        patience: Duration,
        done: impl FnOnce(Result<(), FetchError>) + Send + 'static,
    ) {
        let missing: Vec<Digest> = digests.into_iter().filter(|digest| !self.contents.is_at_hand(digest)).collect();
        if missing.is_empty() {
            return done(Ok(()));
        }
        let volume = Arc::clone(self);
        self.settings.runtime.spawn(async move { done(volume.fetch_all(file, version, missing, patience).await) });
    }

    /// Gets all of a content, list nodes and chunks; `step` hears of every chunk that is here, by its bytes.
    /// It ends when nothing came for `patience`.
    ///
    /// # Errors
    /// The first [`FetchError`].
    pub async fn fetch_content(
        self: &Arc<Self>,
        (file, version): (FileId, RecordId),
        content: &Content,
        patience: Duration,
        step: impl Fn(u64),
    ) -> Result<(), FetchError> {
        let Some(top) = Piece::top(content) else { return Ok(()) };
        let mut level = vec![top];
        while let Some(first) = level.first() {
            let is_chunks = first.level == 0;
            let mut below = Vec::new();
            for pieces in level.chunks(GATHERED) {
                let digests = pieces
                    .iter()
                    .map(|piece| piece.digest)
                    .filter(|digest| !self.contents.is_at_hand(digest))
                    .collect();
                self.fetch_all(file, version, digests, patience).await?;
                for piece in pieces {
                    if is_chunks {
                        step(piece.len);
                    } else {
                        let node = self.contents.read(piece.digest).await?;
                        below.extend(piece.children(&node).ok_or(ContentsError::Damaged(piece.digest))?);
                    }
                }
            }
            level = below;
        }
        Ok(())
    }

    pub(crate) async fn fetch_all(
        self: &Arc<Self>,
        file: FileId,
        version: RecordId,
        digests: Vec<Digest>,
        patience: Duration,
    ) -> Result<(), FetchError> {
        let mut tasks = tokio::task::JoinSet::new();
        let mut left = digests.into_iter();
        let mut first = Ok(());
        loop {
            while tasks.len() < self.chunks_at_once()
                && let Some(digest) = left.next()
            {
                let volume = Arc::clone(self);
                let want = Want { file, version, digest };
                tasks.spawn(async move { volume.fetch_chunk(want, None, patience).await });
            }
            let Some(ended) = tasks.join_next().await else { return first };
            let result = ended.unwrap_or_else(|error| Err(FetchError::Refused(error.to_string())));
            first = first.and(result);
        }
    }

    /// Bytes of contents that the line to the parent is to have under way, by what it brings.
    pub fn fetch_window(&self) -> u64 {
        (self.chunks_at_once() * CHUNK_AVG) as u64
    }

    /// Chunks of one fetch that are under way at once, by what the line to the parent brings.
    fn chunks_at_once(&self) -> usize {
        let parent = self.lock().parent().cloned();
        parent.map_or(UNKNOWN, |session| session.history.pace.at_once(session.connection.rtt()))
    }

    /// Gets one chunk; `asker` is the session on whose behalf, and is not asked itself. Ends when nothing came for `patience`.
    pub(crate) async fn fetch_chunk(
        self: &Arc<Self>,
        want: Want,
        asker: Option<PeerId>,
        patience: Duration,
    ) -> Fetched {
        self.fetch_chunk_in(want, asker, &mut Wait::new(patience, &|| ())).await
    }

    /// The same for somebody who is to know that it moves.
    pub(crate) async fn fetch_chunk_in(
        self: &Arc<Self>,
        want: Want,
        asker: Option<PeerId>,
        wait: &mut Wait<'_>,
    ) -> Fetched {
        self.fetch_until(Until::Here, want, asker, wait).await.map(|_| ())
    }

    /// The same, perhaps only until it comes: then what comes is answered.
    pub(crate) async fn fetch_until(
        self: &Arc<Self>,
        until: Until,
        want: Want,
        asker: Option<PeerId>,
        wait: &mut Wait<'_>,
    ) -> Result<Option<Inflow>, FetchError> {
        let mut has_joined = false;
        loop {
            if self.contents.is_at_hand(&want.digest) {
                return Ok(None);
            }
            let (mut progress, is_own) = self.begin_or_join(want, asker, wait.left());
            let result = match wait_until(until, &mut progress, asker, wait).await {
                Waited::Over(result) => result,
                Waited::Comes(inflow) => return Ok(Some(inflow)),
                Waited::AsksTheAsker => {
                    let found = self.find((want, asker), self.scope(), wait, &Told::NOBODY).await;
                    return found.map(|()| None);
                }
            };
            match result {
                // It began before us, and its patience was over, not ours. The next one began after us, and what it
                // says counts: of many who wait for an absent parent, none waits for all the others.
                Err(FetchError::TimedOut | FetchError::Unreachable)
                    if !is_own && !has_joined && wait.left() > LOOK_PERIOD && !self.is_stopped() =>
                {
                    has_joined = true;
                }
                result => return result.map(|()| None),
            }
        }
    }

    /// Begins to look for a chunk, unless that is under way on another's behalf. Answers whether it began.
    fn begin_or_join(self: &Arc<Self>, want: Want, asker: Option<PeerId>, patience: Duration) -> (Progress, bool) {
        let mut under_way = self.fetches.lock();
        if let Some(progress) = under_way.get(&want.digest) {
            return (progress.clone(), false);
        }
        let (report, progress) = watch::channel(Standing::BEGUN);
        under_way.insert(want.digest, progress.clone());
        let volume = Arc::clone(self);
        self.settings.runtime.spawn(async move {
            let started = Instant::now();
            // Every one who waits may have given up.
            let tell = || report.send_modify(Standing::moved);
            let asks = |peer| report.send_modify(|standing| standing.asks(peer));
            let comes = |inflow| report.send_modify(|standing| standing.comes(inflow));
            let told = Told::new(&asks, &comes);
            let mut wait = Wait::new(patience, &tell);
            let result = volume.find((want, asker), volume.scope(), &mut wait, &told).await;
            volume.fetches.lock().remove(&want.digest);
            volume.metrics.fetched(volume.role(), started.elapsed(), result.is_ok());
            report.send_replace(Standing::Over(result));
        });
        (progress, true)
    }

    /// Waits for a chunk that is on its way here, whatever becomes of it.
    pub(crate) async fn fetch_under_way(&self, digest: &Digest, wait: &mut Wait<'_>) {
        let Some(mut progress) = self.fetches.lock().get(digest).cloned() else { return };
        // Whether it came is seen when it is read.
        let _ = wait_until(Until::Here, &mut progress, None, wait).await;
    }
}

/// Waits for the end of a look for a chunk, or for what comes of it, as long as it moves and does not ask `asker`.
async fn wait_until(until: Until, progress: &mut Progress, asker: Option<PeerId>, wait: &mut Wait<'_>) -> Waited {
    let mut seen = None;
    loop {
        match &*progress.borrow_and_update() {
            Standing::Over(result) => return Waited::Over(result.clone()),
            Standing::UnderWay { asked, .. } if asker.is_some() && *asked == asker => return Waited::AsksTheAsker,
            Standing::UnderWay { inflow: Some(inflow), .. } if until == Until::Comes => {
                return Waited::Comes(inflow.clone());
            }
            Standing::UnderWay { moves, .. } => {
                if seen.replace(*moves).is_some_and(|before| before != *moves) {
                    wait.moved();
                }
            }
        }
        match tokio::time::timeout(wait.left(), progress.changed()).await {
            Err(_) => return Waited::Over(Err(FetchError::TimedOut)),
            Ok(Err(_)) => return Waited::Over(Err(FetchError::Unreachable)),
            Ok(Ok(())) => {}
        }
    }
}
