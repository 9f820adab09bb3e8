//! Catching up on demand: who asks for it has, when it is answered, all that the home had ordered when it was asked.
//!
//! *Visible* says that the home has ordered a record; it says nothing of those who look elsewhere, whom news reaches half
//! a round trip later, or when their line is up again. Who was told of something by another way (a message, a telephone)
//! and must see it asks the home.
//!
//! ```text
//!   client            station                   home
//!     Catch ────────▶   Catch ────────────────▶   its newest change: N
//!                       ◀───────── images … to N
//!                       ◀───────────────── Caught
//!     ◀── images … to the station's own newest
//!     ◀───── Caught
//! ```

use crate::children::catch::Caught;
use crate::histories::Histories;
use crate::replica::Replica;
use crate::replica::core::Core;
use crate::replica::errors::StepError;
use crate::requests::{Attempt, On, Waiting};
use crate::state::position::LogPosition;
use crate::upstream::line::UplinkState;
use crate::upstream::{Comeback, Uplink};
use wayfs_types::request::Answer;
use wayfs_types::{FsError, MetaStore, StorageError};
use wayfs_wire::{AskId, Up};

/// Questions put for one request, over as many sessions.
const TIMES_MAX: u8 = 4;

impl Comeback {
    /// Whether the parent may lack what the home has, and was not asked yet.
    fn is_loss_in_doubt(&self) -> bool {
        (self.lost_before.is_some() || self.lacks_former) && self.loss_ask.is_none()
    }
}

impl<S: MetaStore> Replica<S> {
    /// The parent was told all that the home has, or cannot reach it. If that lost something of ours of the origins that we had before, it
    /// is written again, though nothing of our own is lost.
    fn end_loss(&mut self, caught: Caught) -> Result<(), StorageError> {
        let (Some(comeback), Some(line)) = (self.uplink.comeback_mut(), self.core.line.as_mut()) else {
            return Ok(());
        };
        comeback.loss_ask = None;
        let (peer, stamp) = (line.peer, line.stamp);
        if caught == Caught::CutOff {
            return Ok(());
        }
        comeback.lacks_former = false;
        if let Some(change) = comeback.lost_before.take() {
            self.uplink.forget_seen_before(&mut self.core, change);
        }
        if !Histories::lost_of_former(&mut self.core, &self.uplink)?.is_empty() {
            // It said so before it had caught up.
            self.histories.note_caught_up(stamp);
            self.disconnect(peer, "the home has less of ours of before than it had: begin anew".to_owned());
        }
        Ok(())
    }

    /// The parent was told all that the home has, or cannot reach it.
    fn end_migration(&mut self, caught: Caught) {
        let own = self.core.config.origin;
        let (Some(upstream), Some(line)) = (self.uplink.session.as_mut(), self.core.line.as_mut()) else { return };
        if let Some(comeback) = &mut upstream.comeback {
            comeback.migration = None;
        }
        let (has, peer, stamp) = (upstream.applied_of(own), line.peer, line.stamp);
        if line.state != UplinkState::Migrating || caught == Caught::CutOff || Uplink::is_on_its_way(&self.core, has) {
            return;
        }
        if self.histories.has_former() {
            // What it has of the origins that we had before it says at the beginning of a session only, and this one began before it
            // had caught up.
            self.histories.note_caught_up(stamp);
            self.disconnect(peer, "the home has less of ours than it had: begin anew".to_owned());
            return;
        }
        self.begin_after_a_loss(has);
    }

    /// The home has only so many of our records, and had more.
    pub(crate) fn begin_after_a_loss(&mut self, has: u64) {
        self.histories.note_lost_after(has);
        // Of others it lost as much: no question may wait for that.
        self.uplink.forget_what_was_seen(&mut self.core);
        self.begin_fork(format!("the home has {has} records of ours, and had more: it was put back, or replaced"));
    }

