//! From a change to the call on the mount that makes the kernel raise its event.

use super::rehearsal::{Act, Rehearsal};
use super::watches::Watches;
use super::{Batch, Change};
use crate::engine::Engine;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Timespec, Timestamps, UTIME_OMIT};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use wayfs_types::request::{Answer, Request};
use wayfs_types::{FileId, FsError, Inode, Kind, Name, OriginId, RecordId};

/// Longest wait for what stands under a name. It came with the news, so it is nearly always here.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(2);
/// Deepest directory that is told of: no path that a program could name is longer.
const DEPTH_MAX: usize = 2048;
/// Most bits of a mode that a call is given: the kernel checks the kind only.
const MODE: Mode = Mode::from_raw_mode(0o600);

/// Raises events.
pub(super) struct Raiser<'a> {
    engine: &'a dyn Engine,
    rehearsal: &'a Rehearsal,
    mountpoint: PathBuf,
    device: u64,
    /// Stands for files that are gone. No record has this number: its origin is never granted.
    stand_in: Option<FileId>,
}

impl<'a> Raiser<'a> {
    pub(super) fn new(engine: &'a dyn Engine, rehearsal: &'a Rehearsal, mountpoint: PathBuf, device: u64) -> Self {
        let last = RecordId::new(OriginId::MAX, RecordId::SEQUENCE_MAX).ok();
        let stand_in = last.and_then(|record| FileId::from_inode_number(record.raw()).ok());
        Self { engine, rehearsal, mountpoint, device, stand_in }
    }

    pub(super) fn raise(&self, batch: &Batch, watches: &Watches) {
        for change in &batch.changes {
            match change {
                Change::Entry(parent, name) if watches.has(*parent) => self.entry(*parent, name),
                Change::Entry(..) => {}
                Change::Content(file) => self.touch_where_watched(*file, watches, Touch::Content),
                Change::Attributes(file) => self.touch_where_watched(*file, watches, Touch::Attributes),
            }
        }
        if batch.overflowed {
            for file in watches.files() {
                self.touch_anywhere(file);
            }
        }
    }

    fn inode(&self, file: FileId) -> Option<Arc<Inode>> {
        self.engine.inode(file).filter(|inode| !inode.is_removed())
    }

    /// What stands under a name: it was made, or removed.
    fn entry(&self, parent: FileId, name: &Name) {
        let lookup = Request::Lookup { parent, name: name.clone() };
        let Some(directory) = self.directory(parent) else { return };
        match self.engine.request(lookup, LOOKUP_TIMEOUT) {
            Ok(Answer::File(file, inode)) => {
                let made =
                    self.rehearsal.perform(parent, name, Act::Make(file), || make(&directory, name, &inode.kind));
                // The kernel knew the name: another file stood there, or the watcher looked first.
                if made == Err(Errno::EXIST) || matches!(inode.kind, Kind::File) {
                    self.touch(&directory, (parent, name), (file, &inode), Touch::Content);
                }
            }
            Err(FsError::NotFound) => {
                let Some(stand_in) = self.stand_in else { return };
                let remove = || rustix::fs::unlinkat(&directory, name.as_os_str(), AtFlags::empty());
                // Refused: the daemon's user may not change the directory, so nothing is raised.
                let _ = self.rehearsal.perform(parent, name, Act::Remove(stand_in), remove);
            }
            _ => {}
        }
    }

    fn touch_where_watched(&self, file: FileId, watches: &Watches, touch: Touch) {
        let Some(inode) = self.inode(file) else { return };
        let is_watched = watches.has(file);
        let names = if inode.is_crowded() { self.engine.names(file) } else { inode.places.clone() };
        for place in names.iter().filter(|place| is_watched || watches.has(place.parent)) {
            let Some(directory) = self.directory(place.parent) else { continue };
            self.touch(&directory, (place.parent, &place.name), (file, &inode), touch);
        }
    }

    fn touch_anywhere(&self, file: FileId) {
        let Some(inode) = self.inode(file) else { return };
        let Some(place) = inode.places.first() else { return };
        let Some(directory) = self.directory(place.parent) else { return };
        self.touch(&directory, (place.parent, &place.name), (file, &inode), Touch::Attributes);
    }

    fn path(&self, directory: FileId) -> Option<PathBuf> {
        let (mut at, mut names) = (directory, Vec::new());
        while at != FileId::ROOT {
            // A tree that changes while it is walked could look endless.
            if names.len() >= DEPTH_MAX {
                return None;
            }
            let place = self.inode(at)?.places.first()?.clone();
            at = place.parent;
            names.push(place.name);
        }
        let mut path = self.mountpoint.clone();
        path.extend(names.iter().rev().map(Name::as_os_str));
        Some(path)
    }

    fn touch(
        &self,
        directory: &OwnedFd,
        (parent, name): (FileId, &Name),
        (file, inode): (FileId, &Inode),
        touch: Touch,
    ) {
        self.rehearsal.perform(parent, name, Act::Touch(file), || match touch {
            Touch::Content if matches!(inode.kind, Kind::File) => modify(directory, name, inode),
            _ => change_mode(directory, name, inode),
        });
    }

    /// A directory of the mount, and surely of the mount: when it is gone, what lies below the mount point must not be
    /// touched.
    fn directory(&self, directory: FileId) -> Option<OwnedFd> {
        let path = self.path(directory)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = rustix::fs::open(path, flags, Mode::empty()).ok()?;
        let stat = rustix::fs::fstat(&opened).ok()?;
        (stat.st_dev == self.device && stat.st_ino == directory.inode_number()).then_some(opened)
    }
}

/// What changed of a file that stays where it is.
#[derive(Debug, Clone, Copy)]
enum Touch {
    Content,
    Attributes,
}

/// Raises `CREATE`.
fn make(directory: &OwnedFd, name: &Name, kind: &Kind) -> Result<(), Errno> {
    let node = |kind, device| rustix::fs::mknodat(directory, name.as_os_str(), kind, MODE, device);
    match kind {
        Kind::File => node(FileType::RegularFile, 0),
        Kind::Directory => rustix::fs::mkdirat(directory, name.as_os_str(), MODE),
        Kind::Symlink(target) => {
            rustix::fs::symlinkat(std::ffi::OsStr::from_bytes(target), directory, name.as_os_str())
        }
        Kind::Fifo => node(FileType::Fifo, 0),
        Kind::Socket => node(FileType::Socket, 0),
        Kind::CharDevice(device) => node(FileType::CharacterDevice, u64::from(*device)),
        Kind::BlockDevice(device) => node(FileType::BlockDevice, u64::from(*device)),
    }
}

/// Raises `OPEN`, `MODIFY` and `CLOSE_WRITE`. A file that the daemon's user may not write gives none.
fn modify(directory: &OwnedFd, name: &Name, inode: &Inode) {
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let Ok(file) = rustix::fs::openat(directory, name.as_os_str(), flags, Mode::empty()) else { return };
    // A change of this time alone is what the kernel takes for a modification.
    let kept = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
    let same = Timespec { tv_sec: inode.mtime.seconds(), tv_nsec: inode.mtime.subsecond_nanos().into() };
    let _ = rustix::fs::futimens(&file, &Timestamps { last_access: kept, last_modification: same });
}

/// Raises `ATTRIB`. The mode is the one that the file has.
fn change_mode(directory: &OwnedFd, name: &Name, inode: &Inode) {
    if matches!(inode.kind, Kind::Symlink(_)) {
        return;
    }
    let mode = Mode::from_raw_mode(inode.mode.into());
    let _ = rustix::fs::chmodat(directory, name.as_os_str(), mode, AtFlags::empty());
}
