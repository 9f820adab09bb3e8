//! Descriptors are room, too: what is kept back for the stores, and what running out of them means.
//!
//! A process may have so many files open and no more. Running out is no failure of the disk: nothing was written, and the
//! same succeeds when somebody closes a file. So it never ends a store. What the stores open by themselves (journals,
//! tables, segments) must not fail because programs opened many files: [`DESCRIPTORS_RESERVED`] are theirs.

use std::fs::File;
use std::path::Path;

/// Descriptors of a process that nobody but its stores and sessions may use: the engine's tables
/// ([`TABLE_FILES_MAX`]), journals, chunk segments, sockets. Whoever opens files on behalf of programs stays so far below
/// the limit of the process, or below half of it if the limit is lower than twice as many.
pub const DESCRIPTORS_RESERVED: u64 = 512;

/// Table files that the engine keeps open.
pub(crate) const TABLE_FILES_MAX: usize = 128;

/// Whether a system error says that something was not opened for want of descriptors or memory: nothing was written.
pub(crate) fn is_exhausted(error: &std::io::Error) -> bool {
    use rustix::io::Errno;
    let code = error.raw_os_error();
    [Errno::MFILE, Errno::NFILE, Errno::NOMEM].iter().any(|errno| code == Some(errno.raw_os_error()))
}

/// A descriptor held for the moment in which there is no other.
#[derive(Debug, Default)]
pub(crate) struct SpareDescriptor(Option<File>);

impl SpareDescriptor {
    /// Takes one, if there is one.
    pub(crate) fn take() -> Self {
        Self(File::open("/dev/null").ok())
    }

    /// Opens a file for reading, with the spare descriptor if it must be.
    pub(crate) fn open(&mut self, path: &Path) -> std::io::Result<File> {
        self.lend(|| File::open(path))
    }

    /// Tries something that opens a file, and again without holding the spare descriptor.
    pub(crate) fn lend<T>(&mut self, mut open: impl FnMut() -> std::io::Result<T>) -> std::io::Result<T> {
        if self.0.is_none() {
            *self = Self::take();
        }
        match open() {
            Err(error) if is_exhausted(&error) && self.0.take().is_some() => open(),
            other => other,
        }
    }
}
