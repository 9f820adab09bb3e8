//! Volumes of a server, as the commands that all roles share see them.

use super::status::role;
use crate::served::Served;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use wayfs_admin::LocalVolume;
use wayfs_control::report::{LedgerReport, VolumeRole};
use wayfs_node::{LinkState, Volume};
use wayfs_types::OriginId;

/// A volume that this server serves.
pub(super) struct ServedVolume(pub(super) Arc<Served>);

impl LocalVolume for ServedVolume {
    fn volume(&self) -> &Arc<Volume> {
        &self.0.volume
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn role(&self) -> VolumeRole {
        role(&self.0)
    }

    fn ledger(&self) -> LedgerReport {
        super::ledger::of(&self.0)
    }

    fn held_up(&self) -> Option<String> {
        let state = self.0.link.as_ref().map(|link| link.status().state)?;
        if state != LinkState::Connected { Some("the home is not reached".to_owned()) } else { self.0.volume.full() }
    }

    /// A server has the list of members.
    fn labels(&self, origins: &BTreeSet<OriginId>) -> BTreeMap<OriginId, String> {
        let members = self.0.volume.look(|replica| replica.origins()).and_then(Result::ok).unwrap_or_default();
        let asked = members.into_iter().filter(|(id, _)| origins.contains(id));
        asked.map(|(id, origin)| (id, origin.label)).collect()
    }
}
