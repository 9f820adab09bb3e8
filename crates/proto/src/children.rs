//! The replicas below us: their sessions, and what they say.
//!
//! ```text
//!   Greeting ──Hello──▶ Ready ──Start──▶ Scanning ──caught up──▶ Live (clients)
//!      any of these ──session lost──▶ Detached ──lease over──▶ forgotten
//! ```
//!
//! A client that is Live trusts its cache, so a change that touches what it
//! watches is not acknowledged to its writer before the client received the
//! image, or its lease is over. A detached client is one without a session: it
//! may still trust its cache until the lease ends.
//!
//! Everything that a child is told leaves only when the batch that it rests upon is durable.

pub(crate) mod access;
pub(crate) mod catch;
pub(crate) mod catches;
pub(crate) mod echo_filter;
mod former;
pub(crate) mod interest;
pub(crate) mod lapses;
pub(crate) mod leases;
mod messages;
pub(crate) mod part;
pub(crate) mod records;
pub(crate) mod returning;
pub(crate) mod rights;
mod rights_table;
mod sessions;
pub(crate) mod stream;
pub(crate) mod told;
pub(crate) mod welcome;

use crate::api::PeerId;
use crate::children::catch::Catch;
use crate::children::echo_filter::EchoFilter;
use crate::children::former::Returning;
use crate::children::lapses::Lapses;
use crate::children::rights_table::ChildRights;
use crate::histories::told::Told;
use crate::replica::core::Core;
use crate::replica::errors::StepError;
use crate::state::tables::{origin_key, pack, parse_origin_key, table, unpack};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use wayfs_types::{
    CommitNumber, FileId, Image, Key, Life, MetaStore, OriginId, Quota, RecordId, Seal, StorageError, Ticket, Time,
    WallTime,
};
use wayfs_wire::{AskId, DelegationId, Down, FrameSerial, LockVerdict, Mark, Message, Question, ServerRoom};

/// Most watches of one child.
const WATCHES_MAX: usize = 262_144;
/// Most keys that a child may ask to have refreshed.
pub(crate) const REFRESH_MAX: usize = 1_048_576;
/// Most questions of one child that wait.
const ASKS_MAX: usize = 1024;
/// Most notices of stable versions gathered for one child.
const STABLE_MAX: usize = 65_536;

/// Where a child's session stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChildState {
    Greeting,
    Ready,
    Scanning,
    Live,
    Detached,
}

/// A question that waits until the child's stream is up to date.
#[derive(Debug)]
pub(crate) struct ParkedAsk {
    pub(crate) ask: AskId,
    pub(crate) question: Question,
    pub(crate) seen: Vec<RecordId>,
    pub(crate) since: Time,
}

/// What a child is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChildKind {
    Station,
    Client,
}

/// How a session with a child ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Parting {
    /// Nobody knows whether the child does: it may trust what it was told until its lease ends.
    Lost,
    /// The child said that it trusts nothing any more that it was told.
    Left,
}

