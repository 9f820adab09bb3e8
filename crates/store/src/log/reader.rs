//! A file of a disk as a stream.

use std::io::{self, Read, Seek, SeekFrom};
use std::sync::Arc;
use wayfs_disk::DiskFile;

/// Reads a file from where it stands on.
#[derive(Debug)]
pub(crate) struct Reader {
    file: Arc<dyn DiskFile>,
    at: u64,
}

impl Reader {
    /// Stands at the beginning.
    pub(crate) fn new(file: Arc<dyn DiskFile>) -> Self {
        Self { file, at: 0 }
    }
}

impl Read for Reader {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let len = self.file.read_at(bytes, self.at)?;
        self.at += len as u64;
        Ok(len)
    }
}

impl Seek for Reader {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
            SeekFrom::End(by) => self.file.size()?.checked_add_signed(by),
        };
        self.at = at.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}
