//! `wayfs volume …`: for servers.

use super::{Context, copying, unexpected, write_out};
use crate::args::{DeleteArgs, Output, PromoteArgs, TicketArgs, VolumeCommand};
use crate::config::parse_size;
use crate::failure::{Exit, Failure};
use crate::people;
use crate::show;
use std::fs::OpenOptions;
use std::io::{IsTerminal, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use wayfs_control::report::TicketReport;
use wayfs_control::{Command, DaemonKind, Done, Owner, TicketLimits, TicketRole};

pub(crate) fn run(context: &Context, command: VolumeCommand) -> Result<(), Failure> {
    let server = Some(DaemonKind::Server);
    match command {
        VolumeCommand::Create { name, owner, group_writable } => {
            let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
            let owner = owner.map_or(Ok(Owner { uid, gid }), |text| people::owner(&text))?;
            context.report(server, &Command::VolumeCreate { name, owner: Some(owner), group_writable })
        }
        VolumeCommand::List => context.report(server, &Command::VolumeList),
        VolumeCommand::Ticket(args) => ticket(context, &args),
        VolumeCommand::Import(args) => copying::import(context, args),
        VolumeCommand::Export(args) => copying::export(context, args),
        VolumeCommand::Backup(args) => super::backup::backup(context, args),
        VolumeCommand::Restore(args) => super::backup::restore(context, &args),
        VolumeCommand::RotateKey(args) => super::rotate_key::run(context, &args),
        VolumeCommand::Promote(args) => promote(context, &args),
        VolumeCommand::Delete(args) => delete(context, &args),
        VolumeCommand::Members { volume } => context.report(server, &Command::VolumeMembers { volume }),
        VolumeCommand::Quota { volume, member, bytes, files } => {
            let bytes = bytes.as_deref().map(parse_size).transpose()?;
            context.report(server, &Command::VolumeQuota { volume, member, bytes, files })
        }
        VolumeCommand::Fingerprint { volume } => fingerprint(context, volume),
        VolumeCommand::AcceptLoss { volume, member, dry_run } => {
            context.report(server, &Command::VolumeAcceptLoss { volume, member, dry_run })
        }
        VolumeCommand::Revoke { volume, member, fence } => {
            context.report(server, &Command::VolumeRevoke { volume, member, fence })
        }
    }
}

/// The keys of all members, whole.
fn fingerprint(context: &Context, volume: String) -> Result<(), Failure> {
    let done = context.call(context.connect(Some(DaemonKind::Server))?, &Command::VolumeMembers { volume })?;
    match (&done, context.global.output()) {
        (Done::Members(report), Output::Text) => write_out(&show::fingerprint(report)),
        _ => context.print(&done),
    }
}

/// Says what would be missing; with consent, makes the station the home.
fn promote(context: &Context, args: &PromoteArgs) -> Result<(), Failure> {
    let (volume, force) = (args.volume.clone(), args.force);
    let command = Command::VolumePromote { volume, force, dry_run: !args.yes };
    context.report(Some(DaemonKind::Server), &command)?;
    if args.yes {
        return Ok(());
    }
    let next = "If the home is gone for good, the same command with --yes makes this station the home.";
    Err(Failure::new(Exit::NotTrue, "nothing was changed", next))
}

/// Shows what would go, asks, and deletes.
fn delete(context: &Context, args: &DeleteArgs) -> Result<(), Failure> {
    let command = |dry_run| Command::VolumeDelete { volume: args.volume.clone(), force: args.force, dry_run };
    let server = Some(DaemonKind::Server);
    if !args.yes {
        let done = context.call(context.connect(server)?, &command(true))?;
        let Done::Deleted(report) = &done else { return Err(unexpected(&done)) };
        // Standard output is for the result alone.
        let _ = write!(std::io::stderr(), "{}", show::to_be_deleted(report));
        confirm(&report.name)?;
    }
    context.report(server, &command(false))
}

/// Has the name typed; anything else is a no.
fn confirm(name: &str) -> Result<(), Failure> {
    if !std::io::stdin().is_terminal() {
        return Err(Failure::usage(
            "nobody is there to confirm that the volume is to be deleted",
            "Give --yes if you are sure.",
        ));
    }
    let _ = write!(std::io::stderr(), "Type the volume's name to delete it: ");
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer).map_err(|e| Failure::io("read the answer", &e))?;
    if answer.trim() == name {
        return Ok(());
    }
    Err(Failure::new(Exit::NotTrue, "nothing was deleted: that is not the volume's name", ""))
}

fn ticket(context: &Context, args: &TicketArgs) -> Result<(), Failure> {
    let role = match (args.station, args.read_only) {
        (true, _) => TicketRole::Station,
        (false, true) => TicketRole::Reader,
        (false, false) => TicketRole::Client,
    };
    let expires_s = Some(args.hours.saturating_mul(3600));
    let squash = args.squash.as_deref().map(people::owner).transpose()?;
    let limits = TicketLimits { squash, no_setid: args.no_setid, path: args.path.clone() };
    let command = Command::VolumeTicket { volume: args.volume.clone(), role, expires_s, limits };
    let done = context.call(context.connect(Some(DaemonKind::Server))?, &command)?;
    let Done::Ticket(report) = &done else { return Err(unexpected(&done)) };
    match (&args.out, context.global.output()) {
        (Some(path), _) => write_ticket(path, report),
        (None, Output::Json) => context.print(&done),
        (None, Output::Text) => {
            // The ticket alone goes to standard output, so that it can be piped.
            let _ = writeln!(
                std::io::stderr(),
                "Admits one {} to {} until {}. Keep it like a password.",
                show::admitted(report.role),
                report.volume,
                show::date(report.expires_unix_ms)
            );
            context.print(&done)
        }
    }
}

fn write_ticket(path: &Path, report: &TicketReport) -> Result<(), Failure> {
    let doing = || format!("write the ticket to {}", path.display());
    let mut file =
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(|e| Failure::io(doing(), &e))?;
    writeln!(file, "{}", report.ticket).map_err(|e| Failure::io(doing(), &e))?;
    write_out(&format!(
        "Wrote {}; it admits one machine until {}.\n",
        path.display(),
        show::date(report.expires_unix_ms)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_ticket_file_is_private_and_new() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("ticket");
        let report = TicketReport {
            ticket: "wayfs1-x".into(),
            volume: "v".into(),
            role: TicketRole::Client,
            expires_unix_ms: 0,
        };
        write_ticket(&path, &report).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "wayfs1-x\n");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(write_ticket(&path, &report).is_err());
    }
}
