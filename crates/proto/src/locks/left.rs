//! Locks of clients that left: they are not given to others before their holder knows that they are lost ([S-lock-lost]).
//!
//! ```text
//!   its lease is over: the lock stays, as one that was left
//!     ──another wants it──▶ asked for: who had it is told, by way of the home (`locks/rounds.rs`)
//!         ├── it heard of it, and says what else it has ──▶ given
//!         └── nobody reaches it, or half a lease is over ──▶ given, and on record until it heard of it
//! ```
//!
//! A client that goes to another server takes its locks along, as far as nobody has them there. The server that it left gives
//! them to nobody while its lease lasts, and to whoever asks for them thereafter. What nobody asks for stays with the client, for
//! days, and nothing is said about it.
//!
//! What was given although nobody could be told is kept on the disk. The client hears of it as soon as there is a way: when it comes anywhere
//! with locks (`BringsLocks`), in our next session with the home, or in its own claims when it comes back to us.
//!
//! A server that was restarted knows who may have had locks (`locks/grace.rs`) and not which. Of who is not back in time it takes for granted
//! that he has whatever others want, until he was asked once: then he says what he has.
//!
//! Bounds: a row for each member that left with locks; as many questions as requests wait for locks; so many locks of each
//! member on record, and if there are more, all that it took along counts as given.

use crate::children::Children;
use crate::locks::Locks;
use crate::locks::asks::own_outcome;
use crate::locks::departed::{About, Left, Question};
use crate::locks::round::{Asking, Wanted};
use crate::locks::table::{Asker, Holder, LockTable, Verdict};
use crate::replica::core::Core;
use crate::state::tables::table::GIVEN;
use crate::state::tables::{origin_key, pack, parse_origin_key, unpack};
use crate::upstream::Uplink;
use std::collections::BTreeMap;
use wayfs_types::request::{Answer, LockFamily, LockKind, LockOwner, LockRange, LockRequest};
use wayfs_types::{MetaStore, OriginId, StorageError};
use wayfs_wire::{AskId, Up};

/// Most locks of one client on record.
const GIVEN_MAX: usize = 64;

/// What is told of a lock that another wants: not who.
fn wanted_of(request: LockRequest) -> LockRequest {
    let range = if request.family == LockFamily::Posix { request.range } else { LockRange::WHOLE };
    LockRequest { owner: LockOwner(0), pid: 0, wait: false, range, ..request }
}

/// Puts a lock on record beside others.
fn add_given(given: &mut Vec<LockRequest>, lock: LockRequest) {
    let has = |of: &LockRequest| {
        let is_same = (of.file, of.family) == (lock.file, lock.family);
        let is_as_strong = of.kind == LockKind::Write || of.kind == lock.kind;
        is_same && is_as_strong && of.range.start <= lock.range.start && lock.range.end <= of.range.end
    };
    if given.iter().any(has) {
        return;
    }
    given.push(lock);
    if given.len() > GIVEN_MAX {
        given.clear();
    }
}

impl Locks {
    /// A client's lease is over. What the home gives, and claims, it knows to have lost; the rest it may have taken along.
    pub(crate) fn locks_leave<S: MetaStore>(&mut self, core: &mut Core<S>, children: &mut Children, client: OriginId) {
        for request in self.table.held_by(client) {
            let LockRequest { file, family, owner, range, .. } = request;
            let holder = Holder { origin: client, owner };
            let is_relayed = self.relays.has(&(file, family, holder));
            if is_relayed || !Self::may_be_taken_along(core, &request) {
                let granted = self.table.unlock(holder, file, family, range);
                Self::tell_granted(core, children, granted);
            }
        }
        if self.table.is_holder(client) {
            self.left.clients.entry(client).or_insert(Left { is_known: true, is_nowhere: false });
        }
        if self.left.has_left(client) {
            self.table.note_left(client);
        }
        self.abandon_relays(core, client);
        self.end_relays(core);
    }

