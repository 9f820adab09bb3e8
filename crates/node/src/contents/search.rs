//! Looks for chunks, driven: [`wayfs_transfer::search`] decides whom to ask and when to give up, and this asks.

use super::bases::Offer;
use super::chunks::Keep;
use super::inflow::{Filling, Head, Inflow};
use super::message::{self, Ask, BadHeader, Form, Reply};
use super::serve;
use super::wait::Wait;
use super::want::{FetchError, Fetched, Want};
use crate::clock;
use crate::contents::ContentsError;
use crate::session::Session;
use crate::volume::Volume;
use bytes::{Bytes, BytesMut};
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tracing::debug;
use wayfs_content::CHUNK_MAX;
use wayfs_net::{BODY_PIECE_MAX, Priority, RecvBody, RequestError, SignsOfProgress};
use wayfs_proto::{Holder, Neighbour, PeerId, Role};
use wayfs_transfer::Search;
use wayfs_transfer::search::{Child, ChildKind, Failure, Input, Look, Output, Parent, Scope, Sources};

/// How often a line is looked at on which something is waited for.
const LINE_PERIOD: Duration = Duration::from_secs(1);
/// What each hop keeps for itself of the time that the asker allows.
const HOP_COST: Duration = Duration::from_millis(300);

/// Who hears what becomes of a look.
pub(super) struct Told<'a> {
    /// Hears of each before it is asked.
    asks: &'a (dyn Fn(PeerId) + Sync),
    /// Hears of the chunk when it begins to come.
    comes: &'a (dyn Fn(Inflow) + Sync),
}

impl<'a> Told<'a> {
    pub(super) fn new(asks: &'a (dyn Fn(PeerId) + Sync), comes: &'a (dyn Fn(Inflow) + Sync)) -> Self {
        Self { asks, comes }
    }
}

impl Told<'static> {
    pub(super) const NOBODY: Self = Self { asks: &|_| (), comes: &|_| () };
}

/// A look that is under way.
struct Looking<'a, 'w> {
    want: Want,
    search: Search<PeerId>,
    wait: &'a mut Wait<'w>,
    told: &'a Told<'a>,
    /// What whoever refused last, or this disk, said.
    refusal: Option<FetchError>,
}

impl Looking<'_, '_> {
    /// Something came.
    fn moved(&mut self) {
        self.wait.moved();
        self.search.handle(clock::awake(), Input::Moved);
    }

    /// Whether it goes on although nothing comes.
    fn bears_silence(&mut self) -> bool {
        self.search.handle(clock::awake(), Input::Tick);
        !self.search.is_over()
    }

    fn ended(&mut self, asked: Fetched) {
        let input = match asked {
            Ok(()) => Input::Had,
            Err(error) => {
                let failure = failure_of(&error);
                if matches!(failure, Failure::Refused | Failure::Local) {
                    self.refusal = Some(error);
                }
                Input::NotHad(failure)
            }
        };
        self.search.handle(clock::awake(), input);
    }
}

pub(super) fn failure_of(error: &FetchError) -> Failure {
    match error {
        FetchError::NotHeld => Failure::NotHeld,
        FetchError::Unreachable => Failure::Unreachable,
        FetchError::TimedOut => Failure::TimedOut,
        FetchError::Refused(_) => Failure::Refused,
        FetchError::Local(_) => Failure::Local,
    }
}

impl Volume {
    /// Asks everybody who is there below us for a chunk, however many those are; nobody who is away is waited for. The parent asked us.
    pub(crate) async fn find_below(self: &Arc<Self>, want: Want, patience: Duration) -> Fetched {
        let parent = self.lock().parent().map(|session| session.peer);
        let scope = Scope::of_all_below(self.all_sessions().len());
        self.find((want, parent), scope, &mut Wait::new(patience, &|| ()), &Told::NOBODY).await
    }

    /// How far a look for a reader goes.
    pub(super) fn scope(&self) -> Scope {
        match self.role() {
            Role::Client => Scope::AT_CLIENT,
            Role::Home | Role::Station => Scope::AT_SERVER,
        }
    }

    /// Asks one after the other of those who may have the chunk until it is here, enough were asked, or nothing came for
    /// too long. [`FetchError::NotHeld`] is the answer of all who are there: who did not
    /// answer, or failed, may have it.
    pub(super) async fn find(
        self: &Arc<Self>,
        (want, asker): (Want, Option<PeerId>),
        scope: Scope,
        wait: &mut Wait<'_>,
        told: &Told<'_>,
    ) -> Fetched {
        let look = Look { scope, writer: want.version.origin(), asker };
        let search = Search::new(look, wait.patience);
        let mut looking = Looking { want, search, wait, told, refusal: None };
        loop {
            match looking.search.poll_output() {
                Some(Output::Over(result)) => {
                    return result.map_err(|failure| FetchError::of(failure, looking.refusal.as_ref()));
                }
                Some(Output::Look) if self.is_stopped() => return Err(FetchError::Unreachable),
                Some(Output::Look) => looking.search.handle(clock::awake(), Input::Sources(self.sources(want))),
                Some(Output::Ask(peer)) => {
                    let asked = self.ask(peer, &mut looking).await;
                    looking.ended(asked);
                }
                None => {
                    let now = clock::awake();
                    tokio::time::sleep(looking.search.poll_timeout().map_or(LINE_PERIOD, |until| until - now)).await;
                    looking.search.handle(clock::awake(), Input::Tick);
                }
            }
        }
    }

