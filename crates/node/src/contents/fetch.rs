//! Getting chunks that are not here from whoever holds them.
//!
//! Any number may want the same chunk: one task gets it, all wait for that task, each as long as it
//! likes. Who asked us is not asked back.

use super::bases::Offer;
use super::chunks::Keep;
use super::message::{self, Ask, Reply};
use super::serve;
use crate::contents::ContentsError;
use crate::session::Session;
use crate::volume::Volume;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Semaphore, watch};
use tracing::debug;
use wayfs_content::CHUNK_MAX;
use wayfs_net::{Priority, RequestError};
use wayfs_proto::{Holder, Neighbour, PeerId, Role};
use wayfs_types::{Content, Digest, FileId, OriginId, RecordId};

/// Chunks of one fetch under way at once.
const AT_ONCE: usize = 16;
/// What each hop keeps for itself of the time that the asker allows.
const HOP_COST: Duration = Duration::from_millis(300);
/// Pause between looks for a holder that is away for the moment.
const LOOK_PERIOD: Duration = Duration::from_millis(100);
/// Most machines asked for one chunk, again or for the first time.
const ASKED_MAX: usize = 12;
/// How often all are asked.
const ROUNDS_MAX: usize = 3;
/// Chunks that come up one by one are looked at together.
const CHECK_PAUSE: Duration = Duration::from_millis(500);
/// A client waits so long for a parent to come back before it says that none is there.
const PARENT_WAIT_MAX: Duration = Duration::from_millis(1500);

/// Why a chunk could not be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// Whoever has it cannot be reached.
    #[error("whoever holds these contents cannot be reached")]
    Unreachable,
    /// It did not come in time.
    #[error("these contents did not come in time")]
    TimedOut,
    /// Nobody on record has it: an old version, perhaps.
    #[error("nobody holds these contents any more")]
    NotHeld,
    /// The local chunk store.
    #[error("{0}")]
    Local(#[from] ContentsError),
    /// A peer answered nonsense.
    #[error("the other side failed: {0}")]
    Refused(String),
}

/// A chunk, and what it is a part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Want {
    pub(crate) file: FileId,
    pub(crate) version: RecordId,
    pub(crate) digest: Digest,
}

type Fetched = Result<(), FetchError>;
type Progress = watch::Receiver<Option<Fetched>>;

/// Chunks under way. A leaf in the order of locks.
#[derive(Default)]
pub(crate) struct Fetches {
    under_way: Mutex<HashMap<Digest, Progress>>,
}

impl Fetches {
    fn lock(&self) -> MutexGuard<'_, HashMap<Digest, Progress>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Volume {
    /// Gets chunks of a version into the local chunk store and waits for them, at most `timeout`.
    ///
    /// # Errors
    /// The first [`FetchError`]; other chunks may have come.
    pub fn fetch(
        self: &Arc<Self>,
        file: FileId,
        version: RecordId,
        digests: &[Digest],
        timeout: Duration,
    ) -> Result<(), FetchError> {
        let (send, receive) = std::sync::mpsc::sync_channel(1);
        self.fetch_then(file, version, digests.to_vec(), timeout, move |result| {
            // Nobody listens any more when the wait below ran out.
            let _ = send.send(result);
        });
        receive.recv_timeout(timeout + HOP_COST * 4).unwrap_or(Err(FetchError::TimedOut))
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
        timeout: Duration,
        done: impl FnOnce(Result<(), FetchError>) + Send + 'static,
    ) {
        let missing: Vec<Digest> = digests.into_iter().filter(|digest| !self.contents.is_at_hand(digest)).collect();
        if missing.is_empty() {
            return done(Ok(()));
        }
        let volume = Arc::clone(self);
        self.settings.runtime.spawn(async move { done(volume.fetch_all(file, version, missing, timeout).await) });
    }

