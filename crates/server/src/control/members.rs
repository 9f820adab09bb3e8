//! Who was admitted, and who no longer is.

use super::failed::failed;
use crate::served::Served;
use std::time::Duration;
use wayfs_admin::unix_ms;
use wayfs_control::report::{GivenUpContent, GivenUpReport, MemberReport, MembersReport, UsageReport};
use wayfs_control::{ControlError, ErrorKind};
use wayfs_proto::{GivenUp, Held, is_waiting_for};
use wayfs_types::{Admitted, NodeId, Origin, OriginId, Quota};

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
                Admitted::Revoked if origin.limits.is_fenced => "fenced",
                Admitted::Revoked => "revoked",
                Admitted::Reader => "reader",
            }
            .to_owned(),
            records_applied: origin.applied,
            connected: sessions.iter().any(|session| session.node == origin.node),
            seen_unix_ms: served.heard.seen(origin.node).map(unix_ms),
            limits: super::tickets::in_words(served, origin.limits),
            usage: usage(served, Some(id), origin.limits.quota),
            label: origin.label,
        })
        .collect();
    let quota = served.volume.look(wayfs_proto::Replica::quota_of_volume).and_then(Result::ok).unwrap_or_default();
    Ok(MembersReport { members, usage: usage(served, None, quota) })
}

/// What a member takes up, or all together.
fn usage(served: &Served, of: Option<OriginId>, quota: Quota) -> UsageReport {
    let looked = served.volume.look(|replica| match of {
        Some(origin) => replica.usage(origin),
        None => replica.usage_of_volume(),
    });
    let used = looked.and_then(Result::ok).unwrap_or_default();
    UsageReport { bytes: used.bytes, files: used.files, bytes_max: quota.bytes, files_max: quota.files }
}

/// Sets a quota. What is not said stays; zero takes it away.
pub(super) fn quota(
    served: &Served,
    member: Option<&str>,
    (bytes, files): (Option<u64>, Option<u64>),
) -> Result<MembersReport, ControlError> {
    let all = origins(served)?;
    let node = member.map(|member| find(&all, member)).transpose()?;
    if all.iter().any(|(_, origin)| Some(origin.node) == node && origin.admitted == Admitted::Station) {
        return Err(ControlError::new(
            ErrorKind::Usage,
            "a station has no quota: what it holds its clients wrote".to_owned(),
            "Set one for a client, or for all together (without --member).",
        ));
    }
    let is_meant = |origin: &Origin| match node {
        Some(node) => origin.node == node,
        None => origin.admitted == Admitted::Home,
    };
    let known = all.iter().rev().find(|(_, origin)| is_meant(origin)).map(|(_, origin)| origin.limits.quota);
    let known = known.unwrap_or(Quota::NONE);
    let new = |said: Option<u64>, known: Option<u64>| said.map_or(known, |said| (said > 0).then_some(said));
    let quota = Quota { bytes: new(bytes, known.bytes), files: new(files, known.files) };
    if quota != known {
        served.volume.set_quota(node, quota, SYNC_MAX).map_err(|error| failed("set quota", error))?;
    }
    list(served)
}

/// Removes a member. A fence may come later than that: then it is drawn where the home is by now.
pub(super) fn revoke(served: &Served, member: &str, held: Held) -> Result<MembersReport, ControlError> {
    let all = origins(served)?;
    let node = match held {
        Held::Fenced => find_any(&all, member)?,
        Held::Taken => find(&all, member)?,
    };
    served.volume.revoke(node, held, SYNC_MAX).map_err(|error| failed("revoke member", error))?;
    list(served)
}

/// Gives up contents that only machines have which are away.
pub(super) fn accept_loss(served: &Served, member: Option<&str>) -> Result<GivenUpReport, ControlError> {
    let all = origins(served)?;
    let away = away(served, &all, member)?;
    let in_vain = served.volume.look_in_vain(&away, LOOK_MAX);
    let given_up = served.volume.accept_loss(&in_vain, SYNC_MAX).map_err(|error| failed("accept the loss", error))?;
    let left = away.len() - given_up.len().min(away.len());
    Ok(GivenUpReport { volume: served.name().to_owned(), declared: true, contents: shown(&all, given_up), left })
}

/// Says what [`accept_loss`] would give up if it found none of it.
pub(super) fn would_be_lost(served: &Served, member: Option<&str>) -> Result<GivenUpReport, ControlError> {
    let all = origins(served)?;
    let contents = shown(&all, away(served, &all, member)?);
    Ok(GivenUpReport { volume: served.name().to_owned(), declared: false, contents, left: 0 })
}

/// Contents that only machines have which are away, or only this member.
fn away(served: &Served, all: &[(OriginId, Origin)], member: Option<&str>) -> Result<Vec<GivenUp>, ControlError> {
    let of: Option<Vec<OriginId>> = match member {
        Some(member) => {
            let node = find_any(all, member)?;
            Some(all.iter().filter(|(_, origin)| origin.node == node).map(|(id, _)| *id).collect())
        }
        None => None,
    };
    let away = served.volume.look(|replica| replica.contents_away(GIVEN_UP_MAX));
    let away = away.ok_or_else(|| failed("list contents", "the volume has stopped"))?;
    let mut away = away.map_err(|error| failed("list contents", error))?;
    away.retain(|away| is_waiting_for(away, of.as_deref()));
    Ok(away)
}

fn shown(all: &[(OriginId, Origin)], given_up: Vec<GivenUp>) -> Vec<GivenUpContent> {
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
    contents.collect()
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
