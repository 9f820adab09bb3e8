//! A staging disk in memory: it can fill, die in the middle of a step, and lose at a power cut what nobody synced, which is all of it.
//!
//! A handle is of one life of a process. What the process does after its end, such as removing files as it is taken apart, does not
//! happen.

use rand::Rng;
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeMap;
use std::io::{Error, ErrorKind, Result};
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use wayfs_openfiles::staging::{FileLook, Target};
use wayfs_openfiles::{StagingDisk, StagingFile};

/// Room for the journal while the disk is not full.
const ROOM: u64 = 1 << 40;

/// A staging disk as one life of a process has it.
#[derive(Debug, Clone, Default)]
pub(crate) struct MemoryDisk {
    shared: Arc<Mutex<Shared>>,
    life: u64,
}

#[derive(Debug, Default)]
struct Shared {
    files: BTreeMap<String, Arc<Mutex<Bytes>>>,
    /// The life whose handles count.
    life: u64,
    boot: u64,
    is_full: bool,
    /// Writes until the process ends in the middle of one.
    writes_left: Option<u32>,
    writes: u64,
}

#[derive(Debug, Clone)]
struct Bytes {
    all: Vec<u8>,
    modified: SystemTime,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn dead() -> Error {
    Error::other("the process has ended")
}

impl MemoryDisk {
    fn shared(&self) -> MutexGuard<'_, Shared> {
        lock(&self.shared)
    }

    /// The same disk as the next process has it.
    pub(crate) fn next_life(&self) -> Self {
        let mut shared = self.shared();
        shared.life += 1;
        shared.writes_left = None;
        Self { shared: Arc::clone(&self.shared), life: shared.life }
    }

    /// The machine goes down: of each file a part is there, or nothing.
    pub(crate) fn cut_power(&self, random: &mut ChaCha8Rng) {
        let mut shared = self.shared();
        shared.boot += 1;
        shared.files.retain(|_, _| random.random_bool(0.5));
        for file in shared.files.values() {
            let mut file = lock(file);
            let (len, whole) = (file.all.len(), random.random_bool(0.5));
            if !whole {
                let kept = random.random_range(0..=len);
                file.all[kept..].fill(0);
            }
        }
    }

    /// From now on nothing more fits, or it does again.
    pub(crate) fn set_full(&self, is_full: bool) {
        self.shared().is_full = is_full;
    }

    /// The process ends in the middle of a write, after so many others.
    pub(crate) fn end_after(&self, writes: u32) {
        self.shared().writes_left = Some(writes);
    }

    /// It does not end so, after all.
    pub(crate) fn stay_alive(&self) {
        let mut shared = self.shared();
        shared.writes_left = shared.writes_left.filter(|left| *left == 0);
    }

    /// Whether the process ended so.
    pub(crate) fn is_dead(&self) -> bool {
        self.shared().writes_left == Some(0)
    }

    /// A process does something: it is alive.
    fn check(&self) -> Result<MutexGuard<'_, Shared>> {
        let shared = self.shared();
        let is_alive = shared.life == self.life && shared.writes_left != Some(0);
        if is_alive { Ok(shared) } else { Err(dead()) }
    }

    /// A process writes something; it ends with that, or `needs` room that is not there.
    fn check_write(&self, needs: u64) -> Result<MutexGuard<'_, Shared>> {
        let mut shared = self.check()?;
        if needs > 0 && shared.is_full {
            return Err(ErrorKind::StorageFull.into());
        }
        shared.writes += 1;
        if let Some(left) = &mut shared.writes_left {
            *left -= 1;
            if *left == 0 {
                return Err(dead());
            }
        }
        Ok(shared)
    }

    fn file(&self, bytes: Arc<Mutex<Bytes>>) -> Box<dyn StagingFile> {
        Box::new(MemoryFile { disk: self.clone(), bytes })
    }
}

impl Shared {
    fn clock(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(1_000_000_000) + Duration::from_nanos(self.writes)
    }

    fn find(&self, name: &str) -> Result<Arc<Mutex<Bytes>>> {
        self.files.get(name).cloned().ok_or_else(|| ErrorKind::NotFound.into())
    }
}

impl StagingDisk for MemoryDisk {
    fn list(&self) -> Result<Vec<String>> {
        Ok(self.check()?.files.keys().cloned().collect())
    }

    fn create(&self, name: &str) -> Result<Box<dyn StagingFile>> {
        let mut shared = self.check_write(1)?;
        if shared.files.contains_key(name) {
            return Err(ErrorKind::AlreadyExists.into());
        }
        let bytes = Arc::new(Mutex::new(Bytes { all: Vec::new(), modified: shared.clock() }));
        shared.files.insert(name.to_owned(), Arc::clone(&bytes));
        drop(shared);
        Ok(self.file(bytes))
    }

    fn open(&self, name: &str) -> Result<Box<dyn StagingFile>> {
        let bytes = self.check()?.find(name)?;
        Ok(self.file(bytes))
    }

    fn read(&self, name: &str) -> Result<Vec<u8>> {
        let bytes = self.check()?.find(name)?;
        let all = lock(&bytes).all.clone();
        Ok(all)
    }