    /// Gets all of a content, list nodes and chunks; `step` hears of every chunk that is here, by its bytes.
    /// Each chunk may take `timeout`.
    ///
    /// # Errors
    /// The first [`FetchError`].
    pub async fn fetch_content(
        self: &Arc<Self>,
        (file, version): (FileId, RecordId),
        content: &Content,
        timeout: Duration,
        step: impl Fn(u64),
    ) -> Result<(), FetchError> {
        let Some(top) = super::Piece::top(content) else { return Ok(()) };
        let mut level = vec![top];
        while let Some(first) = level.first() {
            let is_chunks = first.level == 0;
            let mut below = Vec::new();
            for pieces in level.chunks(AT_ONCE * 4) {
                let digests = pieces
                    .iter()
                    .map(|piece| piece.digest)
                    .filter(|digest| !self.contents.is_at_hand(digest))
                    .collect();
                self.fetch_all(file, version, digests, timeout).await?;
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
        timeout: Duration,
    ) -> Result<(), FetchError> {
        let places = Arc::new(Semaphore::new(AT_ONCE));
        let mut tasks = tokio::task::JoinSet::new();
        for digest in digests {
            let (volume, places) = (Arc::clone(self), Arc::clone(&places));
            tasks.spawn(async move {
                let _place = places.acquire().await;
                volume.fetch_chunk(Want { file, version, digest }, None, timeout).await
            });
        }
        let mut first = Ok(());
        while let Some(ended) = tasks.join_next().await {
            let result = ended.unwrap_or_else(|error| Err(FetchError::Refused(error.to_string())));
            first = first.and(result);
        }
        first
    }

    /// Gets one chunk; `asker` is the session on whose behalf, and is not asked itself.
    pub(crate) async fn fetch_chunk(
        self: &Arc<Self>,
        want: Want,
        asker: Option<PeerId>,
        patience: Duration,
    ) -> Fetched {
        let end = Instant::now() + patience;
        let mut has_joined = false;
        loop {
            if self.contents.is_at_hand(&want.digest) {
                return Ok(());
            }
            let left = end.saturating_duration_since(Instant::now());
            let (mut progress, is_own) = self.begin_or_join(want, asker, left);
            let waited = tokio::time::timeout(left, progress.wait_for(Option::is_some)).await;
            let result = match waited {
                Err(_) => Err(FetchError::TimedOut),
                Ok(Err(_)) => Err(FetchError::Unreachable),
                Ok(Ok(result)) => result.clone().unwrap_or(Err(FetchError::TimedOut)),
            };
            match result {
                // It began before us, and its patience was over, not ours. The next one began after us, and what it
                // says counts: of many who wait for an absent parent, none waits for all the others.
                Err(FetchError::TimedOut | FetchError::Unreachable)
                    if !is_own && !has_joined && Instant::now() + LOOK_PERIOD < end && !self.is_stopped() =>
                {
                    has_joined = true;
                }
                result => return result,
            }
        }
    }

    /// Begins to look for a chunk, unless that is under way on another's behalf. Answers whether it began.
    fn begin_or_join(self: &Arc<Self>, want: Want, asker: Option<PeerId>, patience: Duration) -> (Progress, bool) {
        let mut under_way = self.fetches.lock();
        if let Some(progress) = under_way.get(&want.digest) {
            return (progress.clone(), false);
        }
        let (report, progress) = watch::channel(None);
        under_way.insert(want.digest, progress.clone());
        let volume = Arc::clone(self);
        self.settings.runtime.spawn(async move {
            let started = Instant::now();
            let result = volume.find(want, asker, (patience, ASKED_MAX)).await;
            volume.fetches.lock().remove(&want.digest);
            volume.metrics.fetched(volume.role(), started.elapsed(), result.is_ok());
            // Whoever asked may have given up.
            let _ = report.send(Some(result));
        });
        (progress, true)
    }

    /// Asks everybody below for a chunk of contents that nobody has on record, however many those are. The parent asked us.
    pub(crate) async fn find_below(self: &Arc<Self>, want: Want, patience: Duration) -> Fetched {
        let parent = self.lock().parent().map(|session| session.peer);
        let everybody = self.all_sessions().len() * ROUNDS_MAX;
        self.find(want, parent, (patience, everybody.max(ASKED_MAX))).await
    }

    /// Asks one after the other of those who may have the chunk until it is here, so many were asked, or the time is over.
    async fn find(
        self: &Arc<Self>,
        want: Want,
        asker: Option<PeerId>,
        (patience, asked_max): (Duration, usize),
    ) -> Fetched {
        let end = Instant::now() + patience;
        let (mut last, mut refusals, mut rounds) = (FetchError::NotHeld, 0, 0);
        let mut refused = BTreeSet::new();
        loop {
            if self.is_stopped() {
                return Err(FetchError::Unreachable);
            }
            match self.source(want, asker, &refused) {
                Source::Ask(session) => {
                    match self.ask_for(&session, want, end).await {
                        Ok(()) => return Ok(()),
                        Err(error @ FetchError::Local(_)) => return Err(error),
                        Err(error) => {
                            debug!(node = %session.node.short(), digest = %want.digest, %error, "chunk not had");
                            last = error;
                        }
                    }
                    refusals += 1;
                    if refusals >= asked_max {
                        return Err(last);
                    }
                    refused.insert(session.peer);
                    // The next one is asked at once.
                    if Instant::now() + LOOK_PERIOD < end {
                        continue;
                    }
                }
                Source::Away => {
                    last = FetchError::Unreachable;
                    let waited = patience.saturating_sub(end.saturating_duration_since(Instant::now()));
                    if self.role() == Role::Client && waited >= PARENT_WAIT_MAX {
                        return Err(last);
                    }
                }
                Source::Nobody if refused.is_empty() => return Err(FetchError::NotHeld),
                // All were asked. What failed for a moment may do better.
                Source::Nobody => {
                    rounds += 1;
                    if rounds >= ROUNDS_MAX {
                        return Err(last);
                    }
                    refused.clear();
                }
            }
            if Instant::now() + LOOK_PERIOD >= end {
                return Err(last);
            }
            tokio::time::sleep(LOOK_PERIOD).await;
        }
    }

    /// Whom to ask for a version next: those on record below us, the newest first, then our parent, then whoever else may
    /// have a copy; nobody who was asked.
    fn source(&self, want: Want, asker: Option<PeerId>, refused: &BTreeSet<PeerId>) -> Source {
        let core = self.lock();
        let Some(replica) = core.replica.as_ref() else { return Source::Away };
        let holders = replica.holders(want.file, want.version).unwrap_or_default();
        let usable = |session: &&Session| {
            session.broken.is_none() && Some(session.peer) != asker && !refused.contains(&session.peer)
        };
        let children =
            || core.sessions.values().filter(usable).filter_map(|session| Some((child_of(session)?, session)));
        let mut is_away = false;
        for holder in holders {
            let Holder::Child(origin, _) = holder else { continue };
            // Not by the session that the engine names: the child may have a new one.
            match children().find(|(child, _)| *child == origin) {
                Some((_, session)) => return Source::Ask(Box::new(session.clone())),
                None => {
                    let is_there = |session: &Session| session.broken.is_none() && child_of(session) == Some(origin);
                    is_away |= !core.sessions.values().any(is_there);
                }
            }
        }
        let parent = core.parent();
        if let Some(session) = parent.filter(usable) {
            return Source::Ask(Box::new(session.clone()));
        }
        // Who is on record is away, or was asked in vain, or it is damaged here: a record may be out of date, and who
        // wrote it or read it may have it.
        let writer = want.version.origin();
        let other = children().min_by_key(|(origin, session)| {
            let is_station = matches!(session.neighbour, Neighbour::ChildStation { .. });
            (*origin != writer, !is_station, *origin)
        });
        if let Some((_, session)) = other {
            return Source::Ask(Box::new(session.clone()));
        }
        let waits_for_parent = parent.is_none_or(|session| session.broken.is_some()) && self.role() != Role::Home;
        if is_away || waits_for_parent { Source::Away } else { Source::Nobody }
    }

    async fn ask_for(self: &Arc<Self>, session: &Session, want: Want, end: Instant) -> Fetched {
        let offer = self.offer(session, want).await;
        if self.ask_once(session, want, offer, end).await? == Came::WithoutBase {
            debug!(node = %session.node.short(), digest = %want.digest, "a base is lost: asked for again without any");
            self.metrics.bases_lost.add(1);
            if self.ask_once(session, want, Offer::default(), end).await? == Came::WithoutBase {
                return Err(FetchError::Refused("a difference to chunks that were not offered".into()));
            }
        }
        self.note_fetched(session, want);
        self.back_fetched_from(session, want);
        Ok(())
    }

    async fn ask_once(
        self: &Arc<Self>,
        session: &Session,
        want: Want,
        offer: Offer,
        end: Instant,
    ) -> Result<Came, FetchError> {
        let left = end.saturating_duration_since(Instant::now());
        let patience = left.saturating_sub(HOP_COST).max(HOP_COST);
        let patience_ms = u32::try_from(patience.as_millis()).unwrap_or(u32::MAX);
        let Want { file, version, digest } = want;
        let Offer { number, named: bases } = offer.clone();
        let ask = message::encode(&Ask::Give { file, version, digest, patience_ms, number, bases });
        let asking = async {
            let (header, body) = session.connection.request_at(ask, Priority::Foreground).await?;
            let bytes = body.read_all(CHUNK_MAX).await?;
            Ok::<_, RequestError>((header, bytes))
        };
        let (header, bytes) = match tokio::time::timeout(left, asking).await {
            Err(_) => return Err(FetchError::TimedOut),
            Ok(Err(error)) => {
                debug!(%error, "fetch interrupted");
                return Err(FetchError::Unreachable);
            }
            Ok(Ok(answer)) => answer,
        };
        match Reply::decode(&header) {
            Ok(Reply::Found(form)) => {
                self.metrics.bytes_down.add(bytes.len() as u64);
                let Some(bases) = self.bases_of_answer(session, &offer, form, end).await else {
                    return Ok(Came::WithoutBase);
                };
                let keep = if self.hooks.is_pinned(file) { Keep::Pinned } else { Keep::IfRoom };
                match serve::store(self, digest, (form, keep), bytes, bases).await {
                    Ok(()) => Ok(Came::Here),
                    // One of the bases, here or there, is not what it should be.
                    Err(ContentsError::Peer(_)) if form.is_difference() => Ok(Came::WithoutBase),
                    Err(error) => Err(error.into()),
                }
            }
            Ok(Reply::Absent) => Err(FetchError::NotHeld),
            Ok(Reply::Unreachable) => Err(FetchError::Unreachable),
            Ok(Reply::NoSpace) => Err(FetchError::Refused("its disk is full".into())),
            Ok(Reply::Invalid(why) | Reply::Failed(why)) => Err(FetchError::Refused(why)),
            Ok(_) => Err(FetchError::Refused("an answer to another question".into())),
            Err(error) => Err(FetchError::Refused(error.to_string())),
        }
    }

    /// Waits for a chunk that is on its way here, whatever becomes of it.
    pub(crate) async fn fetch_under_way(&self, digest: &Digest, end: Instant) {
        let Some(mut progress) = self.fetches.lock().get(digest).cloned() else { return };
        // Whether it came is seen when it is read.
        let _ = tokio::time::timeout_at(end.into(), progress.wait_for(Option::is_some)).await;
    }

    /// A chunk came up from a child: perhaps the version is whole by now, and then we hold it, too.
    fn back_fetched_from(self: &Arc<Self>, session: &Session, want: Want) {
        if session.neighbour == Neighbour::Parent {
            return;
        }
        let content = self.look(|replica| replica.inode(want.file).ok().flatten()).flatten();
        let Some(content) = content.filter(|inode| inode.version == want.version).map(|inode| inode.content) else {
            return;
        };
        let (Some(root), volume) = (content.root(), Arc::clone(self)) else { return };
        if !self.contents.begin_check(root) {
            return;
        }
        let pause = if matches!(content, Content::Tree { depth: 0, .. }) { Duration::ZERO } else { CHECK_PAUSE };
        self.settings.runtime.spawn(async move {
            tokio::time::sleep(pause).await;
            // From here on a chunk that comes wants a check of its own.
            volume.contents.end_check(&root);
            serve::complete(&volume, want.file, want.version, content).await;
        });
    }

    /// Waits until all chunks put so far are durable.
    pub(crate) async fn contents_durable(&self) -> Result<(), ContentsError> {
        let (send, receive) = tokio::sync::oneshot::channel();
        self.syncs.want_contents(Box::new(move |result| {
            // The asker may have given up.
            let _ = send.send(result);
        }));
        match receive.await {
            Ok(result) => result.map_err(ContentsError::from),
            Err(_) => Err(ContentsError::Stopped),
        }
    }

    /// Tells the engine that a content is whole and durable here, as after an import.
    ///
    /// # Errors
    /// [`ContentsError`] if it is not whole, or the disk fails.
    pub async fn content_arrived(
        self: &Arc<Self>,
        file: FileId,
        version: RecordId,
        content: Content,
    ) -> Result<(), ContentsError> {
        match serve::complete(self, file, version, content).await {
            Reply::Durable => Ok(()),
            Reply::Missing(list) => Err(ContentsError::Missing(list.first().copied().unwrap_or(Digest::of(&[])))),
            Reply::NoSpace => Err(ContentsError::NoSpace),
            other => Err(ContentsError::Io(format!("{other:?}"))),
        }
    }
}

/// How an answer with a chunk ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Came {
    Here,
    /// It is the difference to something that is not here.
    WithoutBase,
}

enum Source {
    Ask(Box<Session>),
    /// There is one, but not at the moment.
    Away,
    /// Nobody, or nobody who was not asked.
    Nobody,
}

/// Who is at the other end of a session with a child.
fn child_of(session: &Session) -> Option<OriginId> {
    match session.neighbour {
        Neighbour::ChildStation { origin } | Neighbour::ChildClient { origin } => Some(origin),
        Neighbour::Parent => None,
    }
}
