//! A data directory: one process, one role, a known format.

use crate::error::OpenError;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use wayfs_disk::{Disk, SystemDisk};

/// The format version of the whole directory. Stores of another are refused: nothing was released that wrote them.
const VERSION: u32 = 3;
const MAGIC: &str = "WAYFS-STORE";
const FORMAT: &str = "FORMAT";
const LOCK: &str = "LOCK";
/// Pause between two tries to take a lock that another has.
const LOOK_PAUSE: Duration = Duration::from_millis(50);
/// Tries before somebody who ends, and does not, is called the holder: 10 s.
const LOOKS_MAX: usize = 200;
/// How often a holder must be seen alive: what was just killed looks so for a moment.
const ALIVE_LOOKS: usize = 3;
/// SIGKILL in the sets of signals of `/proc/PID/status`.
const SIGKILL_BIT: u64 = 1 << 8;

/// What a data directory is for: a client's cache and a server's stores must not be mixed up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The cache and log of `wayfs mount`.
    Client,
    /// The stores of `wayfs serve`.
    Server,
}

impl Role {
    fn word(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
        }
    }
}

/// A data directory that this process holds; released when the last clone goes.
///
/// Layout: `FORMAT`, `LOCK`, `meta/`, `meta.durable`, `chunks/`, `damaged/`.
#[derive(Debug, Clone)]
pub struct DataDir(Arc<Held>);

#[derive(Debug)]
struct Held {
    path: PathBuf,
    disk: Arc<dyn Disk>,
    /// The lock lives as long as this descriptor. None on a disk of the caller's.
    _lock: Option<File>,
}

impl DataDir {
    /// Opens a data directory, making it if it is not there or empty.
    ///
    /// # Errors
    /// [`OpenError::Locked`] while another process has it; [`OpenError::NotOurs`],
    /// [`OpenError::TooNew`], [`OpenError::TooOld`] and [`OpenError::WrongRole`] by its `FORMAT`; [`OpenError::Io`].
    pub fn open(path: &Path, role: Role) -> Result<Self, OpenError> {
        make_directories(&SystemDisk, &[path])?;
        let lock = lock(path)?;
        check_format(path, role)?;
        Self::with(Arc::new(SystemDisk), path, Some(lock))
    }

    /// A directory on a disk of the caller's: nobody else has it, and it says no format. For the simulator and for tests.
    ///
    /// # Errors
    /// [`OpenError::Io`].
    pub fn on_disk(disk: Arc<dyn Disk>, path: &Path) -> Result<Self, OpenError> {
        Self::with(disk, path, None)
    }

    fn with(disk: Arc<dyn Disk>, path: &Path, lock: Option<File>) -> Result<Self, OpenError> {
        make_directories(&*disk, &[&path.join("chunks"), &path.join("damaged")])?;
        disk.sync_directory(path).map_err(OpenError::io("sync directory", path))?;
        Ok(Self(Arc::new(Held { path: path.to_path_buf(), disk, _lock: lock })))
    }

    pub(crate) fn disk(&self) -> &dyn Disk {
        &*self.0.disk
    }

    pub(crate) fn shared_disk(&self) -> Arc<dyn Disk> {
        Arc::clone(&self.0.disk)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    pub(crate) fn join(&self, name: &str) -> PathBuf {
        self.0.path.join(name)
    }
}

fn make_directories(disk: &dyn Disk, paths: &[&Path]) -> Result<(), OpenError> {
    paths.iter().try_for_each(|path| disk.make_directory(path).map_err(OpenError::io("make directory", path)))
}

fn lock(directory: &Path) -> Result<File, OpenError> {
    let path = directory.join(LOCK);
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path)
        .map_err(OpenError::io("open lock", &path))?;
    match lock_behind_the_dead(&mut file) {
        Ok(()) => {}
        Err(Busy::By(holder)) => return Err(OpenError::Locked { path: directory.to_path_buf(), holder }),
        Err(Busy::Failed(errno)) => return Err(OpenError::io("lock", &path)(errno.into())),
    }
    let note = format!("pid {}\n", std::process::id());
    let written = file.set_len(0).and_then(|()| file.rewind()).and_then(|()| file.write_all(note.as_bytes()));
    if let Err(error) = written {
        tracing::debug!(%error, "the lock is held, but says nothing about its holder");
    }
    Ok(file)
}

/// Why a lock is not had.
enum Busy {
    By(String),
    Failed(Errno),
}

