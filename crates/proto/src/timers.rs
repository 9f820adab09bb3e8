//! What time alone brings about.

use crate::replica::Replica;
use crate::replica::errors::StepError;
use crate::state::overlay::Changed;
use wayfs_types::{Admitted, Image, Key, MetaStore, Time};

impl<S: MetaStore> Replica<S> {
    /// When to send [`crate::Input::Tick`] at the latest; `None`: nothing is pending.
    pub fn poll_timeout(&self) -> Option<Time> {
        if self.failed {
            return None;
        }
        if self.core.more_work {
            return Some(self.core.now);
        }
        [
            self.core.state.timeout(),
            self.requests.next_deadline(),
            self.upstream_timeout(),
            self.claims_timeout(),
            self.locks.vouched_timeout(),
            self.locks.timeout(),
            self.children_timeout(),
            self.children.rights_timeout(&self.core),
            self.contents.timeout(),
            self.contents.recount_timeout(&self.core, &self.uplink),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    pub(crate) fn check_timers(&mut self) -> Result<(), StepError> {
        self.check_children()?;
        self.check_upstream()?;
        self.check_claims();
        self.locks.return_unused_locks(&mut self.core, &mut self.children);
        self.settle_requests();
        self.uplink.forget_unheard(&mut self.core);
        self.children.wake_waiting();
        self.contents.forget_old_announcements(self.core.now, self.core.config.announced_grace);
        self.contents.release_superseded(&mut self.core, &mut self.children)?;
        self.replace_holders()?;
        self.contents.look_for_gone(&mut self.core, &mut self.children, &self.uplink)?;
        self.recount_own()?;
        self.core.state.check_timers(self.core.now);
        Ok(())
    }

    /// Marks of changed origins may have moved; the sessions of revoked ones end.
    pub(crate) fn handle_origins_changed(&mut self, changed: &[Changed]) {
        for change in changed {
            let Key::Origin(origin) = &change.key else { continue };
            self.children.note_marks_moved([*origin]);
            self.contents.note_holders_moved(&self.core);
            let is_revoked = matches!(&change.new, Some(Image::Origin(image)) if image.admitted == Admitted::Revoked);
            if is_revoked || change.old.is_none() {
                // Whoever was waited for may not come, or comes as this one.
                self.contents.note_child_away(&self.core);
            }
            // A number that a put-back home gives again is not known for a while.
            if let (Some(Image::Origin(old)), Some(Image::Origin(new))) = (&change.old, &change.new)
                && !is_revoked
                && !old.limits.same_but_quota(&new.limits)
                && let Some(peer) = self.children.peer_of(*origin)
            {
                self.disconnect(peer, "what it may do has changed: it begins anew".to_owned());
            }
            if is_revoked {
                self.locks.locks_of_revoked(&mut self.core, &mut self.children, *origin);
                self.settle_requests();
            }
            if is_revoked && let Some(peer) = self.children.peer_of(*origin) {
                self.disconnect(peer, "its access was revoked".to_owned());
            }
        }
    }
}
