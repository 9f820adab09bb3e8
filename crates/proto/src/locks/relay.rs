//! Locks in exclusive directories, at a station: the home gives them.
//!
//! ```text
//!   client              station                       home
//!     Lock ────────────▶  Lock (in its own name) ─────▶  the table of all
//!                         ◀──── images of what was done before, LockAnswer
//!     ◀── images, LockAnswer
//!     Records, Unlock ─▶  Records, at once; Unlock ───▶  the next one is granted it
//! ```
//!
//! To the home they are the station's, each client's owner under a number of its own. The station mirrors what was granted. A
//! release goes up behind all that the station's log had then, which leaves at once (`Replica::gathered_at`).
//!
//! In a new session with the home the station reclaims first what it mirrors. What another may have had in the meantime is
//! refused, and its holder is told (`Down::LockLost`). So it is when the home has not vouched for anything for a lease (`locks/vouched.rs`).
//! What a client wants to keep and the station does not know of, since it was restarted, it asks the home for; a client that comes
//! from another server, or back after its lease, has lost its locks here: who has them for it at the home is its former
//! station, until that hears no more of it for a lease.

use crate::children::Children;
use crate::locks::Locks;
use crate::locks::asks::LockAsk;
use crate::locks::relays::{Relayed, Row, Wish};
use crate::locks::table::{Asker, Holder, LOCKS_MAX, Verdict, overlaps};
use crate::replica::core::Core;
use crate::upstream::Uplink;
use wayfs_types::request::{LockFamily, LockOwner, LockRange, LockRequest};
use wayfs_types::{FileId, MetaStore, OriginId};
use wayfs_wire::{AskId, Down, LockVerdict, Up};

/// The number under which the home knows an owner at one of our children. Two owners of one child never share one; those of
/// two do by a chance of 2^-64.
fn owner_at_home(holder: Holder) -> LockOwner {
    // The finalizer of SplitMix64, a bijection.
    let mut mixed = u64::from(holder.origin.raw()).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    LockOwner(holder.owner.0 ^ mixed ^ (mixed >> 31))
}

fn for_home(holder: Holder, request: &LockRequest) -> LockRequest {
    LockRequest { owner: owner_at_home(holder), ..*request }
}

