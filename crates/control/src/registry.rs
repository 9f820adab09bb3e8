//! Which daemons run on this machine.
//!
//! Each daemon leaves a small JSON file in a runtime directory and takes it away when it ends. A file was left by a dead
//! daemon if nobody listens at its control socket, or if a later file is of the same place and socket: one that was killed and
//! started again listens where its former self did. Such a file is skipped, and removed by the next daemon that registers.
//!
//! A daemon that could not go on leaves a note instead, which says why: it is read by `wayfs status` until the daemon is started
//! again, or what it left is cleared away.
//!
//! Who may write the directory may lay links and sockets into it. So nothing is opened through a link, root registers only in a
//! directory that is its own, and an entry counts only if its file and its socket have one owner.

use crate::{path_text, socket};
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use tracing::debug;

/// Largest entry read, in bytes: two paths written as numbers, and room.
const ENTRY_LEN_MAX: u64 = 64 * 1024;

/// Most entries looked at.
const ENTRIES_MAX: usize = 1024;

/// Longest reason kept of why a daemon ended.
const REASON_CHARS_MAX: usize = 1000;

/// How the names of notes end.
const NOTE: &str = "ended";

/// What a daemon is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DaemonKind {
    /// `wayfs mount`.
    Mount,
    /// `wayfs serve`.
    Server,
}

impl fmt::Display for DaemonKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Mount => "mount",
            Self::Server => "server",
        })
    }
}

/// A running daemon.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Registration {
    /// What it is.
    pub kind: DaemonKind,
    /// Mount point or data directory, absolute.
    #[serde(with = "path_text")]
    pub place: PathBuf,
    /// Its control socket, absolute.
    #[serde(with = "path_text")]
    pub socket: PathBuf,
    /// Its process id.
    pub pid: u32,
    /// Volume name of a mount; empty for a server.
    #[serde(default)]
    pub volume: String,
    /// The socket that all users may connect to, absolute, if there is one.
    #[serde(with = "path_text::optional", default)]
    pub for_all: Option<PathBuf>,
}

impl Registration {
    /// Whether it is of the same daemon as another entry, or of that daemon's former life.
    fn is_of_the_same_place(&self, other: &Self) -> bool {
        (self.kind, &self.place, &self.socket) == (other.kind, &other.place, &other.socket)
    }

    /// Whether it is another user's, who answers questions of this one.
    pub fn is_anothers(&self) -> bool {
        self.for_all.as_ref() == Some(&self.socket)
    }
}

/// A daemon that ended since it could not go on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct EndNote {
    /// What it was.
    pub daemon: Registration,
    /// Why it ended, in words.
    pub reason: String,
}

/// A daemon found behind a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The daemon.
    pub daemon: Registration,
    /// The rest of the path, from the volume's root; empty at the root.
    pub path: PathBuf,
}

/// Why a daemon could not be registered.
#[derive(Debug, thiserror::Error)]
#[error("register the daemon in {}: {source}", directory.display())]
pub struct RegistryError {
    /// The runtime directory.
    pub directory: PathBuf,
    /// What failed.
    pub source: io::Error,
}

/// The runtime directories.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registry {
    /// First the one that is written; the others are only read.
    directories: Vec<PathBuf>,
}

/// Who runs a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Account {
    /// The superuser, whose files are where the system has its own.
    Root,
    /// Anybody else.
    User,
}

impl Account {
    /// Of this process.
    pub fn of_this_process() -> Self {
        if rustix::process::geteuid().is_root() { Self::Root } else { Self::User }
    }
}

impl Registry {
    /// The machine's: `$XDG_RUNTIME_DIR/wayfs`, else `/run/wayfs-root` for root, else `$XDG_STATE_HOME/wayfs/run`
    /// (`~/.local/state/wayfs/run`). That of root and `/run/wayfs`, which is the packaged server's, are read by everyone.
    /// `$WAYFS_RUNTIME_DIR` replaces them all.
    pub fn of_this_machine() -> Self {
        Self::from_environment(
            |name| std::env::var_os(name).filter(|value| !value.is_empty()),
            Account::of_this_process(),
        )
    }

