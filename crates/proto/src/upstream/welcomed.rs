//! The child's half of a welcome: whether the parent goes on where it left off, has forgotten something, or has another history.

use crate::api::PeerId;
use crate::histories::Histories;
use crate::replica::Replica;
use crate::replica::errors::StepError;
use crate::requests::watches::Watches;
use crate::upstream::Uplink;
use crate::upstream::line::UplinkState;
use wayfs_types::{CommitNumber, MetaStore, StorageError};
use wayfs_wire::{Applied, Stamp};

/// What a parent says first.
#[derive(Debug)]
pub(crate) struct Welcome<'a> {
    pub(crate) stamp: Stamp,
    pub(crate) current: CommitNumber,
    /// It goes on from where we are.
    pub(crate) resume: bool,
    /// It was put back to an older copy.
    pub(crate) went_back: bool,
    /// What it has of our origins, the present one first.
    pub(crate) applied: Vec<Applied>,
    /// The last numbers of ours before each gap that it knows of, oldest first.
    pub(crate) ends: &'a [u64],
}

impl<S: MetaStore> Replica<S> {
    /// The parent says who it is, and what it has of each origin.
    pub(crate) fn handle_welcome(
        &mut self,
        peer: PeerId,
        Welcome { stamp, current, resume, went_back, applied, ends }: Welcome<'_>,
    ) -> Result<(), StepError> {
        let own = self.core.config.origin;
        self.members.forget_rooms_of_former();
        if resume
            && self.core.state.resume().is_none_or(|known| !known.stamp.is_same_store(&stamp) || known.cursor > current)
        {
            return Err(StepError::Peer(peer, "resumes what we never had".to_owned()));
        }
        let is_same = self.core.state.resume().is_some_and(|known| known.stamp.is_same_store(&stamp));
        if let (Some(upstream), Some(line)) = (self.uplink.session.as_mut(), self.core.line.as_mut()) {
            line.stamp = Some(stamp);
            upstream.resumed = resume;
            if let Some(comeback) = &mut upstream.comeback {
                comeback.told_stable = is_same;
            }
            let rtt = self.core.now.since(upstream.began);
            upstream.rights.note_rtt(rtt);
            upstream.applied = applied.iter().map(|of| (of.origin, of.through)).collect();
        }
        if went_back {
            self.forget_stable()?;
            // Noted first: who goes on under another number, since its own history forked, too, has no cursor that shows it again.
            if self.core.relays() {
                self.core.state.begin_rescue();
            }
        }
        if let Some(reason) = self.fork_in_welcome(own, &applied)? {
            // What another server lost was noted already: this one may be the home, and have lost more.
            if went_back && (is_same || self.histories.knows_a_loss()) {
                self.note_lost_beside_fork(ends)?;
            }
            self.begin_fork(reason);
            return Ok(());
        }
        let theirs = self.uplink.parent_has(own);
        let change = self.core.state.change().next();
        if let Some(comeback) = self.uplink.comeback_mut() {
            comeback.lost_before = went_back.then_some(change);
        }
        let confirmed = self.core.state.confirmed_applied(own)?;
        // Another server may not have heard yet of what the last one confirmed.
        let caught_up = self.histories.take_caught_up(&stamp);
        if self.core.writes() && is_same && (went_back || resume) && theirs < confirmed {
            // Whoever confirmed more than it has now was put back.
            let lost_before = Histories::lost_of_former(&mut self.core, &self.uplink)?;
            self.histories.note_lost_after(theirs);
            self.histories.note_lost_before(lost_before);
            self.begin_fork(format!("the parent was put back to an older copy, which has {theirs} records of ours"));
            return Ok(());
        }
        if caught_up.is_some() {
            let is_lost = theirs < confirmed && !Uplink::is_on_its_way(&self.core, theirs);
            let lost_before = Histories::lost_of_former(&mut self.core, &self.uplink)?;
            if is_lost || !lost_before.is_empty() {
                self.histories.note_lost_before(lost_before);
                self.begin_after_a_loss(theirs);
                return Ok(());
            }
        }
        if self.core.relays() && theirs < self.core.state.confirmed_applied(own)? {
            self.core.state.begin_rescue();
            // What we wrote next would follow what it does not have.
            self.begin_fork(format!("the home was put back to an older copy, which has {theirs} records of ours"));
            return Ok(());
        }
        self.uplink.note_what_parent_lacks(&mut self.core)?;
        if !resume {
            self.begin_anew(stamp);
        }
        self.retell()?;
        self.start_or_migrate(theirs)
    }

    /// Goes on with a parent that has all that was confirmed of our own; one that has not has yet to hear of it.
    fn start_or_migrate(&mut self, theirs: u64) -> Result<(), StepError> {
        if !self.core.writes() || theirs >= self.core.state.confirmed_applied(self.core.config.origin)? {
            self.start_stream()?;
        } else {
            self.set_standing(UplinkState::Migrating);
        }
        Ok(())
    }

    /// What the parent is told anew in each session.
    fn retell(&mut self) -> Result<(), StorageError> {
        if self.core.writes() {
            self.cancel_unsent()?;
        } else {
            self.contents.retell_haves(&self.core)?;
            self.contents.retell_spares(&self.core)?;
            self.contents.retell_wants(&mut self.core)?;
        }
        self.contents.retell_gone(&self.core)
    }

    /// The parent cannot tell what changed since we left: what was looked at is verified on use, a whole tree is taken over whole.
    fn begin_anew(&mut self, stamp: Stamp) {
        // A parent that told us all that we know has forgotten nothing of it in the same life of its store: what it says takes that back.
        if self.histories.take_told_by() != Some(stamp) {
            self.uplink.note_move(&mut self.core);
        }
        self.core.state.set_resume(None);
        if let Some(upstream) = self.uplink.session.as_mut() {
            upstream.anew = true;
        }
        match self.watches {
            Watches::Kept(_) => self.drop_watches(),
            Watches::Needless => {
                // What the parent vouched for in a cut that changed nothing bears the number of the next change: it was before, too.
                self.core.state.set_change(self.core.state.change().next());
                self.core.state.set_reset(Some(self.core.state.change()));
                self.histories.begin_takeover();
            }
        }
    }
}
