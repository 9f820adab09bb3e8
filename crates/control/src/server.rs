//! The daemon's end.
//!
//! One thread accepts, one thread serves each connection. Locking order: `connections` is a leaf;
//! nothing is called with it held.

use crate::descriptor::Receiving;
use crate::line::{COMMAND_LEN_MAX, LineError, LineReader, READ_STEP};
use crate::{
    Command, ControlError, ControlTarget, ErrorKind, Event, Gone, Progress, Reply, Sink, catch_in_command, socket,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::cell::RefCell;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tracing::{debug, warn};

/// Most connections at a time; one more is told that the daemon is busy.
pub const CONNECTIONS_MAX: usize = 64;

/// Longest time a write to a tool may block before the tool counts as gone.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// A connection that says nothing for so long is closed.
const IDLE_MAX: Duration = Duration::from_secs(60);

/// Shortest time between two progress lines.
const PROGRESS_PERIOD: Duration = Duration::from_millis(100);

/// How long [`ControlServer::stop`] waits for answers that are under way.
const STOP_GRACE: Duration = Duration::from_secs(3);

/// Why the control socket could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Another daemon answers at this socket.
    #[error("another daemon already runs here (control socket {})", .0.display())]
    AlreadyRunning(PathBuf),
    /// Something that is no socket lies at the path.
    #[error("{} is in the way of the control socket and is not a socket", .0.display())]
    InTheWay(PathBuf),
    /// The socket could not be made.
    #[error("open control socket {}: {source}", path.display())]
    Socket {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Serves control commands until it is stopped or dropped.
#[derive(Debug)]
pub struct ControlServer {
    path: PathBuf,
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    stopping: AtomicBool,
    connections: AtomicUsize,
    none_left: Mutex<()>,
    changed: Condvar,
}

impl ControlServer {
    /// Opens the socket (mode 0600; the directory is made with mode 0700 if it is not there) and serves it. A socket
    /// that a dead daemon left is replaced.
    ///
    /// # Errors
    /// [`StartError::AlreadyRunning`] if a daemon answers there, [`StartError::InTheWay`] if the path is taken by
    /// something that is no socket, [`StartError::Socket`] for the rest.
    pub fn start(path: &Path, target: Arc<dyn ControlTarget>) -> Result<Self, StartError> {
        let fail = |source: io::Error| StartError::Socket { path: path.to_owned(), source };
        make_room(path)?;
        let listener = socket::listen(path).map_err(fail)?;
        listener.set_nonblocking(true).map_err(fail)?;
        let shared = Arc::new(Shared::default());
        let for_thread = Arc::clone(&shared);
        let accepting = thread::Builder::new()
            .name("control".into())
            .spawn(move || accept_all(&listener, &target, &for_thread))
            .map_err(fail)?;
        Ok(Self { path: path.to_owned(), shared, accepting: Some(accepting) })
    }

    /// Where it listens.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Takes no more connections, lets answers under way finish (three seconds at most), removes the socket.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        let Some(accepting) = self.accepting.take() else { return };
        self.shared.stopping.store(true, Ordering::SeqCst);
        if accepting.join().is_err() {
            warn!("control thread panicked");
        }
        let deadline = Instant::now() + STOP_GRACE;
        let mut guard = self.shared.none_left.lock().unwrap_or_else(PoisonError::into_inner);
        while self.shared.connections.load(Ordering::SeqCst) > 0 {
            let Some(left) = deadline.checked_duration_since(Instant::now()) else { break };
            guard = self.shared.changed.wait_timeout(guard, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        drop(guard);
        if let Err(error) = std::fs::remove_file(&self.path) {
            debug!(%error, "remove control socket");
        }
    }
}

impl Drop for ControlServer {
    fn drop(&mut self) {
        self.end();
    }
}

/// Makes the directory, and removes a socket that nobody listens at.
fn make_room(path: &Path) -> Result<(), StartError> {
    use std::os::unix::fs::{DirBuilderExt, FileTypeExt};
    let fail = |source: io::Error| StartError::Socket { path: path.to_owned(), source };
    if let Some(parent) = path.parent().filter(|p| !p.as_os_str().is_empty()) {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(parent).map_err(fail)?;
    }
    match std::fs::symlink_metadata(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(e) => Err(fail(e)),
        Ok(found) if !found.file_type().is_socket() => Err(StartError::InTheWay(path.to_owned())),
        Ok(_) if socket::is_alive(path) => Err(StartError::AlreadyRunning(path.to_owned())),
        Ok(_) => std::fs::remove_file(path).map_err(fail),
    }
}

fn accept_all(listener: &UnixListener, target: &Arc<dyn ControlTarget>, shared: &Arc<Shared>) {
    let step = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
    while !shared.stopping.load(Ordering::SeqCst) {
        let ready = poll(&mut [PollFd::new(listener, PollFlags::IN)], Some(&step));
        if !matches!(ready, Ok(1..)) {
            continue;
        }
        match listener.accept() {
            Ok((stream, _)) => admit(stream, target, shared),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => {
                // Out of descriptors, most likely: the poll would come back at once.
                warn!(%error, "accept control connection");
                thread::sleep(Duration::from_millis(200));
            }
        }
    }
}

/// Starts a thread for a connection, if it may have one.
fn admit(stream: UnixStream, target: &Arc<dyn ControlTarget>, shared: &Arc<Shared>) {
    if let Err(error) = prepare(&stream) {
        debug!(%error, "control connection refused");
        return;
    }
    let place = Place::take(shared);
    if shared.connections.load(Ordering::SeqCst) > CONNECTIONS_MAX {
        let busy = ControlError::new(
            ErrorKind::Busy,
            "the daemon serves too many control connections",
            "Try again in a moment.",
        );
        // The socket's buffer is empty, so this short line goes without waiting.
        let _ = write_line(&stream, &Reply::Error(busy));
        return;
    }
    let target = Arc::clone(target);
    let spawned = thread::Builder::new().name("control-connection".into()).spawn(move || {
        serve(&stream, &*target, &place.0);
        // The peer sees the end before `stop` sees that nobody is left.
        drop(stream);
        drop(place);
    });
    if let Err(error) = spawned {
        warn!(%error, "start control thread");
    }
}

/// Checks who it is and sets the bounds.
fn prepare(stream: &UnixStream) -> io::Result<()> {
    let peer = socket::peer_uid(stream)?;
    if peer != 0 && peer != rustix::process::geteuid().as_raw() {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!("user {peer} may not control this daemon"),
        ));
    }
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(READ_STEP))?;
    stream.set_write_timeout(Some(WRITE_TIMEOUT))
}

