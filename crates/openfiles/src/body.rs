//! The bytes of an open file on this machine.

use super::ranges::RangeSet;
use super::staging::{StagingDisk, StagingFile, Target};
use std::io::ErrorKind;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use wayfs_types::{FsError, WallTime};

/// Longest file kept in memory, in bytes. Making and removing a file of the host costs about as
/// much as hashing 128 KiB, and most files that programs write are below this.
pub const MEMORY_MAX: usize = 128 * 1024;

/// A staging file that holds bytes of one open file; removed when dropped.
///
/// Nothing durable depends on it: what was promised is in the chunk store. What was closed a moment ago or is open may depend
/// on it for the life of the machine: see [`super::closing`] and [`super::journal`].
#[derive(Debug)]
pub struct BodyFile {
    file: Box<dyn StagingFile>,
    name: String,
    disk: Arc<dyn StagingDisk>,
    /// It counts among these while it lives.
    open: Arc<AtomicUsize>,
}

impl BodyFile {
    /// The open file.
    pub fn file(&self) -> &dyn StagingFile {
        &*self.file
    }

    /// What the kernel can be given of it; `None` if it is no file of this machine.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.file.descriptor()
    }

    /// One that an earlier daemon left.
    pub(super) fn open(disk: &Arc<dyn StagingDisk>, name: &str) -> std::io::Result<Self> {
        let (file, open) = (disk.open(name)?, Arc::new(AtomicUsize::new(1)));
        Ok(Self { file, name: name.to_owned(), disk: Arc::clone(disk), open })
    }

    /// A new empty one, which is among the `open` already.
    pub(super) fn create(disk: &Arc<dyn StagingDisk>, name: String, open: &Arc<AtomicUsize>) -> std::io::Result<Self> {
        let file = disk.create(&name)?;
        Ok(Self { file, name, disk: Arc::clone(disk), open: Arc::clone(open) })
    }

    /// What it is called on its disk.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Its place in the order in which they were made.
    pub(super) fn number(&self) -> Option<u64> {
        number(&self.name)
    }

    /// Its length, and when its bytes last changed.
    pub(super) fn look(&self) -> std::io::Result<Look> {
        Look::at(&*self.file)
    }

    /// Sets the mark; waits for writes in progress.
    pub(super) fn mark(&self) -> std::io::Result<()> {
        self.file.set_modified(mark())
    }

    /// Where there are bytes that somebody wrote, up to a size; `None` if the disk does not say, or if it was cut off meanwhile: what is
    /// gone is no hole.
    pub(super) fn written(&self, size: u64) -> Option<Vec<Range<u64>>> {
        let mut written: Vec<Range<u64>> = Vec::new();
        let mut at = 0;
        while at < size {
            let Some(start) = self.file.seek(at, Target::Data).ok()? else { break };
            let start = start.min(size);
            let end = self.file.seek(start, Target::Hole).ok()??.min(size);
            match written.last_mut() {
                Some(last) if start - last.end < HOLE_MIN => last.end = end,
                Some(_) | None => written.push(start..end),
            }
            if end <= at {
                break;
            }
            at = end;
        }
        (self.file.look().ok()?.len >= size).then_some(written)
    }

    /// When its bytes last changed, by the host.
    pub(super) fn stamp(&self) -> Option<SystemTime> {
        self.file.look().map(|look| look.modified).ok()
    }
}

/// Holes shorter than this are taken for data: no chunk of zeros alone would come of them.
const HOLE_MIN: u64 = 1 << 20;

/// The time of modification that says that nobody wrote since it was set: one that no clock shows.
fn mark() -> SystemTime {
    UNIX_EPOCH + Duration::from_nanos(1)
}

/// The number of a body, in its name and in that of the note about it.
pub(super) fn number(name: &str) -> Option<u64> {
    name.split('.').next()?.parse().ok()
}

/// What a body file shows of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Look {
    /// Bytes in it.
    pub(super) len: u64,
    /// Nobody wrote since it was marked.
    pub(super) is_marked: bool,
    /// When somebody wrote last, if the host's clock can be believed.
    pub(super) mtime: Option<WallTime>,
}

impl Look {
    /// Looks at one that may be of an earlier daemon.
    pub(super) fn at(file: &dyn StagingFile) -> std::io::Result<Self> {
        let look = file.look()?;
        let is_marked = look.modified == mark();
        let since = look.modified.duration_since(UNIX_EPOCH).ok().filter(|_| !is_marked);
        let mtime = since.and_then(|since| i64::try_from(since.as_nanos()).ok());
        Ok(Self { len: look.len, is_marked, mtime: mtime.map(WallTime::from_nanos) })
    }
}

impl Drop for BodyFile {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
        if let Err(error) = self.disk.remove(&self.name) {
            tracing::debug!(name = self.name, %error, "remove body file");
        }
    }
}

/// Where the bytes of an open file are.
#[derive(Debug, Clone)]
pub enum Body {
    /// All of them in memory.
    Memory(Vec<u8>),
    /// In a sparse file, as far as present.
    Disk {
        /// The file. Its length is the length of the open file once anything was written.
        file: Arc<BodyFile>,
        /// Which of its bytes are the open file's.
        present: RangeSet,
    },
}

impl Body {
    /// Whether a range can be read from here.
    pub fn has(&self, range: &Range<u64>) -> bool {
        match self {
            Self::Memory(_) => true,
            Self::Disk { present, .. } => present.contains(range),
        }
    }

    /// Space that it takes on the disk at most.
    pub(crate) fn disk_len(&self) -> u64 {
        match self {
            Self::Memory(_) => 0,
            Self::Disk { present, .. } => present.len(),
        }
    }
}

/// Makes a range of a body read as zeros; it is as long as that needs.
pub(super) fn zero_body(body: &mut Body, range: Range<u64>) -> Result<(), FsError> {
    match body {
        Body::Memory(bytes) => {
            if bytes.len() < range.end as usize {
                bytes.resize(range.end as usize, 0);
            }
            bytes[range.start as usize..range.end as usize].fill(0);
            Ok(())
        }
        Body::Disk { file, .. } => zero_in(file, range),
    }
}

/// Zeros a range of a body file, as a hole if the host can.
fn zero_in(file: &BodyFile, range: Range<u64>) -> Result<(), FsError> {
    let len = file.file().look().map_err(|error| host_error(&error, "look at body file"))?.len;
    if len < range.end {
        file.file().set_len(range.end).map_err(|error| host_error(&error, "size body file"))?;
    }
    if file.file().punch(range.clone()).is_ok() {
        return Ok(());
    }
    let zeros = vec![0; MEMORY_MAX];
    let mut at = range.start;
    while at < range.end {
        let len = (range.end - at).min(zeros.len() as u64);
        let zeros = &zeros[..len as usize];
        file.file().write_at(at, [&[], zeros]).map_err(|error| host_error(&error, "zero body file"))?;
        at += len;
    }
    Ok(())
}

/// What a failure of the host's file system is to a program.
pub(crate) fn host_error(error: &std::io::Error, what: &str) -> FsError {
    match (error.kind(), error.raw_os_error()) {
        (ErrorKind::StorageFull | ErrorKind::QuotaExceeded, _) => FsError::NoSpace,
        (ErrorKind::FileTooLarge, _) => FsError::FileTooLarge,
        (_, Some(libc::EMFILE | libc::ENFILE)) => FsError::TooManyFiles,
        (_, Some(_) | None) => {
            tracing::error!(%error, what, "host file system failed");
            FsError::Io
        }
    }
}
