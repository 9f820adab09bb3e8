//! Which command goes where.

use super::local::ServedVolume;
use super::sync::LOOK_PERIOD;
use super::{
    copy_in, copy_out, deleting, doctor, files, members, promoting, stations, status, sync, tar_in, tar_out, tickets,
    volumes,
};
use crate::backup::{self, BackupError};
use crate::served::Served;
use crate::shared::Shared;
use std::collections::BTreeMap;
use std::sync::Arc;
use wayfs_admin::happenings::Authors;
use wayfs_admin::{Settling, conflicts, queue, resolve, scrub};
use wayfs_control::report::{StationsReport, WhyReport};
use wayfs_control::{Command, CommandHandler, ControlError, CopyForm, DaemonKind, Done, ErrorKind, EventsWanted, Sink};
use wayfs_proto::Held;

/// Carries out commands.
pub(crate) struct ServerCommands {
    server: Arc<Shared>,
}

impl ServerCommands {
    pub(crate) fn new(server: Arc<Shared>) -> Self {
        Self { server }
    }
}

impl CommandHandler for ServerCommands {
    fn run(&self, command: Command, out: &mut dyn Sink) -> Result<Done, ControlError> {
        let server = &self.server;
        match command {
            Command::Status => Ok(Done::Status(status::report(server))),
            Command::Info { volume, path } => Ok(Done::Info(files::info(&*one(server, volume.as_deref())?, &path)?)),
            Command::Queue { volume, limit } => Ok(Done::Queue(queue::run(&local(server, volume.as_deref())?, limit)?)),
            Command::Sync { volume, path, until, timeout_ms } => {
                let args = sync::Args { path, until, timeout_ms };
                Ok(Done::Sync(sync::run(&some(server, volume.as_deref())?, &args, out)?))
            }
            Command::Scrub { volume } => Ok(Done::Scrubbed(scrub::run(&local(server, volume.as_deref())?, out)?)),
            Command::ConflictsList { volume } => {
                Ok(Done::Conflicts(conflicts::list(&local(server, volume.as_deref())?)?))
            }
            Command::ConflictsShow { volume, which } => {
                Ok(Done::Conflict(conflicts::find(&local(server, volume.as_deref())?, &which)?.1.report))
            }
            Command::ConflictsDiff { volume, which } => {
                Ok(Done::Diff(conflicts::diff(conflicts::find(&local(server, volume.as_deref())?, &which)?.1)))
            }
            Command::ConflictsResolve { volume, which, keep, dry_run } => {
                let settling = if dry_run { Settling::DryRun } else { Settling::Apply };
                let volumes = local(server, volume.as_deref())?;
                Ok(Done::Resolved(resolve(&volumes, &which, &keep, settling, out)?))
            }
            Command::StationList { nearby: true } => Ok(Done::Stations(status::nearby(server, out)?)),
            Command::StationList { nearby: false } => {
                Ok(Done::Stations(StationsReport { stations: status::all_stations(server) }))
            }
            Command::StationWhy => Ok(Done::Why(WhyReport {
                chosen: None,
                reasons: vec!["A station's parent is always the volume's home.".into()],
                candidates: status::all_stations(server),
            })),
            Command::StationAddress { server: wanted, addresses } => {
                Ok(Done::Stations(stations::set_address(server, &wanted, &addresses)?))
            }
            Command::StationJoin { ticket } => Ok(Done::Volume(volumes::join(server, &ticket.0)?)),
            Command::Events(wanted) => events(server, wanted, out),
            Command::DoctorFacts => Ok(Done::Doctor(doctor::report(server))),
            Command::VolumeCreate { .. }
            | Command::VolumeList
            | Command::VolumeTicket { .. }
            | Command::VolumeQuota { .. }
            | Command::VolumeImport { .. }
            | Command::VolumeExport { .. }
            | Command::VolumeBackup { .. }
            | Command::VolumeDelete { .. }
            | Command::VolumePromote { .. }
            | Command::VolumeRevoke { .. }
            | Command::VolumeAcceptLoss { .. }
            | Command::VolumeMembers { .. } => run_for_volumes(server, command, out),
            Command::Stop => {
                server.request_stop();
                Ok(Done::Nothing)
            }
            Command::Metrics => Ok(Done::Metrics(server.metrics())),
            Command::Offline
            | Command::Online
            | Command::Auto
            | Command::Pin { .. }
            | Command::Unpin { .. }
            | Command::Pins
            | Command::StationUse { .. }
            | Command::Refresh { .. }
            | Command::LinkNotice { .. }
            | Command::Umount { .. } => Err(ControlError::wrong_daemon(&command, DaemonKind::Mount)),
        }
    }
}

