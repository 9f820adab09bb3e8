//! A TUN device without offload: the kernel cuts and sums its packets before they come here.

use crate::LinkError;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

/// Longest name of a device.
const NAME_LEN_MAX: usize = libc::IFNAMSIZ - 1;

/// A TUN device. It goes away with this value.
#[derive(Debug)]
pub(crate) struct Tun {
    file: File,
    name: String,
}

impl Tun {
    /// A new device in the network namespace of the calling thread.
    pub(crate) fn create(name: &str) -> Result<Self, LinkError> {
        let fits = (1..=NAME_LEN_MAX).contains(&name.len());
        if !fits || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')) {
            return Err(LinkError::TunName(name.to_owned()));
        }
        let failed = |error| LinkError::Tun { name: name.to_owned(), error };
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).custom_flags(libc::O_NONBLOCK);
        let file = options.open("/dev/net/tun").map_err(failed)?;
        attach(&file, name).map_err(failed)?;
        Ok(Self { file, name: name.to_owned() })
    }

    /// Its name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The next packet that the kernel sent, if there is one.
    pub(crate) fn read(&self, buffer: &mut [u8]) -> Result<Option<usize>, LinkError> {
        match (&self.file).read(buffer) {
            Ok(len) => Ok(Some(len)),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Ok(None),
            Err(error) => Err(self.gone(error)),
        }
    }

    /// Lets a packet arrive. The kernel may refuse one that makes no sense to it; that one is lost.
    pub(crate) fn write(&self, packet: &[u8]) -> Result<(), LinkError> {
        match (&self.file).write(packet) {
            Err(error) if matches!(error.raw_os_error(), Some(libc::EBADFD | libc::ENODEV)) => Err(self.gone(error)),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// The error of a device that was taken away.
    pub(crate) fn gone(&self, error: io::Error) -> LinkError {
        LinkError::TunGone { name: self.name.clone(), error }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_no_device_may_have_are_refused() {
        for name in ["", "a/b", "sixteen-letters-", "a b", "ä"] {
            assert!(matches!(Tun::create(name), Err(LinkError::TunName(_))), "{name}");
        }
    }
}
