//! How long what a parent granted is certainly kept there: a lease after the last of our questions that it answered.
//!
//! Beyond that another may have the lock, and its owner is told so at the next use, also while nobody can be reached. That is so in
//! exclusive directories, where nothing can be done without the home anyway. Elsewhere locks hold among the programs of this machine
//! while it is alone, and what another has by then is found out when it is back (`Replica::locks_reclaim`).
//!
//! A client counts for itself, a station for its clients (`locks/relay.rs`); the home keeps what it gave to a station for two leases
//! (`locks/kept.rs`).

use crate::children::Children;
use crate::locks::Locks;
use crate::locks::asks::LockAsk;
use crate::replica::core::Core;
use crate::upstream::Uplink;
use crate::upstream::line::UplinkState;
use wayfs_types::request::{LockFamily, LockOwner, LockRange, LockRequest};
use wayfs_types::{FileId, MetaStore, Time};
use wayfs_wire::Up;

impl Locks {
    /// A session with our parent began.
    pub(crate) fn begin_vouched<S: MetaStore>(&mut self, core: &Core<S>) {
        if let Some(until) = core.lease_until() {
            self.vouched.begin(until);
        }
        self.settle_vouched(core);
    }

    /// Our parent said of something that we had before whether it is ours still.
    pub(crate) fn settle_vouched<S: MetaStore>(&mut self, core: &Core<S>) {
        if core.has_parent() && !self.asks().any(LockAsk::is_of_former_session) {
            self.vouched.lent.append(&mut self.vouched.doubtful);
        }
    }

    /// Our parent answered: what it keeps for us it keeps for a while more.
    pub(crate) fn note_vouched<S: MetaStore>(&mut self, core: &Core<S>) {
        let (Some(state), Some(until)) = (core.standing(), core.lease_until()) else { return };
        if matches!(state, UplinkState::CatchingUp | UplinkState::Live) {
            self.vouched.until = self.vouched.until.max(until);
        }
    }

    /// What nobody vouches for any more is lost.
    pub(crate) fn check_vouched<S: MetaStore>(&mut self, core: &mut Core<S>, children: &mut Children) {
        if self.vouched.next().is_none_or(|next| core.now < next) {
            return;
        }
        for row in self.vouched.take_lost(core.now) {
            let (file, family, holder) = row;
            if core.relays() {
                self.lose_row(core, children, row);
                continue;
            }
            self.lose_lock(core, children, file, family, holder.owner, LockRange::WHOLE);
            // Before anything else is asked for it: the parent may still say that it is ours.
            self.post_in_turn(core, Up::Unlock { file, family, owner: holder.owner, range: LockRange::WHOLE });
        }
    }

    /// A lock was granted to one of our programs.
    pub(crate) fn note_lent<S: MetaStore>(&mut self, core: &Core<S>, request: &LockRequest) {
        if Uplink::is_the_homes(core, request.file).unwrap_or(true) {
            self.vouched.add((request.file, request.family, Self::own_holder(core, request.owner)));
        }
    }

    /// Whether what our parent granted may be another's by now: the word came by a line that stood still.
    pub(crate) fn comes_late<S: MetaStore>(&self, core: &Core<S>, file: FileId) -> bool {
        core.now >= self.vouched.until && Uplink::is_the_homes(core, file).unwrap_or(true)
    }

    /// A program let go of a range.
    pub(crate) fn note_returned<S: MetaStore>(
        &mut self,
        core: &Core<S>,
        file: FileId,
        family: LockFamily,
        owner: LockOwner,
    ) {
        let holder = Self::own_holder(core, owner);
        if self.table.held_in(holder, file, family, LockRange::WHOLE).is_empty() {
            self.vouched.remove(&(file, family, holder));
            self.taken_along.remove(&(file, family, holder));
        }
    }

    /// When the next look is due.
    pub(crate) fn vouched_timeout(&self) -> Option<Time> {
        self.vouched.next()
    }
}
