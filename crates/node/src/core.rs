//! What lives under the one lock of a volume: the engine, its sessions, and who waits.

use crate::close_codes::{CLOSE_PROTOCOL, CLOSE_REPLACED, CLOSE_SLOW, CLOSE_STOPPING};
use crate::hooks::{CachedNames, SessionChange, SessionEvent};
use crate::live_replica::LiveReplica;
use crate::propagation::Propagation;
use crate::room;
use crate::session::Session;
use crate::waiter::Waiter;
use crate::{Hooks, clock};
use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tracing::{debug, error, info, warn};
use wayfs_net::{CloseCode, SendHere, Waiting};
use wayfs_proto::{Changed, Happening, Input, Neighbour, Output, PeerId, Replica};
use wayfs_types::request::{Answer, Outcome, RequestId};
use wayfs_types::{Content, FileId, FsError, Name, RecordId, Ticket, Time};

/// Something to do when the lock is dropped.
pub(crate) enum Effect {
    Answer(Waiter, Outcome),
    InvalidateInode(FileId, Changed),
    InvalidateEntry(FileId, Name),
    InvalidateAll,
    Happened(Happening),
    Conflict(RecordId),
    Applied(FileId, RecordId, Option<Content>),
    Attention(String),
    Failed(String),
    Session(SessionChange),
    GiveBack { serial: wayfs_proto::RecallId, files: Vec<FileId>, expire: bool },
}

impl Effect {
    /// Answers a number that the engine is to be told at once as given back.
    pub(crate) fn carry_out(self, hooks: &dyn Hooks) -> Option<wayfs_proto::RecallId> {
        match self {
            Self::Answer(waiter, outcome) => waiter.answer(outcome),
            Self::InvalidateInode(file, changed) => hooks.invalidate_inode(file, changed),
            Self::InvalidateEntry(parent, name) => hooks.invalidate_entry(parent, &name),
            Self::InvalidateAll => hooks.invalidate_all(),
            Self::Happened(what) => hooks.happened(&what),
            Self::Conflict(conflict) => hooks.conflict(conflict),
            Self::Applied(file, record, content) => hooks.applied(file, record, content.as_ref()),
            Self::Attention(what) => hooks.attention(&what),
            Self::Failed(reason) => hooks.failed(&reason),
            Self::Session(change) => hooks.session_changed(&change),
            Self::GiveBack { serial, files, expire } => {
                let names = if expire { CachedNames::Expire } else { CachedNames::Keep };
                return (!hooks.give_back(serial, &files, names)).then_some(serial);
            }
        }
        None
    }
}

/// A content that the engine wants at the parent.
pub(crate) type PushOrder = wayfs_transfer::Order<PeerId>;

/// What the engine asked for that has queues of its own.
#[derive(Default)]
pub(crate) struct Orders {
    pub(crate) effects: Vec<Effect>,
    pub(crate) sync: Option<Ticket>,
    /// Something was committed since the last orders.
    pub(crate) is_committed: bool,
    pub(crate) pushes: Vec<PushOrder>,
    /// Contents that the home looks for.
    pub(crate) seeks: Vec<(FileId, RecordId, Content)>,
    /// Contents of which is to be looked whether they are here.
    pub(crate) looks: Vec<(RecordId, Content)>,
    pub(crate) wake: Option<Time>,
    /// How long changes took to become safe.
    pub(crate) safe_after: Vec<Duration>,
    /// Records of children that were applied.
    pub(crate) applied: u64,
    /// How long the engine worked.
    pub(crate) worked: Duration,
    /// Somebody waits for the frames that were sent: they leave from this thread when the lock is dropped.
    pub(crate) sending: Option<SendHere>,
}

impl Orders {
    /// Orders of an input whose frames somebody waits for.
    pub(crate) fn sending_here() -> Self {
        Self { sending: Some(SendHere::begin()), ..Self::default() }
    }
}