    fn write(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let mut shared = self.check_write(bytes.len() as u64)?;
        let modified = shared.clock();
        shared.files.insert(name.to_owned(), Arc::new(Mutex::new(Bytes { all: bytes.to_vec(), modified })));
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        let mut shared = self.check_write(0)?;
        let file = shared.files.remove(from).ok_or(ErrorKind::NotFound)?;
        shared.files.insert(to.to_owned(), file);
        Ok(())
    }

    fn remove(&self, name: &str) -> Result<()> {
        let mut shared = self.check_write(0)?;
        shared.files.remove(name).map(|_| ()).ok_or_else(|| ErrorKind::NotFound.into())
    }

    fn boot(&self) -> String {
        format!("boot {}", self.shared().boot)
    }

    fn journal_room(&self) -> Result<u64> {
        Ok(if self.check()?.is_full { 0 } else { ROOM })
    }

    fn directory(&self) -> &Path {
        Path::new("")
    }
}

/// A file of it.
#[derive(Debug)]
struct MemoryFile {
    disk: MemoryDisk,
    bytes: Arc<Mutex<Bytes>>,
}

impl MemoryFile {
    /// Changes it to be so long at least.
    fn change(&self, len: u64, change: impl FnOnce(&mut Vec<u8>)) -> Result<()> {
        let needs = len.saturating_sub(lock(&self.bytes).all.len() as u64);
        let shared = self.disk.check_write(needs)?;
        let mut bytes = lock(&self.bytes);
        bytes.modified = shared.clock();
        change(&mut bytes.all);
        Ok(())
    }
}

impl StagingFile for MemoryFile {
    fn look(&self) -> Result<FileLook> {
        drop(self.disk.check()?);
        let bytes = lock(&self.bytes);
        let len = bytes.all.len() as u64;
        Ok(FileLook { len, blocks: len.div_ceil(512), modified: bytes.modified })
    }

    fn set_modified(&self, time: SystemTime) -> Result<()> {
        drop(self.disk.check_write(0)?);
        lock(&self.bytes).modified = time;
        Ok(())
    }

    fn read_at(&self, offset: u64, len: usize) -> Result<Vec<u8>> {
        drop(self.disk.check()?);
        let bytes = lock(&self.bytes);
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let found = bytes.all.get(start..start.saturating_add(len));
        found.map(<[u8]>::to_vec).ok_or_else(|| ErrorKind::UnexpectedEof.into())
    }

    fn write_at(&self, offset: u64, parts: [&[u8]; 2]) -> Result<()> {
        let (data, start) = (parts.concat(), usize::try_from(offset).unwrap_or(usize::MAX));
        let put = |all: &mut Vec<u8>, data: &[u8]| {
            if all.len() < start + data.len() {
                all.resize(start + data.len(), 0);
            }
            all[start..start + data.len()].copy_from_slice(data);
        };
        let was_alive = self.disk.check().is_ok();
        let done = self.change(offset + data.len() as u64, |all| put(all, &data));
        if was_alive && self.disk.is_dead() {
            // The process ended in the middle of it.
            put(&mut lock(&self.bytes).all, &data[..data.len() / 2]);
        }
        done
    }

    fn set_len(&self, len: u64) -> Result<()> {
        // A longer file has a hole there, which takes no room.
        self.change(0, |all| all.resize(usize::try_from(len).unwrap_or(usize::MAX), 0))
    }

    fn punch(&self, range: Range<u64>) -> Result<()> {
        let end = |at: u64, all: &Vec<u8>| usize::try_from(at).unwrap_or(usize::MAX).min(all.len());
        self.change(0, |all| {
            let range = end(range.start, all)..end(range.end, all);
            all[range].fill(0);
        })
    }

    fn seek(&self, offset: u64, target: Target) -> Result<Option<u64>> {
        // It knows no holes but the one at the end.
        let len = self.look()?.len;
        Ok((offset < len).then_some(if target == Target::Data { offset } else { len }))
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    #[test]
    fn a_process_that_ended_does_nothing_more_and_the_next_one_has_its_files() {
        let disk = MemoryDisk::default();
        let file = disk.create("1").unwrap();
        file.write_at(0, [b"ab", b"cd"]).unwrap();
        let next = disk.next_life();
        assert!(disk.remove("1").is_err() && file.write_at(0, [b"", b"x"]).is_err());
        assert_eq!(next.read("1").unwrap(), b"abcd");
        assert_eq!(next.boot(), disk.boot());
    }

    #[test]
    fn a_process_may_end_in_the_middle_of_a_write() {
        let disk = MemoryDisk::default();
        let file = disk.create("1").unwrap();
        disk.end_after(2);
        file.write_at(0, [b"", b"abcd"]).unwrap();
        assert!(file.write_at(0, [b"", b"ABCD"]).is_err() && disk.is_dead());
        assert_eq!(disk.next_life().read("1").unwrap(), b"ABcd");
    }

    #[test]
    fn a_power_cut_names_another_boot_and_a_full_disk_takes_nothing_longer() {
        let disk = MemoryDisk::default();
        let file = disk.create("1").unwrap();
        file.write_at(0, [b"", b"abcd"]).unwrap();
        disk.set_full(true);
        assert!(file.write_at(4, [b"", b"e"]).is_err() && disk.create("2").is_err());
        file.write_at(0, [b"", b"AB"]).unwrap();
        let boot = disk.boot();
        disk.cut_power(&mut ChaCha8Rng::seed_from_u64(1));
        assert_ne!(disk.next_life().boot(), boot);
    }
}
