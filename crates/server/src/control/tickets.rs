//! Tickets: what they admit, and what those may do less than others who come with them.

use super::failed::failed;
use crate::config::TICKET_LIFETIME;
use crate::served::Served;
use crate::shared::Shared;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};
use std::sync::PoisonError;
use std::time::Duration;
use wayfs_control::report::TicketReport;
use wayfs_control::{ControlError, ErrorKind, Owner, TicketLimits, TicketRole};
use wayfs_net::{Ticket, TicketParts, TicketSecret};
use wayfs_node::{ChildRole, clock, paths};
use wayfs_types::{FileId, Limits, Name, Squash};

/// Longest life of a ticket.
const LIFETIME_MAX: Duration = Duration::from_secs(366 * 24 * 3600);

pub(super) fn issue(
    server: &Shared,
    served: &Served,
    (role, limits): (TicketRole, &TicketLimits),
    expires_s: Option<u64>,
) -> Result<TicketReport, ControlError> {
    let (net_role, child) = match role {
        TicketRole::Client => (wayfs_net::TicketRole::Client, ChildRole::Client),
        TicketRole::Station => (wayfs_net::TicketRole::Station, ChildRole::Station),
        TicketRole::Reader => (wayfs_net::TicketRole::Reader, ChildRole::Reader),
    };
    if role == TicketRole::Station && *limits != TicketLimits::default() {
        return Err(usage(
            "a station cannot be limited: it has the whole volume, and passes on what its clients write",
            "Limit its clients: issue their tickets with these options.",
        ));
    }
    let limits = limits_of(served, limits)?;
    let lifetime = expires_s.map_or(TICKET_LIFETIME, Duration::from_secs);
    if lifetime.is_zero() || lifetime > LIFETIME_MAX {
        return Err(usage("a ticket lives between a second and a year", "Choose another lifetime."));
    }
    let now = clock::unix_seconds();
    let expiry_unix_s = now.saturating_add(lifetime.as_secs());
    let secret = TicketSecret::generate().ok_or_else(|| failed("make ticket", "the system gives no random numbers"))?;
    let parts = TicketParts {
        role: net_role,
        volume: served.id,
        volume_name: served.name().to_owned(),
        home: server.endpoint.id(),
        addresses: server.addresses(),
        secret: secret.clone(),
        expiry_unix_s,
    };
    let ticket = Ticket::new(parts).map_err(|error| failed("make ticket", error))?;
    let mut tickets = served.tickets.lock().unwrap_or_else(PoisonError::into_inner);
    let tickets = tickets.as_mut().ok_or_else(|| failed("make ticket", "this server is not the home"))?;
    tickets.issue(&secret, (child, limits), now..expiry_unix_s).map_err(|error| failed("store ticket", error))?;
    Ok(TicketReport {
        ticket: ticket.to_text().to_string(),
        volume: served.name().to_owned(),
        role,
        expires_unix_ms: i64::try_from(expiry_unix_s.saturating_mul(1000)).unwrap_or(i64::MAX),
    })
}

fn usage(message: &str, next: &str) -> ControlError {
    ControlError::new(ErrorKind::Usage, message.to_owned(), next)
}

/// The same in the engine's words. The directory is fixed when the ticket is issued: it may be renamed and moved afterwards.
fn limits_of(served: &Served, limits: &TicketLimits) -> Result<Limits, ControlError> {
    let below = limits.path.as_deref().map(|path| directory_at(served, path)).transpose()?;
    let squash = limits.squash.map(|Owner { uid, gid }| Squash { uid, gid });
    Ok(Limits { squash, no_setid: limits.no_setid, below, ..Limits::NONE })
}

fn directory_at(served: &Served, path: &Path) -> Result<FileId, ControlError> {
    let missing = || {
        let text = format!("there is no directory {} in volume {}", path.display(), served.name());
        ControlError::new(
            ErrorKind::NotFound,
            text,
            "Make it first, or name another; paths begin at the volume's root.",
        )
    };
    let mut at = FileId::ROOT;
    for component in path.components() {
        let name = match component {
            Component::RootDir | Component::CurDir => continue,
            Component::Normal(name) => Name::new(name.as_bytes()).map_err(|_| missing())?,
            Component::ParentDir | Component::Prefix(_) => return Err(missing()),
        };
        let found = served.volume.look(|replica| -> Result<_, wayfs_types::StorageError> {
            let Some(entry) = replica.entry(at, &name)? else { return Ok(None) };
            Ok(replica.inode(entry.file)?.filter(|inode| inode.is_directory()).map(|_| entry.file))
        });
        let found = found.ok_or_else(|| failed("look up the directory", "the volume has stopped"))?;
        at = found.map_err(|error| failed("look up the directory", error))?.ok_or_else(missing)?;
    }
    match at {
        FileId::ROOT => Err(usage("the root is the whole volume", "Leave --path out, or name a directory below it.")),
        directory => Ok(directory),
    }
}

/// What a member may do less than others, for people.
pub(super) fn in_words(served: &Served, limits: Limits) -> TicketLimits {
    let path = limits.below.map(|directory| {
        let known = served.volume.look(|replica| paths::path_of(replica, directory)).flatten();
        known.unwrap_or_else(|| format!("removed (directory {directory})").into())
    });
    TicketLimits {
        squash: limits.squash.map(|Squash { uid, gid }| Owner { uid, gid }),
        no_setid: limits.no_setid,
        path,
    }
}
