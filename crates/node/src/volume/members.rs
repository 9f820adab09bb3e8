//! The members of a volume: admitting, limiting, removing them, which only the home does.

use super::Volume;
use crate::clock;
use crate::core::Orders;
use crate::error::MemberError;
use crate::live_replica::LiveReplica;
use std::collections::BTreeSet;
use std::time::Duration;
use wayfs_proto::{GivenUp, GrantError, Held};
use wayfs_types::{NodeId, OriginId, Quota, RecordId, Seal, Standing};

/// A disk that takes longer for a sync has failed.
const DISK_PATIENCE: Duration = Duration::from_secs(3600);

impl Volume {
    /// Home only: admits a machine and gives it an origin, durably.
    ///
    /// # Errors
    /// [`MemberError`]: the engine refuses, or the disk fails.
    pub fn grant_origin(
        &self,
        node: NodeId,
        standing: impl Into<Standing>,
        label: &str,
        timeout: Duration,
    ) -> Result<OriginId, MemberError> {
        let standing = standing.into();
        let origin =
            self.change_members(|replica| replica.grant_origin(clock::now(), clock::wall(), node, standing, label))?;
        self.sync(timeout)?;
        self.refresh_servers();
        Ok(origin)
    }

    /// Home only: gives a member an origin back that this home, which was put back to an older copy, does not know any more, if the
    /// member shows that it had it.
    /// Nobody hears of it before it is durable. Answers whether it has it now.
    ///
    /// # Errors
    /// [`MemberError`]: the disk fails.
    pub(crate) fn admit_again(
        &self,
        node: NodeId,
        (origin, shown): (OriginId, Option<Seal>),
    ) -> Result<bool, MemberError> {
        let done =
            self.change_members(|replica| replica.admit_again(clock::now(), clock::wall(), node, origin, shown))?;
        if done {
            tracing::warn!(%node, %origin, "a member has a number back that this home gave it and had forgotten");
            self.refresh_servers();
        }
        Ok(done)
    }

    /// Home only: takes a machine that was turned away in again, durably, under the origin that it had. `false`: it cannot
    /// have that one.
    ///
    /// # Errors
    /// [`MemberError`]: the engine refuses, or the disk fails.
    pub fn reinstate(
        &self,
        member: (NodeId, OriginId),
        standing: impl Into<Standing>,
        timeout: Duration,
    ) -> Result<bool, MemberError> {
        let standing = standing.into();
        let done = self.change_members(|replica| replica.reinstate(clock::now(), clock::wall(), member, standing))?;
        self.sync(timeout)?;
        self.refresh_servers();
        Ok(done)
    }

    /// Home only: sets the quota of a machine, or of the whole volume, durably. Answers how many origins the machine has.
    ///
    /// # Errors
    /// [`MemberError`]: the engine refuses, or the disk fails.
    pub fn set_quota(&self, node: Option<NodeId>, quota: Quota, timeout: Duration) -> Result<usize, MemberError> {
        let count = self.change_members(|replica| replica.set_quota(clock::now(), clock::wall(), node, quota))?;
        self.sync(timeout)?;
        Ok(count)
    }

    /// Home only: refuses a machine from this moment on, durably, and ends its sessions here; `held` says what becomes of what
    /// only stations have of it. Answers how many origins it had.
    ///
    /// # Errors
    /// [`MemberError`]: the engine refuses, or the disk fails.
    pub fn revoke(&self, node: NodeId, held: Held, timeout: Duration) -> Result<usize, MemberError> {
        let count = self.change_members(|replica| replica.revoke(clock::now(), clock::wall(), node, held))?;
        self.disconnect_node(node, "this machine was removed from the volume");
        self.sync(timeout)?;
        self.refresh_servers();
        Ok(count)
    }

    /// Home only: declares versions lost that only machines have which are away, and waits until that is durable. Everybody who
    /// is there was asked for them in vain ([`Volume::look_in_vain`]).
    ///
    /// # Errors
    /// [`MemberError`]: not the home, or the store failed.
    pub fn accept_loss(&self, versions: &BTreeSet<RecordId>, timeout: Duration) -> Result<Vec<GivenUp>, MemberError> {
        let given_up = self.change_members(|replica| replica.accept_loss(clock::now(), clock::wall(), versions))?;
        self.sync(timeout)?;
        Ok(given_up)
    }

    /// This machine was granted an origin. If its store has another one, what nobody confirmed is written again under that one. Blocks
    /// until it is durable that it has it, as long as the disk takes.
    ///
    /// # Errors
    /// [`MemberError`]: the engine refuses, the disk fails, or the volume was stopped meanwhile.
    pub(crate) fn go_on_as(&self, origin: OriginId) -> Result<(), MemberError> {
        if origin != self.origin() {
            self.change_members(|replica| replica.adopt_origin(clock::now(), clock::wall(), origin))?;
        }
        Ok(self.sync(DISK_PATIENCE)?)
    }

    pub(super) fn change_members<T>(
        &self,
        change: impl FnOnce(&mut LiveReplica) -> Result<T, GrantError>,
    ) -> Result<T, MemberError> {
        let mut orders = Orders::default();
        let changed = {
            let mut core = self.lock();
            let replica = core.replica.as_mut().ok_or(MemberError::Stopped)?;
            let changed = change(replica);
            core.settle(&mut orders);
            changed
        };
        self.carry_out(orders);
        Ok(changed?)
    }
}