/// `wayfs volume …`
fn run_for_volumes(server: &Shared, command: Command, out: &mut dyn Sink) -> Result<Done, ControlError> {
    match command {
        Command::VolumeCreate { name, owner, group_writable } => {
            Ok(Done::Volume(volumes::create(server, &name, owner, group_writable.then_some(volumes::GROUP_WRITABLE))?))
        }
        Command::VolumeList => Ok(Done::Volumes(volumes::list(server))),
        Command::VolumeTicket { volume, role, expires_s, limits } => {
            let served = home(server, &volume)?;
            Ok(Done::Ticket(tickets::issue(server, &served, (role, &limits), expires_s)?))
        }
        Command::VolumeImport { volume, from, form, into } => {
            let served = home(server, &volume)?;
            Ok(Done::Copied(match form {
                CopyForm::Directory => copy_in::run(&served, &from, &into, out)?,
                CopyForm::Tar => tar_in::run(&served, &into, out)?,
            }))
        }
        Command::VolumeExport { volume, to, form, privileges } => {
            let served = one(server, Some(&volume))?;
            Ok(Done::Copied(match form {
                CopyForm::Directory => copy_out::run(&served, &to, privileges, out)?,
                CopyForm::Tar => tar_out::run(&served, privileges, out)?,
            }))
        }
        Command::VolumeBackup { volume, to, form } => {
            let served = home(server, &volume)?;
            Ok(Done::BackedUp(backup::run(server, &served, (&to, form), out).map_err(not_backed_up)?))
        }
        Command::VolumeDelete { volume, force, dry_run } => {
            let wanted = deleting::Wanted { dry_run, force };
            Ok(Done::Deleted(deleting::run(server, &home(server, &volume)?, wanted)?))
        }
        Command::VolumePromote { volume, force, dry_run } => {
            let wanted = promoting::Wanted { dry_run, force };
            Ok(Done::Promoted(promoting::run(server, one(server, Some(&volume))?, wanted)?))
        }
        Command::VolumeRevoke { volume, member, fence } => {
            let held = if fence { Held::Fenced } else { Held::Taken };
            Ok(Done::Members(members::revoke(&*home(server, &volume)?, &member, held)?))
        }
        Command::VolumeAcceptLoss { volume, member, dry_run } => {
            let accept = if dry_run { members::would_be_lost } else { members::accept_loss };
            Ok(Done::GivenUp(accept(&*home(server, &volume)?, member.as_deref())?))
        }
        Command::VolumeQuota { volume, member, bytes, files } => {
            Ok(Done::Members(members::quota(&*home(server, &volume)?, member.as_deref(), (bytes, files))?))
        }
        Command::VolumeMembers { volume } => Ok(Done::Members(members::list(&*one(server, Some(&volume))?)?)),
        other => Err(ControlError::wrong_daemon(&other, DaemonKind::Mount)),
    }
}

/// The volumes that a command is about.
fn some(server: &Shared, name: Option<&str>) -> Result<Vec<Arc<Served>>, ControlError> {
    match name {
        Some(_) => one(server, name).map(|served| vec![served]),
        None => Ok(server.all()),
    }
}

/// The same, for the commands that all roles share.
fn local(server: &Shared, name: Option<&str>) -> Result<Vec<ServedVolume>, ControlError> {
    Ok(some(server, name)?.into_iter().map(ServedVolume).collect())
}

/// The volume that a command is about; without a name the only one.
fn one(server: &Shared, name: Option<&str>) -> Result<Arc<Served>, ControlError> {
    match name {
        Some(name) => server.find(name).ok_or_else(|| match server.broken(name) {
            Some(broken) => ControlError::new(
                ErrorKind::Refused,
                format!("`{name}` is not served: {}", broken.why),
                broken.next_step,
            ),
            None => ControlError::new(
                ErrorKind::NotFound,
                format!("no volume `{name}` is served here"),
                "`wayfs volume list` shows those that are.",
            ),
        }),
        None => {
            let mut all = server.all();
            match (all.pop(), all.is_empty()) {
                (Some(only), true) => Ok(only),
                (Some(_), false) => Err(ControlError::new(
                    ErrorKind::Usage,
                    "this server has several volumes",
                    "Name one with --volume.",
                )),
                (None, _) => Err(ControlError::new(
                    ErrorKind::NotFound,
                    "this server has no volumes",
                    "Make one with `wayfs volume create NAME`.",
                )),
            }
        }
    }
}

/// The same, for commands that only a home can carry out.
fn home(server: &Shared, name: &str) -> Result<Arc<Served>, ControlError> {
    let served = one(server, Some(name))?;
    if served.is_home() {
        return Ok(served);
    }
    let home = served.volume.directory().find(served.volume.directory().home());
    let home = home.map_or_else(|| "its home".to_owned(), |home| home.label);
    Err(ControlError::new(
        ErrorKind::Usage,
        format!("this server is only a station of volume `{name}`"),
        format!("Give the command at {home}."),
    ))
}

fn events(server: &Shared, wanted: EventsWanted, out: &mut dyn Sink) -> Result<Done, ControlError> {
    let listener = server.events.listen(wanted)?;
    let mut authors: BTreeMap<String, Authors> = BTreeMap::new();
    while !listener.is_done() && !out.is_gone() {
        // Whoever listens drives the watch: without listeners there is none.
        for served in server.all() {
            served.heard.tell_levels(&served.volume);
        }
        let Some(mut event) = listener.next(LOOK_PERIOD) else { continue };
        if let Some(volume) = event.volume.clone()
            && let Some(served) = server.find(&volume)
        {
            authors.entry(volume).or_default().name(&mut event, &ServedVolume(served));
        }
        if out.event(&event).is_err() {
            break;
        }
    }
    Ok(Done::Nothing)
}

fn not_backed_up(error: BackupError) -> ControlError {
    let next = match &error {
        BackupError::Relative => "Give an absolute path.",
        BackupError::Occupied(_) => "Name a directory that is not there, is empty, or holds a backup of this volume.",
        BackupError::Write(_) => {
            "An earlier backup in that place is whole still. Make room there, or see to its rights."
        }
        BackupError::Tables(_) | BackupError::Contents(_) | BackupError::Stopped => {
            "An earlier backup is whole still. See the server's log and `wayfs doctor`."
        }
        BackupError::Control(error) => return error.clone(),
    };
    let kind = match &error {
        BackupError::Relative | BackupError::Occupied(_) => ErrorKind::Usage,
        _ => ErrorKind::Failed,
    };
    ControlError::new(kind, error.to_string(), next)
}
