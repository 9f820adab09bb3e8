//! A file per command.

mod backup;
mod conflicts;
mod copying;
mod debug;
mod doctor;
mod events;
mod exclusive;
mod generate;
mod init;
mod lab;
mod link;
mod mount;
mod nfs;
mod nfs_mount;
mod people;
mod queue;
mod refresh;
mod rotate_key;
mod scrub;
mod serve;
mod station;
mod status;
mod stop;
mod sync;
mod umount;
mod volume;

pub(crate) use debug::redact;
pub(crate) use umount::our_mounts;

use crate::args::{Args, CommandArgs, GlobalArgs, NfsCommand, Output};
use crate::config::Config;
use crate::failure::{Exit, Failure};
use crate::locate::{self, Wanted};
use crate::progress::Bar;
use crate::show;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use wayfs_control::{Command, ControlClient, DaemonKind, Done, Registry};

/// What every command has at hand.
pub(crate) struct Context {
    pub(crate) global: GlobalArgs,
    pub(crate) config: Config,
    pub(crate) registry: Registry,
}

/// Carries out what was typed.
pub(crate) fn run(args: Args) -> Result<(), Failure> {
    match args.command {
        // These must work even if a configuration file is broken.
        CommandArgs::Completions { shell } => generate::completions(shell),
        CommandArgs::Man { dir } => generate::manual(dir.as_deref()),
        CommandArgs::Init(init) => init::run(&init),
        CommandArgs::Lab(command) => lab::run(&args.global, command),
        CommandArgs::Link(command) => link::run(&args.global, &command),
        CommandArgs::Nfs(command) if !matches!(command, NfsCommand::Notice { .. }) => nfs::run(&args.global, &command),
        command => {
            let config = Config::read(&args.global)?;
            let context = Context { global: args.global, config, registry: Registry::of_this_machine() };
            run_with(&context, command)
        }
    }
}

fn run_with(context: &Context, command: CommandArgs) -> Result<(), Failure> {
    let mount = Some(DaemonKind::Mount);
    match command {
        CommandArgs::Serve(args) => serve::run(context, &args),
        CommandArgs::Mount(args) => mount::run(context, &args),
        CommandArgs::Umount(args) => umount::run(context, &args),
        CommandArgs::Stop(args) => stop::run(context, &args),
        CommandArgs::Volume(command) => volume::run(context, command),
        CommandArgs::Station(command) => station::run(context, command),
        CommandArgs::Status => status::run(context),
        CommandArgs::Info { path, volume } => context.report_on(None, &path, |path| Command::Info { volume, path }),
        CommandArgs::Queue(args) => queue::run(context, &args),
        CommandArgs::Sync(args) => sync::run(context, args),
        CommandArgs::Refresh(args) => refresh::run(context, &args),
        CommandArgs::Exclusive(args) => exclusive::run(context, &args),
        CommandArgs::People(args) => people::run(context, &args),
        CommandArgs::Scrub(args) => scrub::run(context, args),
        CommandArgs::Conflicts(command) => conflicts::run(context, command),
        CommandArgs::Offline => context.report(mount, &Command::Offline),
        CommandArgs::Online => context.report(mount, &Command::Online),
        CommandArgs::Auto => context.report(mount, &Command::Auto),
        CommandArgs::Pin { path } => context.report_on(mount, &path, |path| Command::Pin { path }),
        CommandArgs::Unpin { path } => context.report_on(mount, &path, |path| Command::Unpin { path }),
        CommandArgs::Pins => context.report(mount, &Command::Pins),
        CommandArgs::Events(args) => events::run(context, &args),
        CommandArgs::Metrics => context.report(None, &Command::Metrics),
        CommandArgs::Doctor(args) => doctor::run(context, &args),
        CommandArgs::Debug(args) => debug::run(context, &args),
        CommandArgs::Nfs(NfsCommand::Notice { notice }) => nfs_mount::notice(context, notice),
        CommandArgs::Completions { .. }
        | CommandArgs::Man { .. }
        | CommandArgs::Init(_)
        | CommandArgs::Lab(_)
        | CommandArgs::Nfs(_)
        | CommandArgs::Link(_) => {
            unreachable!("carried out by `run`")
        }
    }
}

