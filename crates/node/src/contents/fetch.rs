//! Getting chunks that are not here from whoever holds them.
//!
//! Any number may want the same chunk: one task gets it, all wait for that task, each as long as it
//! likes: so long a silence, for as long as bytes come a wait goes on. Who asked us is not asked back, nor kept waiting for its own
//! answer: while the task asks it, it gets a look of its own. So no machine waits for itself by way of others.

use super::bases::Offer;
use super::chunks::Keep;
use super::inflow::{Filling, Head, Inflow, Spoilt};
use super::message::{self, Ask, BadHeader, Form, Reply};
use super::pace::UNKNOWN;
use super::patience::Wait;
use super::serve;
use crate::contents::ContentsError;
use crate::session::Session;
use crate::syncer::Arriving;
use crate::volume::Volume;
use bytes::{Bytes, BytesMut};
use std::collections::{BTreeSet, HashMap};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tracing::debug;
use wayfs_content::{CHUNK_AVG, CHUNK_MAX};
use wayfs_net::{BODY_PIECE_MAX, Priority, RecvBody, RequestError, SignsOfProgress};
use wayfs_proto::{Holder, Neighbour, PeerId, Role};
use wayfs_types::{Content, Digest, FileId, OriginId, RecordId};

/// Chunks of a content whose names are gathered before they are fetched.
const GATHERED: usize = 64;
/// How often a line is looked at on which something is waited for.
const LINE_PERIOD: Duration = Duration::from_secs(1);
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
    /// Nothing of it came for too long.
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

/// How far a look for a chunk goes.
struct Search<'a> {
    /// So many are asked at most.
    asked_max: usize,
    /// Whether somebody who has it on record and is away, or a parent that is away, is waited for.
    waits_for_absent: bool,
    /// Hears of each before it is asked.
    asks: &'a (dyn Fn(PeerId) + Sync),
    /// Hears of the chunk when it begins to come.
    comes: &'a (dyn Fn(Inflow) + Sync),
}

