//! What can be said about the way to the parent.

use super::throughput::Throughput;
use crate::servers::ServerInfo;
use std::time::Duration;
use wayfs_types::{NodeId, WallTime};

/// The state of the link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkState {
    /// The user said so.
    Offline,
    /// No session; it tries, and this is why the last try failed.
    Searching {
        /// In words; empty before the first try ended.
        last_error: String,
    },
    /// A session is up.
    Connected,
    /// A server said that this machine is no member (any more). Tried again rarely.
    Refused {
        /// In words, with what to do.
        reason: String,
    },
}

/// A server as the link knows it.
#[derive(Debug, Clone, PartialEq)]
pub struct CandidateStatus {
    /// Who and where.
    pub server: ServerInfo,
    /// Last measured round-trip time.
    pub rtt: Option<Duration>,
    /// What was seen to go there; `None` if too little went.
    pub up: Option<Throughput>,
    /// What was seen to come from there.
    pub down: Option<Throughput>,
    /// When that was.
    pub measured_at: Option<WallTime>,
    /// Why it could not be reached at the last try.
    pub last_error: Option<String>,
}

/// A snapshot of the link.
#[derive(Debug, Clone, PartialEq)]
pub struct LinkStatus {
    /// Its state.
    pub state: LinkState,
    /// The parent of the session, or of the last one.
    pub parent: Option<ServerInfo>,
    /// Round-trip time to it now, if connected.
    pub rtt: Option<Duration>,
    /// When something was last heard of a parent; `None` before the first session.
    pub heard: Option<WallTime>,
    /// Since when the state holds.
    pub since: WallTime,
    /// Why this parent was chosen, in words.
    pub why: String,
    /// The server that the user pinned.
    pub pinned: Option<NodeId>,
    /// Whether no session can be had because the volume was deleted.
    pub deleted: bool,
    /// While connected: how long until the other servers are measured again.
    pub measures_in: Option<Duration>,
    /// All servers known.
    pub candidates: Vec<CandidateStatus>,
}

impl LinkStatus {
    /// Names the server that the user chose if that is why there is no session, and says what to do.
    pub fn held_up_by_choice(&self) -> Option<String> {
        let pinned = self.pinned.filter(|_| !matches!(self.state, LinkState::Connected | LinkState::Offline))?;
        let known = self.candidates.iter().find(|candidate| candidate.server.node == pinned);
        let label = known.map_or_else(|| pinned.short(), |known| known.server.label.clone());
        let why = known.and_then(|known| known.last_error.as_deref()).unwrap_or("it is not known where it is");
        Some(format!(
            "{label}, the station that you chose, cannot be reached ({why}); `wayfs station use auto` lets another be used"
        ))
    }
}
