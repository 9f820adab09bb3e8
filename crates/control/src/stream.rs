//! Bytes between a tool and a daemon, beside the lines of the control socket: an archive that is exported or imported.
//!
//! The tool makes a pipe, hands the daemon one end with the command (a descriptor, never a path: what lies at a path may be changed by
//! whoever may write its directory), and copies between the other end and a file or a standard stream of its own. So the
//! daemon never opens files of the user, nor the user's tool files of the daemon.

use crate::{ControlError, ErrorKind, Sink};
use rustix::fs::{FileType, OFlags};
use rustix::pipe::PipeFlags;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// Both ends of a stream, as the tool makes it.
#[derive(Debug)]
pub struct Stream {
    /// The tool's end.
    pub ours: File,
    /// The end that goes to the daemon with the command.
    pub theirs: OwnedFd,
}

impl Stream {
    /// A stream that the daemon reads and the tool writes.
    ///
    /// # Errors
    /// As the system answers.
    pub fn to_daemon() -> io::Result<Self> {
        let (read, write) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        Ok(Self { ours: File::from(write), theirs: read })
    }

    /// A stream that the daemon writes and the tool reads.
    ///
    /// # Errors
    /// As the system answers.
    pub fn from_daemon() -> io::Result<Self> {
        let (read, write) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        Ok(Self { ours: File::from(read), theirs: write })
    }
}

/// What a daemon wants of the descriptor that came with a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    Read,
    Write,
}

/// The daemon's end to write to.
///
/// # Errors
/// [`ControlError`] if the tool sent no pipe, or the wrong end.
pub fn to_write(out: &mut dyn Sink) -> Result<File, ControlError> {
    take(out, Use::Write)
}

/// The daemon's end to read from.
///
/// # Errors
/// [`ControlError`] if the tool sent no pipe, or the wrong end.
pub fn to_read(out: &mut dyn Sink) -> Result<File, ControlError> {
    take(out, Use::Read)
}

fn take(out: &mut dyn Sink, wanted: Use) -> Result<File, ControlError> {
    let descriptor = out.take_descriptor().ok_or_else(|| failed("no stream came with the command"))?;
    let is_fit = || -> rustix::io::Result<bool> {
        let kind = FileType::from_raw_mode(rustix::fs::fstat(descriptor.as_fd())?.st_mode);
        let mode = rustix::fs::fcntl_getfl(descriptor.as_fd())? & OFlags::RWMODE;
        let mode_wanted = match wanted {
            Use::Read => OFlags::RDONLY,
            Use::Write => OFlags::WRONLY,
        };
        Ok(kind == FileType::Fifo && mode == mode_wanted)
    };
    match is_fit() {
        Ok(true) => Ok(File::from(descriptor)),
        Ok(false) => Err(failed("what came with the command is not the right end of a pipe")),
        Err(errno) => Err(failed(&io::Error::from(errno).to_string())),
    }
}

fn failed(why: &str) -> ControlError {
    let next = "Try again with the `wayfs` that the daemon is of; both must be on one machine.";
    ControlError::new(ErrorKind::Failed, format!("open the stream to the tool: {why}"), next)
}
