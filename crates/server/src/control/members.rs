//! Who was admitted, and who no longer is.

use super::status::unix_ms;
use super::target::failed;
use crate::served::Served;
use std::time::Duration;
use wayfs_control::report::{GivenUpContent, GivenUpReport, MemberReport, MembersReport};
use wayfs_control::{ControlError, ErrorKind};
use wayfs_proto::is_waiting_for;
use wayfs_types::{Admitted, NodeId, Origin, OriginId};

/// Longest wait for the disk.
const SYNC_MAX: Duration = Duration::from_secs(10);
/// Longest wait for those who are asked for contents before these are given up.
const LOOK_MAX: Duration = Duration::from_secs(60);
/// Most contents that are listed or given up at once.
const GIVEN_UP_MAX: usize = 65_536;

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
            limits: super::tickets::in_words(served, origin.limits),
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

/// Gives up contents that only machines have which are away.
pub(super) fn accept_loss(served: &Served, member: Option<&str>, dry_run: bool) -> Result<GivenUpReport, ControlError> {
    let all = origins(served)?;
    let of: Option<Vec<OriginId>> = match member {
        Some(member) => {
            let node = find_any(&all, member)?;
            Some(all.iter().filter(|(_, origin)| origin.node == node).map(|(id, _)| *id).collect())
        }
        None => None,
    };
    let away = served.volume.look(|replica| replica.contents_away(GIVEN_UP_MAX));
    let away = away.ok_or_else(|| failed("list contents", "the volume has stopped"))?;
    let mut away = away.map_err(|error| failed("list contents", error))?;
    away.retain(|away| is_waiting_for(away, of.as_deref()));
    let looked_at = away.len();
    let given_up = if dry_run {
        away
    } else {
        let in_vain = served.volume.look_in_vain(&away, LOOK_MAX);
        served.volume.accept_loss(&in_vain, SYNC_MAX).map_err(|error| failed("accept the loss", error))?
    };
    let left = looked_at - given_up.len().min(looked_at);
    let label = |origin: OriginId| {
        let known = all.iter().find(|(id, _)| *id == origin).map(|(_, origin)| origin.label.clone());
        known.unwrap_or_else(|| format!("member {origin}"))
    };
    let contents = given_up.into_iter().map(|away| GivenUpContent {
        path: away.path,
        version: away.version.to_string(),
        bytes: away.content.size(),
        waits_for: away.waits_for.into_iter().map(label).collect(),
        has_older: away.has_older,
    });
    Ok(GivenUpReport { volume: served.name().to_owned(), declared: !dry_run, contents: contents.collect(), left })
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
    let left: Vec<(OriginId, Origin)> =
        origins.iter().filter(|(_, origin)| origin.admitted != Admitted::Revoked).cloned().collect();
    find_any(&left, member)
}

/// The same, be it revoked.
fn find_any(origins: &[(OriginId, Origin)], member: &str) -> Result<NodeId, ControlError> {
    let mut nodes: Vec<NodeId> = origins
        .iter()
        .filter(|(id, origin)| {
            origin.label == member
                || id.raw().to_string() == member
                || (member.len() >= 8 && origin.node.to_string().starts_with(member))
        })
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
