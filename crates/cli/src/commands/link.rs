//! `wayfs link …`: a bad hop repaired for any traffic.

use super::{to_json, write_out};
use crate::args::{
    GlobalArgs, LinkBaseArgs, LinkCommand, LinkMobileArgs, LinkOptions, LinkStatusArgs, OrderArg, Output,
};
use crate::dirs::Dirs;
use crate::failure::{Exit, Failure};
use crate::logging;
use crate::show;
use serde_json::json;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Receiver;
use std::time::Duration;
use wayfs_hoplink::{
    BaseConfig, Common, LinkError, LinkTicket, MobileConfig, Order, Settings, Stopper, default_socket, run_base,
    run_mobile,
};

/// Most text that is read as a ticket.
const TICKET_LEN_MAX: u64 = 4096;

pub(crate) fn run(global: &GlobalArgs, command: &LinkCommand) -> Result<(), Failure> {
    logging::start(match global.verbose {
        0 => "info",
        1 => "debug",
        _ => "trace",
    });
    crate::cores::forbid();
    match command {
        LinkCommand::Base(args) => base(global.output(), args),
        LinkCommand::Mobile(args) => mobile(global.output(), args),
        LinkCommand::Status(args) => status(global.output(), args),
        LinkCommand::HandOff(args) => hand_off(args.socket.as_deref()),
    }
}

fn base(output: Output, args: &LinkBaseArgs) -> Result<(), Failure> {
    if args.address.len() > 4 {
        return Err(Failure::usage("more than four addresses", "Name those by which mobiles are likely to come."));
    }
    let config = BaseConfig {
        common: common(&args.options, "base")?,
        listen: args.listen,
        addresses: args.address.clone(),
        pool: args.pool,
        new_ticket: args.new_ticket,
    };
    let mut out = args.out.as_deref().map(new_file).transpose()?;
    let signals = crate::signals::catch().map_err(|error| Failure::io("catch signals", &error))?;
    let mut told = Ok(());
    let result = run_base(&config, |started| {
        stop_on_signal(signals, started.stopper.clone());
        let ticket = started.ticket.to_text();
        let address = started.address.to_string();
        told = match (&mut out, output) {
            (Some(file), _) => writeln!(file, "{}", *ticket).map_err(|error| Failure::io("write the ticket", &error)),
            (None, Output::Json) => write_out(&format!("{}\n", json!({ "ticket": *ticket, "address": address }))),
            (None, Output::Text) => write_out(&format!("{}\n", *ticket)),
        };
        if told.is_err() {
            started.stopper.stop();
        }
    });
    let result = result.map_err(|error| failure(&error));
    if result.is_err()
        && let Some(path) = args.out.as_deref().filter(|_| told.is_ok())
    {
        // A file without a ticket would only mislead.
        if std::fs::metadata(path).is_ok_and(|it| it.len() == 0) {
            let _ = std::fs::remove_file(path);
        }
    }
    told.and(result)
}

fn mobile(output: Output, args: &LinkMobileArgs) -> Result<(), Failure> {
    let config = MobileConfig {
        common: common(&args.options, "mobile")?,
        ticket: ticket(&args.ticket)?,
        default_route: args.default,
        rekey_after: Duration::from_secs(args.rekey),
    };
    let signals = crate::signals::catch().map_err(|error| Failure::io("catch signals", &error))?;
    let mut told = Ok(());
    let waits = |stopper| stop_on_signal(signals, stopper);
    let result = run_mobile(&config, waits, |started| {
        let line = match output {
            Output::Json => json!({
                "tun": started.tun, "addresses": started.addresses, "base": started.base, "scheme": started.scheme
            })
            .to_string(),
            Output::Text => format!(
                "{} is up: {}; the base is {}; scheme {}",
                started.tun, started.addresses[0], started.base[0], started.scheme
            ),
        };
        told = write_out(&format!("{line}\n"));
    });
    told.and(result.map_err(|error| failure(&error)))
}

fn stop_on_signal(signals: Receiver<crate::signals::Ending>, stopper: Stopper) {
    std::thread::spawn(move || {
        while signals.recv().is_ok() {
            stopper.stop();
        }
    });
}

