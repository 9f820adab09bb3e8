//! What of a file system the log needs. The live one is here; tests have one that loses power.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

/// A file of the log, open for writing.
pub(crate) trait LogFile: Send + Sync {
    /// Writes all bytes at a place.
    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()>;
    /// Makes all that was written durable.
    fn sync(&self) -> io::Result<()>;
}

/// A directory with files of the log.
pub(crate) trait LogDisk: Send + Sync {
    /// Makes an empty file, in place of one that is there.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn LogFile>>;
    /// Opens a file that is there, to go on with it.
    fn open(&self, path: &Path) -> io::Result<Arc<dyn LogFile>>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Makes names in a directory durable.
    fn sync_directory(&self, path: &Path) -> io::Result<()>;
}

/// The system's files.
#[derive(Debug)]
pub(crate) struct SystemDisk;

impl LogDisk for SystemDisk {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn LogFile>> {
        Ok(Arc::new(File::create(path)?))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn LogFile>> {
        Ok(Arc::new(OpenOptions::new().write(true).open(path)?))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }
}

impl LogFile for File {
    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.write_all_at(bytes, at)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }
}
