//! Servers as reports show them.

use crate::words::unix_ms;
use wayfs_control::report::StationReport;
use wayfs_node::{CandidateStatus, LinkState, LinkStatus, ServerInfo, ServerKind};
use wayfs_types::NodeId;

/// What the directory says of a server.
pub fn named(server: &ServerInfo) -> StationReport {
    let role = match server.kind {
        ServerKind::Home => "home",
        ServerKind::Station => "station",
    };
    StationReport {
        node: server.node.to_string(),
        name: server.label.clone(),
        role: role.to_owned(),
        addresses: server.addresses.iter().map(ToString::to_string).collect(),
        ..StationReport::default()
    }
}

/// A server that announces itself on the local network, and of which nothing else is known.
pub fn unknown(node: NodeId, addresses: Vec<String>, note: &str) -> StationReport {
    StationReport {
        node: node.to_string(),
        name: node.short(),
        role: "unknown".to_owned(),
        addresses,
        note: note.to_owned(),
        ..StationReport::default()
    }
}

/// A server to which there is, or may be, a way.
pub fn candidate(candidate: &CandidateStatus, status: &LinkStatus) -> StationReport {
    let node = candidate.server.node;
    let is_parent = status.parent.as_ref().is_some_and(|parent| parent.node == node);
    let connected = is_parent && status.state == LinkState::Connected;
    let rtt = if connected { status.rtt.or(candidate.rtt) } else { candidate.rtt };
    StationReport {
        connected,
        chosen: connected,
        chosen_by_user: status.pinned == Some(node),
        rtt_ms: rtt.map(|rtt| rtt.as_secs_f64() * 1e3),
        up_bits_per_second: candidate.up.map(|up| up.bits_per_second),
        down_bits_per_second: candidate.down.map(|down| down.bits_per_second),
        // Of both directions, the one that is known worse.
        confidence: candidate.up.iter().chain(&candidate.down).map(|seen| seen.confidence).min_by(f64::total_cmp),
        seen_unix_ms: candidate.measured_at.map(unix_ms),
        note: candidate.last_error.clone().unwrap_or_default(),
        ..named(&candidate.server)
    }
}

/// The parent of the session, or of the last one.
pub fn parent(status: &LinkStatus) -> Option<StationReport> {
    let parent = status.parent.as_ref()?;
    let known = status.candidates.iter().find(|known| known.server.node == parent.node);
    Some(known.map_or_else(|| named(parent), |known| candidate(known, status)))
}
