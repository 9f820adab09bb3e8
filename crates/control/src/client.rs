//! The tool's end.

use crate::line::{LineError, LineReader, READ_STEP, REPLY_LEN_MAX};
use crate::{Command, ControlError, Done, Reply, descriptor, socket};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long to knock at a daemon whose queue of connections is full.
const CONNECT_PATIENCE: Duration = Duration::from_secs(5);

/// Why a call has no result.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// Nobody listens at the socket.
    #[error("no daemon answers at {}: {source}", path.display())]
    Connect {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The connection broke, or the daemon said something that is no reply.
    #[error("the daemon at {} broke off: {reason}", path.display())]
    Broken {
        /// Where.
        path: PathBuf,
        /// How.
        reason: String,
    },
    /// The daemon said nothing for as long as a healthy one could take.
    #[error("the daemon at {} said nothing for {} s", path.display(), silence.as_secs())]
    Silent {
        /// Where.
        path: PathBuf,
        /// How long.
        silence: Duration,
    },
    /// The daemon refused or failed.
    #[error(transparent)]
    Refused(#[from] ControlError),
}

/// A connection to a daemon.
#[derive(Debug)]
pub struct ControlClient {
    path: PathBuf,
    stream: UnixStream,
}

impl ControlClient {
    /// Connects.
    ///
    /// # Errors
    /// [`CallError::Connect`] if nobody listens there.
    pub fn connect(path: &Path) -> Result<Self, CallError> {
        let fail = |source: io::Error| CallError::Connect { path: path.to_owned(), source };
        let stream = socket::connect(path, CONNECT_PATIENCE).map_err(fail)?;
        stream.set_read_timeout(Some(READ_STEP)).map_err(fail)?;
        stream.set_write_timeout(Some(CONNECT_PATIENCE)).map_err(fail)?;
        Ok(Self { path: path.to_owned(), stream })
    }

    /// Sends a command and waits for its result. `watch` sees progress and events on the way and says whether to go on;
    /// if not, the connection ends with [`CallError::Broken`]. Silence is borne as long as [`Command::silence_max`] says.
    ///
    /// # Errors
    /// [`CallError::Refused`] with what the daemon said, or another variant if it said nothing sensible.
    pub fn call(self, command: &Command, watch: &mut dyn FnMut(&Reply) -> Watch) -> Result<Done, CallError> {
        self.call_with(None, command, watch)
    }

    /// The same, and a descriptor goes to the daemon with the command. It is closed here as soon as it is sent.
    ///
    /// # Errors
    /// As [`ControlClient::call`].
    pub fn call_with(
        mut self,
        descriptor: Option<OwnedFd>,
        command: &Command,
        watch: &mut dyn FnMut(&Reply) -> Watch,
    ) -> Result<Done, CallError> {
        let mut line = serde_json::to_vec(command).map_err(|e| self.broken(e))?;
        line.push(b'\n');
        let sent = self.send(&line, descriptor);
        let mut lines = LineReader::new(&self.stream, REPLY_LEN_MAX);
        loop {
            let deadline = command.silence_max().map(|silence| Instant::now() + silence);
            let line = match lines.next(deadline) {
                Ok(Some(line)) => line,
                // A daemon that refuses a connection says why and closes it, perhaps before the command was written.
                Ok(None) => {
                    return Err(
                        self.broken(sent.err().map_or("it closed the connection".to_owned(), |e| e.to_string()))
                    );
                }
                Err(LineError::TimedOut) => {
                    let silence = command.silence_max().unwrap_or_default();
                    return Err(CallError::Silent { path: self.path, silence });
                }
                Err(error) => return Err(self.broken(error)),
            };
            match serde_json::from_slice::<Reply>(&line).map_err(|e| self.broken(e))? {
                Reply::Done(done) => return Ok(*done),
                Reply::Error(error) => return Err(error.into()),
                under_way @ (Reply::Progress(_) | Reply::Event(_)) => {
                    if watch(&under_way) == Watch::Stop {
                        return Err(self.broken("the caller stopped watching"));
                    }
                }
            }
        }
    }

    /// Sends a command and waits for its result, without looking at progress.
    ///
    /// # Errors
    /// As [`ControlClient::call`].
    pub fn ask(self, command: &Command) -> Result<Done, CallError> {
        self.call(command, &mut |_| Watch::GoOn)
    }

    fn send(&mut self, line: &[u8], descriptor: Option<OwnedFd>) -> io::Result<()> {
        match descriptor {
            None => self.stream.write_all(line),
            Some(descriptor) => {
                let sent = descriptor::send(&self.stream, line, &descriptor)?;
                self.stream.write_all(&line[sent..])
            }
        }
    }

    fn broken(&self, reason: impl ToString) -> CallError {
        CallError::Broken { path: self.path.clone(), reason: reason.to_string() }
    }
}

/// What a watcher of progress and events wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Watch {
    /// More.
    GoOn,
    /// No more.
    Stop,
}