/// One replica below us.
#[derive(Debug)]
pub(crate) struct Child {
    is_station: bool,
    peer: Option<PeerId>,
    state: ChildState,
    heard: Time,
    /// A detached client left over from before our restart: what it had received is not known.
    unknown: bool,
    outbox: VecDeque<HeldMessage>,
    /// Serial of the last images or answer sent.
    serial: FrameSerial,
    /// Sent and not yet received: serial, and the first change in it.
    unreceived: VecDeque<(FrameSerial, CommitNumber)>,
    /// Since when something waits to be received.
    unreceived_since: Time,
    /// Everything up to this change was looked through for it.
    next: CommitNumber,
    /// What the station has for certain.
    cursor: CommitNumber,
    /// Changed keys to be sent, by number of change.
    pending: BTreeMap<CommitNumber, Key>,
    /// Keys of the first cut that no scan would find.
    extra: BTreeSet<Key>,
    started: bool,
    /// Images were sent that more of the same cut are to follow.
    cut_is_open: bool,
    resumed: bool,
    /// A client that brought the cursor of another server.
    came_from_another: bool,
    /// It was told that another copy of its store was opened after it: what it sends until it hears that it writes again.
    is_outlived: bool,
    watches: BTreeSet<FileId>,
    asks: VecDeque<ParkedAsk>,
    marks: BTreeMap<OriginId, Option<Mark>>,
    stable: BTreeSet<RecordId>,
    notices: Vec<Down>,
    /// Among these is that locks are lost: no answer to a ping may overtake that, since the child would think that they are kept.
    tells_of_loss: bool,
    /// Locks granted, each after a change of ours: told when it was told all that was done before.
    grants: Vec<(Down, CommitNumber)>,
    /// What is said about rights, in order; a grant is told as one of a lock is.
    rights_mail: VecDeque<Down>,
    /// It claimed in this session what it had before.
    brings_locks: bool,
    /// It takes rights to change alone, and gives them back.
    takes_rights: bool,
    /// Client: up to here it has told us which contents of its own it still holds. Beyond, what came by another way is
    /// not safe for all we know.
    accounted: u64,
    /// Client: the directory below which it works, if that is not the whole volume.
    part: Option<FileId>,
    /// Client: its own quota.
    quota: Quota,
    /// What it was told last of room.
    rooms_told: Vec<ServerRoom>,
    /// What it sent up and need not be told.
    echo_filter: EchoFilter,
    /// What it said in this session of the histories of origins.
    told: Told,
    /// Its signatures for the records of the next message.
    seals: BTreeMap<RecordId, Seal>,
    /// The newest word of the home that it was told, by when it was signed.
    word: Option<WallTime>,
    /// Its wishes to catch up with the home.
    catches: VecDeque<(AskId, Catch)>,
}

/// A message that waits for the disk.
#[derive(Debug)]
pub(crate) struct HeldMessage {
    /// It rests upon this batch.
    ticket: Ticket,
    bytes: Bytes,
}

impl Child {
    const fn kind(&self) -> ChildKind {
        if self.is_station { ChildKind::Station } else { ChildKind::Client }
    }

    /// Keys that it wants to hear of when it starts.
    fn note_refresh(&mut self, peer: PeerId, keys: Vec<Key>) -> Result<(), StepError> {
        if self.extra.len() + keys.len() > REFRESH_MAX || self.started {
            return Err(StepError::Peer(peer, "refreshes too much or too late".to_owned()));
        }
        self.extra.extend(keys);
        Ok(())
    }

    fn new(kind: ChildKind, peer: Option<PeerId>, state: ChildState, heard: Time) -> Self {
        Self {
            is_station: kind == ChildKind::Station,
            peer,
            state,
            heard,
            unknown: false,
            outbox: VecDeque::new(),
            serial: FrameSerial::default(),
            unreceived: VecDeque::new(),
            unreceived_since: heard,
            next: CommitNumber::ZERO,
            cursor: CommitNumber::ZERO,
            pending: BTreeMap::new(),
            part: None,
            quota: Quota::NONE,
            rooms_told: Vec::new(),
            extra: BTreeSet::new(),
            started: false,
            cut_is_open: false,
            resumed: false,
            came_from_another: false,
            is_outlived: false,
            watches: BTreeSet::new(),
            asks: VecDeque::new(),
            marks: BTreeMap::new(),
            stable: BTreeSet::new(),
            notices: Vec::new(),
            tells_of_loss: false,
            grants: Vec::new(),
            rights_mail: VecDeque::new(),
            takes_rights: false,
            brings_locks: false,
            accounted: 0,
            echo_filter: EchoFilter::default(),
            told: Told::default(),
            seals: BTreeMap::new(),
            word: None,
            catches: VecDeque::new(),
        }
    }

    /// Whether it has been welcomed: before that nothing may be said to it.
    pub(crate) fn is_greeted(&self) -> bool {
        self.peer.is_some() && self.state != ChildState::Greeting
    }