    /// Who is there, and who of them has a version on record.
    fn sources(&self, want: Want) -> Sources<PeerId> {
        let core = self.lock();
        let Some(replica) = core.replica.as_ref() else {
            return Sources { holders: Vec::new(), children: Vec::new(), parent: Parent::Away };
        };
        let holders = replica.holders(want.file, want.version).unwrap_or_default().into_iter();
        let holders = holders.filter_map(|holder| match holder {
            Holder::Child(origin, _) => Some(origin),
            Holder::Here | Holder::Parent | Holder::Unknown => None,
        });
        let children = core.sessions.values().filter(|session| session.broken.is_none()).filter_map(child_of);
        let parent = match core.parent().filter(|session| session.broken.is_none()) {
            Some(session) => Parent::There(session.peer),
            None if self.role() == Role::Home => Parent::None,
            None => Parent::Away,
        };
        Sources { holders: holders.collect(), children: children.collect(), parent }
    }

    async fn ask(self: &Arc<Self>, peer: PeerId, looking: &mut Looking<'_, '_>) -> Fetched {
        (looking.told.asks)(peer);
        let session = self.session(peer).ok_or(FetchError::Unreachable)?;
        let asked = self.ask_for(&session, looking).await;
        if let Err(error) = &asked {
            debug!(node = %session.node.short(), digest = %looking.want.digest, %error, "chunk not had");
        }
        asked
    }

    async fn ask_for(self: &Arc<Self>, session: &Session, looking: &mut Looking<'_, '_>) -> Fetched {
        let want = looking.want;
        let offer = self.offer(session, want).await;
        if self.ask_once(session, offer, looking).await? == Came::WithoutBase {
            debug!(node = %session.node.short(), digest = %want.digest, "a base is lost: asked for again without any");
            self.metrics.bases_lost.add(1);
            if self.ask_once(session, Offer::default(), looking).await? == Came::WithoutBase {
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
        offer: Offer,
        looking: &mut Looking<'_, '_>,
    ) -> Result<Came, FetchError> {
        let (want, told) = (looking.want, looking.told);
        let patience = looking.wait.left().saturating_sub(HOP_COST).max(HOP_COST);
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
            let filling = self.begin_inflow(session, (want, &reply), &body, told);
            Ok::<_, RequestError>((reply, read_all(body, filling).await?))
        };
        let (reply, bytes) = match while_it_moves(session, &signs, looking, asking).await {
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
                // What is left must do for a repetition.
                let mut half = looking.wait.of_half();
                let bases = self.bases_of_answer(session, &offer, form, &mut half).await;
                if half.has_moved() {
                    looking.moved();
                }
                let Some(bases) = bases else { return Ok(Came::WithoutBase) };
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
        told: &Told<'_>,
    ) -> Option<Filling> {
        let Ok(Reply::Found(form)) = *reply else { return None };
        if form.is_difference() || body.len() > CHUNK_MAX as u64 || self.fetches.spoilt().has(&want.digest) {
            return None;
        }
        // Over a line on which it would have been packed it came as small as it becomes.
        let is_packed = matches!(form, Form::Zstd { .. }) || session.path(self).is_slow();
        let (filling, inflow) = Inflow::begin(Head { form, len: body.len(), is_packed });
        (told.comes)(inflow);
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
    looking: &mut Looking<'_, '_>,
    asking: impl Future<Output = T>,
) -> Option<T> {
    let came = || session.connection.body_bytes_received();
    let (begun, first, round) = (Instant::now(), came(), session.history.pace.round());
    let mut asking = pin!(asking);
    let mut seen = (first, signs.count());
    loop {
        let look = looking.wait.left().min(LINE_PERIOD);
        if let Ok(answer) = tokio::time::timeout(look, &mut asking).await {
            session.history.pace.note(round, came() - first, begun.elapsed());
            return Some(answer);
        }
        let now = (came(), signs.count());
        if now != seen {
            seen = now;
            looking.moved();
        }
        if !looking.bears_silence() {
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

/// Who is at the other end of a session with a child.
fn child_of(session: &Session) -> Option<Child<PeerId>> {
    let (origin, kind) = match session.neighbour {
        Neighbour::ChildStation { origin } => (origin, ChildKind::Station),
        Neighbour::ChildClient { origin } => (origin, ChildKind::Client),
        Neighbour::Parent => return None,
    };
    Some(Child { peer: session.peer, origin, kind })
}
