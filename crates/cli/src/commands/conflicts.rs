//! `wayfs conflicts …`

use super::{Context, unexpected, write_out};
use crate::args::{ConflictsCommand, Output, ResolveArgs, WhichArgs};
use crate::failure::{Exit, Failure};
use std::path::{Path, PathBuf};
use wayfs_control::report::{DiffReport, SideReport};
use wayfs_control::{Command, ConflictRef, ControlClient, DaemonKind, Done, Selection};
use wayfs_types::{OriginId, RecordId};

pub(crate) fn run(context: &Context, command: ConflictsCommand) -> Result<(), Failure> {
    match command {
        ConflictsCommand::List { volume } => context.report(None, &Command::ConflictsList { volume }),
        ConflictsCommand::Show(args) => {
            let (client, which) = which(context, &args.which)?;
            let done = context.call(client, &Command::ConflictsShow { volume: args.volume, which })?;
            context.print(&done)
        }
        ConflictsCommand::Diff(args) => diff(context, args),
        ConflictsCommand::Resolve(args) => resolve(context, args),
    }
}

/// The conflict meant, and the daemon to ask.
fn which(context: &Context, text: &Path) -> Result<(ControlClient, ConflictRef), Failure> {
    match text.to_str().and_then(parse_id) {
        Some(id) => Ok((context.connect(None)?, ConflictRef::Id(id))),
        None => context.connect_for(None, text).map(|(client, path)| (client, ConflictRef::Path(path))),
    }
}

/// `origin.sequence`; anything else is a path. (A file of such a name can be written as `./2.7`.)
fn parse_id(text: &str) -> Option<RecordId> {
    let (origin, sequence) = text.split_once('.')?;
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    if !digits(origin) || !digits(sequence) {
        return None;
    }
    RecordId::new(OriginId::new(origin.parse().ok()?).ok()?, sequence.parse().ok()?).ok()
}

fn resolve(context: &Context, args: ResolveArgs) -> Result<(), Failure> {
    let (client, selection) = match &args.which {
        Some(text) => which(context, text).map(|(client, which)| (client, Selection::One(which)))?,
        None => (context.connect(None)?, Selection::All { glob: args.glob }),
    };
    let command =
        Command::ConflictsResolve { volume: args.volume, which: selection, keep: args.keep, dry_run: args.dry_run };
    let done = context.call(client, &command)?;
    let Done::Resolved(report) = &done else { return Err(unexpected(&done)) };
    context.print(&done)?;
    if report.failed.is_empty() {
        return Ok(());
    }
    Err(Failure::new(
        Exit::NotTrue,
        "not every conflict could be settled",
        "The reasons are listed above; settle those one by one.",
    ))
}

fn diff(context: &Context, args: WhichArgs) -> Result<(), Failure> {
    let (client, which) = which(context, &args.which)?;
    let done = context.call(client, &Command::ConflictsDiff { volume: args.volume, which })?;
    let Done::Diff(report) = &done else { return Err(unexpected(&done)) };
    if context.global.output() == Output::Json {
        return context.print(&done);
    }
    match &report.text {
        Some(text) => write_out(text),
        None => diff_in_mount(context, &args.which, report),
    }
}

/// Both sides are files in the mount: the machine's own `diff` compares them.
fn diff_in_mount(context: &Context, near: &Path, report: &DiffReport) -> Result<(), Failure> {
    let root = mount_root(context, near)?;
    let file = |side: &SideReport| side.path.as_ref().map(|path| root.join(path));
    let (Some(left), Some(right)) = (file(&report.winner), file(&report.other)) else {
        return write_out("There are no two files to compare: `wayfs conflicts show` says what met.\n");
    };
    let label = |side: &SideReport, path: &Path| format!("{} ({})", path.display(), side.by);
    let status = std::process::Command::new("diff")
        .arg("-u")
        .args(["--label", &label(&report.winner, &left), "--label", &label(&report.other, &right), "--"])
        .args([&left, &right])
        .status()
        .map_err(|e| Failure::io("run diff", &e))?;
    match status.code() {
        Some(0) => Ok(()),
        Some(1) => {
            Err(Failure::new(Exit::NotTrue, "the two sides differ", "Settle it with `wayfs conflicts resolve`."))
        }
        _ => Err(Failure::new(Exit::Failed, format_args!("diff failed ({status})"), "")),
    }
}

fn mount_root(context: &Context, near: &Path) -> Result<PathBuf, Failure> {
    let at = context.global.at.as_deref();
    let here = std::env::current_dir().ok();
    let found = at
        .into_iter()
        .chain([near])
        .chain(here.as_deref())
        .filter_map(|path| context.registry.find_by_path(path))
        .find(|found| found.daemon.kind == DaemonKind::Mount)
        .map(|found| found.daemon.place);
    let only = || {
        let mut mounts = context.registry.running().into_iter().filter(|daemon| daemon.kind == DaemonKind::Mount);
        mounts.next().filter(|_| mounts.next().is_none()).map(|daemon| daemon.place)
    };
    found
        .or_else(only)
        .ok_or_else(|| Failure::usage("the files to compare lie in a mount that is not known", "Name it with --at."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_and_paths_are_told_apart() {
        assert_eq!(parse_id("2.7").unwrap().to_string(), "2.7");
        for path in ["2.txt", "./2.7", "a", "2.", ".7", "2.0", "99999999.1", "2.7.8", "+2.7"] {
            assert!(parse_id(path).is_none(), "{path}");
        }
    }
}
