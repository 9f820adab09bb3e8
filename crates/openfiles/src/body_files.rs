//! The body files of one disk: how many there may be, and what the journal says of them.

use super::body::{Body, BodyFile, MEMORY_MAX, host_error, number};
use super::journal::{Journal, Left};
use super::ranges::RangeSet;
use super::settings::TableSettings;
use super::staging::StagingDisk;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use wayfs_types::FsError;

/// Makes body files on one disk.
#[derive(Debug)]
pub struct BodyFiles {
    disk: Arc<dyn StagingDisk>,
    next: AtomicU64,
    /// How many there are, and may be: each holds a descriptor, of which the chunk store, the tables and the network
    /// need some, too.
    open: Arc<AtomicUsize>,
    open_max: usize,
    memory_max: usize,
    journal: Journal,
}

impl BodyFiles {
    /// Takes over a disk, which is emptied but for the files named in `kept`: what else an earlier process left there can be
    /// made again.
    ///
    /// # Errors
    /// What the disk says.
    pub(super) fn open(settings: &TableSettings, kept: &[String], left: &Left) -> std::io::Result<Self> {
        let disk = Arc::clone(&settings.disk);
        for name in disk.list()?.into_iter().filter(|name| !kept.contains(name)) {
            disk.remove(&name)?;
        }
        let last = kept.iter().filter_map(|name| number(name)).max().unwrap_or(0);
        let (next, open) = (AtomicU64::new(last + 1), Arc::default());
        let journal = Journal::after(Arc::clone(&disk), left);
        let (open_max, memory_max) = (settings.body_count_max, settings.memory_max.min(MEMORY_MAX));
        Ok(Self { disk, next, open, open_max, memory_max, journal })
    }

    /// Longest file that needs none.
    pub(super) fn memory_max(&self) -> u64 {
        self.memory_max as u64
    }

    /// What the next daemon hears of them if this one is killed.
    pub(super) fn journal(&self) -> &Journal {
        &self.journal
    }

    /// Where they are.
    pub fn disk(&self) -> &Arc<dyn StagingDisk> {
        &self.disk
    }

    /// A new empty one.
    ///
    /// # Errors
    /// [`FsError::TooManyFiles`], [`FsError::NoSpace`], or [`FsError::Io`].
    pub fn make(&self) -> Result<Arc<BodyFile>, FsError> {
        let one_more = |open: usize| (open < self.open_max).then_some(open + 1);
        if self.open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_err() {
            return Err(FsError::TooManyFiles);
        }
        self.make_file().inspect_err(|_| {
            self.open.fetch_sub(1, Ordering::Relaxed);
        })
    }

    fn make_file(&self) -> Result<Arc<BodyFile>, FsError> {
        let name = self.next.fetch_add(1, Ordering::Relaxed).to_string();
        let file =
            BodyFile::create(&self.disk, name, &self.open).map_err(|error| host_error(&error, "make body file"))?;
        Ok(Arc::new(file))
    }
}

impl Body {
    /// Moves it to a file, so that it can grow.
    ///
    /// # Errors
    /// As [`BodyFiles::make`] and writing.
    pub fn spill(&mut self, files: &BodyFiles) -> Result<(), FsError> {
        let Self::Memory(bytes) = self else { return Ok(()) };
        let file = files.make()?;
        file.file().write_at(0, [&[], bytes]).map_err(|error| host_error(&error, "spill file to disk"))?;
        let present = RangeSet::of(0..bytes.len() as u64);
        *self = Self::Disk { file, present };
        Ok(())
    }
}
