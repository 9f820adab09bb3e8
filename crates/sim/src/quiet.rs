//! When a world is quiet: nothing is on its way, and nobody moves.

use crate::violation::Violation;
use crate::world::World;
use std::time::Duration;
use wayfs_proto::{Replica, Role};

/// Simulated time that a healed world has to become quiet, or to bring some more contents to a server: where seeds let them go
/// one at a time over slow lines that lose, hundreds take longer.
const CALM_DOWN: Duration = Duration::from_secs(240);

impl World {
    /// Nothing breaks any more and nobody moves: all comes to rest, says where it stands, and everything is checked.
    pub(crate) fn check_quiet_end(&mut self) {
        (self.healed, self.healed_at) = (true, Some(self.now));
        (0..self.hosts.len()).for_each(|index| self.start(index));
        if self.becomes(Self::is_at_rest) {
            (0..self.hosts.len()).for_each(|index| self.check_claims(index));
            self.check_everything();
        }
    }

    /// Waits until nothing is under way.
    pub(crate) fn becomes(&mut self, is_quiet: fn(&Self) -> bool) -> bool {
        let (mut end, mut least) = (self.now + CALM_DOWN, self.versions_at_risk());
        while self.violations.is_empty() && !is_quiet(self) {
            let at_risk = self.versions_at_risk();
            if at_risk < least {
                (end, least) = (self.now + CALM_DOWN, at_risk);
            }
            if self.now >= end {
                let line = self.unquiet();
                self.violations.push(Violation::new("a healed world becomes quiet", line));
                return false;
            }
            let next = self.now + Duration::from_millis(500);
            self.run_until(next);
        }
        self.violations.is_empty()
    }

    /// Contents that somebody still has to hand on, of all hosts together.
    fn versions_at_risk(&self) -> u64 {
        let replicas = self.hosts.iter().filter_map(|host| host.replica.as_ref());
        replicas.map(|replica| replica.progress().versions_at_risk).sum()
    }

    pub(crate) fn is_quiet(&self) -> bool {
        self.running().into_iter().all(|index| self.is_host_quiet(index))
    }

    /// The same while clients stay where their users want them.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.running().into_iter().all(|index| self.is_host_at_rest(index))
    }

    fn is_host_quiet(&self, index: usize) -> bool {
        self.is_host_at_rest(index) && self.stays_where_it_is(index)
    }

    fn is_host_at_rest(&self, index: usize) -> bool {
        let host = &self.hosts[index];
        // A session that only its child still believes in is about to end.
        let whole = |peer| self.sessions.get(&peer).is_some_and(|session| session.alive == [true; 2]);
        let attached = host.role() == Role::Home || host.parent_session.is_some_and(whole);
        attached
            && host.replica.as_ref().is_some_and(Replica::is_settled)
            && self.is_all_closed(index)
            && self.is_kernel_idle(index)
    }

    fn unquiet(&self) -> String {
        let busy = self.running().into_iter().filter(|index| !self.is_host_quiet(*index));
        busy.map(|index| {
            let host = &self.hosts[index];
            format!(
                "host {index} session {:?} {:?}{}; ",
                host.parent_session,
                host.replica.as_ref().map(Replica::progress),
                self.open_files_left(index)
            )
        })
        .collect()
    }
}