    /// Up to which change nothing that this child trusts is out of date at it.
    pub(crate) fn clear_through(&self) -> CommitNumber {
        match self.state {
            ChildState::Live | ChildState::Detached if !self.is_station => {
                if self.unknown {
                    return CommitNumber::ZERO;
                }
                let sent = self.unreceived.front().map(|(_, first)| *first);
                let unsent = self.pending.keys().next().copied();
                [sent, unsent].into_iter().flatten().min().map_or(CommitNumber::MAX, CommitNumber::before)
            }
            ChildState::Live
            | ChildState::Detached
            | ChildState::Greeting
            | ChildState::Ready
            | ChildState::Scanning => CommitNumber::MAX,
        }
    }
}

/// What is kept of a child over restarts.
#[derive(Debug, Serialize, Deserialize)]
struct ChildRow {
    is_station: bool,
    cursor: CommitNumber,
}

/// All children.
#[derive(Debug, Default)]
pub(crate) struct Children {
    by_origin: BTreeMap<OriginId, Child>,
    watchers: BTreeMap<FileId, BTreeSet<OriginId>>,
    /// Which children are told the marks of an origin.
    subjects: BTreeMap<OriginId, BTreeSet<OriginId>>,
    /// Origins whose marks may have moved.
    dirty: BTreeSet<OriginId>,
    /// Children for which there may be something to do.
    busy: BTreeSet<OriginId>,
    /// Records whose writers wait for the callbacks of others: sequence, and change.
    blocked: BTreeMap<OriginId, VecDeque<(u64, CommitNumber)>>,
    /// Children with something in the outbox.
    gated: BTreeSet<OriginId>,
    /// Children with questions that wait for us to catch up.
    waiting: BTreeSet<OriginId>,
    /// How far stations that are away have come: tombstones are kept for them.
    station_cursors: BTreeMap<OriginId, CommitNumber>,
    next_check: Option<Time>,
    /// Lives of the children's stores that had sessions here.
    lives: BTreeMap<OriginId, ChildLives>,
    /// Who kept others waiting.
    lapses: Lapses,
    /// Who of them changes what alone.
    rights: ChildRights,
    returning: Returning,
    /// All children are to begin anew.
    ends_all: bool,
}

/// Lives of a child's store that are remembered: one that comes back was copied.
const CHILD_LIVES_MAX: usize = 8;

/// The lives of a child's store, as far as they had sessions here since we were opened.
#[derive(Debug, Default)]
pub(crate) struct ChildLives {
    pub(crate) current: Life,
    past: VecDeque<Life>,
}

impl ChildLives {
    /// Whether the child that comes in this life forgot what it knew when it was here last.
    fn is_new(&self, life: Life) -> bool {
        self.current != Life::NONE && self.current != life
    }

    /// Whether another life came after this one. If not, it is the present one from now on.
    pub(crate) fn is_outlived(&mut self, life: Life) -> bool {
        if self.past.contains(&life) {
            return true;
        }
        if self.current != life && self.current != Life::NONE {
            self.past.push_back(self.current);
            if self.past.len() > CHILD_LIVES_MAX {
                self.past.pop_front();
            }
        }
        self.current = life;
        false
    }
}

impl Children {
    pub(crate) fn peer_of(&self, origin: OriginId) -> Option<PeerId> {
        self.by_origin.get(&origin)?.peer
    }

    /// A child that has been welcomed: before that nothing may be said to it.
    fn greeted(&mut self, origin: OriginId) -> Option<&mut Child> {
        self.by_origin.get_mut(&origin).filter(|child| child.is_greeted())
    }

    /// Gathers a notice that a version needs no keeping any more. A child without a session asks again in its next.
    pub(crate) fn tell_stable(&mut self, origin: OriginId, record: RecordId) {
        if let Some(child) = self.greeted(origin)
            && child.stable.len() < STABLE_MAX
        {
            child.stable.insert(record);
            self.busy.insert(origin);
        }
    }

    /// Sends a child something when it has a session.
    pub(crate) fn tell(&mut self, origin: OriginId, notice: Down) {
        if let Some(child) = self.greeted(origin)
            && child.notices.len() < STABLE_MAX
        {
            child.tells_of_loss |= matches!(notice, Down::LockLost { .. });
            child.notices.push(notice);
            self.busy.insert(origin);
        }
    }