impl Context {
    /// Which daemon is meant.
    pub(crate) fn wanted(&self, kind: Option<DaemonKind>) -> Wanted {
        Wanted { at: self.global.at.clone(), kind }
    }

    /// Connects for a command that is about no path.
    pub(crate) fn connect(&self, kind: Option<DaemonKind>) -> Result<ControlClient, Failure> {
        locate::connect(&self.registry, &self.wanted(kind))
    }

    /// Connects for a path; gives the path from its volume's root, too.
    pub(crate) fn connect_for(
        &self,
        kind: Option<DaemonKind>,
        path: &Path,
    ) -> Result<(ControlClient, PathBuf), Failure> {
        locate::connect_for_path(&self.registry, &self.wanted(kind), path)
    }

    /// Sends a command with a progress bar.
    pub(crate) fn call(&self, client: ControlClient, command: &Command) -> Result<Done, Failure> {
        self.call_with(client, None, command)
    }

    /// The same, with a descriptor for the daemon.
    pub(crate) fn call_with(
        &self,
        client: ControlClient,
        descriptor: Option<OwnedFd>,
        command: &Command,
    ) -> Result<Done, Failure> {
        let mut bar = Bar::beside(self.global.output());
        Ok(client.call_with(descriptor, command, &mut |reply| bar.watch(reply))?)
    }

    /// Sends a command and prints its result.
    pub(crate) fn report(&self, kind: Option<DaemonKind>, command: &Command) -> Result<(), Failure> {
        let done = self.call(self.connect(kind)?, command)?;
        self.print(&done)
    }

    /// The same for a command about a path.
    pub(crate) fn report_on(
        &self,
        kind: Option<DaemonKind>,
        path: &Path,
        command: impl FnOnce(PathBuf) -> Command,
    ) -> Result<(), Failure> {
        let (client, inside) = self.connect_for(kind, path)?;
        let done = self.call(client, &command(inside))?;
        self.print(&done)
    }

    /// Prints a result as asked for.
    pub(crate) fn print(&self, done: &Done) -> Result<(), Failure> {
        match self.global.output() {
            Output::Text => write_out(&show::done(done)),
            Output::Json => write_out(&format!("{}\n", value_of(done)?)),
        }
    }
}

/// The report inside of a result, without the tag that says which it is: who asked knows.
fn value_of(done: &Done) -> Result<serde_json::Value, Failure> {
    let mut tagged = to_json(done)?;
    Ok(match tagged.get_mut("value") {
        Some(value) => value.take(),
        None => serde_json::json!({}),
    })
}

/// Anything as JSON.
pub(crate) fn to_json(value: &impl serde::Serialize) -> Result<serde_json::Value, Failure> {
    serde_json::to_value(value).map_err(|e| Failure::new(Exit::Failed, format_args!("write JSON: {e}"), ""))
}

/// Writes to standard output. A reader that left (`| head`) has what it wanted.
pub(crate) fn write_out(text: &str) -> Result<(), Failure> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => Err(Failure::io("write to standard output", &e)),
        _ => Ok(()),
    }
}

/// For a result that does not belong to the command: the daemon is of another version.
pub(crate) fn unexpected(done: &Done) -> Failure {
    let kind = to_json(done).ok().and_then(|v| v.get("result").map(ToString::to_string)).unwrap_or_default();
    Failure::new(
        Exit::Failed,
        format_args!("the daemon answered with an unexpected result ({kind})"),
        "Restart the daemon: it may be of another version.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use wayfs_control::report::QueueReport;

    #[test]
    fn json_is_the_report_alone() {
        let value = value_of(&Done::Queue(QueueReport::default())).unwrap();
        assert_eq!(value["items_total"], 0);
        assert_eq!(value_of(&Done::Nothing).unwrap(), serde_json::json!({}));
        assert_eq!(value_of(&Done::Metrics("x 1".into())).unwrap(), serde_json::json!("x 1"));
    }
}
