//! Unmounting, from any thread, once.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::mount::UnmountFlags;
use tracing::debug;

use super::mountinfo::DeviceNumber;
use super::{MountMethod, UmountError, fusermount, mountinfo};

/// How hard to unmount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UmountMode {
    /// Only if nothing is in use.
    Orderly,
    /// If something is in use, take the mount out of the tree; what is open is served until closed.
    Lazy,
    /// Abort the connection: every request in hand and to come fails, the mount goes, nobody waits.
    /// (Mounted by the helper and without root, this needs `/sys/fs/fuse/connections` to be mounted;
    /// else it is the same as lazy.)
    Force,
}

/// Unmounts one mount; a clone may be kept by a signal handler's thread.
#[derive(Clone, Debug)]
pub struct Unmounter {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    point: PathBuf,
    /// The number of the mounted file system's device; `None` if it was not in the mount table.
    device: Option<DeviceNumber>,
    method: MountMethod,
    /// True once unmounted. Held over the system call so that two threads do not unmount twice, the
    /// second time what lies below.
    gone: Mutex<bool>,
}

impl Unmounter {
    pub(super) fn new(point: PathBuf, device: Option<DeviceNumber>, method: MountMethod) -> Self {
        Self { inner: Arc::new(Inner { point, device, method, gone: Mutex::new(false) }) }
    }

    /// Where it is mounted.
    #[must_use]
    pub fn mountpoint(&self) -> &Path {
        &self.inner.point
    }

    pub(super) fn device_number(&self) -> Option<DeviceNumber> {
        self.inner.device
    }

    /// Unmounts, unless that happened already. Does not wait for the session to end.
    ///
    /// # Errors
    /// [`UmountError::Busy`] for an orderly unmount of what is in use, or if another mount covers
    /// ours; [`UmountError::Failed`].
    pub fn umount(&self, mode: UmountMode) -> Result<(), UmountError> {
        let mut gone = self.inner.gone.lock().unwrap_or_else(PoisonError::into_inner);
        if *gone {
            return Ok(());
        }
        match self.place() {
            Place::Top => {}
            Place::Covered => return Err(UmountError::Busy { path: self.inner.point.clone() }),
            Place::Nowhere => {
                debug!(point = %self.inner.point.display(), "unmounted by someone else");
                *gone = true;
                return Ok(());
            }
        }
        let result = match self.inner.method {
            MountMethod::Fusermount => self.umount_by_helper(mode),
            MountMethod::Direct | MountMethod::Automatic => self.umount_directly(mode),
        };
        let path = || self.inner.point.clone();
        match result {
            Ok(()) => *gone = true,
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                return Err(UmountError::Busy { path: path() });
            }
            // Someone was faster between our look and our call.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) && self.place() == Place::Nowhere => {
                *gone = true;
            }
            Err(source) => return Err(UmountError::Failed { path: path(), source }),
        }
        Ok(())
    }

    /// Where our mount is in the table. If the table cannot be read, it is taken to be there.
    fn place(&self) -> Place {
        let Ok(mounts) = mountinfo::mounts_at(&self.inner.point) else { return Place::Top };
        let Some(device) = self.inner.device else {
            return if mounts.is_empty() { Place::Nowhere } else { Place::Top };
        };
        match mounts.iter().rposition(|entry| entry.device == device) {
            Some(place) if place + 1 == mounts.len() => Place::Top,
            Some(_) => Place::Covered,
            None => Place::Nowhere,
        }
    }

    fn umount_directly(&self, mode: UmountMode) -> io::Result<()> {
        let umount = |flags: UnmountFlags| {
            rustix::mount::unmount(&self.inner.point, flags | UnmountFlags::NOFOLLOW).map_err(io::Error::from)
        };
        match mode {
            UmountMode::Orderly => umount(UnmountFlags::empty()),
            UmountMode::Lazy => umount(UnmountFlags::empty())
                .or_else(|error| if is_busy(&error) { umount(UnmountFlags::DETACH) } else { Err(error) }),
            UmountMode::Force => umount(UnmountFlags::FORCE | UnmountFlags::DETACH),
        }
    }

    fn umount_by_helper(&self, mode: UmountMode) -> io::Result<()> {
        match mode {
            UmountMode::Orderly => fusermount::umount(&self.inner.point),
            UmountMode::Lazy => fusermount::umount_lazily(&self.inner.point),
            UmountMode::Force => self.umount_directly(mode).or_else(|_| {
                self.abort();
                fusermount::umount_lazily(&self.inner.point)
            }),
        }
    }

    /// Ends the connection by its control file, which belongs to whoever mounted.
    fn abort(&self) {
        let Some(DeviceNumber { minor, .. }) = self.inner.device else { return };
        let path = format!("/sys/fs/fuse/connections/{minor}/abort");
        if let Err(error) = std::fs::write(path, "1") {
            debug!(%error, "the connection goes on for what is open");
        }
    }
}

/// Where a mount is among those at one path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Uppermost: an unmount hits it.
    Top,
    /// Under another: an unmount would hit the other.
    Covered,
    /// Not there.
    Nowhere,
}

fn is_busy(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EBUSY)
}
