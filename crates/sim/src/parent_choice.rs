//! How one process chooses a parent: the machine that decides, what that was told, and the servers that it dialled.

use std::collections::BTreeMap;
use wayfs_roam::{DialId, Roam, Server};
use wayfs_types::Time;

/// What one process has of its parents.
#[derive(Debug)]
pub(crate) struct Roaming {
    pub(crate) machine: Roam,
    pub(crate) dialled: BTreeMap<DialId, usize>,
    pub(crate) session: Option<DialId>,
    /// What it was told last.
    pub(crate) servers: Vec<Server>,
    pub(crate) wake_at: Option<Time>,
    /// A server refused it since its last session.
    pub(crate) was_refused: bool,
    /// It was offline since then.
    pub(crate) was_offline: bool,
}
