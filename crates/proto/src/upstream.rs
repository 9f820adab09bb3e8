//! The session with our parent.
//!
//! ```text
//!   Greeting ──Welcome──▶ CatchingUp ──last image of the cut──▶ Live
//!        └──the parent has not yet what we have seen there──▶ Migrating ──it has──▶ CatchingUp
//!                                                                │
//!                          the home told it all, and has it not──┴──▶ Forked
//!   any of them ──the parent has other records of ours than we──▶ Forked ──a new origin──▶ a new session
//! ```
//!
//! Records go up once they are durable here (or a little before, see `ahead`), so
//! a sequence is never used twice and contents are never named that a crash could
//! take. While Migrating (a
//! client that moved) the view stays as the former parent left it: reading goes
//! on as if offline until the new parent has every record that the former one
//! had confirmed, so that nobody sees his own past undone.

pub(crate) mod ahead;
pub(crate) mod answers;
pub(crate) mod backwards;
pub(crate) mod catching;
pub(crate) mod claimed;
pub(crate) mod claims;
pub(crate) mod fact_asks;
pub(crate) mod facts_told;
pub(crate) mod gathered;
pub(crate) mod leaving;
pub(crate) mod line;
mod messages;
pub(crate) mod needs;
pub(crate) mod omitting;
pub(crate) mod own_rights;
mod past;
pub(crate) mod rights;
pub(crate) mod sending;
mod session;
mod standing;
pub(crate) mod welcomed;

use crate::api::PeerId;
use crate::replica::composition::Position;
use crate::replica::core::Core;
use crate::requests::seen::Asked;
use crate::state::position::{LogPosition, log_key};
use crate::upstream::claimed::Claims;
use crate::upstream::facts_told::{FactAsk, FactsTold};
use crate::upstream::leaving::Leaving;
use crate::upstream::line::UplinkState;
use crate::upstream::own_rights::OwnRights;
use crate::upstream::past::Past;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;
use wayfs_types::{CommitNumber, FileId, Key, MetaStore, OriginId, RecordId, StorageError, Time};
use wayfs_wire::{AskId, KeyImage, Mark, Question, Up};

/// Identifiers in one message.
const IDS_PER_MESSAGE: usize = 65_536;
/// Most former origins of a client that a greeting names: the newest. What a home lost of older ones is not found.
pub(crate) const FORMER_NAMED_MAX: usize = 64;
/// Pings remembered until their answer comes.
const PINGS_MAX: usize = 16;

/// What a replica knows of its parents: the present session, and what was had by former ones. No other part sees into it.
#[derive(Debug, Default)]
pub(crate) struct Uplink {
    session: Option<Upstream>,
    /// What is claimed of the home for changes of our user. `None`: others make the changes, and claim for them.
    claims: Option<Claims>,
    past: Past,
    /// Facts about the versions of others that we asked for.
    facts: FactsTold,
    /// When the home was heard last, by our parent's word or by itself; `None`: not since we were opened.
    home_heard: Option<Time>,
    /// Sequence of our own up to which somebody may have been told.
    sent_through: u64,
}

/// The session with our parent.
#[derive(Debug)]
pub(crate) struct Upstream {
    began: Time,
    heard: Time,
    pings: VecDeque<(u64, Time)>,
    ping_number: u64,
    next_ping: Time,
    /// What the parent has of each origin.
    applied: BTreeMap<OriginId, u64>,
    /// Sent and not acknowledged: sequence, and bytes.
    in_flight: BTreeMap<OriginId, VecDeque<(u64, usize)>>,
    in_flight_len: usize,
    in_flight_bytes: usize,
    records_at: Option<Time>,
    leaving: Leaving,
    /// The parent goes on where we left off with it.
    resumed: bool,
    /// The parent could not resume: what it does not name of small tables is no more.
    anew: bool,
    /// The cut so far.
    partial: Vec<KeyImage>,
    asks: BTreeMap<AskId, Asked>,
    by_question: BTreeMap<Question, AskId>,
    /// What we ask a parent to which we come with records that another confirmed. `None`: it is always the home.
    comeback: Option<Comeback>,
    /// Questions about facts, our own and those of children.
    fact_asks: BTreeMap<AskId, FactAsk>,
    /// Station: contents of records that are written again by another name and may have been sent in this session by their own.
    parted: BTreeMap<RecordId, Bytes>,
    /// What we may change without a question.
    rights: OwnRights,
    /// Sequence up to which the parent was asked to make us stable.
    asked_stable: u64,
    /// Station: origins of which the home has other records than we; nothing of them is sent until its image of them was taken over.
    doubtful: BTreeSet<OriginId>,
    /// Origins of which the parent has a record that we do not know: until its first images say whose, nothing that comes
    /// after is sent.
    unplaced: BTreeSet<OriginId>,
    /// What was said of origins whose images are to come yet.
    marks_ahead: BTreeMap<OriginId, Mark>,
    /// The last record of each origin that was sent in this session.
    told: BTreeMap<OriginId, u64>,
}

