//! The seam to the disk: where bytes are that no record holds yet.
//!
//! A staging disk is one flat directory of this mount. The live one is [`super::host_disk`]; the simulator has one in memory, which
//! can fill, fail, and lose what a power cut takes.

use std::fmt::Debug;
use std::io::Result;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::time::SystemTime;

/// The directory of staging files. Names are plain: no path, no `.` or `..`.
pub trait StagingDisk: Send + Sync + Debug {
    /// Names of all that is there, in no order. Makes the directory if it is not there.
    ///
    /// # Errors
    /// What the disk says.
    fn list(&self) -> Result<Vec<String>>;

    /// Makes an empty file, which only this user may read.
    ///
    /// # Errors
    /// What the disk says; `AlreadyExists` if there is one of this name.
    fn create(&self, name: &str) -> Result<Box<dyn StagingFile>>;

    /// Opens a file to read and write it.
    ///
    /// # Errors
    /// What the disk says.
    fn open(&self, name: &str) -> Result<Box<dyn StagingFile>>;

    /// All of a file.
    ///
    /// # Errors
    /// What the disk says.
    fn read(&self, name: &str) -> Result<Vec<u8>>;

    /// Makes a file hold this and nothing else. A kill in the middle may leave a part of it.
    ///
    /// # Errors
    /// What the disk says.
    fn write(&self, name: &str, bytes: &[u8]) -> Result<()>;

    /// Gives a file another name, which it takes from one that has it. A kill leaves the one or the other.
    ///
    /// # Errors
    /// What the disk says.
    fn rename(&self, from: &str, to: &str) -> Result<()>;

    /// Removes a file. What is open stays readable.
    ///
    /// # Errors
    /// What the disk says; `NotFound` if there is none.
    fn remove(&self, name: &str) -> Result<()>;

    /// Names the life of the machine: nothing that was written and not synced counts in the next one. Empty if it has no name.
    fn boot(&self) -> String;

    /// Bytes that the journal may take and leave enough to metadata and removals.
    ///
    /// # Errors
    /// What the disk says.
    fn journal_room(&self) -> Result<u64>;

    /// Where it is in the file system of the machine, for statistics and messages; empty if it is nowhere.
    fn directory(&self) -> &Path;
}

/// A file of a staging disk. It stays what it is when its name goes.
pub trait StagingFile: Send + Sync + Debug {
    /// Its length, the room that it takes, and when its bytes changed last.
    ///
    /// # Errors
    /// What the disk says.
    fn look(&self) -> Result<FileLook>;

    /// Sets the time of the last change. Waits for writes in progress.
    ///
    /// # Errors
    /// What the disk says.
    fn set_modified(&self, time: SystemTime) -> Result<()>;

    /// Reads so many bytes.
    ///
    /// # Errors
    /// What the disk says; `UnexpectedEof` if the file ends before.
    fn read_at(&self, offset: u64, len: usize) -> Result<Vec<u8>>;

    /// Writes all of these bytes, one part behind the other.
    ///
    /// # Errors
    /// What the disk says; some of them may be written then.
    fn write_at(&self, offset: u64, parts: [&[u8]; 2]) -> Result<()>;

    /// Cuts it off, or extends it by a hole.
    ///
    /// # Errors
    /// What the disk says.
    fn set_len(&self, len: u64) -> Result<()>;

    /// Makes a hole of a range within it.
    ///
    /// # Errors
    /// What the disk says; `Unsupported` if it has no holes.
    fn punch(&self, range: Range<u64>) -> Result<()>;

    /// The first byte at or after a place that is data, or of a hole; `None` past the last data, or past the end.
    ///
    /// # Errors
    /// What the disk says.
    fn seek(&self, offset: u64, target: Target) -> Result<Option<u64>>;

    /// What the kernel can be given of it; `None` if it is no file of this machine.
    fn descriptor(&self) -> Option<BorrowedFd<'_>>;
}

/// What a file shows of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileLook {
    /// Bytes in it.
    pub len: u64,
    /// Units of 512 bytes that it takes.
    pub blocks: u64,
    /// When its bytes changed last.
    pub modified: SystemTime,
}

/// What a seek in a staging file looks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// Bytes.
    Data,
    /// None.
    Hole,
}
