//! `wayfs serve`: a server, in the foreground or behind.

use super::{Context, write_out};
use crate::args::ServeArgs;
use crate::config::{ServeSettings, passphrase};
use crate::failure::{Exit, Failure};
use crate::{cores, daemon, label, logging, panics, sd_notify, signals};
use std::sync::mpsc::Receiver;
use wayfs_control::link_signals::LinkSource;
use wayfs_control::{DaemonKind, Registered, Registration};
use wayfs_server::{Server, ServerConfig, ServerStopper, StartError};

pub(crate) fn run(context: &Context, args: &ServeArgs) -> Result<(), Failure> {
    let settings = ServeSettings::new(args, &context.config);
    if args.daemon && !daemon::is_background() {
        let log = daemon::start(&context.config.dirs.logs, &format!("serve-{}", settings.listen.port()), None)?;
        let (data, listen) = (settings.data.display(), settings.listen);
        return write_out(&format!("Serves {data} at {listen}; its log is {}.\n", log.display()));
    }
    daemon::detach();
    panics::end_the_process();
    logging::start(&context.config.log);
    cores::forbid();
    let ended = signals::catch().map_err(|e| Failure::io("catch signals", &e))?;
    let mut config = config(context, &settings);
    config.passphrase = passphrase(settings.passphrase_file.as_deref())?;
    let mut server = Server::start(config).map_err(|error| start_failure(&error))?;
    let registered = register(context, &settings)?;
    stop_on_signal(server.stopper(), ended).map_err(|e| Failure::io("start a thread", &e))?;
    serve(&server);
    sd_notify::notify("STOPPING=1");
    server.stop();
    drop(registered);
    Ok(())
}

/// Says that it serves, and returns when someone asks it to end.
fn serve(server: &Server) {
    if !daemon::is_background() {
        // A standard output that is closed is no reason to stop serving.
        let _ = write_out(&format!("Serves at {}. End it with Ctrl-C or `wayfs stop`.\n", server.address()));
    }
    daemon::report_ready();
    sd_notify::notify("READY=1");
    server.wait_for_stop();
}

fn stop_on_signal(stopper: ServerStopper, ended: Receiver<signals::Ending>) -> std::io::Result<()> {
    let thread = std::thread::Builder::new().name("stop-on-signal".into());
    thread.spawn(move || {
        if ended.recv().is_ok() {
            stopper.request_stop();
        }
    })?;
    Ok(())
}

fn register(context: &Context, settings: &ServeSettings) -> Result<Registered, Failure> {
    let registration = Registration {
        kind: DaemonKind::Server,
        // The tools look for it by real paths.
        place: settings.data.canonicalize().unwrap_or_else(|_| settings.data.clone()),
        socket: settings.socket(),
        pid: std::process::id(),
        volume: String::new(),
        for_all: None,
    };
    let next_step = "Set XDG_RUNTIME_DIR or WAYFS_RUNTIME_DIR to a directory that you may write.";
    context.registry.register(&registration).map_err(|error| Failure::new(Exit::Refused, error, next_step))
}

fn config(context: &Context, settings: &ServeSettings) -> ServerConfig {
    let mut config = ServerConfig::new(settings.data.clone());
    config.net = context.config.file.network.apply(config.net);
    config.listen = settings.listen;
    config.advertise.clone_from(&settings.advertise);
    config.control_socket = Some(settings.socket());
    config.policy.clone_from(&settings.policy);
    config.metrics = settings.metrics;
    config.scrub_period = settings.scrub_period;
    config.mdns = settings.mdns;
    config.links = Some(LinkSource::Directory(wayfs_hoplink::socket_directory()));
    config.accept_loss.clone_from(&settings.accept_loss);
    config.label = label::of_this_machine();
    config
}

fn start_failure(error: &StartError) -> Failure {
    let (exit, next_step) = match error {
        StartError::Directory { source, .. } if source.kind() == std::io::ErrorKind::PermissionDenied => {
            (Exit::Refused, "Choose a directory that you may write with --data.")
        }
        StartError::Policy { .. } => {
            (Exit::Usage, "Known are write-through, on-demand, periodic:60s, ih:2, ihsl:2,1, ttnu:0.5 and atd.")
        }
        StartError::Bind(_) => (
            Exit::Failed,
            "Choose another address or port with --listen; `wayfs status` shows whether a server runs already.",
        ),
        StartError::Locked(_) | StartError::Control(_) => (Exit::Refused, "`wayfs status` shows the server that runs."),
        StartError::Metrics(_) => (Exit::Failed, "Choose another address or port with --metrics."),
        StartError::Directory { .. }
        | StartError::Unreadable { .. }
        | StartError::Identity(_)
        | StartError::Runtime(_)
        | StartError::Volume { .. } => (Exit::Failed, ""),
        StartError::Copied { .. } => (Exit::Refused, "End the other copy first."),
    };
    Failure::new(exit, format_args!("start the server: {error}"), next_step)
}
