//! Mounting with the help of `fusermount3`.
//!
//! The helper gets one end of a socket pair, named by a variable of its environment, and sends the
//! open device through it.

use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};

use super::{MountError, MountOptions};
use crate::device::Device;

/// The helper's name; found through `PATH`.
const HELPER: &str = "fusermount3";
/// Tells the helper which descriptor is its end of the socket pair.
const SOCKET_VARIABLE: &str = "_FUSE_COMMFD";

/// Lets the helper mount at `point` and takes over the device.
pub(super) fn mount(point: &Path, options: &MountOptions) -> Result<Device, MountError> {
    let (ours, theirs) = UnixStream::pair().map_err(MountError::NoHelper)?;
    let number = theirs.as_raw_fd();
    let mut command = Command::new(HELPER);
    command.arg("-o").arg(option_list(options)).arg("--").arg(point);
    command.env(SOCKET_VARIABLE, number.to_string()).stdin(Stdio::null());
    // SAFETY: between fork and exec only fcntl is called, which is safe there; the descriptor is open
    // in this process until after the helper has ended.
    unsafe {
        command.pre_exec(move || match libc::fcntl(number, libc::F_SETFD, 0) {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        });
    }
    let output = command.output().map_err(MountError::NoHelper)?;
    drop(theirs);
    if !output.status.success() {
        return Err(MountError::Helper { message: complaint(&output) });
    }
    receive_fd(&ours).map_err(MountError::NoHelper).map(Device::from_fd)
}

/// Unmounts by the helper.
pub(super) fn umount(point: &Path) -> io::Result<()> {
    run_umount(point, &["-u"])
}

/// The same; a mount that is in use is detached.
pub(super) fn umount_lazily(point: &Path) -> io::Result<()> {
    run_umount(point, &["-u", "-z"])
}

fn run_umount(point: &Path, options: &[&str]) -> io::Result<()> {
    let mut command = Command::new(HELPER);
    command.args(options).arg("--").arg(point).stdin(Stdio::null());
    let output = command.output()?;
    if output.status.success() {
        return Ok(());
    }
    let message = complaint(&output);
    // The helper has one exit code for all failures; its message is the C library's.
    if message.contains("busy") {
        return Err(io::Error::from_raw_os_error(libc::EBUSY));
    }
    Err(io::Error::other(message))
}

fn complaint(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    text.trim().trim_start_matches("fusermount3: ").to_owned()
}

fn option_list(options: &MountOptions) -> String {
    let mut list = format!("fsname={},subtype={}", options.source(), options.subtype_plain());
    let words = [
        (options.read_only, "ro"),
        (options.allow_other, "allow_other"),
        (options.default_permissions, "default_permissions"),
        (options.no_suid, "nosuid"),
        (options.no_dev, "nodev"),
        (options.no_exec, "noexec"),
        (options.no_atime, "noatime"),
    ];
    for (_, word) in words.iter().filter(|(on, _)| *on) {
        list.push(',');
        list.push_str(word);
    }
    list
}

fn receive_fd(socket: &UnixStream) -> io::Result<OwnedFd> {
    let mut byte = [0];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    // The helper has ended, so what it sent is there: do not wait for more.
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    rustix::net::recvmsg(socket, &mut [IoSliceMut::new(&mut byte)], &mut control, flags)?;
    let fd = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    });
    fd.ok_or_else(|| io::Error::other("fusermount3 sent no descriptor"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_a_list_that_a_name_cannot_extend() {
        let mut options = MountOptions::new("/mnt");
        options.fsname = "a,dev".to_owned();
        options.allow_other = true;
        assert_eq!(option_list(&options), "fsname=a_dev,subtype=wayfs,allow_other,default_permissions,nosuid,nodev");
    }
}
