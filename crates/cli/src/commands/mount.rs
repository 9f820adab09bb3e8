//! `wayfs mount`: a mount, in the foreground or behind.

use super::umount::take_down_dead;
use super::{Context, write_out};
use crate::args::{MountArgs, SharingArg};
use crate::config::{Close, MountSettings, Source, passphrase};
use crate::failure::{Exit, Failure};
use crate::{cores, daemon, label, logging, panics, sd_notify, signals};
use std::io::Write as _;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};
use tracing::{info, warn};
use wayfs_client::saved::SavedError;
use wayfs_client::{Client, ClientConfig, Ended, StartError, Stopper, UmountMode};
use wayfs_net::Ticket;

/// How long programs that use the mount may hold up its end after a signal. Then they get errors.
const BUSY_MAX: Duration = Duration::from_secs(5);

/// How long a daemon that cannot go on still answers what waits.
const LAST_ANSWERS: Duration = Duration::from_millis(300);

/// Time between two tries to unmount.
const BUSY_STEP: Duration = Duration::from_millis(200);

pub(crate) fn run(context: &Context, args: &MountArgs) -> Result<(), Failure> {
    if super::nfs_mount::is_meant(args) {
        return super::nfs_mount::run(context, args);
    }
    let settings = MountSettings::new(args, &context.config)?;
    let config = config(context, &settings)?;
    take_down_dead(&context.registry, &settings.dir)?;
    if args.daemon && !daemon::is_background() {
        let secret = match &settings.source {
            Source::Ticket(ticket) => Some(ticket.as_str()),
            Source::Name(_) => None,
        };
        let log = daemon::start(&context.config.dirs.logs, &log_name(&settings.dir), secret)?;
        return write_out(&format!("Mounted at {}; its log is {}.\n", settings.dir.display(), log.display()));
    }
    if let Source::Ticket(ticket) = &settings.source {
        daemon::hide(ticket)?;
    }
    daemon::detach();
    panics::end_the_process();
    logging::start(&context.config.log);
    cores::forbid();
    let ended = signals::catch().map_err(|e| Failure::io("catch signals", &e))?;
    let client = Client::start(config).map_err(|error| start_failure(&error))?;
    announce(&client);
    unmount_on_signal(client.stopper(), ended)?;
    let report = client.run();
    sd_notify::notify("STOPPING=1");
    end(&report)
}

/// One log for each mount point.
pub(super) fn log_name(dir: &Path) -> String {
    let plain: String =
        dir.to_string_lossy().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    // A file name is bounded; the end of a path tells more than its beginning.
    let tail: Vec<char> = plain.chars().rev().take(100).collect();
    format!("mount{}", tail.into_iter().rev().collect::<String>())
}

fn config(context: &Context, settings: &MountSettings) -> Result<ClientConfig, Failure> {
    let source = match &settings.source {
        Source::Ticket(text) => wayfs_client::Source::Ticket(Box::new(parse_ticket(text)?)),
        Source::Name(name) => wayfs_client::Source::Saved(name.clone()),
    };
    let mut config = ClientConfig::new(source, settings.dir.clone(), settings.cache.clone());
    config.registry = context.registry.clone();
    config.net = context.config.file.network.apply(config.net);
    config.cache_size = settings.cache_size_bytes;
    config.label = Some(label::of_this_machine());
    config.read_only = settings.read_only;
    config.allow_other = settings.allow_other;
    config.no_exec = settings.no_exec;
    config.offline = settings.offline;
    config.mdns = settings.mdns;
    config.links.clone_from(&settings.links);
    config.watch = settings.watch;
    config.sharing = match settings.sharing {
        None => config.sharing,
        Some(SharingArg::CloseToOpen) => wayfs_client::Sharing::CloseToOpen,
        Some(SharingArg::Relaxed) => wayfs_client::Sharing::Relaxed,
    };
    config.metrics = settings.metrics;
    config.passphrase = passphrase(settings.passphrase_file.as_deref())?;
    config.scrub_period = settings.scrub_period;
    config.on_failure = Some(end_without_unmount);
    config.fs.close = match settings.close {
        Close::Asynchronous => wayfs_client::Close::Asynchronous,
        Close::Safe => wayfs_client::Close::Safe,
    };
    config.fs.identities = settings.identities.clone();
    config.fs.people.clone_from(&settings.people);
    let timeouts = &settings.timeouts;
    config.fs.metadata_timeout = timeouts.metadata.unwrap_or(config.fs.metadata_timeout);
    config.fs.read_timeout = timeouts.read.unwrap_or(config.fs.read_timeout);
    config.fs.safe_timeout = timeouts.safe.unwrap_or(config.fs.safe_timeout);
    config.fs.dirty_age = timeouts.dirty_age.unwrap_or(config.fs.dirty_age);
    Ok(config)
}

fn parse_ticket(text: &str) -> Result<Ticket, Failure> {
    let next_step = "Copy the whole ticket, or get a new one with `wayfs volume ticket NAME` at the home.";
    text.parse().map_err(|error| Failure::usage(error, next_step))
}

fn announce(client: &Client) {
    if !daemon::is_background() {
        // A standard output that is closed is no reason to unmount.
        let (name, place) = (client.volume_name(), client.mountpoint().display());
        let _ = write_out(&format!("Mounted {name} at {place}. End it with Ctrl-C or `wayfs umount {place}`.\n"));
    }
    daemon::report_ready();
    sd_notify::notify("READY=1");
}

