//! What the home's administrator does: quotas that are set and lifted, and a member that is removed with a fence.

use crate::coverage::Branch;
use crate::disk::DiskHandle;
use crate::planted::Bug;
use crate::tree_dump::TreeDump;
use crate::world::{Event, World};
use rand::Rng;
use wayfs_proto::{Held, Input, Replica};
use wayfs_types::{NodeId, Quota, RecordId};

impl World {
    /// A quota that is soon used up, of a member or of all together; it is lifted after a while.
    pub(crate) fn set_quota(&mut self) {
        let members: Vec<usize> = (1..self.hosts.len()).filter(|index| self.hosts[*index].is_client()).collect();
        let member = self.random.random_bool(0.7).then(|| members[self.random.random_range(0..members.len())]);
        let bytes = self.random.random_bool(0.7).then(|| self.random.random_range(0..4_000));
        let files = self.random.random_bool(0.7).then(|| self.random.random_range(0..30));
        let quota = Quota { bytes, files };
        self.note(|| format!("the home sets {quota:?} of {member:?}"));
        let node = member.map(|member| self.hosts[member].config.node);
        if !self.order_quota(node, quota) {
            return;
        }
        self.has_quotas = true;
        let later = self.millis(100..=40_000);
        self.after(later, Event::LiftQuota { node });
    }

    /// A quota is lifted.
    pub(crate) fn lift_quota(&mut self, node: Option<NodeId>) {
        self.note(|| format!("the home lifts the quota of {node:?}"));
        self.order_quota(node, Quota::NONE);
    }

    /// All quotas are lifted: from now on all that was refused is taken.
    pub(crate) fn lift_quotas(&mut self) {
        if !self.has_quotas {
            return;
        }
        let nodes: Vec<NodeId> = self.hosts.iter().map(|host| host.config.node).collect();
        self.lift_quota(None);
        nodes.into_iter().for_each(|node| self.lift_quota(Some(node)));
    }

    fn order_quota(&mut self, node: Option<NodeId>, quota: Quota) -> bool {
        let (now, wall) = (self.now, self.hosts[0].wall(self.now));
        let Some(home) = self.home_for_a_command() else { return false };
        let is_done = home.set_quota(now, wall, node, quota).is_ok();
        if is_done {
            self.end_command();
        }
        is_done
    }

    /// A member is removed with a fence, and its machine ends: with it each that runs on a copy of its store. They have its key,
    /// and no server hears whoever has that (seeds 9000256, 9000398, 9000830, 9000929, 9100479, 9100712 and 9100864).
    pub(crate) fn draw_fence(&mut self, index: usize) {
        let (now, wall, node) = (self.now, self.hosts[0].wall(self.now), self.hosts[index].config.node);
        let held = if self.bug == Some(Bug::FenceIgnored) { Held::Taken } else { Held::Fenced };
        let Some(home) = self.home_for_a_command() else { return };
        let origins = home.origins().unwrap_or_default();
        if home.revoke(now, wall, node, held).is_err() {
            return;
        }
        self.note(|| format!("host {index} is removed with a fence"));
        self.fences.0.extend(origins.into_iter().filter(|(_, origin)| origin.node == node));
        self.end_command();
        let cut = self.history.updates.keys().any(|record| self.fences.shut_out(*record));
        if cut {
            self.cover(Branch::Fenced);
        }
        let is_the_member = |other: &usize| self.hosts[*other].config.node == node && !self.hosts[*other].destroyed;
        let machines: Vec<usize> = (0..self.hosts.len()).filter(is_the_member).collect();
        machines.into_iter().for_each(|machine| self.destroy(machine));
    }

    /// A member whose machine is gone is removed: what it had handed on stays.
    pub(crate) fn remove_member(&mut self, node: NodeId) {
        let (now, wall) = (self.now, self.hosts[0].wall(self.now));
        self.note(|| format!("{node:?} is removed"));
        let home = self.home_for_a_command();
        if home.is_some_and(|home| home.revoke(now, wall, node, Held::Taken).is_ok()) {
            let is_it = |index: &usize| self.hosts[*index].config.node == node;
            self.removed.extend((0..self.hosts.len()).filter(is_it));
            self.end_command();
        }
    }

    /// The home that is to do a command, if it runs. Its power does not fail in the middle: whether what a command did stands that
    /// never returned is open, and a user would look.
    fn home_for_a_command(&mut self) -> Option<&mut Replica<DiskHandle>> {
        let mut disk = self.hosts[0].disk.0.borrow_mut();
        if disk.is_off() {
            return None;
        }
        if let Some(stores) = disk.stores() {
            stores.disarm();
        }
        drop(disk);
        self.hosts[0].replica.as_mut()
    }

    /// Commands return when what they did is on the disk.
    fn end_command(&mut self) {
        if !self.hosts[0].disk.0.borrow_mut().sync_all() {
            return;
        }
        let ticket = self.hosts[0].disk.0.borrow().sync_point().ticket;
        self.feed(0, Input::Stored { ticket });
    }

    /// Whether a record is behind a fence, or was folded into one that is: what its writer stored upon it takes its place on the way
    /// (seed 151 of `fence`).
    pub(crate) fn went_behind_a_fence(&self, record: RecordId) -> bool {
        let mut later = self.history.updates.keys().filter(|later| self.fences.shut_out(**later));
        self.fences.shut_out(record) || later.any(|later| self.history.descends(*later, record))
    }

    /// [S-fence]: nothing is shown that a member wrote and the home had not ordered when the fence was drawn.
    pub(crate) fn check_fences(&mut self, index: usize, dump: &TreeDump) {
        // A home that was put back to a copy of before has no fence.
        if !self.fences.are_drawn() || self.hosts[0].is_copy {
            return;
        }
        // A directory that somebody else put something into stays, for that.
        let shown = dump.inodes.iter().find(|(_, inode)| !inode.is_directory() && self.fences.shut_out(inode.version));
        if let Some((file, inode)) = shown {
            let line = format!("host {index} shows {file} as {} has it", inode.version);
            self.violate("nothing of a member behind its fence is shown", line);
        }
    }
}
