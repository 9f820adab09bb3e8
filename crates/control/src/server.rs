//! The daemon's end.
//!
//! One thread accepts, one thread serves each connection. A daemon may have a second socket, which all users may connect to: there
//! commands are carried out with the rights of who asks. Locking order: `connections` is a leaf;
//! nothing is called with it held.

use crate::descriptor::Receiving;
use crate::line::{COMMAND_LEN_MAX, LineError, LineReader, READ_STEP};
use crate::{
    Command, CommandHandler, ControlError, ErrorKind, Event, Gone, Peer, Progress, Reply, Sink, catch_in_command,
    socket,
};
use rustix::event::{PollFd, PollFlags, poll};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tracing::{debug, warn};

/// Most connections at a time; one more is told that the daemon is busy.
pub const CONNECTIONS_MAX: usize = 64;

/// Most connections of one user at a time to a socket that all users may connect to: nobody takes the places of all others.
pub(crate) const CONNECTIONS_OF_USER_MAX: usize = 8;

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
    accepting: Option<Accepting>,
}

/// The thread that takes connections. It sleeps until one comes, or until this end of the pair is gone.
#[derive(Debug)]
struct Accepting {
    thread: JoinHandle<()>,
    asleep_until_closed: UnixStream,
}

/// Whom a socket is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Access {
    /// The daemon's user and the superuser, who may do everything.
    Owner,
    /// All users, each with his own rights.
    Everybody,
}

#[derive(Debug)]
struct Shared {
    access: Access,
    stopping: AtomicBool,
    /// Connections by user.
    connections: Mutex<BTreeMap<u32, usize>>,
    changed: Condvar,
}

impl Shared {
    fn connections(&self) -> MutexGuard<'_, BTreeMap<u32, usize>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ControlServer {
    /// Opens the socket (mode 0600; the directory is made with mode 0700 if it is not there) and serves it. A socket
    /// that a dead daemon left is replaced.
    ///
    /// # Errors
    /// [`StartError::AlreadyRunning`] if a daemon answers there, [`StartError::InTheWay`] if the path is taken by
    /// something that is no socket, [`StartError::Socket`] for the rest.
    pub fn start(path: &Path, handler: Arc<dyn CommandHandler>) -> Result<Self, StartError> {
        Self::open(path, handler, Access::Owner)
    }

    /// Opens a socket that all users may connect to (mode 0666). Commands go to [`CommandHandler::run_for_user`] with who asks;
    /// each user has [`CONNECTIONS_OF_USER_MAX`] connections at a time. The directory decides who reaches it.
    ///
    /// # Errors
    /// As [`ControlServer::start`].
    pub fn start_for_all(path: &Path, handler: Arc<dyn CommandHandler>) -> Result<Self, StartError> {
        Self::open(path, handler, Access::Everybody)
    }

