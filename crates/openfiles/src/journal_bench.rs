//! A table that a daemon leaves behind and another one takes over, for tests of the journal.

use super::testing::{Fake, file};
use super::*;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

pub(super) const SOON: WaitPolicy = WaitPolicy::Silence(Duration::from_secs(5));
pub(super) const LONG: Duration = Duration::from_secs(3600);

pub(super) struct Bench {
    pub(super) fake: Arc<Fake>,
    pub(super) table: Arc<FileTable>,
    pub(super) directory: tempfile::TempDir,
}

pub(super) fn table(fake: &Arc<Fake>, directory: &Path) -> Arc<FileTable> {
    let settings = TableSettings {
        disk: HostDisk::at(&directory.join("files"), 0),
        idle_len_max: 64 << 20,
        idle_count_max: 16,
        memory_max: crate::body::MEMORY_MAX,
        body_count_max: 64,
    };
    Arc::new(FileTable::open(fake.clone(), settings).unwrap())
}

pub(super) fn bench() -> Bench {
    let directory = tempfile::tempdir().unwrap();
    let fake = Arc::new(Fake::new());
    let table = table(&fake, directory.path());
    Bench { fake, table, directory }
}

pub(super) fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|at| (at % 251) as u8 ^ seed).collect()
}

impl Bench {
    pub(super) fn make(&self, number: u64, bytes: &[u8]) -> Arc<OpenFile> {
        self.fake.make(file(number), bytes);
        self.open(number)
    }

    pub(super) fn open(&self, number: u64) -> Arc<OpenFile> {
        let inode = self.fake.inode(file(number)).unwrap();
        self.table.open_file(file(number), &inode, Access::Write)
    }

    pub(super) fn write(&self, open: &OpenFile, offset: u64, bytes: &[u8]) {
        self.table.write(open, Some(offset), bytes, 7).unwrap();
    }

    pub(super) fn append(&self, open: &OpenFile, bytes: &[u8]) {
        self.table.write(open, None, bytes, 7).unwrap();
    }

    pub(super) fn commit(&self, open: &OpenFile) {
        self.table.commit(open, SOON).unwrap();
    }

    pub(super) fn bytes(&self, number: u64) -> Vec<u8> {
        self.fake.bytes_of(file(number))
    }

    pub(super) fn stores(&self) -> usize {
        self.fake.stores.lock().unwrap().len()
    }

    /// As if the daemon were killed and another started. A killed daemon ends nothing.
    pub(super) fn killed(self) -> Self {
        let Self { fake, table: before, directory } = self;
        std::mem::forget(before);
        fake.is_unwritten.store(false, Ordering::Relaxed);
        let table = table(&fake, directory.path());
        Self { fake, table, directory }
    }

    /// The same, and what it left is committed.
    pub(super) fn recovered(self) -> Self {
        let bench = self.killed();
        bench.table.commit_left();
        assert_eq!(bench.table.commit_older(LONG, WaitPolicy::Silence(Duration::from_secs(5))), []);
        assert!(bench.table.dirty().is_empty());
        bench
    }

    pub(super) fn segments(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.directory.path().join("files")).unwrap();
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        paths.retain(|path| path.file_name().unwrap().to_str().unwrap().starts_with("journal-"));
        paths.sort();
        paths
    }

    /// The one segment that there is.
    pub(super) fn segment(&self) -> PathBuf {
        let [only] = &self.segments()[..] else { panic!("not one segment: {:?}", self.segments()) };
        only.clone()
    }

    /// Body files that are there.
    pub(super) fn bodies(&self) -> usize {
        let entries = std::fs::read_dir(self.directory.path().join("files")).unwrap();
        entries.filter(|entry| entry.as_ref().unwrap().file_name().to_str().unwrap().parse::<u64>().is_ok()).count()
    }
}

pub(super) fn put(bytes: &mut Vec<u8>, at: usize, new: &[u8]) {
    bytes.resize(bytes.len().max(at + new.len()), 0);
    bytes[at..at + new.len()].copy_from_slice(new);
}