    fn from_environment(variable: impl Fn(&str) -> Option<OsString>, account: Account) -> Self {
        if let Some(only) = variable("WAYFS_RUNTIME_DIR") {
            return Self::at(PathBuf::from(only));
        }
        let system = [PathBuf::from("/run/wayfs-root"), PathBuf::from("/run/wayfs")];
        let home = || {
            variable("XDG_STATE_HOME")
                .map(|dir| PathBuf::from(dir).join("wayfs/run"))
                .or_else(|| variable("HOME").map(|dir| PathBuf::from(dir).join(".local/state/wayfs/run")))
        };
        let own = match variable("XDG_RUNTIME_DIR") {
            Some(dir) => Some(PathBuf::from(dir).join("wayfs")),
            None if account == Account::Root => None,
            None => home(),
        };
        Self { directories: own.into_iter().chain(system).collect() }
    }

    /// One directory only (tests).
    pub fn at(directory: PathBuf) -> Self {
        Self { directories: vec![directory] }
    }

    /// A path for the socket that all users may connect to, in the directory that is written, which is made if it is not there.
    ///
    /// # Errors
    /// [`RegistryError`] if the directory is not this user's.
    pub fn socket_for_all(&self, kind: DaemonKind) -> Result<PathBuf, RegistryError> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        self.open_written()?;
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        Ok(self.directories[0].join(format!("{kind}-{}-{number}.sock", std::process::id())))
    }

    /// Opens the directory that is written; makes it first if it is not there.
    fn open_written(&self) -> Result<OwnedFd, RegistryError> {
        let directory = &self.directories[0];
        let fail = |source: io::Error| RegistryError { directory: directory.clone(), source };
        std::fs::DirBuilder::new().recursive(true).mode(0o755).create(directory).map_err(fail)?;
        open_own(directory).map_err(fail)
    }

    /// Registers a daemon whose control socket is already open, until the result is dropped. Entries of dead daemons are removed.
    ///
    /// # Errors
    /// [`RegistryError`] if the directory or the file cannot be written.
    pub fn register(&self, registration: &Registration) -> Result<Registered, RegistryError> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let directory = self.directories[0].clone();
        let fail = |source: io::Error| RegistryError { directory: directory.clone(), source };
        let opened = self.open_written()?;
        let is_dead =
            |entry: &Registration| entry.is_of_the_same_place(registration) || !socket::is_alive(&entry.socket);
        for (dead, entry) in entries_in(&directory).into_iter().filter(|(_, entry)| is_dead(entry)) {
            let _ = std::fs::remove_file(&dead);
            // One that was killed left it behind, perhaps under the number that this process has.
            let left = entry.for_all.filter(|left| registration.for_all.as_ref() != Some(left));
            if let Some(left) = left.filter(|left| left.parent() == Some(&directory)) {
                let _ = std::fs::remove_file(left);
            }
        }
        for (file, note) in notes_in(&directory) {
            if note.daemon.is_of_the_same_place(registration) || note.daemon.socket == registration.socket {
                let _ = std::fs::remove_file(&file);
            }
        }
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{}-{}-{number}.json", registration.kind, registration.pid);
        let json = serde_json::to_vec(registration).map_err(|e| fail(e.into()))?;
        write_entry(opened.as_fd(), &name, &json).map_err(fail)?;
        Ok(Registered { file: directory.join(name) })
    }

    /// Leaves a note of why a daemon that is registered ends. Longer reasons are cut.
    ///
    /// # Errors
    /// [`RegistryError`] if the directory or the file cannot be written.
    pub fn note_end(&self, daemon: &Registration, reason: &str) -> Result<(), RegistryError> {
        let directory = self.directories[0].clone();
        let fail = |source: io::Error| RegistryError { directory: directory.clone(), source };
        let opened = open_own(&directory).map_err(fail)?;
        let reason = reason.chars().take(REASON_CHARS_MAX).collect();
        let note = EndNote { daemon: daemon.clone(), reason };
        let json = serde_json::to_vec(&note).map_err(|e| fail(e.into()))?;
        write_entry(opened.as_fd(), &format!("{}-{}.{NOTE}", daemon.kind, daemon.pid), &json).map_err(fail)
    }

    /// Daemons that ended since they could not go on, and were not started again.
    pub fn ended(&self) -> Vec<EndNote> {
        let notes = self.directories.iter().flat_map(|directory| notes_in(directory));
        let mut ended: Vec<EndNote> =
            notes.map(|(_, note)| note).filter(|note| !socket::is_alive(&note.daemon.socket)).collect();
        ended.sort();
        ended
    }

    /// Removes the notes of daemons that had this place.
    pub fn forget_ended(&self, place: &Path) {
        for (file, note) in notes_in(&self.directories[0]) {
            if note.daemon.place == place {
                let _ = std::fs::remove_file(&file);
            }
        }
    }

    /// Daemons that had a place and did not end in order, or have it still, whether they answer or not.
    pub fn registered_at(&self, place: &Path) -> Vec<Registration> {
        let entries = self.directories.iter().flat_map(|directory| entries_in(directory));
        entries.map(|(_, entry)| entry).filter(|entry| entry.place == place).collect()
    }

    /// Daemons that answer, in order of kind and place.
    pub fn running(&self) -> Vec<Registration> {
        let mut entries: Vec<(PathBuf, Registration)> =
            self.directories.iter().flat_map(|directory| entries_in(directory)).collect();
        // Of those of one place and socket the last that was written is of the daemon that listens.
        entries.sort_by_cached_key(|(file, _)| std::fs::metadata(file).and_then(|found| found.modified()).ok());
        let last: BTreeMap<(PathBuf, PathBuf), Registration> =
            entries.into_iter().map(|(_, entry)| ((entry.place.clone(), entry.socket.clone()), entry)).collect();
        let mut running: Vec<Registration> =
            last.into_values().filter(|entry| socket::is_alive(&entry.socket)).collect();
        running.sort();
        running
    }

    /// The mount in which a path lies (or the server whose data directory it is), and the rest of the path. Symbolic
    /// links are followed only if the path as written lies in no mount, so that a mount that hangs is not touched.
    pub fn find_by_path(&self, path: &Path) -> Option<Found> {
        let running = self.running();
        let written = std::path::absolute(path).map(|p| without_dots(&p)).ok()?;
        find_among(&running, &written).or_else(|| {
            // The last part may not exist, or be a link that is meant itself.
            let parent = written.parent()?.canonicalize().ok()?;
            let resolved = written.file_name().map_or_else(|| parent.clone(), |name| parent.join(name));
            find_among(&running, &resolved).or_else(|| find_among(&running, &written.canonicalize().ok()?))
        })
    }
}

