//! `wayfs status`: all daemons of this user, or the one named.

use super::{Context, to_json, unexpected, write_out};
use crate::args::Output;
use crate::failure::Failure;
use crate::locate;
use crate::show;
use std::path::PathBuf;
use wayfs_control::report::StatusReport;
use wayfs_control::{Command, ControlClient, Done};

pub(crate) fn run(context: &Context) -> Result<(), Failure> {
    let (reports, silent) = reports(context)?;
    match context.global.output() {
        Output::Json => write_out(&format!("{}\n", to_json(&reports)?))?,
        // A daemon that runs and does not answer is no reason to say that none runs.
        Output::Text if reports.is_empty() && !silent.is_empty() => {}
        Output::Text => write_out(&show::statuses(&reports, show::now_unix_ms()))?,
    }
    // One daemon that hangs does not hide the others, and is not passed over in silence.
    silent.into_iter().next().map_or(Ok(()), Err)
}

fn reports(context: &Context) -> Result<(Vec<StatusReport>, Vec<Failure>), Failure> {
    let sockets: Vec<PathBuf> = match context.global.at {
        Some(_) => vec![locate::socket(&context.registry, &context.wanted(None))?],
        None => context.registry.running().into_iter().map(|daemon| daemon.socket).collect(),
    };
    let (mut reports, mut silent) = (Vec::new(), Vec::new());
    for socket in sockets {
        match ask(&socket) {
            Ok(report) => reports.push(report),
            Err(failure) => silent.push(failure),
        }
    }
    Ok((reports, silent))
}

fn ask(socket: &std::path::Path) -> Result<StatusReport, Failure> {
    match ControlClient::connect(socket)?.ask(&Command::Status)? {
        Done::Status(report) => Ok(report),
        other => Err(unexpected(&other)),
    }
}