    /// The parent answered: what it had is told, or it cannot reach the home.
    pub(crate) fn handle_caught(&mut self, ask: AskId, caught: Caught) -> Result<(), StorageError> {
        let Some(comeback) = self.uplink.comeback_mut() else {
            self.requests.answered_plainly(ask);
            self.children.note_caught(&self.core, ask, caught);
            return Ok(());
        };
        if comeback.migration == Some(ask) {
            self.end_migration(caught);
        } else if comeback.loss_ask == Some(ask) {
            self.end_loss(caught)?;
        } else if caught == Caught::Up {
            self.requests.answered_plainly(ask);
        } else {
            self.requests.refused(ask);
        }
        Ok(())
    }
}

impl Uplink {
    /// A session begins: notes whether the parent lacks what the home had of the numbers before this one, and asks what is lost.
    pub(crate) fn note_what_parent_lacks<S: MetaStore>(&mut self, core: &mut Core<S>) -> Result<(), StorageError> {
        if self.comeback_mut().is_none() {
            return Ok(());
        }
        let lacks_former = !Histories::lost_of_former(core, self)?.is_empty();
        if let Some(comeback) = self.comeback_mut() {
            comeback.lacks_former = lacks_former;
        }
        self.ask_what_is_lost(core);
        Ok(())
    }

    /// [`wayfs_types::request::Request::Refresh`].
    pub(crate) fn attempt_refresh<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        waiting: &mut Waiting,
    ) -> Result<Attempt, StepError> {
        if core.orders() || waiting.is_answered() {
            return Ok(Attempt::Done(Ok(Answer::Done)));
        }
        if waiting.offline {
            let is_late = self.session.is_some() && core.now >= waiting.deadline;
            return Ok(Attempt::Done(Err(if is_late { FsError::TimedOut } else { FsError::Unreachable })));
        }
        if !core.is_trusted() {
            return Ok(if self.is_catching_up(core) {
                Attempt::Park(On::Session)
            } else {
                Attempt::Done(Err(FsError::Unreachable))
            });
        }
        waiting.questions += 1;
        if waiting.questions > TIMES_MAX {
            return Ok(Attempt::Done(Err(FsError::Unreachable)));
        }
        Ok(match Self::ask_catch(core) {
            Some(ask) => Attempt::Park(On::Ask(ask)),
            None => Attempt::Done(Err(FsError::Unreachable)),
        })
    }

    pub(crate) fn ask_catch<S: MetaStore>(core: &mut Core<S>) -> Option<AskId> {
        let ask = core.next_ask()?;
        core.tell_parent(Up::Catch { ask });
        Some(ask)
    }

    /// The parent does not have what another confirmed of our own records. It may not have heard of it yet; or the home was
    /// put back to an older copy, or another took its place, and it never will. So it is asked to catch up, with each ping
    /// until it has.
    pub(crate) fn ask_whether_lost<S: MetaStore>(&mut self, core: &mut Core<S>) {
        let is_migrating = core.standing() == Some(UplinkState::Migrating);
        let comeback = self.comeback_mut().filter(|comeback| is_migrating && comeback.migration.is_none());
        if let Some(comeback) = comeback {
            comeback.migration = Self::ask_catch(core);
        }
    }

    /// The parent was put back, or heard that the home was. What we saw and the home lacks is lost, and no question may wait for
    /// it. But a station that was put back lacks what the home has, too, until it has caught up: it is asked to, with each ping
    /// until it has. So is a parent that lacks what we wrote under another number: that number may have been given up before the home was put
    /// back, and then nothing of the present one is lost.
    pub(crate) fn ask_what_is_lost<S: MetaStore>(&mut self, core: &mut Core<S>) {
        if let Some(comeback) = self.comeback_mut().filter(|comeback| comeback.is_loss_in_doubt()) {
            comeback.loss_ask = Self::ask_catch(core);
        }
    }

    /// Whether what the home lacks of our own records is in our log yet.
    pub(crate) fn is_on_its_way<S: MetaStore>(core: &Core<S>, has: u64) -> bool {
        let own = core.config.origin;
        let next = core
            .state
            .log()
            .from(LogPosition::START)
            .find(|(_, item)| item.id.origin() == own && item.id.sequence() > has);
        next.is_some_and(|(_, item)| item.after <= has)
    }
}
