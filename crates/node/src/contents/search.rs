//! Whom to ask for a chunk, one after the other, and what comes of it.

use super::bases::Offer;
use super::chunks::Keep;
use super::inflow::{Filling, Head, Inflow};
use super::message::{self, Ask, BadHeader, Form, Reply};
use super::patience::Wait;
use super::serve;
use super::want::{FetchError, Fetched, Want};
use crate::contents::ContentsError;
use crate::session::Session;
use crate::volume::Volume;
use bytes::{Bytes, BytesMut};
use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tracing::debug;
use wayfs_content::CHUNK_MAX;
use wayfs_net::{BODY_PIECE_MAX, Priority, RecvBody, RequestError, SignsOfProgress};
use wayfs_proto::{Holder, Neighbour, PeerId, Role};
use wayfs_types::OriginId;

/// How often a line is looked at on which something is waited for.
const LINE_PERIOD: Duration = Duration::from_secs(1);
/// What each hop keeps for itself of the time that the asker allows.
const HOP_COST: Duration = Duration::from_millis(300);
/// Pause between looks for a holder that is away for the moment.
pub(super) const LOOK_PERIOD: Duration = Duration::from_millis(100);
/// Most machines asked for one chunk, again or for the first time.
const ASKED_MAX: usize = 12;
/// How often all are asked.
const ROUNDS_MAX: usize = 3;
/// A client waits so long for a parent to come back before it says that none is there.
const PARENT_WAIT_MAX: Duration = Duration::from_millis(1500);

/// How far a look for a chunk goes.
pub(super) struct Search<'a> {
    /// So many are asked at most.
    asked_max: usize,
    /// Whether somebody who has it on record and is away, or a parent that is away, is waited for.
    waits_for_absent: bool,
    /// Hears of each before it is asked.
    asks: &'a (dyn Fn(PeerId) + Sync),
    /// Hears of the chunk when it begins to come.
    comes: &'a (dyn Fn(Inflow) + Sync),
}

impl<'a> Search<'a> {
    /// For one who reads, with whom to tell what becomes of it.
    pub(super) fn told(asks: &'a (dyn Fn(PeerId) + Sync), comes: &'a (dyn Fn(Inflow) + Sync)) -> Self {
        Self { asks, comes, ..Search::EACH }
    }
}

impl Search<'static> {
    /// For one who reads.
    pub(super) const EACH: Self = Self { asked_max: ASKED_MAX, waits_for_absent: true, asks: &|_| (), comes: &|_| () };
}

impl Volume {
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
    pub(super) async fn find(
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
        let begun = Instant::now();
        let asking = async {
            let (header, body) = session.connection.request_watched(ask, Priority::Foreground, &signs).await?;
            let reply = Reply::decode(&header);
            if matches!(reply, Ok(Reply::Found(_))) {
                session.history.pace.answered(begun.elapsed());
            }
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

/// Waits for an answer as long as contents come over its line, or the other side says that it gets them itself: many
/// chunks share a line, and which comes first is not for us to say. `None`: nothing came for too long.
async fn while_it_moves<T>(
    session: &Session,
    signs: &SignsOfProgress,
    wait: &mut Wait<'_>,
    asking: impl Future<Output = T>,
) -> Option<T> {
    let came = || session.connection.body_bytes_received();
    let (begun, first, round) = (Instant::now(), came(), session.history.pace.round());
    let mut asking = pin!(asking);
    let mut seen = (first, signs.count());
    loop {
        let look = wait.patience.end().min(Instant::now() + LINE_PERIOD);
        if let Ok(answer) = tokio::time::timeout_at(look.into(), &mut asking).await {
            session.history.pace.note(round, came() - first, begun.elapsed());
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