fn find_among(running: &[Registration], path: &Path) -> Option<Found> {
    running
        .iter()
        .filter_map(|daemon| path.strip_prefix(&daemon.place).ok().map(|rest| (daemon, rest)))
        .max_by_key(|(daemon, _)| daemon.place.as_os_str().len())
        .map(|(daemon, rest)| Found { daemon: daemon.clone(), path: rest.to_owned() })
}

/// `.` and `..` taken out by text.
fn without_dots(path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                clean.pop();
            }
            Component::RootDir | Component::Prefix(_) | Component::Normal(_) => clean.push(part),
        }
    }
    clean
}

/// Readable notes of a directory, as [`entries_in`].
fn notes_in(directory: &Path) -> Vec<(PathBuf, EndNote)> {
    let Ok(listing) = std::fs::read_dir(directory) else { return Vec::new() };
    let is_note = |path: &PathBuf| path.extension().is_some_and(|e| e == NOTE);
    let read = |path: PathBuf| match read_plain(&path).and_then(|(bytes, _)| Ok(serde_json::from_slice(&bytes)?)) {
        Ok(note) => Some((path, note)),
        Err(error) => {
            debug!(%error, "skip a note in the registry");
            None
        }
    };
    listing.flatten().map(|entry| entry.path()).filter(is_note).take(ENTRIES_MAX).filter_map(read).collect()
}

