//! What is said to the parent about locks, in order behind the records that were made before it.
//!
//! A program that lets go of a lock counts on whoever gets it next seeing all that was done under it. The parent
//! takes what a session brings in order, so a release waits here until the records made before it are on their way;
//! they go at once, ahead of our own disk where they may (see `ahead`). Whatever is said about locks later waits
//! behind the release, or the parent would take the next question for one beside the old lock.
//!
//! A release that a session took along with it is made good in the next: its lock is reclaimed first, and let go when
//! the records are there.
//!
//! Bound: a release waits here only for a lock that was held, of which there are so many at most; a question has a
//! request that waits for it.

use crate::locks::Locks;
use crate::locks::mailbox::LockMessage;
use crate::replica::core::Core;
use crate::state::position::LogPosition;
use wayfs_types::MetaStore;
use wayfs_types::request::{LockFamily, LockKind, LockRequest};
use wayfs_wire::{AskId, Up};

impl Locks {
    /// Asks for a lock. One that shares what was held alone is a release as well.
    pub(crate) fn post_lock<S: MetaStore>(&mut self, core: &mut Core<S>, ask: AskId, request: LockRequest) {
        let held =
            self.table.held_in(Self::own_holder(core, request.owner), request.file, request.family, request.range);
        let lets_in = request.kind == LockKind::Read && held.iter().any(|held| held.kind == LockKind::Write);
        // `flock` gives up what it holds before it waits for the other kind.
        let lets_go = request.family == LockFamily::Flock && !held.is_empty();
        let after = if lets_in || lets_go { core.state.sequence() } else { 0 };
        self.post(
            core,
            LockMessage { after, position: LogPosition::START, up: Up::Lock { ask, request }, held: Vec::new() },
        );
    }

    /// Lets go of locks. What was done under one that others held as well says nothing to them.
    pub(crate) fn post_unlock<S: MetaStore>(&mut self, core: &mut Core<S>, up: Up, held: Vec<LockRequest>) {
        let is_exclusive = held.iter().any(|held| held.kind == LockKind::Write);
        let after = if is_exclusive { core.state.sequence() } else { 0 };
        self.post(core, LockMessage { after, position: LogPosition::START, up, held });
    }

    /// Says something that is not about what was done.
    pub(crate) fn post_in_turn<S: MetaStore>(&mut self, core: &mut Core<S>, up: Up) {
        self.post(core, LockMessage { after: 0, position: LogPosition::START, up, held: Vec::new() });
    }

    /// Says something when the records up to this one of our own are on their way.
    pub(crate) fn post_after<S: MetaStore>(&mut self, core: &mut Core<S>, after: u64, up: Up) {
        self.post(core, LockMessage { after, position: LogPosition::START, up, held: Vec::new() });
    }

    /// Station: says something for a child, behind all that is in our log: what the child did before is in it.
    pub(crate) fn post_behind_log<S: MetaStore>(&mut self, core: &mut Core<S>, up: Up, held: Vec<LockRequest>) {
        let position = core.state.log().newest().unwrap_or_default();
        self.post(core, LockMessage { after: 0, position, up, held });
    }

    fn post<S: MetaStore>(&mut self, core: &mut Core<S>, message: LockMessage) {
        // Without a parent only what must be made good is kept. A station that is catching up has reclaimed already what its children
        // hold: what they let go of until it may speak again would stay theirs at the home for ever.
        // So would what a client gave back meanwhile.
        let is_kept = core.relays() || matches!(message.up, Up::GivenBack { .. });
        let has_session = is_kept && core.has_parent();
        if has_session || Self::has_lock_parent(core) || !message.held.is_empty() {
            self.mail.waiting.push_back(message);
        }
        self.send_lock_mail(core);
    }

    /// Sends what need not wait any more.
    pub(crate) fn send_lock_mail<S: MetaStore>(&mut self, core: &mut Core<S>) {
        while Self::has_lock_parent(core)
            && let Some(first) = self.mail.waiting.front()
            && !Self::has_unsent(core, first.after)
            && !Self::has_unsent_before(core, first.position)
            && let Some(message) = self.mail.waiting.pop_front()
        {
            core.tell_parent(message.up);
        }
    }

    /// Whether a record of our own up to this one is still to be sent in this session.
    fn has_unsent<S: MetaStore>(core: &Core<S>, through: u64) -> bool {
        let Some(sent) = core.sent_position() else { return true };
        core.state.log().from(sent.next()).next().is_some_and(|(_, item)| item.id.sequence() <= through)
    }

    /// Whether anything up to a place in the log is still to be sent in this session.
    fn has_unsent_before<S: MetaStore>(core: &Core<S>, place: LogPosition) -> bool {
        let Some(sent) = core.sent_position() else { return true };
        core.state.log().from(sent.next()).next().is_some_and(|(position, _)| position <= place)
    }

    /// The session is over: questions are put anew by those who wait, releases are made good.
    pub(crate) fn lock_mail_lost(&mut self) {
        self.mail.waiting.retain(|message| !message.held.is_empty());
    }

    /// What was let go and must not be free before the records made under it are there, unless another program of this
    /// machine has it by now.
    pub(crate) fn let_go_in_order<S: MetaStore>(&self, core: &Core<S>) -> Vec<LockRequest> {
        let all = self.mail.waiting.iter().flat_map(|message| &message.held);
        all.filter(|held| self.table.test(Self::own_holder(core, held.owner), held).is_none()).copied().collect()
    }
}
