//! `wayfs volume import` and `export`: between a volume and a directory, or a tar archive.

use super::Context;
use crate::args::{ExportArgs, ImportArgs};
use crate::failure::Failure;
use crate::show;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};
use wayfs_control::stream::Stream;
use wayfs_control::{Command, CopyForm, DaemonKind, Done, Privileges};

const SERVER: Option<DaemonKind> = Some(DaemonKind::Server);

pub(super) fn import(context: &Context, args: ImportArgs) -> Result<(), Failure> {
    let ImportArgs { volume, from, tar, into } = args;
    let into = into.unwrap_or_default();
    let into = into.strip_prefix("/").map(Path::to_owned).unwrap_or(into);
    let Some(tar) = tar else {
        let from = absolute(&from.unwrap_or_default())?;
        return context.report(SERVER, &Command::VolumeImport { volume, from, form: CopyForm::Directory, into });
    };
    let source: Box<dyn Read + Send> = match tar.as_os_str() == "-" {
        true => Box::new(io::stdin()),
        false => Box::new(File::open(&tar).map_err(|e| Failure::io(format_args!("open {}", tar.display()), &e))?),
    };
    let Stream { ours, theirs } = Stream::to_daemon().map_err(|e| pipe_failure(&e))?;
    // Not waited for: a daemon that refuses does not read to the end.
    let _sending = copy(source, ours);
    let command = Command::VolumeImport { volume, from: PathBuf::new(), form: CopyForm::Tar, into };
    let done = context.call_with(context.connect(SERVER)?, Some(theirs), &command)?;
    context.print(&done)
}

pub(super) fn export(context: &Context, args: ExportArgs) -> Result<(), Failure> {
    let ExportArgs { volume, to, tar, with_privileges } = args;
    let privileges = if with_privileges { Privileges::Kept } else { Privileges::Stripped };
    let Some(tar) = tar else {
        let to = absolute(&to.unwrap_or_default())?;
        return context.report(SERVER, &Command::VolumeExport { volume, to, form: CopyForm::Directory, privileges });
    };
    let is_standard = tar.as_os_str() == "-";
    let target: Box<dyn Write + Send> = match is_standard {
        true => Box::new(io::stdout()),
        false => Box::new(File::create_new(&tar).map_err(|e| Failure::io(format_args!("make {}", tar.display()), &e))?),
    };
    let command = Command::VolumeExport { volume, to: PathBuf::new(), form: CopyForm::Tar, privileges };
    let exported = stream_out(context, &command, target);
    if exported.is_err() && !is_standard {
        // Half an archive would be taken for the whole.
        let _ = std::fs::remove_file(&tar);
    }
    let done = exported?;
    if is_standard {
        // Standard output is the archive.
        let _ = write!(io::stderr(), "{}", show::done(&done));
        return Ok(());
    }
    context.print(&done)
}

/// Has a daemon write an archive, and copies it to where it belongs.
pub(super) fn stream_out(context: &Context, command: &Command, target: Box<dyn Write + Send>) -> Result<Done, Failure> {
    let Stream { ours, theirs } = Stream::from_daemon().map_err(|e| pipe_failure(&e))?;
    let receiving = copy(ours, target);
    let done = context.call_with(context.connect(SERVER)?, Some(theirs), command)?;
    let received = receiving.join().unwrap_or_else(|_| Err(io::Error::other("a bug in the tool")));
    received.map_err(|e| Failure::io("write the archive", &e))?;
    Ok(done)
}

fn pipe_failure(error: &io::Error) -> Failure {
    Failure::io("make a pipe to the server", error)
}

/// Copies on a thread of its own, since either end may block.
fn copy(mut from: impl Read + Send + 'static, mut to: impl Write + Send + 'static) -> JoinHandle<io::Result<()>> {
    thread::spawn(move || {
        io::copy(&mut from, &mut to)?;
        to.flush()
    })
}

/// The daemon has another working directory.
pub(super) fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    std::path::absolute(path).map_err(|e| Failure::io(format_args!("find {}", path.display()), &e))
}
