//! Mounting and unmounting.
//!
//! Root mounts with the system call; others through the set-user-id helper `fusermount3`, which
//! mounts and hands the open device back.

mod direct;
mod error;
mod fusermount;
pub(crate) mod mountinfo;
mod unmounter;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tracing::{debug, warn};

pub use error::{MountError, UmountError};
pub use unmounter::{UmountMode, Unmounter};

use crate::device::Device;
use mountinfo::MountEntry;

/// What to mount and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountOptions {
    /// The directory to mount on. Must exist.
    pub mountpoint: PathBuf,
    /// What the mount table shows as the source. Default `wayfs`. A comma becomes an underscore.
    pub fsname: String,
    /// What the mount table shows after `fuse.` as the type. Default `wayfs`.
    pub subtype: String,
    /// Refuse all changes. Default false.
    pub read_only: bool,
    /// Let users other than the one who mounts in. Default false. Without root it needs
    /// `user_allow_other` in `/etc/fuse.conf`.
    pub allow_other: bool,
    /// Let the kernel check permission bits. Default true; without it the handler must.
    pub default_permissions: bool,
    /// Ignore set-user-id bits of programs. Default true.
    pub no_suid: bool,
    /// Device nodes do not work. Default true.
    pub no_dev: bool,
    /// Programs cannot be started from here. Default false.
    pub no_exec: bool,
    /// Reading does not change access times. Default false; FUSE leaves them to the handler anyway.
    pub no_atime: bool,
    /// Who does the mounting. Default [`MountMethod::Automatic`].
    pub method: MountMethod,
}

/// Who does the mounting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MountMethod {
    /// The system call; without right to it, the helper.
    #[default]
    Automatic,
    /// Only the system call.
    Direct,
    /// Only `fusermount3`.
    Fusermount,
}

impl MountOptions {
    /// The defaults, on this directory.
    #[must_use]
    pub fn new(mountpoint: impl Into<PathBuf>) -> Self {
        Self {
            mountpoint: mountpoint.into(),
            fsname: "wayfs".to_owned(),
            subtype: "wayfs".to_owned(),
            read_only: false,
            allow_other: false,
            default_permissions: true,
            no_suid: true,
            no_dev: true,
            no_exec: false,
            no_atime: false,
            method: MountMethod::Automatic,
        }
    }

    /// The source as it can stand in a list separated by commas.
    fn source(&self) -> String {
        self.fsname.replace([',', '\\', '\0', '\n'], "_")
    }

    /// The type after `fuse.`, in letters that need no quoting.
    fn subtype_plain(&self) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
        self.subtype.chars().map(plain).collect()
    }
}

/// A mount that nobody serves yet: give it to [`crate::Session::new`] at once, since whoever touches the
/// directory meanwhile waits. Dropped, it is unmounted.
#[derive(Debug)]
pub struct Mount {
    device: Arc<Device>,
    unmounter: Unmounter,
    abandoned: bool,
}

impl Mount {
    /// Mounts.
    ///
    /// # Errors
    /// Each variant of [`MountError`] names one reason and what to do about it.
    pub fn new(options: &MountOptions) -> Result<Self, MountError> {
        let point = check_mountpoint(options)?;
        let (device, method) = match options.method {
            MountMethod::Direct => (direct::mount(&point, options)?, MountMethod::Direct),
            MountMethod::Fusermount => (fusermount::mount(&point, options)?, MountMethod::Fusermount),
            MountMethod::Automatic => mount_automatically(&point, options)?,
        };
        let entry = mountinfo::top_mount_at(&point).map_err(MountError::MountTable)?;
        let number = entry.map(|entry| entry.device);
        debug!(point = %point.display(), ?number, "mounted");
        let unmounter = Unmounter::new(point, number, method);
        Ok(Self { device: Arc::new(device), unmounter, abandoned: false })
    }

    /// Where it is mounted, without symbolic links.
    #[must_use]
    pub fn mountpoint(&self) -> &Path {
        self.unmounter.mountpoint()
    }

    /// For unmounting from elsewhere.
    #[must_use]
    pub fn unmounter(&self) -> Unmounter {
        self.unmounter.clone()
    }

    /// Unmounts. See [`Unmounter::umount`].
    ///
    /// # Errors
    /// [`UmountError`].
    pub fn umount(&self, mode: UmountMode) -> Result<(), UmountError> {
        self.unmounter.umount(mode)
    }

    /// Closes our end and leaves the mount in the tree, dead: whoever touches it gets ENOTCONN.
    ///
    /// This is what a killed daemon leaves behind; for tests.
    pub fn abandon(mut self) {
        self.abandoned = true;
    }

    pub(crate) fn device(&self) -> Arc<Device> {
        Arc::clone(&self.device)
    }

    /// The kernel caps read-ahead at 128 KiB whatever is agreed; root can lift that for one mount.
    pub(crate) fn raise_readahead(&self, bytes: u32) {
        let Some(mountinfo::DeviceNumber { major, minor }) = self.unmounter.device_number() else { return };
        let path = format!("/sys/class/bdi/{major}:{minor}/read_ahead_kb");
        if let Err(error) = std::fs::write(&path, (bytes / 1024).to_string()) {
            debug!(%error, "read-ahead stays at the kernel's default");
        }
    }

    /// The readers have ended: the mount, if it is still in the table, is dead.
    pub(crate) fn finish(self) {
        drop(self);
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if self.abandoned {
            return;
        }
        if let Err(error) = self.unmounter.umount(UmountMode::Force) {
            warn!(%error, "unmount");
        }
    }
}

fn mount_automatically(point: &Path, options: &MountOptions) -> Result<(Device, MountMethod), MountError> {
    match direct::mount(point, options) {
        Ok(device) => Ok((device, MountMethod::Direct)),
        Err(MountError::NotPermitted { .. }) => {
            fusermount::mount(point, options).map(|device| (device, MountMethod::Fusermount))
        }
        Err(error) => Err(error),
    }
}

/// The mount point as an absolute path without links, after looking for what would go wrong.
fn check_mountpoint(options: &MountOptions) -> Result<PathBuf, MountError> {
    let path = options.mountpoint.clone();
    let point = std::fs::canonicalize(&path).map_err(|error| MountError::from_look(path.clone(), error))?;
    let existing = mountinfo::top_mount_at(&point).map_err(MountError::MountTable)?;
    let metadata = std::fs::metadata(&point).map_err(|error| MountError::from_look(path.clone(), error))?;
    if !metadata.is_dir() {
        return Err(MountError::NotADirectory { path });
    }
    let ours = format!("fuse.{}", options.subtype_plain());
    if existing.is_some_and(|entry: MountEntry| entry.fs_type == ours) {
        return Err(MountError::AlreadyMounted { path });
    }
    Ok(point)
}

#[cfg(test)]
mod tests;
