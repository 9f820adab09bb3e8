//! The open `/dev/fuse`: one message per read, one per write.

use std::fs::{File, OpenOptions};
use std::io::IoSlice;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno as OsError;

use crate::uapi;

/// Where the kernel offers its protocol.
pub(crate) const DEVICE_PATH: &str = "/dev/fuse";
/// The type byte of the device's control requests.
const IOCTL_TYPE: u8 = 229;
/// The most pieces that one answer is written from, its header included.
const PIECES_MAX: usize = 4;

/// One descriptor of a connection to the kernel. An answer must be written to the descriptor from
/// which its request was read.
#[derive(Debug)]
pub(crate) struct Device {
    fd: OwnedFd,
}

/// `struct fuse_backing_map`.
#[repr(C)]
struct BackingMap {
    fd: i32,
    flags: u32,
    padding: u64,
}

impl Device {
    /// Opens the device; the descriptor is not passed on to child processes.
    pub(crate) fn open() -> std::io::Result<Self> {
        open_file(Path::new(DEVICE_PATH)).map(|file| Self { fd: file.into() })
    }

    pub(crate) fn from_fd(fd: OwnedFd) -> Self {
        Self { fd }
    }

    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Another descriptor of the same connection with a request queue of its own, so that readers do
    /// not contend.
    pub(crate) fn try_clone_queue(&self) -> std::io::Result<Self> {
        let clone = Self::open()?;
        let number = u32::try_from(self.fd.as_raw_fd()).expect("an open descriptor is not negative");
        let request = rustix::ioctl::opcode::read::<u32>(IOCTL_TYPE, 0);
        // SAFETY: the request reads one u32 through the pointer, which is valid for the call.
        let result = unsafe { libc::ioctl(clone.fd.as_raw_fd(), request as _, &raw const number) };
        if result < 0 { Err(std::io::Error::last_os_error()) } else { Ok(clone) }
    }

    /// Waits for the next request and puts it into `buffer`.
    pub(crate) fn read(&self, buffer: &mut [u8]) -> Result<usize, OsError> {
        rustix::io::read(&self.fd, buffer)
    }

    /// True if a request can be read within `timeout`.
    pub(crate) fn wait_readable(&self, timeout: Duration) -> Result<bool, OsError> {
        let mut fds = [PollFd::new(&self.fd, PollFlags::IN)];
        let timeout = Timespec {
            tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(timeout.subsec_nanos()),
        };
        rustix::event::poll(&mut fds, Some(&timeout)).map(|ready| ready > 0)
    }

    /// Writes one message: its header, made here, and the parts after it.
    ///
    /// `error` is a negative error number, zero, or the code of a notification.
    pub(crate) fn send(&self, unique: u64, error: i32, parts: &[&[u8]]) -> Result<(), OsError> {
        let len = uapi::OUT_HEADER + parts.iter().map(|part| part.len()).sum::<usize>();
        let mut header = [0; uapi::OUT_HEADER];
        header[..4].copy_from_slice(&u32::try_from(len).map_err(|_| OsError::TOOBIG)?.to_ne_bytes());
        header[4..8].copy_from_slice(&error.to_ne_bytes());
        header[8..].copy_from_slice(&unique.to_ne_bytes());
        let mut pieces = [IoSlice::new(&[]); PIECES_MAX];
        pieces[0] = IoSlice::new(&header);
        let mut count = 1;
        for part in parts.iter().filter(|part| !part.is_empty()) {
            let piece = pieces.get_mut(count).ok_or(OsError::TOOBIG)?;
            *piece = IoSlice::new(part);
            count += 1;
        }
        loop {
            match rustix::io::writev(&self.fd, &pieces[..count]) {
                Ok(_) => return Ok(()),
                Err(OsError::INTR) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Registers `file` as a backing file and returns its number.
    pub(crate) fn backing_open(&self, file: BorrowedFd<'_>) -> std::io::Result<u32> {
        let map = BackingMap { fd: file.as_raw_fd(), flags: 0, padding: 0 };
        let request = rustix::ioctl::opcode::write::<BackingMap>(IOCTL_TYPE, 1);
        // SAFETY: the request reads one `fuse_backing_map` through the pointer, valid for the call.
        let result = unsafe { libc::ioctl(self.fd.as_raw_fd(), request as _, &raw const map) };
        u32::try_from(result).map_err(|_| std::io::Error::last_os_error())
    }

    /// Takes a registration back; opens that use the file keep it.
    pub(crate) fn backing_close(&self, number: u32) -> std::io::Result<()> {
        let request = rustix::ioctl::opcode::write::<u32>(IOCTL_TYPE, 2);
        // SAFETY: the request reads one u32 through the pointer, which is valid for the call.
        let result = unsafe { libc::ioctl(self.fd.as_raw_fd(), request as _, &raw const number) };
        if result < 0 { Err(std::io::Error::last_os_error()) } else { Ok(()) }
    }
}

fn open_file(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().read(true).write(true).custom_flags(libc::O_CLOEXEC).open(path)
}
