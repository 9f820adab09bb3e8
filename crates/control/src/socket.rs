//! Unix sockets at paths of any length, and who is at the other end.

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 64;

/// Longest path that fits into a socket address on every Linux, with its zero.
const ADDRESS_LEN_MAX: usize = 100;

/// Mode of a socket that only its owner may connect to.
pub(crate) const FOR_OWNER: Mode = Mode::from_raw_mode(0o600);

/// Mode of a socket that all users may connect to.
pub(crate) const FOR_ALL: Mode = Mode::from_raw_mode(0o666);

/// Listens at a path, for those whom the mode names. The path must be free.
pub(crate) fn listen(path: &Path, mode: Mode) -> io::Result<UnixListener> {
    let socket = new_socket(SocketFlags::CLOEXEC)?;
    with_address(path, |address| rustix::net::bind(&socket, address))?;
    rustix::fs::chmod(path, mode)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(UnixListener::from(socket))
}

/// Connects, for as long as `patience` while the daemon's backlog is full.
pub(crate) fn connect(path: &Path, patience: Duration) -> io::Result<UnixStream> {
    let deadline = Instant::now() + patience;
    loop {
        let socket = new_socket(SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)?;
        match with_address(path, |address| rustix::net::connect(&socket, address)) {
            Ok(()) => {
                let stream = UnixStream::from(socket);
                stream.set_nonblocking(false)?;
                return Ok(stream);
            }
            Err(Errno::AGAIN) if Instant::now() < deadline => thread::sleep(Duration::from_millis(20)),
            Err(Errno::AGAIN) => return Err(io::ErrorKind::TimedOut.into()),
            Err(Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
}

/// Whether someone listens there.
pub(crate) fn is_alive(path: &Path) -> bool {
    match connect(path, Duration::ZERO) {
        Ok(_) => true,
        // A full backlog has a listener behind it; no right to connect means someone else's daemon.
        Err(e) => matches!(e.kind(), io::ErrorKind::TimedOut | io::ErrorKind::PermissionDenied),
    }
}

/// Whether the other end is closed entirely. (One that only ended its writing still listens.)
pub(crate) fn has_hung_up(stream: &UnixStream) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut fds = [PollFd::new(stream, PollFlags::empty())];
    match poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) {
        Ok(0) | Err(Errno::INTR) => false,
        Ok(_) => fds[0].revents().intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL),
        Err(_) => true,
    }
}

fn new_socket(flags: SocketFlags) -> io::Result<OwnedFd> {
    Ok(rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?)
}

/// Calls with the socket address of a path. One that is too long is reached through its directory's descriptor.
fn with_address(path: &Path, act: impl FnOnce(&SocketAddrUnix) -> rustix::io::Result<()>) -> rustix::io::Result<()> {
    if path.as_os_str().len() <= ADDRESS_LEN_MAX {
        return act(&SocketAddrUnix::new(path)?);
    }
    let name = path.file_name().ok_or(Errno::INVAL)?;
    let parent = path.parent().ok_or(Errno::INVAL)?;
    let directory = rustix::fs::open(parent, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    act(&SocketAddrUnix::new(through_descriptor(&directory, name))?)
}

fn through_descriptor(directory: impl AsFd, name: &OsStr) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", directory.as_fd().as_raw_fd())).join(name)
}