    /// Before something is asked for: who left without saying what he has is taken to have it.
    pub(crate) fn suppose_left<S: MetaStore>(
        &mut self,
        core: &Core<S>,
        children: &Children,
        holder: Holder,
        request: &LockRequest,
    ) {
        if self.left.clients.values().all(|left| left.is_known)
            || !Self::may_be_taken_along(core, request)
            || self.table.has_kept(holder, request)
        {
            return;
        }
        let away = self
            .left
            .clients
            .iter()
            .filter(|(client, left)| !left.is_known && **client != holder.origin && !children.is_known(**client));
        for client in away.map(|(client, _)| *client).collect::<Vec<_>>() {
            self.table.suppose(client, request);
        }
    }

    /// A client that is no member any more keeps nothing.
    pub(crate) fn locks_of_revoked<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        children: &mut Children,
        client: OriginId,
    ) {
        if self.left.clients.remove(&client).is_some() {
            self.table.note_returned(client);
            let granted = self.table.set_left(client, &[]);
            Self::tell_granted(core, children, granted);
        }
        self.forget_given(core, client);
    }

    /// A client came somewhere with locks: it can be asked, and told.
    pub(crate) fn left_client_appeared<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        children: &mut Children,
        client: OriginId,
    ) {
        if let Some(left) = self.left.clients.get_mut(&client) {
            left.is_nowhere = false;
        }
        self.tell_given(core, children, client);
    }

    fn tell_given<S: MetaStore>(&mut self, core: &mut Core<S>, children: &mut Children, client: OriginId) {
        let is_under_way = self.left.asked.values().any(|of| of.client == client && of.about == About::Given);
        let Some(wanted) = self.left.given.get(&client).filter(|_| !is_under_way).cloned() else { return };
        self.ask_left(core, children, client, wanted, About::Given);
    }

    /// Asks for what others want, and gives what nobody can be asked for.
    pub(crate) fn tend_left_locks<S: MetaStore>(&mut self, core: &mut Core<S>, children: &mut Children) {
        self.begin_left_session(core, children);
        self.check_lock_rounds(core, children);
        self.end_left_questions(core, children);
        self.table.end_late_returns(core.now);
        let until = core.now + core.config.lease / 2;
        loop {
            let looked = self.table.look_at_undecided(until);
            if looked.is_nothing() {
                return;
            }
            Self::tell_granted(core, children, looked.granted);
            for (asker, request) in looked.refused {
                self.end_lock_wait(core, children, asker, &request, Verdict::Refused);
            }
            for (asker, request) in looked.deadlocked {
                self.end_lock_wait(core, children, asker, &request, Verdict::Deadlock);
            }
            for (asker, held) in looked.tested {
                match asker {
                    Asker::Child(child, ask) => Self::tell_child_tested(children, child, ask, held),
                    Asker::Own(id) => core.end_request(id, Ok(Answer::Lock(held))),
                }
            }
            for recall in looked.recalled {
                Self::recall_locks(core, children, recall);
            }
            for (client, request) in looked.wanted {
                self.want_left(core, children, client, wanted_of(request));
            }
        }
    }

    fn end_lock_wait<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        children: &mut Children,
        asker: Asker,
        request: &LockRequest,
        verdict: Verdict,
    ) {
        match asker {
            Asker::Child(child, ask) => self.tell_child_verdict(core, children, child, ask, request, verdict),
            Asker::Own(id) => {
                if let Some(outcome) = own_outcome(verdict) {
                    core.end_request(id, outcome);
                }
            }
        }
    }

    fn want_left<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        children: &mut Children,
        client: OriginId,
        wanted: LockRequest,
    ) {
        if self.left.is_asked(client, &wanted) {
            return;
        }
        let is_nowhere = self.left.clients.get(&client).is_none_or(|left| left.is_nowhere);
        if is_nowhere || core.relays() && !Self::has_lock_parent(core) {
            return self.give_untold(core, children, client, wanted);
        }
        self.ask_left(core, children, client, vec![wanted], About::Wanted);
    }

    fn ask_left<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        children: &mut Children,
        client: OriginId,
        wanted: Vec<LockRequest>,
        about: About,
    ) {
        let is_station = core.relays();
        if is_station && !Self::has_lock_parent(core) {
            return;
        }
        let ask = AskId(self.left.next);
        self.left.next += 1;
        let until = core.now + core.config.lease / 2;
        self.left.asked.insert(ask, Question { client, wanted: wanted.clone(), until, about });
        if is_station {
            return core.tell_parent(Up::GiveLock { ask, client, wanted });
        }
        let from = core.config.origin;
        self.begin_lock_round(core, children, Asking::Ourselves(ask), Wanted { from, client, locks: &wanted });
    }

    /// Gives what its former holder cannot be asked for: he is told when he can.
    fn give_untold<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        children: &mut Children,
        client: OriginId,
        wanted: LockRequest,
    ) {
        let mut given = self.left.given.get(&client).cloned();
        match &mut given {
            // All of it is on record.
            Some(given) if given.is_empty() => {}
            Some(given) => add_given(given, wanted),
            None => given = Some(vec![wanted]),
        }
        if let Some(given) = given
            && self.left.given.get(&client) != Some(&given)
        {
            core.state.put_row(origin_key(GIVEN, client), pack(&given));
            self.left.given.edit().insert(client, given);
        }
        let granted = self.table.take_from(client, &wanted);
        Self::tell_granted(core, children, granted);
    }

    /// What became of a question. `has`: what the client has still; `None`: it did not hear of it.
    pub(crate) fn handle_left_asked<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        children: &mut Children,
        ask: AskId,
        has: Option<&[LockRequest]>,
    ) {
        let Some(Question { client, wanted, about, .. }) = self.left.asked.remove(&ask) else { return };
        let (told, is_given) = (has.is_some(), about == About::Given);
        if is_given && told && self.left.given.get(&client) == Some(&wanted) {
            self.forget_given(core, client);
        } else if is_given && told {
            // More was given since.
            self.tell_given(core, children, client);
        }
        let is_back = children.is_known(client);
        let Some(left) = self.left.clients.get_mut(&client).filter(|_| !is_back) else { return };
        *left = Left { is_known: left.is_known || told, is_nowhere: !told };
        if let Some(has) = has {
            // What it was asked for it has no more, whatever it says.
            let is_given_up = |lock: &&LockRequest| {
                wanted.is_empty() || wanted.iter().any(|wanted| LockTable::conflict(lock, wanted))
            };
            let has: Vec<LockRequest> = has.iter().filter(|lock| !is_given_up(lock)).copied().collect();
            if has.is_empty() {
                self.left.clients.remove(&client);
            }
            let granted = self.table.set_left(client, &has);
            if has.is_empty() {
                self.table.note_returned(client);
            }
            return Self::tell_granted(core, children, granted);
        }
        for wanted in wanted.into_iter().filter(|_| !is_given) {
            if self.table.is_wanted(client, &wanted) {
                self.give_untold(core, children, client, wanted);
            }
        }
    }

    /// Questions that nobody answered in time.
    fn end_left_questions<S: MetaStore>(&mut self, core: &mut Core<S>, children: &mut Children) {
        if self.left.next_end().is_none_or(|end| core.now < end) {
            return;
        }
        let now = core.now;
        let asked = self.left.asked.iter().filter(|(_, question)| now >= question.until);
        for ask in asked.map(|(ask, _)| *ask).collect::<Vec<_>>() {
            self.handle_left_asked(core, children, ask, None);
        }
    }

    /// The session with the home is over: nobody answers.
    pub(crate) fn left_locks_parent_lost<S: MetaStore>(&mut self, core: &mut Core<S>, children: &mut Children) {
        self.left.session = None;
        for ask in self.left.asked.keys().copied().collect::<Vec<_>>() {
            self.handle_left_asked(core, children, ask, None);
        }
    }

    /// Station, in a new session with the home: who has locks here, and what is on record of others.
    fn begin_left_session<S: MetaStore>(&mut self, core: &mut Core<S>, children: &mut Children) {
        if !core.relays() || !Self::has_lock_parent(core) {
            return;
        }
        let peer = core.parent();
        if std::mem::replace(&mut self.left.session, peer) == peer {
            return;
        }
        Self::retell_who_brings_locks(core, children);
        self.left.clients.values_mut().for_each(|left| left.is_nowhere = false);
        for client in self.left.given.keys().copied().collect::<Vec<_>>() {
            self.tell_given(core, children, client);
        }
    }

    /// Reads what its holders were not told yet.
    pub(crate) fn read_given_locks<S: MetaStore>(&mut self, core: &Core<S>) -> Result<(), StorageError> {
        *self.left.given.as_stored() = Self::stored_given_locks(core)?;
        Ok(())
    }

    fn stored_given_locks<S: MetaStore>(core: &Core<S>) -> Result<BTreeMap<OriginId, Vec<LockRequest>>, StorageError> {
        let mut given = BTreeMap::new();
        core.state.each(&[GIVEN], &[GIVEN + 1], |key, value| {
            given.insert(parse_origin_key(key)?, unpack(value)?);
            Ok(())
        })?;
        Ok(given)
    }

    /// What is kept in memory of locks that were given away and is not what the store says, if anything is.
    pub(crate) fn wrongly_kept<S: MetaStore>(&self, core: &Core<S>) -> Result<Option<String>, StorageError> {
        let (stored, kept) = (Self::stored_given_locks(core)?, &*self.left.given);
        Ok((*kept != stored).then(|| format!("of locks that were given away {kept:?} is kept, and {stored:?} stored")))
    }

    /// A client that may have had locks before we were restarted is not back in time: nobody knows which.
    pub(crate) fn locks_left_unseen<S: MetaStore>(&mut self, core: &Core<S>, client: OriginId) {
        self.left.clients.insert(client, Left { is_known: false, is_nowhere: false });
        self.table.note_left(client);
        for wanted in self.table.waited_for() {
            if Self::may_be_taken_along(core, &wanted) {
                self.table.suppose(client, &wanted);
            }
        }
    }

    /// A client came back to us and claimed what it has.
    pub(crate) fn locks_left_claimed<S: MetaStore>(&mut self, core: &mut Core<S>, client: OriginId) {
        self.left.clients.remove(&client);
        self.table.note_returned(client);
        self.forget_given(core, client);
    }

    fn forget_given<S: MetaStore>(&mut self, core: &mut Core<S>, client: OriginId) {
        if self.left.given.contains_key(&client) {
            self.left.given.edit().remove(&client);
            core.state.delete_row(origin_key(GIVEN, client));
        }
    }

    /// Whether a lock is one that clients take along: what the home gives they know to have lost.
    fn may_be_taken_along<S: MetaStore>(core: &Core<S>, request: &LockRequest) -> bool {
        request.family != LockFamily::Claim && !Uplink::is_the_homes(core, request.file).unwrap_or(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wayfs_types::{FileId, RecordId};

    fn lock(file: u64, kind: LockKind, start: u64, end: u64) -> LockRequest {
        let file = FileId::made_by(RecordId::try_from(file).unwrap());
        let (family, range, owner) = (LockFamily::Posix, LockRange { start, end }, LockOwner(0));
        LockRequest { file, family, owner, pid: 0, range, kind, wait: false }
    }

    #[test]
    fn what_is_on_record_is_not_put_there_twice() {
        let mut given = vec![lock(1, LockKind::Write, 0, 99)];
        add_given(&mut given, lock(1, LockKind::Read, 5, 9));
        assert_eq!(given.len(), 1);
        add_given(&mut given, lock(1, LockKind::Read, 5, 100));
        add_given(&mut given, lock(2, LockKind::Write, 0, 99));
        assert_eq!(given.len(), 3);
    }

    #[test]
    fn of_more_than_there_is_room_for_all_counts_as_given() {
        let mut given = Vec::new();
        for file in 1..=GIVEN_MAX as u64 {
            add_given(&mut given, lock(file, LockKind::Write, 0, 9));
        }
        assert_eq!(given.len(), GIVEN_MAX);
        add_given(&mut given, lock(99, LockKind::Write, 0, 9));
        assert!(given.is_empty());
    }
}
