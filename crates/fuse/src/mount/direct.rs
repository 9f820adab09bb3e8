//! Mounting with the system call.

use std::ffi::CString;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::mount::MountFlags;

use super::{MountError, MountOptions};
use crate::device::Device;

/// Opens the device and mounts it at `point`.
pub(super) fn mount(point: &Path, options: &MountOptions) -> Result<Device, MountError> {
    let device = Device::open().map_err(MountError::from_open)?;
    let look = |error| MountError::from_look(options.mountpoint.clone(), error);
    let root_mode = std::fs::metadata(point).map_err(look)?.mode() & libc::S_IFMT;
    let mut data = format!(
        "fd={},rootmode={root_mode:o},user_id={},group_id={}",
        device.as_fd().as_raw_fd(),
        rustix::process::getuid().as_raw(),
        rustix::process::getgid().as_raw(),
    );
    if options.default_permissions {
        data.push_str(",default_permissions");
    }
    if options.allow_other {
        data.push_str(",allow_other");
    }
    let data = CString::new(data).expect("numbers and words have no zero byte");
    let fs_type = format!("fuse.{}", options.subtype_plain());
    rustix::mount::mount(options.source(), point, fs_type, flags(options), Some(data.as_c_str()))
        .map_err(|error| MountError::from_mount(options.mountpoint.clone(), error.into()))?;
    Ok(device)
}

fn flags(options: &MountOptions) -> MountFlags {
    let chosen = [
        (options.read_only, MountFlags::RDONLY),
        (options.no_suid, MountFlags::NOSUID),
        (options.no_dev, MountFlags::NODEV),
        (options.no_exec, MountFlags::NOEXEC),
        (options.no_atime, MountFlags::NOATIME),
    ];
    let chosen = chosen.into_iter().filter(|(on, _)| *on);
    chosen.fold(MountFlags::empty(), |flags, (_, flag)| flags | flag)
}
