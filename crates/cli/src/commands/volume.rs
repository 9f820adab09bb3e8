//! `wayfs volume …`: for servers.

use super::{Context, unexpected, write_out};
use crate::args::{ImportArgs, Output, TicketArgs, VolumeCommand};
use crate::failure::Failure;
use crate::show;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use wayfs_control::report::TicketReport;
use wayfs_control::{Command, DaemonKind, Done, TicketRole};

pub(crate) fn run(context: &Context, command: VolumeCommand) -> Result<(), Failure> {
    let server = Some(DaemonKind::Server);
    match command {
        VolumeCommand::Create { name } => context.report(server, &Command::VolumeCreate { name }),
        VolumeCommand::List => context.report(server, &Command::VolumeList),
        VolumeCommand::Ticket(args) => ticket(context, &args),
        VolumeCommand::Import(args) => import(context, args),
        VolumeCommand::Export { volume, to } => {
            context.report(server, &Command::VolumeExport { volume, to: absolute(&to)? })
        }
        VolumeCommand::Members { volume } => context.report(server, &Command::VolumeMembers { volume }),
        VolumeCommand::Revoke { volume, member } => context.report(server, &Command::VolumeRevoke { volume, member }),
    }
}

fn import(context: &Context, args: ImportArgs) -> Result<(), Failure> {
    let into = args.into.unwrap_or_default();
    let into = into.strip_prefix("/").map(Path::to_owned).unwrap_or(into);
    let command = Command::VolumeImport { volume: args.volume, from: absolute(&args.from)?, into };
    context.report(Some(DaemonKind::Server), &command)
}

/// The daemon has another working directory.
fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    std::path::absolute(path).map_err(|e| Failure::io(format_args!("find {}", path.display()), &e))
}

fn ticket(context: &Context, args: &TicketArgs) -> Result<(), Failure> {
    let role = if args.station { TicketRole::Station } else { TicketRole::Client };
    let expires_s = Some(args.hours.saturating_mul(3600));
    let command = Command::VolumeTicket { volume: args.volume.clone(), role, expires_s };
    let done = context.call(context.connect(Some(DaemonKind::Server))?, &command)?;
    let Done::Ticket(report) = &done else { return Err(unexpected(&done)) };
    match (&args.out, context.global.output()) {
        (Some(path), _) => write_ticket(path, report),
        (None, Output::Json) => context.print(&done),
        (None, Output::Text) => {
            // The ticket alone goes to standard output, so that it can be piped.
            let _ = writeln!(
                std::io::stderr(),
                "Admits one machine to {} until {}. Keep it like a password.",
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