/// What a writer asks a parent to which it comes with records that another confirmed.
#[derive(Debug, Default)]
struct Comeback {
    /// Our question whether the home still has what it confirmed of ours.
    migration: Option<AskId>,
    /// The parent was put back, or heard that the home was: what we knew before this change may be lost.
    lost_before: Option<CommitNumber>,
    /// The parent has less than the home had of what we wrote under the origins that we had before.
    lacks_former: bool,
    /// Our question whether the parent has caught up since.
    loss_ask: Option<AskId>,
    /// The parent has told how much of ours is stable, in this session or the last.
    told_stable: bool,
}

impl Uplink {
    /// That of a store whose last record of its own is this: all of it may have been sent.
    pub(crate) fn after(sequence: u64, position: Position) -> Self {
        let claims = (position == Position::Writes).then(Claims::default);
        Self { claims, sent_through: sequence, ..Self::default() }
    }

    /// The parent goes on where we left off with it.
    pub(crate) fn is_resumed(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.resumed)
    }

    /// What the parent has of an origin, as far as it said; 0 without a session.
    pub(crate) fn applied_of(&self, origin: OriginId) -> u64 {
        self.session.as_ref().map_or(0, |session| session.applied_of(origin))
    }

    /// What we were told of them may not be so any more.
    pub(crate) fn forget_facts(&mut self) {
        self.facts = FactsTold::default();
    }

    /// What we were told of the versions of others.
    pub(crate) fn facts(&self) -> &FactsTold {
        &self.facts
    }

    /// Whether a question about facts waits for its answer.
    pub(crate) fn is_fact_asked(&self, ask: AskId) -> bool {
        self.session.as_ref().is_some_and(|session| session.fact_asks.contains_key(&ask))
    }

    /// A right to change alone ended without a word of the parent.
    pub(crate) fn forget_right(&mut self, file: FileId) {
        if let Some(session) = self.session.as_mut() {
            session.rights.forget(file);
        }
    }

    /// The last record of an origin that is sent in this session. Answers which was the last before it.
    pub(crate) fn note_told(&mut self, record: RecordId) -> Option<u64> {
        self.session.as_mut().and_then(|session| session.told.insert(record.origin(), record.sequence()))
    }

    /// Of which origins the parent has other records than we, and of which it has some that we cannot place yet.
    pub(crate) fn hold_back(&mut self, doubtful: BTreeSet<OriginId>, unplaced: BTreeSet<OriginId>) {
        if let Some(session) = self.session.as_mut() {
            (session.doubtful, session.unplaced) = (doubtful, unplaced);
        }
    }

    /// What was stable is not: whoever waits for it asks again.
    pub(crate) fn forget_asked_stable(&mut self) {
        if let Some(session) = self.session.as_mut() {
            session.asked_stable = 0;
        }
    }

    /// Whether what the parent tells to be stable counts where it is less than is known: the home knows, and whoever told more
    /// before, in this session or the last. Another station may not have heard yet how far a client that comes to it is.
    pub(crate) fn may_go_back(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.comeback.is_none())
    }

    /// The same of our own records; the parent has told of them from then on.
    pub(crate) fn may_own_go_back(&mut self) -> bool {
        let Some(session) = self.session.as_mut() else { return false };
        session.comeback.as_mut().is_none_or(|comeback| std::mem::replace(&mut comeback.told_stable, true))
    }

    fn comeback_mut(&mut self) -> Option<&mut Comeback> {
        self.session.as_mut()?.comeback.as_mut()
    }

    /// Sequence of our own up to which somebody may have been told.
    pub(crate) fn sent_through(&self) -> u64 {
        self.sent_through
    }

    /// Our own records bear another origin from here on: nobody was told of any.
    pub(crate) fn set_sent_through(&mut self, sequence: u64) {
        self.sent_through = sequence;
    }

    /// When the home was heard last: from the home itself, or by the word of our parent, which is as old as its last
    /// answer to a ping (a quarter of a lease). `None`: not since this replica was opened.
    pub(crate) fn home_heard<S: MetaStore>(&self, core: &Core<S>) -> Option<Time> {
        if core.orders() { Some(core.now) } else { self.home_heard }
    }

    /// Whether the home was heard of within a lease, and a while for two hops' pings. `None`: not since this replica was
    /// opened.
    pub(crate) fn is_home_reachable<S: MetaStore>(&self, core: &Core<S>, now: Time) -> Option<bool> {
        let within = core.config.lease + core.config.lease / 2;
        self.home_heard(core).map(|heard| now < heard + within)
    }

    /// The parent says how long ago it heard the home.
    fn note_home<S: MetaStore>(&mut self, core: &Core<S>, ms: Option<u64>) {
        let Some(ms) = ms else { return };
        let heard = Time::from_micros(core.now.as_micros().saturating_sub(ms.saturating_mul(1000)));
        self.home_heard = Some(self.home_heard.map_or(heard, |known| known.max(heard)));
    }

    /// Whether a request may wait for the session to come up.
    pub(crate) fn is_connecting<S: MetaStore>(&self, core: &Core<S>) -> bool {
        self.is_beginning(core, Duration::from_secs(2))
    }

    /// Whether a parent is there that will soon be able to answer. One that does not catch up within a lease is
    /// itself cut off, and whoever asks for something new is better told so at once.
    pub(crate) fn is_catching_up<S: MetaStore>(&self, core: &Core<S>) -> bool {
        self.is_beginning(core, core.config.lease)
    }

    fn is_beginning<S: MetaStore>(&self, core: &Core<S>, within: Duration) -> bool {
        let is_young = |up: &Upstream| core.now < up.began + within;
        core.standing() != Some(UplinkState::Live) && self.session.as_ref().is_some_and(is_young)
    }

    /// What the parent has of an origin, as far as it said.
    pub(crate) fn parent_has(&self, origin: OriginId) -> u64 {
        self.session.as_ref().map_or(0, |up| up.applied_of(origin))
    }

    /// The parent said something.
    fn note_heard<S>(&mut self, core: &Core<S>) {
        if let Some(session) = self.session.as_mut() {
            session.heard = core.now;
        }
    }

    /// The parent sends or takes contents.
    pub(crate) fn note_moved<S: MetaStore>(&mut self, core: &Core<S>, peer: PeerId) {
        if let Some(upstream) = self.session.as_mut().filter(|_| core.parent() == Some(peer)) {
            upstream.heard = core.now;
        }
    }

    fn ping<S: MetaStore>(&mut self, core: &mut Core<S>) {
        let (now, lease) = (core.now, core.config.lease);
        let Some(upstream) = self.session.as_mut() else { return };
        upstream.next_ping = now + lease / 4;
        upstream.ping_number += 1;
        upstream.pings.push_back((upstream.ping_number, now));
        if upstream.pings.len() > PINGS_MAX {
            upstream.pings.pop_front();
        }
        let number = upstream.ping_number;
        core.tell_parent(Up::Ping { number });
    }

    /// A client drops records that the home has ordered and the present parent's state holds, once their contents are
    /// safe, too, and they are durable here: until then they are what is not safe, and are shown as such.
    pub(crate) fn trim_log<S: MetaStore>(&mut self, core: &mut Core<S>) -> Result<(), StorageError> {
        if !core.writes() {
            return Ok(());
        }
        let Some(first) = core.state.log().from(LogPosition::START).next().map(|(_, item)| item.id.sequence()) else {
            return Ok(());
        };
        let own = core.config.origin;
        let marks = core.state.marks(own)?;
        let told = marks.visible.min(marks.safe).min(core.state.own_durable());
        if told < first {
            return Ok(());
        }
        let through = told.min(core.state.confirmed_applied(own)?);
        let done: Vec<LogPosition> = core
            .state
            .log()
            .from(LogPosition::START)
            .take_while(|(_, item)| item.id.sequence() <= through)
            .map(|(position, _)| position)
            .collect();
        for position in done {
            self.note_built_upon(core, position)?;
            core.state.delete_row(log_key(position));
            core.state.stage_forgotten(position);
        }
        Ok(())
    }
}

