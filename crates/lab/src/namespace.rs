//! A network namespace, held open by a descriptor and named by a bind mount.
//!
//! The kernel ends a namespace with its last process, descriptor and mount. The
//! mount is there so that people can enter it (`nsenter --net=FILE`); the run's
//! guard takes it away.

use crate::LabError;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

/// A network namespace.
#[derive(Debug)]
pub(crate) struct Namespace {
    fd: OwnedFd,
    path: PathBuf,
}

impl Namespace {
    /// A new one, bound to a new file.
    pub(crate) fn create(path: &Path) -> Result<Self, LabError> {
        let forbidden = |error| LabError::Forbidden { doing: "make a network namespace".into(), error };
        let fd = std::thread::scope(|scope| scope.spawn(unshared).join())
            .expect("making a namespace does not panic")
            .map_err(forbidden)?;
        File::create(path).map_err(LabError::io(format!("create {}", path.display())))?;
        let namespace = Self { fd, path: path.to_owned() };
        namespace
            .inside(|| rustix::mount::mount_bind("/proc/thread-self/ns/net", path).map_err(io::Error::from))?
            .map_err(LabError::io(format!("bind the namespace to {}", path.display())))?;
        Ok(namespace)
    }

    /// Does something inside, on a thread of its own: children started there live there.
    pub(crate) fn inside<T: Send>(&self, action: impl FnOnce() -> T + Send) -> Result<T, LabError> {
        let enter = || {
            let kind = Some(rustix::thread::LinkNameSpaceType::Network);
            rustix::thread::move_into_link_name_space(self.fd.as_fd(), kind)
                .map_err(|error| LabError::io("enter a network namespace")(error.into()))?;
            Ok(action())
        };
        match std::thread::scope(|scope| scope.spawn(enter).join()) {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }

    /// The file that names it.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // The guard tries again; a second refusal shows there.
        let _ = rustix::mount::unmount(&self.path, rustix::mount::UnmountFlags::DETACH);
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Moves this thread, which must end soon, into a new namespace.
fn unshared() -> io::Result<OwnedFd> {
    // SAFETY: `unshare` takes no pointers; a network namespace of its own concerns this short-lived thread only.
    if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(File::open("/proc/thread-self/ns/net")?.into())
}
