//! The staging disk of a live mount: a directory of the host.

use super::staging::{FileLook, StagingDisk, StagingFile, Target};
use rustix::fs::{FallocateFlags, SeekFrom, Timespec, Timestamps, UTIME_OMIT};
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, IoSlice, Result};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// A directory of the host.
#[derive(Debug)]
pub struct HostDisk {
    directory: PathBuf,
    /// Bytes that the journal leaves free.
    free_min: u64,
}

impl HostDisk {
    /// The directory, which need not be there. The journal leaves `free_min` bytes of its disk free.
    #[must_use]
    pub fn at(directory: &Path, free_min: u64) -> Arc<Self> {
        Arc::new(Self { directory: directory.to_owned(), free_min })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }
}

impl StagingDisk for HostDisk {
    fn list(&self) -> Result<Vec<String>> {
        std::fs::create_dir_all(&self.directory)?;
        let entries = std::fs::read_dir(&self.directory)?;
        // Nothing that is no text is ours.
        entries.filter_map(|entry| entry.map(|entry| entry.file_name().into_string().ok()).transpose()).collect()
    }

    fn create(&self, name: &str) -> Result<Box<dyn StagingFile>> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(self.path(name))?;
        Ok(Box::new(HostFile(file)))
    }

    fn open(&self, name: &str) -> Result<Box<dyn StagingFile>> {
        let file = OpenOptions::new().read(true).write(true).open(self.path(name))?;
        Ok(Box::new(HostFile(file)))
    }

    fn read(&self, name: &str) -> Result<Vec<u8>> {
        std::fs::read(self.path(name))
    }

    fn write(&self, name: &str, bytes: &[u8]) -> Result<()> {
        std::fs::write(self.path(name), bytes)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        std::fs::rename(self.path(from), self.path(to))
    }

    fn remove(&self, name: &str) -> Result<()> {
        std::fs::remove_file(self.path(name))
    }

    fn boot(&self) -> String {
        std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
    }

    fn journal_room(&self) -> Result<u64> {
        let disk = rustix::fs::statvfs(&self.directory)?;
        Ok(disk.f_bavail.saturating_mul(disk.f_frsize).saturating_sub(self.free_min))
    }

    fn directory(&self) -> &Path {
        &self.directory
    }
}

/// An open file of the host.
#[derive(Debug)]
struct HostFile(File);

impl StagingFile for HostFile {
    fn look(&self) -> Result<FileLook> {
        let metadata = self.0.metadata()?;
        Ok(FileLook { len: metadata.len(), blocks: metadata.blocks(), modified: metadata.modified()? })
    }

    fn set_modified(&self, time: SystemTime) -> Result<()> {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        let modified =
            Timespec { tv_sec: since.as_secs().try_into().unwrap_or(0), tv_nsec: since.subsec_nanos().into() };
        let omitted = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
        let times = Timestamps { last_access: omitted, last_modification: modified };
        Ok(rustix::fs::futimens(&self.0, &times)?)
    }

    fn read_at(&self, offset: u64, len: usize) -> Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(len);
        while bytes.len() < len {
            let at = offset + bytes.len() as u64;
            if rustix::io::pread(&self.0, rustix::buffer::spare_capacity(&mut bytes), at)? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
        // The vector may have got more room than it was asked for, and the read filled it.
        bytes.truncate(len);
        Ok(bytes)
    }

    fn write_at(&self, offset: u64, [first, second]: [&[u8]; 2]) -> Result<()> {
        if first.is_empty() {
            return self.0.write_all_at(second, offset);
        }
        let done = rustix::io::pwritev(&self.0, &[IoSlice::new(first), IoSlice::new(second)], offset)?;
        let (first_done, second_done) = (done.min(first.len()), done.saturating_sub(first.len()));
        self.0.write_all_at(&first[first_done..], offset + first_done as u64)?;
        self.0.write_all_at(&second[second_done..], offset + (first.len() + second_done) as u64)
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.0.set_len(len)
    }

    fn punch(&self, range: Range<u64>) -> Result<()> {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        Ok(rustix::fs::fallocate(&self.0, flags, range.start, range.end - range.start)?)
    }

    fn seek(&self, offset: u64, target: Target) -> Result<Option<u64>> {
        let whence = match target {
            Target::Data => SeekFrom::Data(offset),
            Target::Hole => SeekFrom::Hole(offset),
        };
        match rustix::fs::seek(&self.0, whence) {
            Ok(at) => Ok(Some(at)),
            Err(rustix::io::Errno::NXIO) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.0.as_fd())
    }
}
