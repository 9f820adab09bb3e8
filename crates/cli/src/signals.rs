//! Signals that end a daemon.

use std::io;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;
use tokio::signal::unix::{SignalKind, signal};

/// Why a daemon is to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// SIGTERM or SIGINT.
    Asked,
}

/// Catches SIGTERM, SIGINT and SIGHUP from here on; each arrives in the receiver (at most four wait). The third ends the process at
/// once with code 130, so that a daemon that does not end can be ended by hand.
pub(crate) fn catch() -> io::Result<Receiver<Ending>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let (sender, receiver) = sync_channel(4);
    let (mut term, mut int, mut hup) = {
        let _inside = runtime.enter();
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?, signal(SignalKind::hangup())?)
    };
    thread::Builder::new().name("signals".into()).spawn(move || {
        runtime.block_on(async move {
            for count in 1.. {
                tokio::select! {
                    _ = term.recv() => {}
                    _ = int.recv() => {}
                    _ = hup.recv() => {}
                }
                if count >= 3 {
                    std::process::exit(130);
                }
                let _ = sender.try_send(Ending::Asked);
            }
        });
    })?;
    Ok(receiver)
}
