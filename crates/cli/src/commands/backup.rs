//! `wayfs volume backup` and `restore`.

use super::{Context, copying, write_out};
use crate::args::{BackupArgs, Output, RestoreArgs};
use crate::failure::{Exit, Failure};
use crate::progress::Bar;
use crate::show;
use std::io::{self, IsTerminal, Write};
use wayfs_control::{Command, CopyForm, DaemonKind, Done, Progress};
use wayfs_server::{BackupSource, RestoreError, restore as restore_from};

pub(super) fn backup(context: &Context, args: BackupArgs) -> Result<(), Failure> {
    let BackupArgs { volume, to } = args;
    if to.as_os_str() != "-" {
        let to = copying::absolute(&to)?;
        return context
            .report(Some(DaemonKind::Server), &Command::VolumeBackup { volume, to, form: CopyForm::Directory });
    }
    if io::stdout().is_terminal() {
        let next = "Redirect it into a file, or name a directory.";
        return Err(Failure::usage("an archive with the volume's key does not belong on a terminal", next));
    }
    let command = Command::VolumeBackup { volume, to: std::path::PathBuf::new(), form: CopyForm::Tar };
    let done = copying::stream_out(context, &command, Box::new(io::stdout()))?;
    // Standard output is the archive.
    let _ = write!(io::stderr(), "{}", show::done(&done));
    Ok(())
}

pub(super) fn restore(context: &Context, args: &RestoreArgs) -> Result<(), Failure> {
    let mut bar = Bar::beside(context.global.output());
    let mut tell = |done_bytes| {
        let what = "contents".to_owned();
        bar.show(&Progress { what, done_bytes, total_bytes: 0, done_items: done_bytes, total_items: 0 });
    };
    let mut input = io::stdin().lock();
    let source = match args.from.as_os_str() == "-" {
        true => BackupSource::Archive(&mut input),
        false => BackupSource::Directory(args.from.clone()),
    };
    let report = restore_from(source, &args.data, &mut tell).map_err(|error| not_restored(&error))?;
    drop(bar);
    match context.global.output() {
        Output::Text => write_out(&show::done(&Done::Restored(report))),
        Output::Json => context.print(&Done::Restored(report)),
    }
}

fn not_restored(error: &RestoreError) -> Failure {
    let (exit, next) = match error {
        RestoreError::NotWhole(_) | RestoreError::OtherFormat(_) => (Exit::Usage, "Name another backup."),
        RestoreError::Exists(_) => (
            Exit::Refused,
            "Nothing was touched. Restore into another data directory, or move the volume's away first.",
        ),
        RestoreError::OtherKey => (Exit::Refused, "Restore into a data directory of its own."),
        RestoreError::Start(_) => (Exit::Refused, "Stop the server first (`wayfs stop`), or name another directory."),
        RestoreError::Open(_) | RestoreError::Tables(_) | RestoreError::Contents(_) | RestoreError::Io { .. } => {
            (Exit::Failed, "Nothing was restored. Mend the cause and try again.")
        }
    };
    Failure::new(exit, error, next)
}