/// The first signal unmounts in order, and by force if programs hold on for too long; the second by force at once.
fn unmount_on_signal(stopper: Stopper, signals: Receiver<signals::Ending>) -> Result<(), Failure> {
    let watch = move || {
        if signals.recv().is_err() {
            return;
        }
        let deadline = Instant::now() + BUSY_MAX;
        while stopper.stop(UmountMode::Orderly).is_err() && Instant::now() < deadline {
            match signals.recv_timeout(BUSY_STEP) {
                Err(RecvTimeoutError::Timeout) => {}
                Ok(_) | Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        if stopper.is_stopping() {
            return;
        }
        info!("programs still use the mount: it is taken away from them");
        if let Err(error) = stopper.stop(UmountMode::Force) {
            warn!(%error, "unmount");
        }
    };
    thread::Builder::new()
        .name("unmount-on-signal".into())
        .spawn(watch)
        .map(|_| ())
        .map_err(|e| Failure::io("start a thread", &e))
}

/// The end of a daemon whose store failed. The mount stays, dead: programs get errors, and do not write into the directory below.
/// What was durable is found again by the next mount.
fn end_without_unmount(reason: &str) {
    let ended = Ended { failure: Some(reason.to_owned()), ..Ended::default() };
    let Err(failure) = end(&ended) else { return };
    tracing::error!(reason, "this mount cannot go on and ends");
    // Whoever waits for an answer gets it first.
    thread::sleep(LAST_ANSWERS);
    // A closed standard error is no reason to stay.
    let _ = writeln!(std::io::stderr(), "{}", failure.to_text());
    std::process::exit(failure.exit as i32);
}

fn end(report: &Ended) -> Result<(), Failure> {
    if let Some(reason) = &report.failure {
        let next_step = "What was written is in the mount's log; mount it again, and look at `wayfs doctor`.";
        return Err(Failure::new(Exit::Failed, format_args!("the mount ended: {reason}"), next_step));
    }
    if let Some((file, error)) = report.lost.first() {
        let text = format!(
            "the last writes to {} file(s) could not be kept (the first: file {file}, {error})",
            report.lost.len()
        );
        return Err(Failure::new(Exit::Failed, text, "Make room on the disk of the cache, and write them again."));
    }
    if report.is_safe() {
        return Ok(());
    }
    let text = format!(
        "unmounted, but {} records ({} bytes) are on this machine only",
        report.unsent_records, report.unsent_bytes
    );
    Err(Failure::new(Exit::NotTrue, text, "They are kept: mount the volume again to send them."))
}

fn start_failure(error: &StartError) -> Failure {
    let (exit, next_step) = match error {
        StartError::Saved(SavedError::Unknown { .. }) => {
            (Exit::NotFound, "Get a ticket with `wayfs volume ticket NAME` at the home.")
        }
        StartError::TicketExpired(_) => (Exit::Refused, "`wayfs volume ticket NAME` at the home issues a new one."),
        StartError::TicketOfOther(_) => (Exit::Refused, ""),
        StartError::TicketOfStation => {
            (Exit::Usage, "`wayfs volume ticket NAME` without --station issues one for a mount.")
        }
        StartError::Join(wayfs_node::JoinError::Unreachable { .. }) => {
            (Exit::Unreachable, "The first mount needs the home; `wayfs doctor` checks this machine.")
        }
        StartError::Join(_) => (
            Exit::Refused,
            "Each ticket admits one machine, once: get a new one with `wayfs volume ticket NAME` at the home.",
        ),
        StartError::NameTaken { .. } => (Exit::Usage, "Name another one with --cache."),
        StartError::Mount(_) => (Exit::Failed, "`wayfs status` shows what is mounted, `wayfs doctor` what is missing."),
        StartError::Volume(error) if error.is_damage() => (
            Exit::Failed,
            "`wayfs doctor --repair` (with the directory given to --cache, if one was) says what is lost and, with `--yes`, repairs it; \
             nothing was changed so far.",
        ),
        StartError::Control(_) | StartError::Volume(_) => (Exit::Refused, "`wayfs status` shows the mount that runs."),
        StartError::Names(_) => (Exit::Unreachable, "`wayfs people DIR`, where it is mounted, lists them."),
        StartError::Saved(_)
        | StartError::Directory { .. }
        | StartError::Identity(_)
        | StartError::Bind(_)
        | StartError::Session(_)
        | StartError::Registry(_)
        | StartError::Metrics(_)
        | StartError::System(_) => (Exit::Failed, ""),
    };
    Failure::new(exit, format_args!("mount: {error}"), next_step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_points_have_logs_of_their_own() {
        assert_eq!(log_name(Path::new("/srv/my photos")), "mount-srv-my-photos");
        assert!(log_name(Path::new(&"/x".repeat(500))).len() < 120);
    }

    #[test]
    fn ends_are_loud_unless_all_is_safe() {
        assert!(end(&Ended::default()).is_ok());
        let unsent = Ended { unsent_records: 2, ..Ended::default() };
        assert_eq!(end(&unsent).unwrap_err().exit, Exit::NotTrue);
        let failed = Ended { failure: Some("the disk is gone".into()), ..Ended::default() };
        assert_eq!(end(&failed).unwrap_err().exit, Exit::Failed);
    }
}
