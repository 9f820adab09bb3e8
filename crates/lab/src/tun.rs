//! A TUN device: what the kernel sends to it is read as packets, what is written arrives.

use crate::LabError;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

/// Longest name of a device.
pub(crate) const NAME_LEN_MAX: usize = libc::IFNAMSIZ - 1;

/// A TUN device. It goes away with this value.
#[derive(Debug)]
pub(crate) struct Tun {
    file: File,
}

impl Tun {
    /// A new device in the network namespace of the calling thread.
    pub(crate) fn create(name: &str) -> Result<Self, LabError> {
        assert!(name.len() <= NAME_LEN_MAX, "names of devices are made to fit");
        let forbidden = |error| LabError::Forbidden { doing: format!("make the TUN device {name}"), error };
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK)
            .open("/dev/net/tun")
            .map_err(forbidden)?;
        attach(&file, name).map_err(forbidden)?;
        Ok(Self { file })
    }

    /// The next packet that the kernel sent, if there is one.
    pub(crate) fn read(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match (&self.file).read(buffer) {
            Ok(len) => Ok(Some(len)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Lets a packet arrive.
    pub(crate) fn write(&self, packet: &[u8]) -> io::Result<()> {
        (&self.file).write(packet).map(|_| ())
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

fn attach(file: &File, name: &str) -> io::Result<()> {
    // SAFETY: zeroes are a valid `ifreq`, a plain structure of numbers.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
    // SAFETY: the descriptor is open, and the request is the structure that TUNSETIFF reads and writes.
    if unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF as _, &raw mut request) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