/// Takes the lock. A process that was killed has it until the kernel has closed all its files, which takes a while where it was busy.
fn lock_behind_the_dead(file: &mut File) -> Result<(), Busy> {
    let mut alive = 0;
    for _ in 0..LOOKS_MAX {
        match flock(&*file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(()),
            Err(Errno::WOULDBLOCK) => {}
            Err(errno) => return Err(Busy::Failed(errno)),
        }
        alive += usize::from(is_alive(&noted_by(file)));
        if alive >= ALIVE_LOOKS {
            break;
        }
        std::thread::sleep(LOOK_PAUSE);
    }
    Err(Busy::By(noted_by(file)))
}

/// What whoever has the lock wrote about itself. It is a courtesy to the reader of a message; the lock does not depend on it.
fn noted_by(file: &mut File) -> String {
    let mut holder = String::new();
    let _ = file.rewind().and_then(|()| file.take(64).read_to_string(&mut holder));
    if holder.is_empty() { "unknown".to_owned() } else { holder.trim().to_owned() }
}

/// Whether a process does not end: neither is it gone but for some of its threads, nor was it killed.
fn is_alive(holder: &str) -> bool {
    let Some(pid) = holder.strip_prefix("pid ") else { return true };
    std::fs::read_to_string(format!("/proc/{pid}/status")).is_ok_and(|status| says_alive(&status))
}

/// Whether `/proc/PID/status` says so.
pub(crate) fn says_alive(status: &str) -> bool {
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim();
    let is_killed = |name: &str| u64::from_str_radix(field(name), 16).is_ok_and(|signals| signals & SIGKILL_BIT != 0);
    !field("State:").starts_with(['Z', 'X']) && !is_killed("SigPnd:") && !is_killed("ShdPnd:")
}

fn check_format(directory: &Path, role: Role) -> Result<(), OpenError> {
    let path = directory.join(FORMAT);
    match std::fs::read(&path) {
        Ok(bytes) => parse_format(directory, &bytes, role),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            refuse_foreign(directory)?;
            write_format(directory, role)
        }
        Err(error) => Err(OpenError::io("read", &path)(error)),
    }
}

/// A directory with other people's files must not become ours by a mistyped path.
fn refuse_foreign(directory: &Path) -> Result<(), OpenError> {
    let entries = std::fs::read_dir(directory).map_err(OpenError::io("list", directory))?;
    for entry in entries {
        let name = entry.map_err(OpenError::io("list", directory))?.file_name();
        let is_ours = name == LOCK || name == "FORMAT.new" || name == "lost+found";
        if !is_ours {
            return Err(OpenError::NotOurs(directory.to_path_buf()));
        }
    }
    Ok(())
}

fn format_line(role: Role) -> String {
    let text = format!("{MAGIC} {VERSION} {}", role.word());
    let sum = crc32fast::hash(text.as_bytes());
    format!("{text} {sum:08x}\n")
}

fn write_format(directory: &Path, role: Role) -> Result<(), OpenError> {
    let fresh = directory.join("FORMAT.new");
    let write = || {
        let mut file = File::create(&fresh)?;
        file.write_all(format_line(role).as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&fresh, directory.join(FORMAT))
    };
    write().map_err(OpenError::io("write", &directory.join(FORMAT)))
}

pub(crate) fn parse_format(directory: &Path, bytes: &[u8], role: Role) -> Result<(), OpenError> {
    let not_ours = || OpenError::NotOurs(directory.to_path_buf());
    let text = std::str::from_utf8(bytes).map_err(|_| not_ours())?;
    let (line, sum) = text.trim_end_matches('\n').rsplit_once(' ').ok_or_else(not_ours)?;
    let is_whole = u32::from_str_radix(sum, 16).is_ok_and(|sum| sum == crc32fast::hash(line.as_bytes()));
    let mut words = line.split(' ');
    if words.next() != Some(MAGIC) || !is_whole {
        return Err(not_ours());
    }
    let found = words.next().and_then(|word| word.parse().ok()).ok_or_else(not_ours)?;
    if found > VERSION {
        return Err(OpenError::TooNew { path: directory.to_path_buf(), found, known: VERSION });
    }
    if found < VERSION {
        return Err(OpenError::TooOld { path: directory.to_path_buf(), found, known: VERSION });
    }
    let owner = words.next().ok_or_else(not_ours)?;
    if owner != role.word() {
        return Err(OpenError::WrongRole {
            path: directory.to_path_buf(),
            found: owner.to_owned(),
            wanted: role.word().to_owned(),
        });
    }
    Ok(())
}
