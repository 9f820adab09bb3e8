//! `wayfs station …`: which station a mount uses, and servers that become one.

use super::Context;
use crate::args::StationCommand;
use crate::config::read_ticket;
use crate::failure::Failure;
use wayfs_control::{Command, DaemonKind, TicketText};

/// The word for "choose by yourself".
const AUTO: &str = "auto";

pub(crate) fn run(context: &Context, command: StationCommand) -> Result<(), Failure> {
    let mount = Some(DaemonKind::Mount);
    match command {
        StationCommand::Join { ticket } => {
            let ticket = TicketText(read_ticket(ticket.as_deref())?);
            context.report(Some(DaemonKind::Server), &Command::StationJoin { ticket })
        }
        // A server knows stations, too; which daemon is meant matters less than that there is one.
        StationCommand::List { nearby: true } => context.report(None, &Command::StationList { nearby: true }),
        StationCommand::List { nearby: false } if context.global.at.is_some() => {
            context.report(None, &Command::StationList { nearby: false })
        }
        StationCommand::List { nearby: false } => context.report(mount, &Command::StationList { nearby: false }),
        StationCommand::Use { station } => {
            let station = station.filter(|name| name != AUTO);
            context.report(mount, &Command::StationUse { station })
        }
        // A mount or a server: each knows servers by itself.
        StationCommand::Address { server, addresses } => {
            let addresses = addresses.into_iter().filter(|address| address != AUTO).collect();
            context.report(None, &Command::StationAddress { server, addresses })
        }
        StationCommand::Why => context.report(mount, &Command::StationWhy),
    }
}
