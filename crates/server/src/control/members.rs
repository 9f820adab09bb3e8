//! Who was admitted, and who no longer is.

use super::status::unix_ms;
use super::target::failed;
use crate::served::Served;
use std::time::Duration;
use wayfs_control::report::{MemberReport, MembersReport};
use wayfs_control::{ControlError, ErrorKind};
use wayfs_types::{Admitted, NodeId, Origin, OriginId};

/// Longest wait for the disk.
const SYNC_MAX: Duration = Duration::from_secs(10);

pub(super) fn list(served: &Served) -> Result<MembersReport, ControlError> {
    let sessions = served.volume.sessions();
    let members = origins(served)?
        .into_iter()
        .map(|(id, origin)| MemberReport {
            origin: id.raw(),
            node: origin.node.to_string(),
            role: match origin.admitted {
                Admitted::Home => "home",
                Admitted::Station => "station",
                Admitted::Client => "client",
                Admitted::Revoked => "revoked",
                Admitted::Reader => "reader",
            }
            .to_owned(),
            records_applied: origin.applied,
            connected: sessions.iter().any(|session| session.node == origin.node),
            seen_unix_ms: served.heard.seen(origin.node).map(unix_ms),
            label: origin.label,
        })
        .collect();
    Ok(MembersReport { members })
}

pub(super) fn revoke(served: &Served, member: &str) -> Result<MembersReport, ControlError> {
    let node = find(&origins(served)?, member)?;
    served.volume.revoke(node, SYNC_MAX).map_err(|error| failed("revoke member", error))?;
    list(served)
}

fn origins(served: &Served) -> Result<Vec<(OriginId, Origin)>, ControlError> {
    let origins = served
        .volume
        .look(wayfs_proto::Replica::origins)
        .ok_or_else(|| failed("list members", "the volume has stopped"))?;
    origins.map_err(|error| failed("list members", error))
}

/// The machine that a label, an origin number or the beginning of a node id means.
fn find(origins: &[(OriginId, Origin)], member: &str) -> Result<NodeId, ControlError> {
    let mut nodes: Vec<NodeId> = origins
        .iter()
        .filter(|(id, origin)| {
            origin.label == member
                || id.raw().to_string() == member
                || (member.len() >= 8 && origin.node.to_string().starts_with(member))
        })
        .filter(|(_, origin)| origin.admitted != Admitted::Revoked)
        .map(|(_, origin)| origin.node)
        .collect();
    nodes.sort();
    nodes.dedup();
    let is_home =
        |node: &NodeId| origins.iter().any(|(_, origin)| origin.node == *node && origin.admitted == Admitted::Home);
    match nodes.as_slice() {
        [] => Err(ControlError::new(
            ErrorKind::NotFound,
            format!("no member `{member}`"),
            "`wayfs volume members` lists them.",
        )),
        [node] if is_home(node) => Err(ControlError::new(
            ErrorKind::Refused,
            "the home cannot be removed from its own volume",
            "Name another member.",
        )),
        [node] => Ok(*node),
        _ => Err(ControlError::new(
            ErrorKind::Usage,
            format!("`{member}` means {} machines", nodes.len()),
            "Name one by its origin number or node id.",
        )),
    }
}
