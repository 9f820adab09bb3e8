//! What everything that belongs to a connection needs of it.

use crate::NetConfig;
use crate::gate::Gate;
use crate::path_state::PathState;
use crate::probe::Waits;
use crate::traffic::{ConnectionStats, Counters, connection_stats};
use crate::turns::Turns;
use crate::yielding::Yielding;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use tokio::sync::Notify;
use wayfs_types::NodeId;

/// What everything that belongs to a connection needs of it. Holding it does not keep the
/// connection open.
pub(crate) struct Shared {
    pub(crate) number: u64,
    pub(crate) quic: quinn::Connection,
    pub(crate) path: Arc<PathState>,
    pub(crate) peer: NodeId,
    pub(crate) config: Arc<NetConfig>,
    pub(crate) gate: Gate,
    pub(crate) waits: Arc<Waits>,
    pub(crate) counters: Counters,
    pub(crate) yielding: Arc<Yielding>,
    pub(crate) turns: Turns,
    pub(crate) bodies: Arc<Notify>,
    /// Longest frame that the peer may send at the moment.
    pub(crate) frame_len_max: AtomicUsize,
}

impl Shared {
    pub(crate) fn stats(&self) -> ConnectionStats {
        connection_stats(&self.quic, &self.counters)
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("peer", &self.peer).finish_non_exhaustive()
    }
}
