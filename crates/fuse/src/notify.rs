//! Messages to the kernel that it did not ask for: mostly, to forget what it has cached.

use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, OnceLock};

use rustix::io::Errno as OsError;

use crate::attributes::Fixed;
use crate::device::Device;
use crate::init::{Granted, InitFlags};
use crate::passthrough::PassthroughError;
use crate::uapi::{self, notify};
use crate::{BackingId, Inode};

/// Why a notification did not take effect.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NotifyError {
    /// The mount is gone, and its caches with it.
    #[error("the mount is gone")]
    Unmounted,
    /// The kernel is too old for this notification.
    #[error("the kernel does not know this notification")]
    Unsupported,
    /// A name is longer than the kernel accepts.
    #[error("the name is too long")]
    NameTooLong,
    /// The kernel refused: EBUSY for the delete of a mount point, ENOTEMPTY for a directory with
    /// cached children.
    #[error("notify the kernel")]
    Refused(#[source] io::Error),
}

/// Tells the kernel what changed behind its back. Clone it freely.
///
/// # Which thread may call it
/// A notification is a plain system call that can wait **until requests in hand are answered**:
/// `inval_inode` waits for reads of that file (their pages are locked), `inval_entry`, `expire_entry`
/// and `delete` for operations in that directory (it is locked). So never call it
/// * from [`crate::Handler::handle`], nor from anything that `handle` waits for,
/// * while holding a lock that is needed to answer any request,
/// * from a thread on which an answer depends, as one that completes reads or mutations.
///
/// Give notifications a thread of their own, with a queue. What is in flight is not lost by waiting:
/// an answer that was computed before the change and reaches the kernel after the notification can
/// still install old attributes, so apply the change first, then notify, and answer later requests
/// from the new state.
///
/// What the kernel does not have cached it cannot drop; that counts as success.
#[derive(Clone)]
pub struct Notifier {
    device: Arc<Device>,
    granted: Arc<OnceLock<Granted>>,
}

impl Notifier {
    pub(crate) fn new(device: Arc<Device>, granted: Arc<OnceLock<Granted>>) -> Self {
        Self { device, granted }
    }

    /// Drops cached attributes of a file, and its pages in a range.
    ///
    /// `len` zero means to the end; a negative `offset` leaves the pages alone.
    ///
    /// # Errors
    /// [`NotifyError::Unmounted`]; [`NotifyError::Refused`].
    pub fn inval_inode(&self, inode: Inode, offset: i64, len: i64) -> Result<(), NotifyError> {
        let mut out = Fixed::<24>::new();
        out.u64(inode.number()).i64(offset).i64(len);
        self.send(notify::INVAL_INODE, &[&out.finish()])
    }

    /// Drops a cached name (also a negative one), and what hangs below it if nothing there is in use.
    ///
    /// # Errors
    /// [`NotifyError::Unmounted`]; [`NotifyError::NameTooLong`]; [`NotifyError::Refused`].
    pub fn inval_entry(&self, parent: Inode, name: &OsStr) -> Result<(), NotifyError> {
        self.entry(parent, name, 0)
    }

    /// Lets a cached name be looked up again at its next use, without disturbing what uses it.
    ///
    /// A kernel without this ability drops the name instead.
    ///
    /// # Errors
    /// [`NotifyError::Unmounted`]; [`NotifyError::NameTooLong`]; [`NotifyError::Refused`].
    pub fn expire_entry(&self, parent: Inode, name: &OsStr) -> Result<(), NotifyError> {
        let has = self.granted.get().is_some_and(|granted| granted.flags.contains(InitFlags::HAS_EXPIRE_ONLY));
        self.entry(parent, name, if has { uapi::EXPIRE_ONLY } else { 0 })
    }