impl Search<'static> {
    /// For one who reads.
    const EACH: Self = Self { asked_max: ASKED_MAX, waits_for_absent: true, asks: &|_| (), comes: &|_| () };
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

    fn spoilt(&self) -> MutexGuard<'_, Spoilt> {
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
        let Some(top) = super::Piece::top(content) else { return Ok(()) };
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
                Waited::AsksTheAsker => return self.find(want, asker, wait, &Search::EACH).await.map(|()| None),
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
            let search = Search { asks: &asks, comes: &comes, ..Search::EACH };
            let result = volume.find(want, asker, &mut Wait::new(patience, &tell), &search).await;
            volume.fetches.lock().remove(&want.digest);
            volume.metrics.fetched(volume.role(), started.elapsed(), result.is_ok());
            report.send_replace(Standing::Over(result));
        });
        (progress, true)
    }

    /// Asks everybody who is there below us for a chunk, however many those are; nobody who is away is waited for. The parent asked us.
    pub(crate) async fn find_below(self: &Arc<Self>, want: Want, patience: Duration) -> Fetched {
        let parent = self.lock().parent().map(|session| session.peer);
        let everybody = self.all_sessions().len() * ROUNDS_MAX;
        let search = Search { asked_max: everybody.max(ASKED_MAX), waits_for_absent: false, ..Search::EACH };
        self.find(want, parent, &mut Wait::new(patience, &|| ()), &search).await
    }

    /// Asks one after the other of those who may have the chunk until it is here, so many were asked, or nothing came for
    /// too long. [`FetchError::NotHeld`] is the answer of all who are there: who did not
    /// answer, or failed, may have it.
    async fn find(
        self: &Arc<Self>,
        want: Want,
        asker: Option<PeerId>,
        wait: &mut Wait<'_>,
        search: &Search<'_>,
    ) -> Fetched {
        let (mut last, mut refusals, mut rounds) = (FetchError::NotHeld, 0, 0);
        let mut refused = BTreeSet::new();
        loop {
            if self.is_stopped() {
                return Err(FetchError::Unreachable);
            }
            match self.source(want, asker, &refused) {
                Source::Ask(session) => {
                    (search.asks)(session.peer);
                    match self.ask_for(&session, want, wait, search).await {
                        Ok(()) => return Ok(()),
                        Err(error @ FetchError::Local(_)) => return Err(error),
                        Err(error) => {
                            debug!(node = %session.node.short(), digest = %want.digest, %error, "chunk not had");
                            if error != FetchError::NotHeld {
                                last = error;
                            }
                        }
                    }
                    refusals += 1;
                    if refusals >= search.asked_max {
                        return Err(last);
                    }
                    refused.insert(session.peer);
                    // The next one is asked at once.
                    if wait.left() > LOOK_PERIOD {
                        continue;
                    }
                    // That one has it not says nothing of those who were not asked yet.
                    return Err(if last == FetchError::NotHeld { FetchError::TimedOut } else { last });
                }
                Source::Away if search.waits_for_absent => {
                    last = FetchError::Unreachable;
                    let silence = wait.patience.silence(Instant::now());
                    if self.role() == Role::Client && silence >= PARENT_WAIT_MAX {
                        return Err(last);
                    }
                }
                Source::Away | Source::Nobody if refused.is_empty() => return Err(FetchError::NotHeld),
                // All were asked. What failed for a moment may do better.
                Source::Away | Source::Nobody => {
                    rounds += 1;
                    if rounds >= ROUNDS_MAX {
                        return Err(last);
                    }
                    refused.clear();
                    last = FetchError::NotHeld;
                }
            }
            if wait.left() <= LOOK_PERIOD {
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

    async fn ask_for(
        self: &Arc<Self>,
        session: &Session,
        want: Want,
        wait: &mut Wait<'_>,
        search: &Search<'_>,
    ) -> Fetched {
        let offer = self.offer(session, want).await;
        if self.ask_once(session, (want, offer), wait, search).await? == Came::WithoutBase {
            debug!(node = %session.node.short(), digest = %want.digest, "a base is lost: asked for again without any");
            self.metrics.bases_lost.add(1);
            if self.ask_once(session, (want, Offer::default()), wait, search).await? == Came::WithoutBase {
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
        (want, offer): (Want, Offer),
        wait: &mut Wait<'_>,
        search: &Search<'_>,
    ) -> Result<Came, FetchError> {
        let patience = wait.left().saturating_sub(HOP_COST).max(HOP_COST);
        let patience_ms = u32::try_from(patience.as_millis()).unwrap_or(u32::MAX);
        let Want { file, version, digest } = want;
        let Offer { number, named: bases } = offer.clone();
        let ask = message::encode(&Ask::Give { file, version, digest, patience_ms, number, bases });
        let signs = SignsOfProgress::default();
        let asking = async {
            let (header, body) = session.connection.request_watched(ask, Priority::Foreground, &signs).await?;
            let reply = Reply::decode(&header);
            let filling = self.begin_inflow(session, (want, &reply), &body, search);
            Ok::<_, RequestError>((reply, read_all(body, filling).await?))
        };
        let (reply, bytes) = match while_it_moves(session, &signs, wait, asking).await {
            None => return Err(FetchError::TimedOut),
            Some(Err(error)) => {
                debug!(%error, "fetch interrupted");
                return Err(FetchError::Unreachable);
            }
            Some(Ok(answer)) => answer,
        };
        match reply {
            Ok(Reply::Found(form)) => {
                self.metrics.bytes_down.add(bytes.len() as u64);
                let Some(bases) = self.bases_of_answer(session, &offer, form, wait).await else {
                    return Ok(Came::WithoutBase);
                };
                let keep = if self.hooks.is_pinned(file) { Keep::Pinned } else { Keep::IfRoom };
                match serve::store(self, digest, (form, keep), bytes, bases).await {
                    Ok(()) => Ok(Came::Here),
                    // One of the bases, here or there, is not what it should be.
                    Err(ContentsError::Peer(_)) if form.is_difference() => Ok(Came::WithoutBase),
                    // Others may do better.
                    Err(ContentsError::Peer(why)) => {
                        self.fetches.spoilt().add(digest);
                        Err(FetchError::Refused(why))
                    }
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

    /// A chunk begins to come: it may go on as it comes, unless it is the difference to something.
    fn begin_inflow(
        &self,
        session: &Session,
        (want, reply): (Want, &Result<Reply, BadHeader>),
        body: &RecvBody,
        search: &Search<'_>,
    ) -> Option<Filling> {
        let Ok(Reply::Found(form)) = *reply else { return None };
        if form.is_difference() || body.len() > CHUNK_MAX as u64 || self.fetches.spoilt().has(&want.digest) {
            return None;
        }
        // Over a line on which it would have been packed it came as small as it becomes.
        let is_packed = matches!(form, Form::Zstd { .. }) || session.path(self).is_slow();
        let (filling, inflow) = Inflow::begin(Head { form, len: body.len(), is_packed });
        (search.comes)(inflow);
        Some(filling)
    }

    /// Waits for a chunk that is on its way here, whatever becomes of it.
    pub(crate) async fn fetch_under_way(&self, digest: &Digest, wait: &mut Wait<'_>) {
        let Some(mut progress) = self.fetches.lock().get(digest).cloned() else { return };
        // Whether it came is seen when it is read.
        let _ = wait_until(Until::Here, &mut progress, None, wait).await;
    }

    /// A chunk came up from a child: perhaps the version is whole by now, and then we hold it, too.
    fn back_fetched_from(self: &Arc<Self>, session: &Session, want: Want) {
        if session.neighbour == Neighbour::Parent {
            return;
        }
        let content = self.look(|replica| replica.inode(want.file).ok().flatten()).flatten();
        let Some(content) = content.filter(|inode| inode.version == want.version).map(|inode| inode.content.clone())
        else {
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
            serve::complete(&volume, want.file, want.version, content, None).await;
        });
    }

    /// Waits until all chunks put so far are durable.
    pub(crate) async fn contents_durable(&self) -> Result<(), ContentsError> {
        self.arrived_durable(None).await
    }

    /// The same, where some of them were arriving.
    pub(crate) async fn arrived_durable(&self, arrived: Option<Arriving>) -> Result<(), ContentsError> {
        let (send, receive) = tokio::sync::oneshot::channel();
        let done = move |result| {
            // The asker may have given up.
            let _ = send.send(result);
        };
        self.syncs.want_contents(arrived, Box::new(done));
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
        match serve::complete(self, file, version, content, None).await {
            Reply::Durable => Ok(()),
            Reply::Missing(list) => Err(ContentsError::Missing(list.first().copied().unwrap_or(Digest::of(&[])))),
            Reply::NoSpace => Err(ContentsError::NoSpace),
            other => Err(ContentsError::Io(format!("{other:?}"))),
        }
    }
}

/// The whole of a body, which goes on as it comes.
async fn read_all(mut body: RecvBody, filling: Option<Filling>) -> Result<Bytes, RequestError> {
    let Some(filling) = filling else { return body.read_all(CHUNK_MAX).await };
    let mut all = BytesMut::with_capacity(usize::try_from(body.len()).unwrap_or(CHUNK_MAX).min(BODY_PIECE_MAX));
    while let Some(piece) = body.next_piece().await? {
        all.extend_from_slice(&piece);
        filling.add(piece);
    }
    Ok(all.freeze())
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
        match tokio::time::timeout_at(wait.patience.end().into(), progress.changed()).await {
            Err(_) => return Waited::Over(Err(FetchError::TimedOut)),
            Ok(Err(_)) => return Waited::Over(Err(FetchError::Unreachable)),
            Ok(Ok(())) => {}
        }
    }
}

/// Waits for an answer as long as contents come over its line, or the other side says that it gets them itself: many
/// chunks share a line, and which comes first is not for us to say. `None`: nothing came for too long.
async fn while_it_moves<T>(
    session: &Session,
    signs: &SignsOfProgress,
    wait: &mut Wait<'_>,
    asking: impl Future<Output = T>,
) -> Option<T> {
    let came = || session.connection.body_bytes_received();
    let (begun, first) = (Instant::now(), came());
    let mut asking = pin!(asking);
    let mut seen = (first, signs.count());
    loop {
        let look = wait.patience.end().min(Instant::now() + LINE_PERIOD);
        if let Ok(answer) = tokio::time::timeout_at(look.into(), &mut asking).await {
            session.history.pace.note(came() - first, begun.elapsed());
            return Some(answer);
        }
        let now = (came(), signs.count());
        if now != seen {
            seen = now;
            wait.moved();
        }
        if wait.left().is_zero() {
            return None;
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