    /// Tells a child that a lock is its, behind everything that changed before.
    pub(crate) fn grant(&mut self, origin: OriginId, ask: AskId, change: CommitNumber) {
        self.tell_behind(origin, Down::LockAnswer { ask, verdict: LockVerdict::Granted }, change);
    }

    /// Tells a child that a file's locks are its to decide about, behind everything that changed before.
    pub(crate) fn delegate(&mut self, origin: OriginId, ask: AskId, serial: DelegationId, change: CommitNumber) {
        self.tell_behind(origin, Down::LockAnswer { ask, verdict: LockVerdict::Delegated { serial } }, change);
    }

    /// Tells a child something about locks behind everything that changed before, in order.
    pub(crate) fn tell_behind(&mut self, origin: OriginId, said: Down, change: CommitNumber) {
        if let Some(child) = self.greeted(origin) {
            child.grants.push((said, change));
            self.busy.insert(origin);
        }
    }

    /// Whether a child is still to be told that a lock is its.
    pub(crate) fn is_granted(&self, origin: OriginId, ask: AskId) -> bool {
        let is_its =
            |(said, _): &(Down, CommitNumber)| matches!(said, Down::LockAnswer { ask: granted, .. } if *granted == ask);
        self.by_origin.get(&origin).is_some_and(|child| child.grants.iter().any(is_its))
    }

    pub(crate) fn first_blocked(&self, origin: OriginId) -> Option<u64> {
        self.blocked.get(&origin)?.front().map(|(sequence, _)| *sequence)
    }

    fn unwatch_all(&mut self, origin: OriginId, files: impl IntoIterator<Item = FileId>) {
        for file in files {
            if let Some(watchers) = self.watchers.get_mut(&file) {
                watchers.remove(&origin);
                if watchers.is_empty() {
                    self.watchers.remove(&file);
                }
            }
        }
    }

    /// Takes a child out with all that refers to it.
    pub(crate) fn remove(&mut self, origin: OriginId) -> Option<Child> {
        let mut child = self.by_origin.remove(&origin)?;
        self.unwatch_all(origin, std::mem::take(&mut child.watches));
        for subject in child.marks.keys() {
            if let Some(children) = self.subjects.get_mut(subject) {
                children.remove(&origin);
                if children.is_empty() {
                    self.subjects.remove(subject);
                }
            }
        }
        self.busy.remove(&origin);
        self.gated.remove(&origin);
        Some(child)
    }

    /// Lets go writers whose change every other client has received by now.
    pub(crate) fn unblock(&mut self) {
        if self.blocked.is_empty() {
            return;
        }
        // The writer itself never blocks its own record, so two least values serve all.
        let mut least: [(CommitNumber, Option<OriginId>); 2] = [(CommitNumber::MAX, None); 2];
        for (origin, child) in &self.by_origin {
            let clear = child.clear_through();
            if clear < least[0].0 {
                least = [(clear, Some(*origin)), least[0]];
            } else if clear < least[1].0 {
                least[1] = (clear, Some(*origin));
            }
        }
        let mut done = Vec::new();
        for (origin, queue) in &mut self.blocked {
            let clear = if least[0].1 == Some(*origin) { least[1].0 } else { least[0].0 };
            let before = queue.len();
            while queue.front().is_some_and(|(_, change)| *change <= clear) {
                queue.pop_front();
            }
            if queue.len() < before {
                self.dirty.insert(*origin);
            }
            if queue.is_empty() {
                done.push(*origin);
            }
        }
        for origin in done {
            self.blocked.remove(&origin);
        }
    }

