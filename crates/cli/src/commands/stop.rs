//! `wayfs stop`: ends a server (or a mount) cleanly, and returns when it has ended.

use super::Context;
use super::umount::{ask_umount, wait_until_ended};
use crate::args::StopArgs;
use crate::failure::Failure;
use crate::locate;
use std::path::PathBuf;
use wayfs_control::{Command, ControlClient, DaemonKind, Registration};

/// How long a mount may flush when everything is stopped, in milliseconds. What is left stays in its log.
const FLUSH_MS: u64 = 10_000;

pub(crate) fn run(context: &Context, args: &StopArgs) -> Result<(), Failure> {
    let running = context.registry.running();
    if !args.all {
        let socket = locate::socket(&context.registry, &context.wanted(wanted_kind(context)))?;
        return stop(&find(&running, socket));
    }
    // Mounts come first in order of kind, while their stations still run.
    let mut first_failure = Ok(());
    for daemon in &running {
        let stopped = stop(daemon);
        first_failure = first_failure.and(stopped);
    }
    first_failure
}

/// Without `--at` it is a server that is meant: mounts have `umount`.
fn wanted_kind(context: &Context) -> Option<DaemonKind> {
    if context.global.at.is_some() { None } else { Some(DaemonKind::Server) }
}

/// A daemon named by its socket alone is taken for a server.
fn find(running: &[Registration], socket: PathBuf) -> Registration {
    running.iter().find(|daemon| daemon.socket == socket).cloned().unwrap_or(Registration {
        kind: DaemonKind::Server,
        place: PathBuf::new(),
        socket,
        pid: 0,
        volume: String::new(),
        for_all: None,
    })
}

fn stop(daemon: &Registration) -> Result<(), Failure> {
    match daemon.kind {
        DaemonKind::Mount => {
            ask_umount(&daemon.socket, &Command::Umount { flush: false, timeout_ms: FLUSH_MS, force: true })
                .map(|_| ())?;
        }
        DaemonKind::Server => {
            ControlClient::connect(&daemon.socket)?.ask(&Command::Stop)?;
        }
    }
    wait_until_ended(daemon)
}
