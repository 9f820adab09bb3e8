//! How a server reaches a client that left it: by the home, which asks all who may know it.
//!
//! ```text
//!   former server            home                  another station        client
//!     GiveLock ───────────▶  GiveLock ───────────▶  GiveLock ───────────▶  marks its lock lost
//!     ◀────────── LockGiven  ◀────────── LockGiven  ◀────────── LockGiven  (or who does not know the client: not told)
//!                            ◀──────── BringsLocks  ◀─────────── KeepLock  the client came there
//!     ◀──────── BringsLocks
//! ```
//!
//! The home adds by whose word it asks; nobody but a station may ask, and only about what it had given itself
//! (`locks/taken_along.rs`). One that says falsely that the client heard of it deceives only who asked: all are asked, and the client among them.
//! A home that is itself the former server, or has the client, has a part of this way less to go.
//!
//! Bounds: so many questions of one station at a time, each for a lease at most.

use crate::api::PeerId;
use crate::children::Children;
use crate::locks::Locks;
use crate::locks::round::{Asking, Round, Wanted};
use crate::replica::core::Core;
use crate::replica::errors::StepError;
use std::collections::BTreeSet;
use wayfs_types::request::LockRequest;
use wayfs_types::{MetaStore, OriginId};
use wayfs_wire::{AskId, Down, Up};

/// Most questions of one station that are under way. Who asks more is told that nobody heard of it.
const ROUNDS_MAX: usize = 1024;