/// Readable entries of a directory; whatever is not one is skipped.
fn entries_in(directory: &Path) -> Vec<(PathBuf, Registration)> {
    let Ok(listing) = std::fs::read_dir(directory) else { return Vec::new() };
    listing
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|e| e == "json"))
        .take(ENTRIES_MAX)
        .filter_map(|path| {
            let entry = read_entry(&path);
            if let Err(error) = &entry {
                debug!(%error, "skip registry entry");
            }
            entry.ok().map(|registration| (path, registration))
        })
        .collect()
}

fn refused(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.to_owned())
}

/// A plain file of bounded length, and its owner. Follows no link.
fn read_plain(path: &Path) -> io::Result<(Vec<u8>, u32)> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = rustix::fs::open(path, flags, Mode::empty())?;
    let found = rustix::fs::fstat(&opened)?;
    if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
        return Err(refused("no plain file"));
    }
    let mut bytes = Vec::new();
    std::fs::File::from(opened).take(ENTRY_LEN_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > ENTRY_LEN_MAX {
        return Err(refused("entry too long"));
    }
    Ok((bytes, found.st_uid))
}

fn read_entry(path: &Path) -> io::Result<Registration> {
    let (bytes, owner) = read_plain(path)?;
    let mut entry: Registration = serde_json::from_slice(&bytes)?;
    let own = rustix::process::geteuid();
    if let Some(for_all) = entry.for_all.clone().filter(|_| !own.is_root() && own.as_raw() != owner) {
        // Whoever answers there is believed: it must be the machine's administrator.
        if owner != 0 {
            return Err(refused("only root answers questions of others"));
        }
        entry.socket = for_all;
    }
    // A socket of another's is not that of the daemon that wrote this; one that is not there is found dead later.
    match rustix::fs::lstat(&entry.socket) {
        Ok(socket) if socket.st_uid != owner => Err(refused("its socket belongs to another user")),
        Ok(socket) if FileType::from_raw_mode(socket.st_mode) != FileType::Socket => Err(refused("its socket is none")),
        Ok(_) | Err(Errno::NOENT) => Ok(entry),
        Err(errno) => Err(errno.into()),
    }
}

/// Opens the directory to register in. It must be this user's or the superuser's; that of the superuser must be nobody else's to
/// write.
fn open_own(directory: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = rustix::fs::open(directory, flags, Mode::empty())?;
    let found = rustix::fs::fstat(&opened)?;
    let own = rustix::process::geteuid();
    let is_open_to_others = own.is_root() && found.st_mode & 0o022 != 0;
    if (found.st_uid != own.as_raw() && found.st_uid != 0) || is_open_to_others {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!(
                "it is another user's to write (owner {}): remove it, or name another with WAYFS_RUNTIME_DIR",
                found.st_uid
            ),
        ));
    }
    Ok(opened)
}

/// Writes an entry beside its name and renames it, so that no reader sees half of it. Follows no link.
fn write_entry(directory: BorrowedFd<'_>, name: &str, json: &[u8]) -> io::Result<()> {
    let unfinished = format!("{name}.new");
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mode = Mode::from_raw_mode(0o644);
    let opened = match rustix::fs::openat(directory, &unfinished, flags, mode) {
        // Left by an earlier process of this number, or laid there by somebody.
        Err(Errno::EXIST) => {
            rustix::fs::unlinkat(directory, &unfinished, AtFlags::empty())?;
            rustix::fs::openat(directory, &unfinished, flags, mode)?
        }
        opened => opened?,
    };
    std::fs::File::from(opened).write_all(json)?;
    Ok(rustix::fs::renameat(directory, &unfinished, directory, name)?)
}

/// A registered daemon; the entry goes when this is dropped.
#[derive(Debug)]
pub struct Registered {
    file: PathBuf,
}

impl Drop for Registered {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(&self.file) {
            debug!(%error, "remove registry entry");
        }
    }
}

#[cfg(test)]
mod tests;