impl Locks {
    pub(crate) fn relay_lock<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        children: &mut Children,
        child: OriginId,
        ask: AskId,
        request: LockRequest,
    ) {
        let relayed = Relayed { child, wish: Wish::Take(ask), request };
        if !core.is_trusted() {
            return children.tell(child, Down::LockAnswer { ask, verdict: LockVerdict::Unreachable });
        }
        let held = self.table.held_in(relayed.holder(), request.file, request.family, request.range);
        let id = self.ask_lock(core, LockAsk::Relay(relayed));
        let up = Up::Lock { ask: id, request: for_home(relayed.holder(), &request) };
        // Sharing what was held alone lets others in.
        if held.is_empty() { self.post_in_turn(core, up) } else { self.post_behind_log(core, up, Vec::new()) }
    }

    /// A child in a new session wants to keep what it had in the last one: what we kept for it is still its; of what we do not know
    /// the home decides.
    pub(crate) fn keep_relayed<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        children: &mut Children,
        child: OriginId,
        ask: AskId,
        request: LockRequest,
    ) {
        let relayed = Relayed { child, wish: Wish::Regain(ask), request };
        let holder = relayed.holder();
        if self.relays.rows.contains(&relayed.row())
            && self.table.has_kept(holder, &request)
            && self.table.keep(Asker::Child(child, ask), holder, request) == Verdict::Granted
        {
            return children.grant(child, ask, core.state.change());
        }
        if !core.has_parent() {
            return self.wait_for_home(children, relayed, ask);
        }
        let id = self.ask_lock(core, LockAsk::Relay(relayed));
        self.post_in_turn(core, Up::KeepLock { ask: id, request: for_home(holder, &request) });
    }

    /// What we cannot ask for is asked for in our next session with the home; more than one replica may have is lost.
    fn wait_for_home(&mut self, children: &mut Children, relayed: Relayed, ask: AskId) {
        let unasked = self.relays.unasked.entry(relayed.child).or_default();
        if unasked.len() < LOCKS_MAX {
            return unasked.push(relayed);
        }
        children.tell(relayed.child, Down::LockAnswer { ask, verdict: LockVerdict::Overload });
    }

    pub(crate) fn relay_test<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        children: &mut Children,
        child: OriginId,
        ask: AskId,
        request: LockRequest,
    ) {
        if !core.is_trusted() {
            return children.tell(child, Down::LockAnswer { ask, verdict: LockVerdict::Unreachable });
        }
        let relayed = Relayed { child, wish: Wish::Test(ask), request };
        let id = self.ask_lock(core, LockAsk::Relay(relayed));
        self.post_in_turn(core, Up::TestLock { ask: id, request: for_home(relayed.holder(), &request) });
    }

    /// A child lets go of a range. `held`: what it had there.
    pub(crate) fn relay_unlock<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        children: &mut Children,
        (file, family): (FileId, LockFamily),
        holder: Holder,
        range: LockRange,
        held: &[LockRequest],
    ) {
        let row = (file, family, holder);
        let unasked = self.take_unasked(children, row, range);
        if !unasked.is_empty() {
            let up = Up::Unlock { file, family, owner: owner_at_home(holder), range: LockRange::WHOLE };
            return self.post_behind_log(core, up, unasked);
        }
        for request in self.end_regaining(children, row, range) {
            let up = Up::Unlock { file, family, owner: request.owner, range: request.range };
            self.post_behind_log(core, up, vec![request]);
        }
        if !self.relays.rows.contains(&row) && !self.is_asked_for(row) {
            return;
        }
        if self.table.held_in(holder, file, family, LockRange::WHOLE).is_empty() {
            self.remove_row(&row);
        }
        let owner = owner_at_home(holder);
        let held = held.iter().map(|held| for_home(holder, held)).collect();
        self.post_behind_log(core, Up::Unlock { file, family, owner, range }, held);
    }

    /// A child lets go of what the home was not asked for yet. It has then all of it no more, and the home is told so when it can be.
    fn take_unasked(&mut self, children: &mut Children, row: Row, range: LockRange) -> Vec<LockRequest> {
        let Some(unasked) = self.relays.unasked.get_mut(&row.2.origin) else { return Vec::new() };
        let (its, others) = std::mem::take(unasked).into_iter().partition(|of| of.row() == row);
        *unasked = others;
        let is_all = row.1 == LockFamily::Flock || range == LockRange::WHOLE;
        let mut taken = Vec::new();
        for relayed in Vec::<Relayed>::into_iter(its) {
            if let Wish::Regain(ask) = relayed.wish {
                let verdict = if is_all { LockVerdict::Granted } else { LockVerdict::Refused };
                children.tell(relayed.child, Down::LockAnswer { ask, verdict });
            }
            taken.push(for_home(relayed.holder(), &relayed.request));
        }
        taken
    }

    /// A child lets go of what the home was asked for and has not answered: nobody asks for it in our next session with the home. Of what
    /// it keeps a part of it has nothing any more. Answers what the home may have given.
    fn end_regaining(&mut self, children: &mut Children, row: Row, range: LockRange) -> Vec<LockRequest> {
        let Some(session) = self.session.as_mut() else { return Vec::new() };
        let (mut ended, mut told) = (Vec::new(), Vec::new());
        for of in session.asks.values_mut() {
            if let LockAsk::Relay(relayed) = of
                && let Wish::Regain(ask) = relayed.wish
                && relayed.row() == row
                && overlaps(relayed.request.range, range)
            {
                let asked = relayed.request.range;
                let is_all = row.1 == LockFamily::Flock || range.start <= asked.start && asked.end <= range.end;
                let verdict = if is_all { LockVerdict::Granted } else { LockVerdict::Refused };
                told.push((relayed.child, Down::LockAnswer { ask, verdict }));
                ended.push(for_home(relayed.holder(), &relayed.request));
                relayed.wish = Wish::Nothing;
            }
        }
        for (child, down) in told {
            children.tell(child, down);
        }
        ended
    }

    /// A child waits no more. Answers whether the home was asked for it.
    pub(crate) fn relay_cancel<S: MetaStore>(&mut self, core: &mut Core<S>, child: OriginId, ask: AskId) -> bool {
        let is_it = |of: &LockAsk| matches!(of, LockAsk::Relay(of) if of.child == child && of.wish == Wish::Take(ask));
        let asks = self.session.as_ref().map(|session| &session.asks);
        let Some(id) = asks.and_then(|asks| asks.iter().find(|(_, of)| is_it(of)).map(|(id, _)| *id)) else {
            return false;
        };
        self.post_in_turn(core, Up::LockCancel { ask: id });
        true
    }

    /// The home's word.
    pub(crate) fn handle_relayed<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        children: &mut Children,
        relayed: Relayed,
        verdict: LockVerdict,
    ) {
        let (child, request) = (relayed.child, relayed.request);
        match (relayed.wish, verdict) {
            (Wish::Take(ask) | Wish::Regain(ask), LockVerdict::Granted) if self.comes_late(core, request.file) => {
                self.unlock_at_home(core, relayed.row());
                let verdict = LockVerdict::Unreachable;
                children.tell(child, Down::LockAnswer { ask, verdict });
            }
            (Wish::Take(ask) | Wish::Regain(ask), LockVerdict::Granted) => {
                self.table.mirror(relayed.holder(), &request);
                self.relays.rows.insert(relayed.row());
                self.vouched.add(relayed.row());
                children.grant(child, ask, core.state.change());
            }
            (Wish::Take(ask) | Wish::Regain(ask) | Wish::Test(ask), verdict) => {
                children.tell(child, Down::LockAnswer { ask, verdict });
            }
            (Wish::Keep, LockVerdict::Granted) => self.settle_vouched(core),
            (Wish::Keep, _) => {
                self.lose_relayed(core, children, &relayed);
                self.settle_vouched(core);
            }
            (Wish::Nothing, LockVerdict::Granted) => {
                if !self.relays.rows.contains(&relayed.row()) && !self.is_asked_for(relayed.row()) {
                    self.unlock_at_home(core, relayed.row());
                }
            }
            (Wish::Nothing, _) => {}
        }
    }

    fn lose_relayed<S: MetaStore>(&mut self, core: &mut Core<S>, children: &mut Children, relayed: &Relayed) {
        let LockRequest { file, family, owner, range, .. } = relayed.request;
        let holder = relayed.holder();
        let granted = self.table.unlock(holder, file, family, range);
        Self::tell_granted(core, children, granted);
        if self.table.held_in(holder, file, family, LockRange::WHOLE).is_empty() {
            self.remove_row(&relayed.row());
        }
        children.tell(relayed.child, Down::LockLost { file, family, owner, range });
    }

    fn unlock_at_home<S: MetaStore>(&mut self, core: &mut Core<S>, (file, family, holder): Row) {
        let (owner, range) = (owner_at_home(holder), LockRange::WHOLE);
        self.post_behind_log(core, Up::Unlock { file, family, owner, range }, Vec::new());
    }

    /// What a child asked in a session that is over nobody waits for.
    pub(crate) fn abandon_relays<S: MetaStore>(&mut self, core: &mut Core<S>, child: OriginId) {
        self.relays.unasked.remove(&child);
        let Some(session) = self.session.as_mut() else { return };
        let mut waiting = Vec::new();
        for (id, of) in &mut session.asks {
            if let LockAsk::Relay(relayed) = of
                && relayed.child == child
                && matches!(relayed.wish, Wish::Take(_) | Wish::Regain(_) | Wish::Test(_))
            {
                waiting.extend(matches!(relayed.wish, Wish::Take(_)).then_some(*id));
                relayed.wish = Wish::Nothing;
            }
        }
        for ask in waiting {
            self.post_in_turn(core, Up::LockCancel { ask });
        }
    }

    /// What is in the mirror no more the home is to give to others.
    pub(crate) fn end_relays<S: MetaStore>(&mut self, core: &mut Core<S>) {
        let is_gone =
            |(file, family, holder): &Row| self.table.held_in(*holder, *file, *family, LockRange::WHOLE).is_empty();
        let gone: Vec<Row> = self.relays.rows.iter().filter(|row| is_gone(row)).copied().collect();
        for row in gone {
            self.remove_row(&row);
            self.unlock_at_home(core, row);
        }
    }

    /// The session with the home is over: who waits for its word is told so, but for what was had before.
    pub(crate) fn part_from_home(&mut self, children: &mut Children) {
        let asks: Vec<LockAsk> = self.asks().copied().collect();
        for ask in asks {
            let LockAsk::Relay(relayed) = ask else { continue };
            match relayed.wish {
                Wish::Take(ask) | Wish::Test(ask) => {
                    let verdict = LockVerdict::Unreachable;
                    children.tell(relayed.child, Down::LockAnswer { ask, verdict });
                }
                Wish::Regain(ask) => self.wait_for_home(children, relayed, ask),
                Wish::Keep | Wish::Nothing => {}
            }
        }
    }

    /// The home vouches for a lock of a child no more.
    pub(crate) fn lose_row<S: MetaStore>(&mut self, core: &mut Core<S>, children: &mut Children, row: Row) {
        let (file, family, holder) = row;
        for request in self.table.held_in(holder, file, family, LockRange::WHOLE) {
            self.lose_relayed(core, children, &Relayed { child: holder.origin, wish: Wish::Keep, request });
        }
        self.unlock_at_home(core, row);
    }

    /// In a new session with the home: what our children have of it comes first.
    pub(crate) fn reclaim_relayed<S: MetaStore>(&mut self, core: &mut Core<S>) {
        let rows: Vec<Row> = self.relays.rows.iter().copied().collect();
        for (file, family, holder) in rows {
            for request in self.table.held_in(holder, file, family, LockRange::WHOLE) {
                let relayed = Relayed { child: holder.origin, wish: Wish::Keep, request };
                let ask = self.ask_lock(core, LockAsk::Relay(relayed));
                core.tell_parent(Up::KeepLock { ask, request: for_home(holder, &request) });
            }
        }
        for relayed in std::mem::take(&mut self.relays.unasked).into_values().flatten() {
            let ask = self.ask_lock(core, LockAsk::Relay(relayed));
            core.tell_parent(Up::KeepLock { ask, request: for_home(relayed.holder(), &relayed.request) });
        }
    }

    fn is_asked_for(&self, row: Row) -> bool {
        let is_it = |of: &LockAsk| matches!(of, LockAsk::Relay(of) if of.row() == row && !matches!(of.wish, Wish::Test(_) | Wish::Nothing));
        self.asks().any(is_it)
    }

    /// The mirror has no more of it.
    fn remove_row(&mut self, row: &Row) {
        self.relays.rows.remove(row);
        self.vouched.remove(row);
    }

    /// Whether a child's lock is the home's to give.
    pub(crate) fn is_relayed<S: MetaStore>(core: &Core<S>, request: &LockRequest) -> bool {
        // What cannot be read is not given here: another station may give it, too.
        let is_the_homes =
            || request.family == LockFamily::Claim || Uplink::is_the_homes(core, request.file).unwrap_or(true);
        core.relays() && is_the_homes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Role;
    use crate::tests::world::World;
    use wayfs_types::request::LockKind;

    #[test]
    fn who_claims_for_ever_while_the_home_is_away_fills_no_memory() {
        let mut world = World::new();
        let station = world.add(Role::Station, "s@s");
        let replica = &mut world.hosts[station].replica;
        let child = OriginId::new(9).unwrap();
        for number in 0..LOCKS_MAX as u64 + 5 {
            let (family, range, kind) = (LockFamily::Flock, LockRange::WHOLE, LockKind::Write);
            let owner = LockOwner(number);
            let request = LockRequest { file: FileId::ROOT, family, owner, pid: 1, range, kind, wait: false };
            replica.locks.keep_relayed(&mut replica.core, &mut replica.children, child, AskId(number), request);
        }
        assert_eq!(replica.locks.relays.unasked[&child].len(), LOCKS_MAX);
    }
}