fn common(options: &LinkOptions, role: &str) -> Result<Common, Failure> {
    let scheme = match options.scheme.as_deref() {
        None => None,
        Some(name) => {
            let scheme =
                name.parse().map_err(|error| Failure::usage(error, "`docs/wireless.md` says what to use when."))?;
            Some((name.to_owned(), scheme))
        }
    };
    let tun =
        options.tun.clone().unwrap_or_else(|| if role == "base" { "wayfs-base" } else { "wayfs-link" }.to_owned());
    let settings = Settings {
        tries_max: options.tries,
        timeout_min: options.timeout.map(Duration::from_millis),
        window: options.window,
        order: options.order.map(|order| match order {
            OrderArg::Kept => Order::Kept,
            OrderArg::Free => Order::AsTheyCome,
        }),
        delay_max: options.delay.map(Duration::from_millis),
        queue_len_max: options.queue.map(|kib| kib as usize * 1024),
        reservation: options.reservation.then_some(true),
    };
    settings.check().map_err(|error| Failure::usage(error, "`wayfs link base --help` lists the ranges."))?;
    let state = Dirs::of_this_user().state;
    Ok(Common {
        scheme,
        settings,
        mtu: options.mtu,
        state: options.state.clone().unwrap_or_else(|| state.join(format!("link-{role}"))),
        socket: options.socket.clone().unwrap_or_else(|| default_socket(&tun)),
        tun,
    })
}

/// A new file for a password.
fn new_file(path: &Path) -> Result<std::fs::File, Failure> {
    let file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    file.map_err(|error| Failure::io(format!("create {}", path.display()), &error))
}

fn ticket(given: &str) -> Result<LinkTicket, Failure> {
    let mut text = String::new();
    if given == "-" {
        let read = std::io::stdin().lock().take(TICKET_LEN_MAX).read_to_string(&mut text);
        read.map_err(|error| Failure::io("read the ticket from standard input", &error))?;
    } else if given.starts_with("wayfs") && !Path::new(given).exists() {
        given.clone_into(&mut text);
    } else {
        // What is named might be a ticket that was mistyped, and that is a password: it is not said again.
        let file = std::fs::File::open(given).map_err(|error| no_file(&error))?;
        let read = file.take(TICKET_LEN_MAX).read_to_string(&mut text);
        read.map_err(|error| Failure::io("read the file with the ticket", &error))?;
    }
    text.parse().map_err(|error| Failure::usage(error, "`wayfs link base` prints it."))
}

fn no_file(error: &std::io::Error) -> Failure {
    if error.kind() == std::io::ErrorKind::NotFound {
        let next = "A ticket begins with `wayfslink1-`, as `wayfs link base` prints it; otherwise name the file that it is in.";
        return Failure::usage("what was given is no ticket, and no file either", next);
    }
    Failure::io("open the file with the ticket", error)
}

/// The sockets that are meant.
fn sockets(socket: Option<&Path>) -> Result<Vec<PathBuf>, Failure> {
    let all = socket.map_or_else(wayfs_hoplink::sockets, |socket| vec![socket.to_owned()]);
    if all.is_empty() {
        let next = "Start one with `wayfs link base` or `wayfs link mobile`, or name its socket with --socket.";
        return Err(Failure::new(Exit::Unreachable, "no link runs on this machine", next));
    }
    Ok(all)
}

fn status(output: Output, args: &LinkStatusArgs) -> Result<(), Failure> {
    loop {
        let mut failed = None;
        let mut found = 0;
        for socket in sockets(args.socket.socket.as_deref())? {
            match wayfs_hoplink::ask(&socket) {
                Ok(report) => {
                    found += 1;
                    match output {
                        Output::Json => write_out(&format!("{}\n", to_json(&report)?))?,
                        Output::Text => write_out(&show::link(&report))?,
                    }
                }
                // One that was killed leaves its socket; the next link with that name replaces it.
                Err(error) => failed = Some((socket, error)),
            }
        }
        if let Some((socket, error)) = failed.filter(|_| found == 0) {
            let message = format!("ask the link at {}: {error}", socket.display());
            return Err(Failure::new(Exit::Unreachable, message, "See that it runs; only root may ask it."));
        }
        if !args.watch {
            return Ok(());
        }
        std::thread::sleep(Duration::from_secs(1));
    }
}

fn hand_off(socket: Option<&Path>) -> Result<(), Failure> {
    for socket in sockets(socket)? {
        let asked =
            std::os::unix::net::UnixStream::connect(&socket).and_then(|mut stream| stream.write_all(b"hand-off\n"));
        asked.map_err(|error| {
            Failure::new(
                Exit::Unreachable,
                format!("tell the link at {}: {error}", socket.display()),
                "See that it runs.",
            )
        })?;
    }
    Ok(())
}

fn failure(error: &LinkError) -> Failure {
    let exit = match error {
        LinkError::Unreachable(_) => Exit::Unreachable,
        LinkError::Refused(_) => Exit::Refused,
        LinkError::TunName(_) | LinkError::Setting(_) | LinkError::NoAddress | LinkError::Running(_) => Exit::Usage,
        LinkError::Tun { .. }
        | LinkError::TunGone { .. }
        | LinkError::Host { .. }
        | LinkError::Bind { .. }
        | LinkError::State { .. }
        | LinkError::Identity(_)
        | LinkError::Language(_)
        | LinkError::Socket { .. }
        | LinkError::Scheme { .. }
        | LinkError::Io { .. } => Exit::Failed,
    };
    Failure::new(exit, error, "")
}