    /// After a restart every client that had a session may still trust its cache for a lease.
    pub(crate) fn read_children<S: MetaStore>(&mut self, core: &Core<S>) -> Result<(), StorageError> {
        let mut rows = Vec::new();
        core.state.each(&[table::CHILD], &[table::CHILD + 1], |key, value| {
            rows.push((parse_origin_key(key)?, unpack::<ChildRow>(value)?));
            Ok(())
        })?;
        for (origin, row) in rows {
            if row.is_station {
                self.station_cursors.insert(origin, row.cursor);
            } else {
                let mut detached = Child::new(ChildKind::Client, None, ChildState::Detached, core.now);
                detached.unknown = true;
                self.by_origin.insert(origin, detached);
            }
        }
        Ok(())
    }

    /// Whether no child has anything coming.
    pub(crate) fn children_calm<S: MetaStore>(&self, core: &Core<S>) -> bool {
        self.gated.is_empty()
            && self.blocked.is_empty()
            && self.by_origin.values().all(|child| {
                child.peer.is_none()
                    || (child.unreceived.is_empty()
                        && child.pending.is_empty()
                        && child.asks.is_empty()
                        && child.state != ChildState::Greeting
                        && child.state != ChildState::Ready
                        && child.next >= core.state.change())
            })
    }

    /// Sends to a child once everything committed so far is durable.
    pub(crate) fn send_child<S: MetaStore>(&mut self, core: &mut Core<S>, origin: OriginId, down: Down) {
        if self.peer_of(origin).is_some() {
            self.post_to_child(core, origin, wayfs_wire::encode(&Message::Down(down)));
        }
    }

    /// The same with a message that is bytes already.
    pub(crate) fn post_to_child<S: MetaStore>(&mut self, core: &mut Core<S>, origin: OriginId, bytes: Bytes) {
        let ticket = core.state.ticket();
        if let Some(child) = self.by_origin.get_mut(&origin).filter(|child| child.peer.is_some()) {
            child.outbox.push_back(HeldMessage { ticket, bytes });
            self.gated.insert(origin);
            self.flush_child(core, origin);
        }
    }

    fn flush_child<S: MetaStore>(&mut self, core: &mut Core<S>, origin: OriginId) {
        let Some(child) = self.by_origin.get_mut(&origin) else { return };
        let Some(peer) = child.peer else { return };
        while child.outbox.front().is_some_and(|message| message.ticket <= core.state.stored()) {
            if let Some(message) = child.outbox.pop_front() {
                core.outputs.push_back(crate::api::Output::Send { peer, bytes: message.bytes });
            }
        }
        if child.outbox.is_empty() {
            self.gated.remove(&origin);
        } else {
            core.state.want_sync();
        }
    }

    pub(crate) fn release_gated<S: MetaStore>(&mut self, core: &mut Core<S>) {
        for origin in self.gated.clone() {
            self.flush_child(core, origin);
        }
    }

    pub(crate) fn add_watches(&mut self, origin: OriginId, files: &[FileId]) {
        let Some(child) = self.by_origin.get_mut(&origin) else { return };
        for file in files {
            child.watches.insert(*file);
            self.watchers.entry(*file).or_default().insert(origin);
        }
    }

    pub(crate) fn add_subject<S: MetaStore>(&mut self, core: &mut Core<S>, child: OriginId, subject: OriginId) {
        if let Some(row) = self.by_origin.get_mut(&child) {
            row.marks.entry(subject).or_insert(None);
            self.subjects.entry(subject).or_default().insert(child);
            core.state.stage_marks(subject);
        }
    }

    pub(crate) fn write_child_row<S: MetaStore>(
        core: &mut Core<S>,
        origin: OriginId,
        kind: ChildKind,
        cursor: CommitNumber,
    ) {
        let is_station = kind == ChildKind::Station;
        core.state.put_row(origin_key(table::CHILD, origin), pack(&ChildRow { is_station, cursor }));
    }

    /// What the home said of an origin.
    pub(crate) fn origin_image<S: MetaStore>(
        core: &mut Core<S>,
        origin: OriginId,
    ) -> Result<Option<Arc<wayfs_types::Origin>>, StorageError> {
        Ok(match wayfs_tree::View::image(&core.state.tx(), &Key::Origin(origin))? {
            Some(Image::Origin(origin)) => Some(origin),
            _ => None,
        })
    }
}