    /// A name was removed elsewhere: drops it even if it is in use, so that watchers of the directory
    /// hear of it.
    ///
    /// # Errors
    /// [`NotifyError::Unmounted`]; [`NotifyError::NameTooLong`]; [`NotifyError::Refused`] for a mount
    /// point or for a directory that has cached children.
    pub fn delete(&self, parent: Inode, child: Inode, name: &OsStr) -> Result<(), NotifyError> {
        let mut out = Fixed::<24>::new();
        out.u64(parent.number()).u64(child.number()).u32(name_len(name)?).u32(0);
        self.send(notify::DELETE, &[&out.finish(), name.as_bytes(), &[0]])
    }

    /// Puts bytes of a file into the kernel's page cache.
    ///
    /// # Errors
    /// [`NotifyError::Unmounted`]; [`NotifyError::Refused`], also when the data is too long for one message.
    pub fn store(&self, inode: Inode, offset: u64, data: &[u8]) -> Result<(), NotifyError> {
        let size = u32::try_from(data.len()).map_err(|_| NotifyError::Refused(io::ErrorKind::InvalidInput.into()))?;
        let mut out = Fixed::<24>::new();
        out.u64(inode.number()).u64(offset).u32(size).u32(0);
        self.send(notify::STORE, &[&out.finish(), data])
    }

    /// Lets every cached name of the mount be looked up again at its next use (kernel 6.16 and later).
    ///
    /// # Errors
    /// [`NotifyError::Unsupported`] on older kernels; [`NotifyError::Unmounted`].
    pub fn expire_all_entries(&self) -> Result<(), NotifyError> {
        if self.granted.get().is_none_or(|granted| granted.protocol_minor < 44) {
            return Err(NotifyError::Unsupported);
        }
        self.send(notify::INC_EPOCH, &[])
    }

    /// Registers a file of a local file system for passthrough opens ([`crate::Opened::passthrough`]).
    ///
    /// The file's descriptor may be closed afterwards. Use one registration for all opens of an
    /// inode, and close it after the last release.
    ///
    /// # Errors
    /// [`PassthroughError`] says whether to try again with another file or never.
    pub fn backing_open(&self, file: BorrowedFd<'_>) -> Result<BackingId, PassthroughError> {
        let granted = self.granted.get().is_some_and(|granted| granted.flags.contains(InitFlags::PASSTHROUGH));
        if !granted {
            return Err(PassthroughError::NotGranted);
        }
        self.device.backing_open(file).map(BackingId::new).map_err(PassthroughError::from_open)
    }

    /// Takes a registration back. Opens that use the file keep it until they are released.
    ///
    /// # Errors
    /// [`PassthroughError::Failed`] if there is no such registration.
    pub fn backing_close(&self, id: BackingId) -> Result<(), PassthroughError> {
        self.device.backing_close(id.number()).map_err(PassthroughError::Failed)
    }

    fn entry(&self, parent: Inode, name: &OsStr, flags: u32) -> Result<(), NotifyError> {
        let mut out = Fixed::<16>::new();
        out.u64(parent.number()).u32(name_len(name)?).u32(flags);
        self.send(notify::INVAL_ENTRY, &[&out.finish(), name.as_bytes(), &[0]])
    }

    fn send(&self, code: i32, parts: &[&[u8]]) -> Result<(), NotifyError> {
        // An answer carries the number of its request; zero marks a notification.
        match self.device.send(0, code, parts) {
            Ok(()) | Err(OsError::NOENT) => Ok(()),
            Err(OsError::NODEV | OsError::NOTCONN | OsError::CONNABORTED | OsError::PIPE) => {
                Err(NotifyError::Unmounted)
            }
            Err(OsError::NOSYS) => Err(NotifyError::Unsupported),
            Err(OsError::NAMETOOLONG) => Err(NotifyError::NameTooLong),
            Err(error) => Err(NotifyError::Refused(error.into())),
        }
    }
}

/// The length as the message states it; the kernel accepts up to 1024 bytes.
fn name_len(name: &OsStr) -> Result<u32, NotifyError> {
    match u32::try_from(name.len()) {
        Ok(len) if len <= 1024 => Ok(len),
        Ok(_) | Err(_) => Err(NotifyError::NameTooLong),
    }
}

impl fmt::Debug for Notifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Notifier").finish_non_exhaustive()
    }
}
