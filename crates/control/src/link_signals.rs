//! What the link below a daemon tells: a listener at the sockets of `wayfs link` (`docs/format/link-signals.md`).
//!
//! Lines of JSON, each with `event`. A link that goes away says nothing any more, so whatever it said last is forgotten then.

use crate::LinkNotice;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// Longest line that is read: a state with all its peers.
const LINE_LEN_MAX: usize = 1 << 20;
/// Links that are listened to at once; a machine has one or two.
const LINKS_MAX: usize = 16;
/// Between two looks for links that were not there, on a machine that has one,
const LOOK: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };
/// and on one that has none, as nearly all: each look wakes it.
const LOOK_SELDOM: Timespec = Timespec { tv_sec: 5, tv_nsec: 0 };

/// Where links are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkSource {
    /// This socket, as soon as it is there.
    Socket(PathBuf),
    /// Every `*.sock` of a directory: all links of this machine.
    Directory(PathBuf),
}

/// Listens until it is dropped.
#[derive(Debug)]
pub struct LinkListener {
    is_over: Arc<AtomicBool>,
    wake: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl LinkListener {
    /// Begins; `tell` hears everything on a thread of the listener's.
    ///
    /// # Errors
    /// The system's, if there is no thread to be had.
    pub fn start(source: LinkSource, tell: impl Fn(LinkNotice) + Send + 'static) -> io::Result<Self> {
        let is_over = Arc::new(AtomicBool::new(false));
        let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let ear = Ear { source, links: BTreeMap::new(), is_over: Arc::clone(&is_over), wake: Arc::clone(&wake) };
        let thread = std::thread::Builder::new().name("link-signals".into()).spawn(move || ear.listen(&tell))?;
        Ok(Self { is_over, wake, thread: Some(thread) })
    }
}

impl Drop for LinkListener {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        // A counter that is full wakes just as well.
        let _ = rustix::io::write(&*self.wake, &1_u64.to_ne_bytes());
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

struct Ear {
    source: LinkSource,
    links: BTreeMap<PathBuf, Link>,
    is_over: Arc<AtomicBool>,
    wake: Arc<OwnedFd>,
}

struct Link {
    stream: UnixStream,
    line: Vec<u8>,
    is_down: bool,
}

impl Ear {
    fn listen(mut self, tell: &impl Fn(LinkNotice)) {
        while !self.is_over.load(Ordering::SeqCst) {
            self.look();
            if let Err(error) = self.wait() {
                tracing::warn!(%error, "the link's signals are not heard any more");
                return;
            }
            self.links.retain(|path, link| {
                let heard = link.hear(tell);
                if let Err(error) = &heard {
                    tracing::debug!(link = %path.display(), %error, "a link is heard no more");
                    if link.is_down {
                        tell(LinkNotice::Up);
                    }
                }
                heard.is_ok()
            });
        }
    }

    /// Connects to links that were not there.
    fn look(&mut self) {
        let sockets = match &self.source {
            LinkSource::Socket(path) => vec![path.clone()],
            LinkSource::Directory(directory) => sockets_in(directory),
        };
        for path in sockets {
            if self.links.len() >= LINKS_MAX || self.links.contains_key(&path) {
                continue;
            }
            let Ok(stream) = UnixStream::connect(&path) else { continue };
            if stream.set_nonblocking(true).is_ok() {
                self.links.insert(path, Link { stream, line: Vec::new(), is_down: false });
            }
        }
    }

