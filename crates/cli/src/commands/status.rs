//! `wayfs status`: all daemons of this user, or the one named.

use super::{Context, to_json, unexpected, write_out};
use crate::args::Output;
use crate::failure::Failure;
use crate::locate;
use crate::show;
use std::path::PathBuf;
use wayfs_control::report::{StatusReport, StatusWord, VolumeStatus};
use wayfs_control::{Command, ControlClient, Done, EndNote};

pub(crate) fn run(context: &Context) -> Result<(), Failure> {
    let (mut reports, silent) = reports(context)?;
    if context.global.at.is_none() {
        reports.extend(context.registry.ended().iter().map(of_ended));
    }
    match context.global.output() {
        Output::Json => write_out(&format!("{}\n", to_json(&reports)?))?,
        // A daemon that runs and does not answer is no reason to say that none runs.
        Output::Text if reports.is_empty() && !silent.is_empty() => {}
        Output::Text => write_out(&show::statuses(&reports, show::Now::by_clock()))?,
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

/// A daemon that ended since it could not go on.
fn of_ended(note: &EndNote) -> StatusReport {
    let (daemon, place) = (&note.daemon, note.daemon.place.display());
    let volume = VolumeStatus {
        name: daemon.volume.clone(),
        mountpoint: Some(daemon.place.clone()),
        word: StatusWord::NeedsAttention,
        cause: format!("the {} ended, since it could not go on: {}", daemon.kind, note.reason),
        next_step: format!(
            "Mend the cause (a full, failing or read-only disk), then `wayfs mount {} {place}`; what was durable is kept. \
             `wayfs umount --force {place}` clears it away.",
            daemon.volume
        ),
        ..VolumeStatus::default()
    };
    StatusReport {
        kind: daemon.kind,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        pid: daemon.pid,
        uptime_ms: 0,
        node: String::new(),
        listening: Vec::new(),
        volumes: vec![volume],
    }
}

fn ask(socket: &std::path::Path) -> Result<StatusReport, Failure> {
    match ControlClient::connect(socket)?.ask(&Command::Status)? {
        Done::Status(report) => Ok(report),
        other => Err(unexpected(&other)),
    }
}
