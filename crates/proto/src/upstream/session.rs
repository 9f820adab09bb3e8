//! How the session with the parent begins and ends.

use crate::api::{Output, PeerId, PeerRole};
use crate::histories::Histories;
use crate::replica::Replica;
use crate::replica::errors::StepError;
use crate::requests::watches::Watches;
use crate::upstream::leaving::{Gathering, Leaving};
use crate::upstream::line::{Line, UplinkState};
use crate::upstream::own_rights::OwnRights;
use crate::upstream::{Comeback, FORMER_NAMED_MAX, IDS_PER_MESSAGE, Upstream};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use wayfs_types::{FileId, Key, MetaStore, Op, StorageError, Time};
use wayfs_wire::Up;

impl<S: MetaStore> Replica<S> {
    pub(crate) fn handle_parent_up(&mut self, peer: PeerId) -> Result<(), StepError> {
        if self.core.orders() {
            self.core.outputs.push_back(Output::Disconnect { peer, reason: "a home has no parent".to_owned() });
            return Ok(());
        }
        if let Some(old) = self.core.parent() {
            self.forget_peer(old);
            let reason = "another session with the parent began".to_owned();
            self.core.outputs.push_back(Output::Disconnect { peer: old, reason });
        }
        let own = self.core.config.origin;
        let safe = self.core.state.marks(own)?.safe;
        let lease = self.core.config.lease;
        let since = self.core.state.change().next();
        let leaving = if self.core.relays() {
            let newest = self.core.state.log().newest();
            Leaving::Gathered(newest.map(|newest| Gathering::of_old(newest, self.core.now)))
        } else {
            Leaving::AtOnce
        };
        self.core.line = Some(Line::new(peer, since, self.core.now + lease));
        self.uplink.session = Some(Upstream {
            began: self.core.now,
            heard: self.core.now,
            pings: VecDeque::new(),
            ping_number: 0,
            next_ping: self.core.now + lease / 4,
            applied: BTreeMap::new(),
            in_flight: BTreeMap::new(),
            in_flight_len: 0,
            in_flight_bytes: 0,
            records_at: None,
            leaving,
            resumed: false,
            anew: false,
            partial: Vec::new(),
            asks: BTreeMap::new(),
            by_question: BTreeMap::new(),
            comeback: self.core.writes().then(Comeback::default),
            fact_asks: BTreeMap::new(),
            parted: BTreeMap::new(),
            rights: OwnRights::default(),
            asked_stable: 0,
            doubtful: BTreeSet::new(),
            unplaced: BTreeSet::new(),
            marks_ahead: BTreeMap::new(),
            told: BTreeMap::new(),
        });
        self.peers.insert(peer, PeerRole::Parent);
        self.locks.begin_session();
        self.contents.begin_session(safe);
        let origins = if self.core.writes() {
            // What the home has of its former origins tells what a home that was put back lost of them.
            Histories::former_origins(&mut self.core, FORMER_NAMED_MAX)?.into_iter().chain([own]).collect()
        } else {
            self.core.state.log().origins().chain([own]).collect()
        };
        let life = self.core.config.life;
        let hello =
            Up::Hello { volume: self.core.config.volume, resume: self.core.state.resume(), origins, safe, life };
        self.core.tell_parent(hello);
        self.requests.wake_parked();
        Ok(())
    }

    pub(crate) fn parent_lost(&mut self) {
        self.answer_fact_asks();
        self.children.refuse_catches();
        self.locks.part_from_home(&mut self.children);
        if let Some(claims) = &mut self.uplink.claims {
            claims.parent_lost();
        }
        self.locks.note_taken_along(&self.core);
        self.uplink.session = None;
        self.core.line = None;
        self.locks.end_session();
        self.forget_rooms();
        self.contents.end_session();
        self.requests.wake_parked();
        self.locks_parent_lost();
        self.locks.end_lock_rounds_of_home();
        self.locks.left_locks_parent_lost(&mut self.core, &mut self.children);
        self.settle_requests();
    }

    pub(crate) fn set_standing(&mut self, state: UplinkState) {
        if let Some(line) = self.core.line.as_mut() {
            line.state = state;
        }
        self.requests.wake_parked();
    }

    /// Asks for images, and for what else a session has.
    pub(crate) fn start_stream(&mut self) -> Result<(), StorageError> {
        self.tell_watches()?;
        self.locks_reclaim();
        self.core.tell_parent(Up::Start);
        self.set_standing(UplinkState::CatchingUp);
        self.locks.begin_vouched(&self.core);
        Ok(())
    }

    /// Says what we watch, and asks for what our records touched that the parent has: it names them no more.
    fn tell_watches(&mut self) -> Result<(), StorageError> {
        let Watches::Kept(watches) = &self.watches else { return Ok(()) };
        let watches = watches.in_force();
        self.begin_rights();
        for part in watches.chunks(IDS_PER_MESSAGE) {
            self.core.tell_parent(Up::Watch { files: part.to_vec() });
        }
        let own = self.core.config.origin;
        let mut keys = Vec::new();
        for position in self.core.state.log().tentative_through(own, self.uplink.parent_has(own)) {
            let entry = self.core.state.log_entry(position)?;
            // What was stored may have become a file of its own there.
            keys.extend(
                matches!(entry.record.op, Op::Store { .. }).then_some(Key::Inode(FileId::made_by(entry.record.id))),
            );
            keys.extend(entry.touched.into_iter().map(|(key, _)| key));
        }
        keys.sort_unstable();
        keys.dedup();
        for part in keys.chunks(IDS_PER_MESSAGE / 8) {
            self.core.tell_parent(Up::Refresh { keys: part.to_vec() });
        }
        Ok(())
    }

    /// Pings, and gives up a parent that has been silent for a lease.
    pub(crate) fn check_upstream(&mut self) -> Result<(), StorageError> {
        let lease = self.core.config.lease;
        let now = self.core.now;
        let (Some(upstream), Some(line)) = (self.uplink.session.as_mut(), self.core.line.as_mut()) else {
            return Ok(());
        };
        if now >= upstream.heard + lease {
            let peer = line.peer;
            self.disconnect(peer, "silent for a lease".to_owned());
            return Ok(());
        }
        if now >= upstream.next_ping {
            self.uplink.ping(&mut self.core);
            Histories::ask_renewal(&mut self.core);
            self.uplink.ask_whether_lost(&mut self.core);
            self.uplink.ask_what_is_lost(&mut self.core);
            self.contents.ask_about_former(&mut self.core, &mut self.uplink)?;
        }
        Ok(())
    }

    pub(crate) fn upstream_timeout(&self) -> Option<Time> {
        let upstream = self.uplink.session.as_ref()?;
        let next = upstream.next_ping.min(upstream.heard + self.core.config.lease);
        // A time that has come waits for something else: for our disk, or for room on the line.
        let gathered = self.gathered_at(upstream).filter(|at| *at > self.core.now);
        Some(gathered.map_or(next, |at| next.min(at)))
    }
}