    fn wait(&self) -> io::Result<()> {
        let mut fds = vec![PollFd::from_borrowed_fd(self.wake.as_fd(), PollFlags::IN)];
        fds.extend(self.links.values().map(|link| PollFd::from_borrowed_fd(link.stream.as_fd(), PollFlags::IN)));
        let period = if self.links.is_empty() { LOOK_SELDOM } else { LOOK };
        match poll(&mut fds, Some(&period)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// The sockets of a directory, in the order of their names.
pub fn sockets_in(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut all: Vec<PathBuf> = entries.filter(|path| path.extension().is_some_and(|kind| kind == "sock")).collect();
    all.sort();
    all
}

impl Link {
    /// All that has come. An error: it is gone, or talks nonsense.
    fn hear(&mut self, tell: &impl Fn(LinkNotice)) -> io::Result<()> {
        let mut buffer = [0; 4096];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(len) => self.take(&buffer[..len], tell)?,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn take(&mut self, bytes: &[u8], tell: &impl Fn(LinkNotice)) -> io::Result<()> {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            if self.line.len() + piece.len() > LINE_LEN_MAX {
                return Err(io::ErrorKind::InvalidData.into());
            }
            self.line.extend_from_slice(piece);
            if piece.last() != Some(&b'\n') {
                continue;
            }
            if let Some(notice) = notice_in(&self.line) {
                self.is_down = notice == LinkNotice::Down;
                tell(notice);
            }
            self.line.clear();
        }
        Ok(())
    }
}

/// What a line means for who sends over the link; `None` if nothing.
pub(crate) fn notice_in(line: &[u8]) -> Option<LinkNotice> {
    let value: serde_json::Value = serde_json::from_slice(line).ok()?;
    match value.get("event")?.as_str()? {
        "down" => Some(LinkNotice::Down),
        "up" => Some(LinkNotice::Up),
        "hand-off" | "moved" => Some(LinkNotice::HandOff),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixListener;
    use std::sync::mpsc::{Receiver, channel};
    use std::time::Duration;

    fn started(source: LinkSource) -> (LinkListener, Receiver<LinkNotice>) {
        let (sender, receiver) = channel();
        let listener = LinkListener::start(source, move |notice| {
            let _ = sender.send(notice);
        });
        (listener.unwrap(), receiver)
    }

    fn next(receiver: &Receiver<LinkNotice>) -> LinkNotice {
        receiver.recv_timeout(Duration::from_secs(30)).unwrap()
    }

    #[test]
    fn events_of_the_link_become_notices_and_an_end_of_it_takes_the_last_back() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("link.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let (ear, notices) = started(LinkSource::Socket(path));
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"{\"event\":\"state\",\"link\":{}}\nrubbish\n{\"event\":\"hand-").unwrap();
        stream.write_all(b"off\",\"peer\":\"x\"}\n{\"event\":\"down\"}\n").unwrap();
        assert_eq!([next(&notices), next(&notices)], [LinkNotice::HandOff, LinkNotice::Down]);
        drop(stream);
        assert_eq!(next(&notices), LinkNotice::Up);
        // A flood without lines is no reason to grow.
        let (mut stream, _) = listener.accept().unwrap();
        let flood = stream.write_all(&vec![b'x'; 4 << 20]);
        assert!(flood.is_err(), "it hangs up");
        drop(ear);
        assert!(notices.recv().is_err(), "its thread has ended");
    }

    #[test]
    fn links_of_a_directory_are_found_when_they_come() {
        let directory = tempfile::tempdir().unwrap();
        let links = directory.path().join("links");
        let (_ear, notices) = started(LinkSource::Directory(links.clone()));
        std::fs::create_dir(&links).unwrap();
        std::fs::write(links.join("no-link"), b"").unwrap();
        let listeners = ["one", "two"].map(|name| UnixListener::bind(links.join(format!("{name}.sock"))).unwrap());
        let mut streams = listeners.map(|listener| listener.accept().unwrap().0);
        streams[0].write_all(b"{\"event\":\"down\"}\n").unwrap();
        assert_eq!(next(&notices), LinkNotice::Down);
        streams[1].write_all(b"{\"event\":\"moved\"}\n").unwrap();
        assert_eq!(next(&notices), LinkNotice::HandOff);
        streams[0].write_all(b"{\"event\":\"up\"}\n").unwrap();
        assert_eq!(next(&notices), LinkNotice::Up);
    }
}