/// What people are told of histories that forked, and of full disks.
fn attention(output: &Output) -> Option<String> {
    Some(match output {
        Output::Lost { version, file, shows_older } => format!(
            "nobody has the bytes of version {version} of file {file} any more: {}; `wayfs conflicts list` names it",
            if *shows_older { "it shows the last content that is whole" } else { "it cannot be read" }
        ),
        Output::Forked { reason } => format!(
            "this copy of the volume's data and another have each gone on by themselves ({reason}): an identity of its \
             own is asked for, and nothing is lost"
        ),
        Output::Renewed { former, origin, records } => format!(
            "goes on as member {origin} in place of {former}, and wrote {records} changes again that nobody had: look \
             for `.conflict-` names where the other copy changed the same files"
        ),
        Output::Rescued { of, records } => format!(
            "the home has other changes of member {of} than this station: {records} of them were written again here"
        ),
        Output::WentBack { child } => format!(
            "this volume was restored from an older copy: member {child} knows later changes. What stations and clients \
             have of them they write again by themselves; look for `.conflict-` names afterwards"
        ),
        Output::Recovered { records } => format!(
            "the home was restored from an older copy: {records} changes that it had lost were written again from here"
        ),
        Output::RoomsAbove { rooms } => {
            room::full_text(rooms).unwrap_or_else(|| "there is room again on the way to the home".to_owned())
        }
        _ => return None,
    })
}

/// Changes whose way to safety is timed at once; what comes beyond is not timed.
const UNSAFE_MAX: usize = 64;

/// Versions that a policy sends ahead in one step: each is an input of the engine, and nothing else happens meanwhile.
const PROPAGATED_AT_ONCE: usize = 256;

/// Whether an input can make something safe.
#[derive(Clone, Copy)]
enum InputKind {
    News,
    Other,
}

impl InputKind {
    fn of(input: &Input) -> Self {
        match input {
            Input::Message { .. } | Input::Stored { .. } | Input::ContentsHere { .. } | Input::Pushed { .. } => {
                Self::News
            }
            Input::Request { .. } | Input::Cancel { .. } | Input::PeerUp { .. } => Self::Other,
            Input::PeerDown { .. } | Input::PeerLeft { .. } | Input::Propagate { .. } | Input::Fetched { .. } => {
                Self::Other
            }
            Input::ContentGone { .. } | Input::Sought { .. } | Input::LookedHere { .. } => Self::News,
            Input::MakeRoom | Input::Room { .. } | Input::Sent { .. } | Input::GivenBack { .. } => Self::Other,
            Input::Moved { .. } | Input::Tick => Self::Other,
        }
    }
}

/// The guarded state.
pub(crate) struct Core {
    /// Gone when the volume has stopped.
    pub(crate) replica: Option<LiveReplica>,
    /// A station's.
    propagation: Option<Propagation>,
    pub(crate) sessions: BTreeMap<PeerId, Session>,
    waiting: BTreeMap<RequestId, Waiter>,
    next_request: u64,
    next_peer: u64,
    /// Newest batch that was asked to be durable.
    pub(crate) newest_sync: Ticket,
    /// Commits counted when the last orders were given. Written under the lock, read without it.
    commits_seen: Arc<AtomicU64>,
    /// Answers without the parent's word, in the same way.
    unvouched_seen: Arc<AtomicU64>,
    /// Whether a quota was told of, in the same way.
    quota_seen: Arc<AtomicBool>,
    armed: Option<Time>,
    pub(crate) failed: Option<String>,
    /// Makes the connection to the parent look for the end of outages while someone waits.
    probing: Option<(PeerId, Waiting)>,
    /// Own changes that are not known to be safe yet, and when they were answered; the oldest first.
    unsafe_since: VecDeque<(u64, Time)>,
    /// The session that ended last, and why.
    last_end: Option<(PeerId, String)>,
}

impl Core {
    pub(crate) fn new(replica: LiveReplica, propagation: Option<Propagation>) -> Self {
        Self {
            replica: Some(replica),
            propagation,
            sessions: BTreeMap::new(),
            waiting: BTreeMap::new(),
            next_request: 1,
            next_peer: 1,
            newest_sync: Ticket::default(),
            commits_seen: Arc::default(),
            unvouched_seen: Arc::default(),
            quota_seen: Arc::default(),
            armed: None,
            failed: None,
            probing: None,
            unsafe_since: VecDeque::new(),
            last_end: None,
        }
    }

    pub(crate) fn next_request(&mut self) -> RequestId {
        self.next_request += 1;
        RequestId(self.next_request)
    }