impl Upstream {
    /// What the parent has of an origin, as far as it said.
    pub(crate) fn applied_of(&self, origin: OriginId) -> u64 {
        self.applied.get(&origin).copied().unwrap_or(0)
    }

    /// The last record of an origin that the parent has or is on its way to it.
    pub(crate) fn sent_of(&self, origin: OriginId) -> u64 {
        let flying = self.in_flight.get(&origin).and_then(VecDeque::back).map_or(0, |(last, _)| *last);
        self.applied_of(origin).max(flying)
    }

    /// Whether records are on their way.
    pub(crate) fn is_flying(&self) -> bool {
        self.in_flight_len > 0
    }

    /// A record is on its way, and so many bytes.
    pub(crate) fn note_flight(&mut self, record: RecordId, len: usize) {
        self.in_flight.entry(record.origin()).or_default().push_back((record.sequence(), len));
        self.in_flight_len += 1;
        self.in_flight_bytes += len;
    }
}

/// The origins that images are of.
fn origins_in(cut: &[KeyImage]) -> BTreeSet<OriginId> {
    let origin = |pair: &KeyImage| match (&pair.key, &pair.image) {
        (Key::Origin(origin), Some(_)) => Some(*origin),
        _ => None,
    };
    cut.iter().filter_map(origin).collect()
}
