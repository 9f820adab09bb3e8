//! Making volumes, inviting to them, joining them.

use super::failed::failed;
use super::status::role;
use crate::served::Served;
use crate::shared::{CreateError, Shared};
use std::sync::PoisonError;
use std::time::Duration;
use wayfs_control::report::{VolumeReport, VolumesReport};
use wayfs_control::{ControlError, ErrorKind, Owner};
use wayfs_net::Ticket;
use wayfs_node::{GreetError, JoinError};
use wayfs_types::request::{Change, Request};
use wayfs_types::{Admitted, AttrChange, FileId};

/// Longest wait for a change of a new volume, which nobody else uses.
const GIVE_MAX: Duration = Duration::from_secs(10);
/// Longest wait for a home to admit this server.
const JOIN_MAX: Duration = Duration::from_secs(60);

pub(super) fn list(server: &Shared) -> VolumesReport {
    VolumesReport { volumes: server.all().iter().map(|served| report(served)).collect() }
}

fn report(served: &Served) -> VolumeReport {
    let origins = served.volume.look(wayfs_proto::Replica::origins).and_then(Result::ok).unwrap_or_default();
    let members = origins.iter().filter(|(_, origin)| origin.admitted != Admitted::Revoked).count();
    VolumeReport {
        id: served.id.to_string(),
        name: served.name().to_owned(),
        role: role(served),
        members: members as u64,
        stored_bytes: served.volume.contents().bytes(),
        created_unix_ms: Some(served.file.created_unix_ms),
    }
}

/// Mode of a root whose group makes files in it. What is made there is the group's, or its members could not change each other's.
pub(super) const GROUP_WRITABLE: u16 = 0o2775;

pub(super) fn create(
    server: &Shared,
    name: &str,
    owner: Option<Owner>,
    mode: Option<u16>,
) -> Result<VolumeReport, ControlError> {
    let own = || Owner { uid: rustix::process::geteuid().as_raw(), gid: rustix::process::getegid().as_raw() };
    let served = make(server, name)?;
    give(&served, owner.unwrap_or_else(own), mode)?;
    Ok(report(&served))
}

/// The root of a volume is its owner's from the start, or nobody but the superuser could put anything into it.
fn give(served: &Served, owner: Owner, mode: Option<u16>) -> Result<(), ControlError> {
    let change = AttrChange { uid: Some(owner.uid), gid: Some(owner.gid), mode, ..AttrChange::default() };
    let change = Request::Change { user: owner.uid, change: Change::SetAttr { file: FileId::ROOT, change } };
    let given = served.volume.request(change, GIVE_MAX).map(|_| ()).map_err(|error| error.to_string());
    let given = given.and_then(|()| served.volume.sync(GIVE_MAX).map_err(|error| error.to_string()));
    given.map_err(|error| failed("the volume is there, but its root could not be given to its owner", error))
}

fn make(server: &Shared, name: &str) -> Result<std::sync::Arc<Served>, ControlError> {
    server.create(name).map_err(|error| match error {
        error @ CreateError::Name => ControlError::new(ErrorKind::Usage, error.to_string(), "Choose another name."),
        error @ CreateError::Taken(_) => ControlError::new(
            ErrorKind::Refused,
            error.to_string(),
            "Choose another name; `wayfs volume list` shows those taken.",
        ),
        error @ (CreateError::Randomness(_) | CreateError::Start(_)) => failed("create volume", error),
    })
}

pub(super) fn join(server: &Shared, text: &str) -> Result<VolumeReport, ControlError> {
    let usage = |message: String, next: &str| ControlError::new(ErrorKind::Usage, message, next);
    let ticket: Ticket = text
        .trim()
        .parse()
        .map_err(|error: wayfs_net::TicketError| usage(error.to_string(), "Copy the ticket again, whole."))?;
    if ticket.role() != wayfs_net::TicketRole::Station {
        return Err(usage(
            "this ticket admits a client, not a station".into(),
            "Ask the home for `wayfs volume ticket VOLUME --station`.",
        ));
    }
    let _one_at_a_time = server.making.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = server.find(&ticket.volume().to_string()) {
        if known.is_home() {
            let message = format!("this server is the home of volume `{}`", known.name());
            return Err(usage(message, "Give the ticket to another server."));
        }
        // What the ticket says of the home is newer than what is known here.
        known.learn_from(&ticket);
        return Ok(report(&known));
    }
    if server.find(ticket.volume_name()).is_some() {
        let message = format!("this server has another volume called `{}`", ticket.volume_name());
        return Err(ControlError::new(ErrorKind::Refused, message, "Use another server as the station."));
    }
    let joining = async {
        let joining = wayfs_node::join(&server.endpoint, &ticket, &server.config.label);
        tokio::time::timeout(JOIN_MAX, joining).await
    };
    let grant = match server.runtime.block_on(joining) {
        Err(_) => {
            return Err(ControlError::new(
                ErrorKind::Unreachable,
                "the home did not answer in time",
                "Try the same ticket again.",
            ));
        }
        Ok(Err(error)) => return Err(refused(&error)),
        Ok(Ok(grant)) => grant,
    };
    let home = (ticket.home(), ticket.addresses());
    let served = server.adopt(grant, home).map_err(|error| failed("become a station", error))?;
    Ok(report(&served))
}

fn refused(error: &JoinError) -> ControlError {
    match error {
        JoinError::Unreachable { .. } => ControlError::new(
            ErrorKind::Unreachable,
            error.to_string(),
            "The ticket is not used up: try again when the home is reached.",
        ),
        JoinError::Greet { source: GreetError::Refused(_), .. } => {
            ControlError::new(ErrorKind::Refused, error.to_string(), "Ask the home's administrator for a new ticket.")
        }
        JoinError::Greet { .. } | JoinError::Mismatch | JoinError::Store { .. } => {
            ControlError::new(ErrorKind::Failed, error.to_string(), "Try the same ticket again.")
        }
    }
}
