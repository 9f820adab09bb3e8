//! Signals and state for whoever listens: a socket of JSON lines (`docs/format/link-signals.md`).
//!
//! Who connects gets a line with the state, then a line for each event. A line `state` asks for the state again, `hand-off` says that the
//! mobile is about to be reached another way. Who does not read is dropped, and nobody is waited for.

use crate::{LinkError, LinkReport};
use rustix::event::{PollFd, PollFlags};
use serde_json::{Value, json};
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Who may listen at once.
const LISTENERS_MAX: usize = 16;
/// Longest question.
const QUESTION_LEN_MAX: usize = 64;
/// Bytes that may wait for somebody who does not read.
const UNREAD_MAX: usize = 256 * 1024;
/// Longest time to wait for the state.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// Longest line of a link with all its mobiles.
const LINE_LEN_MAX: u64 = 1 << 20;

/// What somebody asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Question {
    /// The mobile is about to be reached another way.
    HandOff,
}

/// The socket, and who listens.
#[derive(Debug)]
pub(crate) struct News {
    listener: UnixListener,
    path: PathBuf,
    listeners: Vec<Listener>,
}

#[derive(Debug)]
struct Listener {
    stream: UnixStream,
    question: Vec<u8>,
    unread: Vec<u8>,
    /// The state is to be told.
    asks: bool,
    is_gone: bool,
}

/// Where a device's socket is by default.
pub fn default_socket(tun: &str) -> PathBuf {
    socket_directory().join(format!("{tun}.sock"))
}

/// Where the sockets of this machine's links are by default.
pub fn socket_directory() -> PathBuf {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").filter(|_| !rustix::process::geteuid().is_root());
    runtime.map_or_else(|| PathBuf::from("/run"), PathBuf::from).join("wayfs-link")
}

/// The sockets of the links of this machine, by default.
pub fn sockets() -> Vec<PathBuf> {
    wayfs_control::link_signals::sockets_in(&socket_directory())
}

/// Asks the link at a socket how it is.
///
/// # Errors
/// The system's, or what is there is no link.
pub fn ask(socket: &Path) -> io::Result<LinkReport> {
    let stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(ANSWER_WITHIN))?;
    let mut lines = BufReader::new(stream.take(LINE_LEN_MAX));
    loop {
        let mut line = String::new();
        if lines.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut value: Value = serde_json::from_str(&line)?;
        if value["event"] == "state" {
            return Ok(serde_json::from_value(value["link"].take())?);
        }
    }
}

impl News {
    /// Listens. A socket that nobody listens at any more is replaced.
    pub(crate) fn listen(path: &Path) -> Result<Self, LinkError> {
        let failed = |error| LinkError::Socket { path: path.to_owned(), error };
        if UnixStream::connect(path).is_ok() {
            return Err(LinkError::Running(path.to_owned()));
        }
        if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            fs::DirBuilder::new().recursive(true).mode(0o755).create(parent).map_err(failed)?;
        }
        let is_socket = |path: &Path| {
            use std::os::unix::fs::FileTypeExt;
            fs::symlink_metadata(path).is_ok_and(|it| it.file_type().is_socket())
        };
        if is_socket(path) {
            fs::remove_file(path).map_err(failed)?;
        }
        let listener = UnixListener::bind(path).map_err(failed)?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o660)).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        Ok(Self { listener, path: path.to_owned(), listeners: Vec::new() })
    }

    /// What is to be waited for.
    pub(crate) fn fds<'a>(&'a self, to: &mut Vec<PollFd<'a>>) {
        to.push(PollFd::from_borrowed_fd(self.listener.as_fd(), PollFlags::IN));
        for listener in &self.listeners {
            let unread = if listener.unread.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
            to.push(PollFd::from_borrowed_fd(listener.stream.as_fd(), PollFlags::IN | unread));
        }
    }

    /// Takes in who came and what was asked; gives other questions than those for the state.
    pub(crate) fn handle(&mut self) -> Vec<Question> {
        while let Ok((stream, _)) = self.listener.accept() {
            if self.listeners.len() < LISTENERS_MAX && stream.set_nonblocking(true).is_ok() {
                let listener =
                    Listener { stream, question: Vec::new(), unread: Vec::new(), asks: true, is_gone: false };
                self.listeners.push(listener);
            }
        }
        let mut questions = Vec::new();
        for listener in &mut self.listeners {
            listener.read(&mut questions);
            listener.write();
        }
        self.listeners.retain(|listener| !listener.is_gone);
        questions
    }

    /// Whether somebody waits for the state.
    pub(crate) fn wants_state(&self) -> bool {
        self.listeners.iter().any(|listener| listener.asks)
    }

    /// Tells the state to who asked.
    pub(crate) fn tell_state(&mut self, report: &LinkReport) {
        let line = format!("{}\n", json!({ "event": "state", "link": report }));
        for listener in self.listeners.iter_mut().filter(|listener| listener.asks) {
            listener.asks = false;
            listener.tell(&line);
        }
    }

    /// Tells an event to everybody.
    pub(crate) fn tell(&mut self, event: &Value) {
        let line = format!("{event}\n");
        for listener in &mut self.listeners {
            listener.tell(&line);
        }
    }
}

impl Listener {
    fn read(&mut self, questions: &mut Vec<Question>) {
        let mut buffer = [0; 256];
        match self.stream.read(&mut buffer) {
            Ok(0) => self.is_gone = true,
            Ok(len) => {
                for byte in &buffer[..len] {
                    if *byte != b'\n' {
                        self.question.push(*byte);
                        continue;
                    }
                    match self.question.trim_ascii() {
                        b"state" => self.asks = true,
                        b"hand-off" => questions.push(Question::HandOff),
                        _ => self.tell("{\"event\":\"error\",\"message\":\"questions are `state` and `hand-off`\"}\n"),
                    }
                    self.question.clear();
                }
                self.is_gone |= self.question.len() > QUESTION_LEN_MAX;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => self.is_gone = true,
        }
    }

    fn tell(&mut self, line: &str) {
        if self.unread.len() + line.len() > UNREAD_MAX {
            self.is_gone = true;
            return;
        }
        self.unread.extend_from_slice(line.as_bytes());
        self.write();
    }

    fn write(&mut self) {
        while !self.unread.is_empty() && !self.is_gone {
            match self.stream.write(&self.unread) {
                Ok(len) => drop(self.unread.drain(..len)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => self.is_gone = true,
            }
        }
    }
}

impl Drop for News {
    fn drop(&mut self) {
        // One that is left is replaced by the next link.
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests;
