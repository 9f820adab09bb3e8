//! Bytes between a tool and a daemon, beside the lines of the control socket: an archive that is exported or imported.
//!
//! The tool makes a named pipe next to the daemon's socket, names it in the command, and copies between it and a file
//! or a standard stream of its own; so the daemon never opens files of the user. Neither end waits for the other for good.

use crate::{ControlError, ErrorKind, Sink};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Longest wait of a daemon for the tool's end.
const OPEN_MAX: Duration = Duration::from_secs(10);
/// Pause between two looks at it.
const STEP: Duration = Duration::from_millis(20);

/// A named pipe; gone when dropped.
#[derive(Debug)]
pub struct Pipe {
    path: PathBuf,
}

impl Pipe {
    /// Makes one that the daemon behind a control socket may open.
    ///
    /// # Errors
    /// As the system answers.
    pub fn beside(socket: &Path) -> io::Result<Self> {
        let directory = socket.parent().unwrap_or(Path::new("."));
        let nanos = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |d| d.subsec_nanos());
        let path = directory.join(format!("stream-{}-{nanos}", std::process::id()));
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?;
        let pipe = Self { path };
        // The daemon may be of a user of its own; only root may give the pipe away, and only root speaks to such a daemon.
        if rustix::process::geteuid().is_root() {
            let owner = std::fs::symlink_metadata(socket).or_else(|_| std::fs::metadata(directory))?;
            std::os::unix::fs::chown(&pipe.path, Some(owner.uid()), Some(owner.gid()))?;
        }
        Ok(pipe)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        // Left behind it is a name without bytes.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// The daemon's end to write to.
///
/// # Errors
/// [`ControlError`] if the tool does not open its end.
pub fn open_to_write(path: &Path, out: &mut dyn Sink) -> Result<File, ControlError> {
    let end = Instant::now() + OPEN_MAX;
    loop {
        match rustix::fs::open(path, OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty()) {
            Ok(fd) => return blocking(File::from(fd)),
            // Nobody reads yet.
            Err(rustix::io::Errno::NXIO) if Instant::now() < end && !out.is_gone() => std::thread::sleep(STEP),
            Err(errno) => return Err(failed(&errno.into())),
        }
    }
}

/// The daemon's end to read from.
///
/// # Errors
/// [`ControlError`] if the tool does not open its end.
pub fn open_to_read(path: &Path, out: &mut dyn Sink) -> Result<File, ControlError> {
    let fd = rustix::fs::open(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty());
    let file = File::from(fd.map_err(|errno| failed(&errno.into()))?);
    let end = Instant::now() + OPEN_MAX;
    let step = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
    // Before the tool opened its end, a read would say that the stream is over; a poll says nothing.
    while !matches!(poll(&mut [PollFd::new(&file, PollFlags::IN)], Some(&step)), Ok(1..)) {
        if Instant::now() >= end || out.is_gone() {
            return Err(failed(&io::Error::from(io::ErrorKind::TimedOut)));
        }
    }
    blocking(file)
}

fn blocking(file: File) -> Result<File, ControlError> {
    let flags = rustix::fs::fcntl_getfl(file.as_fd()).and_then(|flags| {
        rustix::fs::fcntl_setfl(file.as_fd(), flags - OFlags::NONBLOCK)?;
        Ok(flags)
    });
    flags.map(|_| file).map_err(|errno| failed(&errno.into()))
}

fn failed(error: &io::Error) -> ControlError {
    let next = "Try again; the tool and the daemon must be on one machine.";
    ControlError::new(ErrorKind::Failed, format!("open the stream to the tool: {error}"), next)
}
