//! `wayfs exclusive`: directories in which the home decides at once.
//!
//! It works by the extended attribute of the mount, with the rights of whoever calls it.

use super::{Context, to_json, write_out};
use crate::args::{ExclusiveArgs, Output};
use crate::failure::{Exit, Failure};
use crate::show::{clean, count};
use rustix::fs::XattrFlags;
use rustix::io::Errno;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// The attribute that says it.
const ATTRIBUTE: &str = "user.wayfs.exclusive";
/// An attribute that every file of a mount has, and none elsewhere.
const OF_MOUNTS: &str = "user.wayfs.state";

/// What was done.
#[derive(Debug, Serialize)]
struct Done {
    directory: PathBuf,
    exclusive: bool,
    /// Directories at and below it, each of which the mode was set for.
    directories: u64,
}

/// How a directory is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// The home decides at once.
    Exclusive,
    /// As usual: conflicts are found afterwards.
    Shared,
}

pub(crate) fn run(context: &Context, args: &ExclusiveArgs) -> Result<(), Failure> {
    let directory = args.directory.as_path();
    if rustix::fs::getxattr(directory, OF_MOUNTS, &mut [0_u8; 64]).is_err() {
        let next = "Name a directory inside of a mount; `wayfs status` lists the mounts.";
        return Err(Failure::new(Exit::NotFound, format_args!("{} is in no mount", clean(directory.display())), next));
    }
    let mut directories = 0;
    set_all(directory, if args.off { Mode::Shared } else { Mode::Exclusive }, &mut directories)?;
    let done = Done { directory: directory.to_owned(), exclusive: !args.off, directories };
    match context.global.output() {
        Output::Json => write_out(&format!("{}\n", to_json(&done)?)),
        Output::Text if args.off => {
            write_out(&format!("{} not exclusive any more.\n", count(directories, "directory")))
        }
        Output::Text => {
            write_out(&format!("{} exclusive: the home decides there at once.\n", count(directories, "directory")))
        }
    }
}

/// From the top down, so that what others make meanwhile has it from the directory above.
fn set_all(top: &Path, mode: Mode, count: &mut u64) -> Result<(), Failure> {
    let mut left = vec![top.to_owned()];
    while let Some(directory) = left.pop() {
        set(&directory, mode)?;
        *count += 1;
        let reading = |error: &std::io::Error| Failure::io(format_args!("read {}", clean(directory.display())), error);
        for entry in std::fs::read_dir(&directory).map_err(|e| reading(&e))? {
            let entry = entry.map_err(|e| reading(&e))?;
            if entry.file_type().map_err(|e| reading(&e))?.is_dir() {
                left.push(entry.path());
            }
        }
    }
    Ok(())
}

fn set(directory: &Path, mode: Mode) -> Result<(), Failure> {
    let outcome = match mode {
        Mode::Exclusive => rustix::fs::setxattr(directory, ATTRIBUTE, b"1", XattrFlags::empty()),
        Mode::Shared => match rustix::fs::removexattr(directory, ATTRIBUTE) {
            Err(Errno::NODATA) => Ok(()),
            outcome => outcome,
        },
    };
    let doing = || format!("set the mode of {}", clean(directory.display()));
    match outcome {
        Ok(()) => Ok(()),
        Err(error @ (Errno::HOSTUNREACH | Errno::TIMEDOUT)) => Err(Failure::new(
            Exit::Unreachable,
            format_args!("{}: {}", doing(), std::io::Error::from(error)),
            "The home is to know of it: try again when it can be reached (`wayfs status`).",
        )),
        Err(error) => Err(Failure::io(doing(), &error.into())),
    }
}