    pub(crate) fn next_peer(&mut self) -> PeerId {
        self.next_peer += 1;
        PeerId(self.next_peer)
    }

    pub(crate) fn wait(&mut self, id: RequestId, waiter: Waiter) {
        self.waiting.insert(id, waiter);
    }

    /// The count of commits, for whoever does not hold the lock.
    pub(crate) fn commits_seen(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.commits_seen)
    }

    /// Whether a quota was told of, for whoever does not hold the lock.
    pub(crate) fn quota_seen(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.quota_seen)
    }

    /// The count of answers without the parent's word, for whoever does not hold the lock.
    pub(crate) fn unvouched_seen(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.unvouched_seen)
    }

    /// The session to the parent.
    pub(crate) fn parent(&self) -> Option<&Session> {
        self.sessions.values().find(|session| session.neighbour == Neighbour::Parent)
    }

    /// Feeds one input and collects what the engine wants done; the answer to `mine` is returned instead.
    pub(crate) fn handle(&mut self, input: Input, mine: Option<RequestId>, orders: &mut Orders) -> Option<Outcome> {
        let Some(replica) = self.replica.as_mut() else {
            return mine.map(|_| Err(FsError::Io));
        };
        if self.failed.is_some() {
            return mine.map(|_| Err(FsError::Io));
        }
        let input_kind = InputKind::of(&input);
        let began = Instant::now();
        replica.handle(clock::now(), clock::wall(), input);
        orders.worked += began.elapsed();
        let from_parent = matches!(input_kind, InputKind::News);
        let answer = self.drain(mine, orders);
        if let Some(Ok(Answer::Changed { record, .. })) = &answer
            && self.unsafe_since.len() < UNSAFE_MAX
        {
            self.unsafe_since.push_back((record.sequence(), clock::now()));
        }
        if from_parent {
            self.measure_safety(orders);
        }
        self.note_commits(orders);
        self.arm(orders);
        self.probe();
        answer
    }

    /// Commits may share a ticket, so they are counted.
    fn note_commits(&mut self, orders: &mut Orders) {
        let commits = self.replica.as_ref().map_or(0, |replica| replica.store().commits());
        let unvouched = self.replica.as_ref().map_or(0, Replica::unvouched);
        self.unvouched_seen.store(unvouched, Ordering::Release);
        self.quota_seen.store(self.replica.as_ref().is_some_and(Replica::has_quota), Ordering::Release);
        // Whoever hears of what a commit did finds it counted.
        orders.is_committed |= commits != self.commits_seen.swap(commits, Ordering::AcqRel);
    }

    /// Sees which own changes have become safe.
    fn measure_safety(&mut self, orders: &mut Orders) {
        if self.unsafe_since.is_empty() {
            return;
        }
        let Some(safe) = self.replica.as_ref().map(Replica::safe_through) else { return };
        let now = clock::now();
        while let Some((sequence, since)) = self.unsafe_since.front().copied()
            && sequence <= safe
        {
            self.unsafe_since.pop_front();
            orders.safe_after.push(now.since(since));
        }
    }

    /// Collects what the engine wants done after it was changed by other ways than an input.
    pub(crate) fn settle(&mut self, orders: &mut Orders) {
        self.drain(None, orders);
        self.note_commits(orders);
        self.arm(orders);
    }

    /// Carries out what the engine wants, and tells it what the policy sends ahead. What is left of that is due at once.
    fn drain(&mut self, mine: Option<RequestId>, orders: &mut Orders) -> Option<Outcome> {
        let mut answer = self.drain_engine(mine, orders);
        for _ in 0..PROPAGATED_AT_ONCE {
            let Some(input) = self.propagation.as_mut().and_then(Propagation::poll) else { break };
            let Some(replica) = self.replica.as_mut().filter(|_| self.failed.is_none()) else { break };
            replica.handle(clock::now(), clock::wall(), input);
            answer = self.drain_engine(mine, orders).or(answer);
        }
        answer
    }

    fn drain_engine(&mut self, mine: Option<RequestId>, orders: &mut Orders) -> Option<Outcome> {
        let mut answer = None;
        while let Some(output) = self.poll_output() {
            match output {
                Output::Answer { id, outcome } if Some(id) == mine => answer = Some(outcome),
                Output::Answer { id, outcome } => {
                    if let Some(waiter) = self.waiting.remove(&id) {
                        orders.effects.push(Effect::Answer(waiter, outcome));
                    }
                }
                Output::Send { peer, bytes } => self.send(peer, bytes),
                Output::Disconnect { peer, reason } => self.disconnect(peer, CLOSE_PROTOCOL, &reason),
                Output::Sync { ticket } => {
                    self.newest_sync = self.newest_sync.max(ticket);
                    orders.sync = orders.sync.max(Some(ticket));
                }
                Output::Push { file, version, content } => {
                    if let Some(peer) = self.parent().map(|session| session.peer) {
                        orders.pushes.push(PushOrder { peer, file, version, content });
                    }
                }
                Output::Seek { file, version, content } => orders.seeks.push((file, version, content)),
                Output::LookHere { version, content, .. } => orders.looks.push((version, content)),
                Output::InvalidateInode { file, what } => orders.effects.push(Effect::InvalidateInode(file, what)),
                Output::InvalidateEntry { parent, name } => orders.effects.push(Effect::InvalidateEntry(parent, name)),
                Output::InvalidateAll => orders.effects.push(Effect::InvalidateAll),
                Output::GiveBack { serial, files, expire } => {
                    orders.effects.push(Effect::GiveBack { serial, files, expire });
                }
                Output::Applied { file, record, content } => {
                    orders.applied += 1;
                    orders.effects.push(Effect::Applied(file, record, content));
                }
                Output::Happened(what) => orders.effects.push(Effect::Happened(what)),
                Output::Conflict { conflict } => orders.effects.push(Effect::Conflict(conflict)),
                Output::Lost { .. }
                | Output::Forked { .. }
                | Output::Renewed { .. }
                | Output::WentBack { .. }
                | Output::Recovered { .. }
                | Output::RoomsAbove { .. }
                | Output::Rescued { .. } => {
                    orders.effects.extend(attention(&output).map(Effect::Attention));
                }
                // For the policy only, which heard it first.
                Output::Shared { .. } | Output::Owed { .. } | Output::Released { .. } => {}
                Output::Failed { reason } => self.fail(reason, orders),
            }
        }
        answer
    }

    /// The next thing that the engine wants done. The policy of a station hears it first.
    fn poll_output(&mut self) -> Option<Output> {
        let replica = self.replica.as_mut()?;
        let output = replica.poll_output()?;
        if let Some(propagation) = self.propagation.as_mut() {
            propagation.hear(replica, &output);
        }
        Some(output)
    }

    /// The parent fetched something of a version from here, because somebody reads.
    pub(crate) fn back_fetched(&mut self, file: FileId, version: RecordId, orders: &mut Orders) {
        if let Some(propagation) = self.propagation.as_mut() {
            propagation.tell(wayfs_policy::Input::BackFetched { file, version });
            self.settle(orders);
        }
    }

    /// Stops everything; whoever waits is told.
    pub(crate) fn fail(&mut self, reason: String, orders: &mut Orders) {
        if self.failed.is_some() {
            return;
        }
        error!(%reason, "volume failed");
        self.failed = Some(reason.clone());
        for session in self.sessions.values() {
            session.connection.close(CLOSE_STOPPING, "the volume failed");
        }
        self.answer_all(FsError::Io, orders);
        orders.effects.push(Effect::Failed(reason));
    }

    pub(crate) fn answer_all(&mut self, error: FsError, orders: &mut Orders) {
        for (_, waiter) in std::mem::take(&mut self.waiting) {
            orders.effects.push(Effect::Answer(waiter, Err(error)));
        }
    }

    fn send(&mut self, peer: PeerId, bytes: Bytes) {
        let Some(session) = self.sessions.get_mut(&peer) else { return };
        if session.broken.is_some() {
            return;
        }
        if let Err(error) = session.sender.try_send(bytes) {
            // Nothing may follow a frame that was not sent: the order is what the engine relies on.
            debug!(node = %session.node.short(), %error, "session ended: a message could not be queued");
            session.broken = Some(format!("a message could not be queued: {error}"));
            session.connection.close(CLOSE_SLOW, "messages are not read fast enough");
        }
    }

    pub(crate) fn disconnect(&mut self, peer: PeerId, code: CloseCode, reason: &str) {
        if let Some(session) = self.sessions.get_mut(&peer) {
            warn!(node = %session.node.short(), reason, "session ended by us");
            session.broken = Some(reason.to_owned());
            session.connection.close(code, reason);
        }
    }

    /// Takes a session in and tells the engine. An older one with the same neighbour is over: its other end
    /// has dialled anew, and may not have been able to say so.
    pub(crate) fn attach(&mut self, session: Session, orders: &mut Orders) {
        let same = |other: &&Session| other.neighbour == session.neighbour;
        let old: Vec<PeerId> = self.sessions.values().filter(same).map(|old| old.peer).collect();
        for old in old {
            if let Some(old) = self.sessions.get(&old) {
                old.connection.close(CLOSE_REPLACED, "replaced by a newer session");
            }
            self.detach(old, "replaced by a newer session", orders);
        }
        let (peer, neighbour) = (session.peer, session.neighbour.clone());
        info!(node = %session.node.short(), ?neighbour, "session began");
        orders.effects.push(Effect::Session(session.change(SessionEvent::Up)));
        self.sessions.insert(peer, session);
        self.handle(Input::PeerUp { peer, neighbour }, None, orders);
    }

    /// Takes a session out and tells the engine; `false` if it was out already.
    pub(crate) fn detach(&mut self, peer: PeerId, reason: &str, orders: &mut Orders) -> bool {
        self.detach_as(Input::PeerDown { peer }, peer, reason, orders)
    }

    /// The same, with the word for the engine.
    pub(crate) fn detach_as(&mut self, end: Input, peer: PeerId, reason: &str, orders: &mut Orders) -> bool {
        let was_there = self.leave(peer, reason, orders);
        if was_there {
            self.handle(end, None, orders);
        }
        was_there
    }

    /// Takes a session out without a word to the engine, for one that follows at once: between the two, whoever waits
    /// for an answer would be told that nobody can be reached.
    pub(crate) fn leave(&mut self, peer: PeerId, reason: &str, orders: &mut Orders) -> bool {
        let Some(session) = self.sessions.remove(&peer) else { return false };
        let reason = session.broken.as_deref().unwrap_or(reason);
        info!(node = %session.node.short(), reason, "session ended");
        self.last_end = Some((peer, reason.to_owned()));
        orders.effects.push(Effect::Session(session.change(SessionEvent::Down(reason.to_owned()))));
        if self.probing.as_ref().is_some_and(|(probed, _)| *probed == peer) {
            self.probing = None;
        }
        true
    }

    /// Why a session ended, or is being ended by us, as far as it is known.
    pub(crate) fn end_of(&self, peer: PeerId) -> Option<String> {
        match &self.last_end {
            Some((ended, reason)) if *ended == peer => Some(reason.clone()),
            Some(_) | None => self.sessions.get(&peer).and_then(|session| session.broken.clone()),
        }
    }

    /// Asks for a wake-up only when it is earlier than the one that will come anyway.
    fn arm(&mut self, orders: &mut Orders) {
        let engine = self.replica.as_ref().and_then(Replica::poll_timeout);
        let policy = self.propagation.as_ref().and_then(Propagation::poll_timeout);
        let next = engine.into_iter().chain(policy).min();
        if let Some(next) = next
            && self.armed.is_none_or(|armed| next < armed)
        {
            self.armed = Some(next);
            orders.wake = Some(next);
        }
    }

    /// The timer has fired: what was armed is used up.
    pub(crate) fn fired(&mut self) {
        self.armed = None;
    }

    /// Looks at the clock for the engine, and whether its parent's contents come meanwhile.
    pub(crate) fn tick(&mut self, orders: &mut Orders) {
        let moved = self.parent().filter(|parent| parent.has_moved()).map(|parent| parent.peer);
        if let Some(peer) = moved {
            self.handle(Input::Moved { peer }, None, orders);
        }
        if let (Some(propagation), Some(replica)) = (self.propagation.as_mut(), self.replica.as_ref()) {
            propagation.tick(replica);
        }
        self.handle(Input::Tick, None, orders);
    }

    fn probe(&mut self) {
        if self.waiting.is_empty() {
            self.probing = None;
        } else if self.probing.is_none() {
            self.probing = self.parent().map(|session| (session.peer, session.connection.waiting()));
        }
    }
}
