//! A directory on which a program of the laboratory mounts something.

use std::path::{Path, PathBuf};

/// A mount point. Dropping it takes away what is mounted there, and lets whoever waits in it go with an error.
#[derive(Debug)]
pub struct MountPoint {
    path: PathBuf,
}

impl MountPoint {
    pub(crate) const fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether something is mounted there, by the kernel's table: the mount itself is not touched.
    pub fn is_mounted(&self) -> bool {
        device(&self.path).is_some()
    }

    /// Takes away what is mounted there.
    pub fn unmount(&self) {
        while let Some(device) = device(&self.path) {
            // Not every mount is FUSE's, and not every one can be aborted.
            let _ = std::fs::write(format!("/sys/fs/fuse/connections/{device}/abort"), "1");
            if rustix::mount::unmount(&self.path, rustix::mount::UnmountFlags::DETACH).is_err() {
                return;
            }
        }
    }
}

impl Drop for MountPoint {
    fn drop(&mut self) {
        self.unmount();
    }
}

/// Minor device number of what is mounted on a directory.
fn device(path: &Path) -> Option<String> {
    let table = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
    let wanted = path.to_string_lossy().replace(' ', "\\040");
    let mount = table.lines().map(|line| line.split(' ').collect::<Vec<_>>()).rfind(|f| f.get(4) == Some(&&*wanted))?;
    Some(mount.get(2)?.split_once(':')?.1.to_owned())
}