/// A connection's place in the count.
struct Place(Arc<Shared>);

impl Place {
    fn take(shared: &Arc<Shared>) -> Self {
        shared.connections.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(shared))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _guard = self.0.none_left.lock().unwrap_or_else(PoisonError::into_inner);
        self.0.connections.fetch_sub(1, Ordering::SeqCst);
        self.0.changed.notify_all();
    }
}

/// Runs the commands of one connection, one after the other.
fn serve(stream: &UnixStream, target: &dyn ControlTarget, shared: &Shared) {
    let descriptor = RefCell::new(None);
    let mut lines = LineReader::new(Receiving::new(stream, &descriptor), COMMAND_LEN_MAX);
    loop {
        let line = match next_command(&mut lines, shared) {
            Ok(Some(line)) => line,
            Ok(None) => return,
            Err(error) => {
                let error = ControlError::new(ErrorKind::Usage, error.to_string(), "Send one JSON object per line.");
                let _ = write_line(stream, &Reply::Error(error));
                return;
            }
        };
        let reply = match serde_json::from_slice::<Command>(&line) {
            Err(e) => Reply::Error(ControlError::new(
                ErrorKind::Usage,
                format!("the daemon does not understand this command: {e}"),
                "The tool and the daemon may be of different versions: restart the daemon.",
            )),
            Ok(command) => run(command, target, (stream, descriptor.take()), shared),
        };
        // What came with a command that is none belongs to no other.
        descriptor.take();
        if write_line(stream, &reply).is_err() {
            return;
        }
    }
}

fn next_command(lines: &mut LineReader<Receiving<'_>>, shared: &Shared) -> Result<Option<Vec<u8>>, LineError> {
    let idle_until = Instant::now() + IDLE_MAX;
    loop {
        let step = Instant::now() + READ_STEP;
        match lines.next(Some(step)) {
            Err(LineError::TimedOut) if shared.stopping.load(Ordering::SeqCst) => return Ok(None),
            Err(LineError::TimedOut) if Instant::now() < idle_until => {}
            other => return other,
        }
    }
}

fn run(
    command: Command,
    target: &dyn ControlTarget,
    (stream, descriptor): (&UnixStream, Option<OwnedFd>),
    shared: &Shared,
) -> Reply {
    let name = command.name();
    debug!(command = name, "control command");
    let mut sink = StreamSink { stream, shared, descriptor, gone: false, progress_next: None };
    match catch_in_command(|| target.run(command, &mut sink)) {
        Ok(Ok(done)) => Reply::Done(Box::new(done)),
        Ok(Err(error)) => Reply::Error(error),
        Err(_) => Reply::Error(ControlError::new(
            ErrorKind::Failed,
            format!("`{name}` ran into a bug in the daemon"),
            "Look into the daemon's log, and report it with `wayfs debug`.",
        )),
    }
}

struct StreamSink<'a> {
    stream: &'a UnixStream,
    shared: &'a Shared,
    descriptor: Option<OwnedFd>,
    gone: bool,
    progress_next: Option<Instant>,
}

impl StreamSink<'_> {
    fn send(&mut self, reply: &Reply) -> Result<(), Gone> {
        if self.is_gone() {
            return Err(Gone);
        }
        write_line(self.stream, reply).map_err(|_| {
            self.gone = true;
            Gone
        })
    }
}

impl Sink for StreamSink<'_> {
    fn progress(&mut self, progress: &Progress) -> Result<(), Gone> {
        let now = Instant::now();
        if self.progress_next.is_some_and(|next| now < next) {
            return if self.is_gone() { Err(Gone) } else { Ok(()) };
        }
        self.progress_next = Some(now + PROGRESS_PERIOD);
        self.send(&Reply::Progress(progress.clone()))
    }

    fn event(&mut self, event: &Event) -> Result<(), Gone> {
        self.send(&Reply::Event(event.clone()))
    }

    fn is_gone(&mut self) -> bool {
        self.gone = self.gone || self.shared.stopping.load(Ordering::SeqCst) || socket::has_hung_up(self.stream);
        self.gone
    }

    fn take_descriptor(&mut self) -> Option<OwnedFd> {
        self.descriptor.take()
    }
}

fn write_line(mut stream: &UnixStream, reply: &Reply) -> io::Result<()> {
    let mut line = serde_json::to_vec(reply)?;
    line.push(b'\n');
    stream.write_all(&line)
}