    fn open(path: &Path, handler: Arc<dyn CommandHandler>, access: Access) -> Result<Self, StartError> {
        let fail = |source: io::Error| StartError::Socket { path: path.to_owned(), source };
        make_room(path)?;
        let mode = match access {
            Access::Owner => socket::FOR_OWNER,
            Access::Everybody => socket::FOR_ALL,
        };
        let listener = socket::listen(path, mode).map_err(fail)?;
        listener.set_nonblocking(true).map_err(fail)?;
        let (stopping, connections, changed) = (AtomicBool::new(false), Mutex::default(), Condvar::new());
        let shared = Arc::new(Shared { access, stopping, connections, changed });
        let for_thread = Arc::clone(&shared);
        let (asleep_until_closed, ending) = UnixStream::pair().map_err(fail)?;
        let thread = thread::Builder::new()
            .name("control".into())
            .spawn(move || accept_all(&listener, &ending, &handler, &for_thread))
            .map_err(fail)?;
        Ok(Self { path: path.to_owned(), shared, accepting: Some(Accepting { thread, asleep_until_closed }) })
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
        let Some(Accepting { thread, asleep_until_closed }) = self.accepting.take() else { return };
        self.shared.stopping.store(true, Ordering::SeqCst);
        drop(asleep_until_closed);
        if thread.join().is_err() {
            warn!("control thread panicked");
        }
        let deadline = Instant::now() + STOP_GRACE;
        let mut guard = self.shared.connections();
        while !guard.is_empty() {
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

fn accept_all(listener: &UnixListener, ending: &UnixStream, handler: &Arc<dyn CommandHandler>, shared: &Arc<Shared>) {
    while !shared.stopping.load(Ordering::SeqCst) {
        let mut waited_for = [listener.as_fd(), ending.as_fd()].map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        if !matches!(poll(&mut waited_for, None), Ok(1..)) {
            continue;
        }
        match listener.accept() {
            Ok((stream, _)) => admit(stream, handler, shared),
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
fn admit(stream: UnixStream, handler: &Arc<dyn CommandHandler>, shared: &Arc<Shared>) {
    let peer = match prepare(&stream, shared.access) {
        Ok(peer) => peer,
        Err(error) => {
            debug!(%error, "control connection refused");
            return;
        }
    };
    let Some(place) = Place::take(shared, peer.uid) else {
        let busy = ControlError::new(
            ErrorKind::Busy,
            "the daemon serves too many control connections",
            "Try again in a moment.",
        );
        // The socket's buffer is empty, so this short line goes without waiting.
        let _ = write_line(&stream, &Reply::Error(busy));
        return;
    };
    let handler = Arc::clone(handler);
    let spawned = thread::Builder::new().name("control-connection".into()).spawn(move || {
        serve(&stream, (&*handler, &peer), &place.shared);
        // The peer sees the end before `stop` sees that nobody is left.
        drop(stream);
        drop(place);
    });
    if let Err(error) = spawned {
        warn!(%error, "start control thread");
    }
}

/// Checks who it is and sets the bounds.
fn prepare(stream: &UnixStream, access: Access) -> io::Result<Peer> {
    let peer = Peer::of(stream)?;
    let uid = peer.uid;
    if access == Access::Owner && uid != 0 && uid != rustix::process::geteuid().as_raw() {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, format!("user {uid} may not control this daemon")));
    }
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(READ_STEP))?;
    stream.set_write_timeout(Some(WRITE_TIMEOUT))?;
    Ok(peer)
}

/// A connection's place in the count.
struct Place {
    shared: Arc<Shared>,
    uid: u32,
}

impl Place {
    /// `None`: there is none for this user.
    fn take(shared: &Arc<Shared>, uid: u32) -> Option<Self> {
        let mut connections = shared.connections();
        let of_user_max = match shared.access {
            Access::Owner => CONNECTIONS_MAX,
            Access::Everybody => CONNECTIONS_OF_USER_MAX,
        };
        let of_user = connections.get(&uid).copied().unwrap_or(0);
        if of_user >= of_user_max || connections.values().sum::<usize>() >= CONNECTIONS_MAX {
            return None;
        }
        connections.insert(uid, of_user + 1);
        Some(Self { shared: Arc::clone(shared), uid })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut connections = self.shared.connections();
        if let Some(count) = connections.get_mut(&self.uid) {
            *count -= 1;
        }
        connections.retain(|_, count| *count > 0);
        self.shared.changed.notify_all();
    }
}

/// Runs the commands of one connection, one after the other.
fn serve(stream: &UnixStream, to: (&dyn CommandHandler, &Peer), shared: &Shared) {
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
            Ok(command) => run(command, to, (stream, descriptor.take()), shared),
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
    (handler, peer): (&dyn CommandHandler, &Peer),
    (stream, descriptor): (&UnixStream, Option<OwnedFd>),
    shared: &Shared,
) -> Reply {
    let name = command.name();
    debug!(command = name, "control command");
    let mut sink = StreamSink { stream, shared, descriptor, gone: false, progress_next: None };
    let run = || match shared.access {
        Access::Owner => handler.run(command, &mut sink),
        Access::Everybody => handler.run_for_user(peer, command, &mut sink),
    };
    match catch_in_command(run) {
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