impl Locks {
    /// Asks those of our children who may know a client.
    pub(crate) fn begin_lock_round<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        children: &mut Children,
        of: Asking,
        wanted: Wanted<'_>,
    ) {
        let rounds = &self.rounds.rounds;
        let is_same = |round: &Round| match (round.of, of) {
            (Asking::Station(one, _), Asking::Station(other, _)) => one == other,
            (Asking::Home(_), Asking::Home(_)) | (Asking::Ourselves(_), Asking::Ourselves(_)) => true,
            _ => false,
        };
        let is_full = rounds.values().filter(|round| is_same(round)).count() >= ROUNDS_MAX;
        let is_home = core.orders();
        let knows = |origin: OriginId, is_station: bool| {
            if is_station { is_home && origin != wanted.from } else { origin == wanted.client }
        };
        let stations = children.greeted_stations().filter(|origin| knows(*origin, true));
        let clients = children.greeted_clients().filter(|origin| knows(*origin, false));
        let waiting: BTreeSet<OriginId> = stations.chain(clients).collect();
        if is_full || waiting.is_empty() {
            return self.end_lock_round(core, children, of, None);
        }
        let ask = AskId(self.rounds.next);
        self.rounds.next += 1;
        let Wanted { from, client, locks } = wanted;
        for origin in &waiting {
            children.tell(*origin, Down::GiveLock { ask, from, client, wanted: locks.to_vec() });
        }
        self.rounds.rounds.insert(ask, Round { of, waiting, until: core.now + core.config.lease });
    }

    /// `left`: what the client has still; `None`: nobody told it.
    fn end_lock_round<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        children: &mut Children,
        of: Asking,
        left: Option<Vec<LockRequest>>,
    ) {
        let told = left.is_some();
        match of {
            Asking::Ourselves(ask) => self.handle_left_asked(core, children, ask, left.as_deref()),
            Asking::Station(station, ask) => {
                children.tell(station, Down::LockGiven { ask, told, left: left.unwrap_or_default() });
            }
            Asking::Home(ask) => core.tell_parent(Up::LockGiven { ask, told, left: left.unwrap_or_default() }),
        }
    }

    /// A child answers. `left`: what the client has still; `None`: it is not there.
    pub(crate) fn handle_lock_given<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        children: &mut Children,
        child: OriginId,
        ask: AskId,
        left: Option<Vec<LockRequest>>,
    ) {
        let Some(round) = self.rounds.rounds.get_mut(&ask) else { return };
        if !round.waiting.remove(&child) || left.is_none() && !round.waiting.is_empty() {
            return;
        }
        let of = round.of;
        self.rounds.rounds.remove(&ask);
        self.end_lock_round(core, children, of, left);
    }

    /// A child's session is over: it answers nothing more, and wants no answer.
    pub(crate) fn end_lock_rounds_of<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        children: &mut Children,
        child: OriginId,
    ) {
        let rounds = &mut self.rounds.rounds;
        rounds.retain(|_, round| !matches!(round.of, Asking::Station(station, _) if station == child));
        let its: Vec<AskId> = rounds.iter().filter(|(_, r)| r.waiting.contains(&child)).map(|(ask, _)| *ask).collect();
        for ask in its {
            self.handle_lock_given(core, children, child, ask, None);
        }
    }

    /// Ends what was waited for long enough.
    pub(crate) fn check_lock_rounds<S: MetaStore>(&mut self, core: &mut Core<S>, children: &mut Children) {
        if self.rounds.next_end().is_none_or(|end| core.now < end) {
            return;
        }
        let now = core.now;
        let over: Vec<AskId> =
            self.rounds.rounds.iter().filter(|(_, round)| now >= round.until).map(|(ask, _)| *ask).collect();
        for ask in over {
            if let Some(round) = self.rounds.rounds.remove(&ask) {
                self.end_lock_round(core, children, round.of, None);
            }
        }
    }

    /// What our parent says about locks that were taken along.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the others say nothing of locks")]
    pub(crate) fn handle_lock_news<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        children: &mut Children,
        said: Down,
    ) -> Result<(), StepError> {
        match said {
            Down::GiveLock { ask, from, client, wanted } if core.serves() => {
                self.begin_lock_round(core, children, Asking::Home(ask), Wanted { from, client, locks: &wanted });
            }
            Down::GiveLock { ask, from, client, wanted } => {
                let is_meant = client == core.config.origin;
                let left = if is_meant { self.give_taken_along(core, children, from, &wanted) } else { Vec::new() };
                core.tell_parent(Up::LockGiven { ask, told: is_meant, left });
            }
            Down::LockGiven { ask, told, left } => {
                self.handle_left_asked(core, children, ask, told.then_some(left).as_deref());
            }
            Down::BringsLocks { client } => self.left_client_appeared(core, children, client),
            _ => {}
        }
        Ok(())
    }

    /// What a child says about locks that were taken along.
    ///
    /// # Errors
    /// [`StepError::Peer`] if a client says what only a station may say.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the others say nothing of locks")]
    pub(crate) fn handle_child_lock_news<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        children: &mut Children,
        peer: PeerId,
        child: OriginId,
        said: Up,
    ) -> Result<(), StepError> {
        let is_station = children.is_station(child);
        match said {
            Up::LockGiven { ask, told, left } => {
                self.handle_lock_given(core, children, child, ask, told.then_some(left));
            }
            _ if !is_station => {
                return Err(StepError::Peer(peer, "says of others' locks what only a station may say".to_owned()));
            }
            Up::GiveLock { ask, client, wanted } => {
                let wanted = Wanted { from: child, client, locks: &wanted };
                self.begin_lock_round(core, children, Asking::Station(child, ask), wanted);
            }
            Up::BringsLocks { client } => {
                self.left_client_appeared(core, children, client);
                Self::tell_stations_who_brings(children, client, Some(child));
            }
            _ => {}
        }
        Ok(())
    }

    /// A client claims here what it has: all who may have something to tell it about that hear of it, once in its session.
    pub(crate) fn note_brings_locks<S: MetaStore>(core: &mut Core<S>, children: &mut Children, client: OriginId) {
        if !children.note_brings_locks(client) {
            return;
        }
        if core.orders() {
            Self::tell_stations_who_brings(children, client, None);
        } else if Self::has_lock_parent(core) {
            // Else it is told with others when the home can be reached.
            core.tell_parent(Up::BringsLocks { client });
        }
    }

    fn tell_stations_who_brings(children: &mut Children, client: OriginId, by: Option<OriginId>) {
        let others: Vec<OriginId> = children.greeted_stations().filter(|origin| Some(*origin) != by).collect();
        for station in others {
            children.tell(station, Down::BringsLocks { client });
        }
    }

    /// Station, in a new session with the home: which of our clients came with locks.
    pub(crate) fn retell_who_brings_locks<S: MetaStore>(core: &mut Core<S>, children: &Children) {
        for client in children.that_bring_locks() {
            core.tell_parent(Up::BringsLocks { client });
        }
    }

    /// The session with the home is over: it wants no answer.
    pub(crate) fn end_lock_rounds_of_home(&mut self) {
        self.rounds.rounds.retain(|_, round| !matches!(round.of, Asking::Home(_)));
    }
}
