//! The world of one file: its table, engine, host and kernel, and what all of them should show.

use super::kernel::{Handle, Kernel, ModelHost};
use super::steps::Step;
use crate::kernel_way::KernelWay;
use crate::testing::{Fake, file, record};
use crate::{Contents, FileTable, Followed, HostDisk, OpenFile, OperationError, TableSettings, WaitPolicy};
use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use wayfs_types::{Content, FileId, FsError, Inode};

pub(super) const SOON: WaitPolicy = WaitPolicy::Silence(Duration::from_secs(5));
pub(super) const DIRTY_AGE: Duration = Duration::from_secs(5);
/// As `crate::fs::saving` has it.
pub(super) const INLINE_COMMIT_MAX: u64 = 256 * 1024;
/// Whether something is uncommitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dirty {
    No,
    Yes,
    /// A mapping stored into the body: it counts as written when that is noticed.
    Perhaps,
}

pub(super) struct World {
    pub(super) fake: Arc<Fake>,
    pub(super) host: Arc<ModelHost>,
    pub(super) table: FileTable,
    pub(super) directory: tempfile::TempDir,
    pub(super) tables: u32,
    pub(super) id: FileId,
    pub(super) numbers: u64,
    pub(super) kernel: Kernel,
    /// The body that handles of the kernel have.
    pub(super) served: Option<Arc<File>>,
    pub(super) view: Vec<u8>,
    /// What the view was, one after the other.
    pub(super) views: Vec<Vec<u8>>,
    pub(super) newest: Arc<Mutex<Vec<u8>>>,
    pub(super) dirty: Dirty,
    /// Programs may have stored into the body, so that all of it counts as written once more when it is closed.
    pub(super) was_watched: bool,
    /// All that is uncommitted was appended to so many bytes.
    pub(super) appended_to: Option<usize>,
    pub(super) stores: usize,
    pub(super) changes: u64,
    pub(super) has_news: Arc<AtomicBool>,
    /// What the file was when an open emptied it last.
    pub(super) before_emptied: Vec<u8>,
    /// Another machine's version came that is not what this machine's view is built upon.
    pub(super) is_behind: Arc<AtomicBool>,
    /// What the host has of the engine's records, while it does not have all.
    pub(super) held: Option<Held>,
}

/// What a kill leaves of records that the host does not have yet.
pub(super) struct Held {
    pub(super) inode: Inode,
    pub(super) stores: usize,
}

pub(super) fn pattern(len: u64, byte: u8) -> Vec<u8> {
    (0..len).map(|at| byte.wrapping_add((at % 251) as u8)).collect()
}

pub(super) fn put(bytes: &mut Vec<u8>, offset: u64, data: &[u8]) {
    let end = offset as usize + data.len();
    bytes.resize(bytes.len().max(end), 0);
    bytes[offset as usize..end].copy_from_slice(data);
}

pub(super) fn table(fake: &Arc<Fake>, directory: &Path) -> FileTable {
    let disk = HostDisk::at(directory, 0);
    let settings = TableSettings {
        disk,
        idle_len_max: 64 << 20,
        idle_count_max: 16,
        memory_max: crate::body::MEMORY_MAX,
        body_count_max: 64,
    };
    FileTable::open(fake.clone(), settings).unwrap()
}

impl World {
    pub(super) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let host = Arc::new(ModelHost::default());
        let fake = Arc::new(Fake::on(host.clone()));
        let table = table(&fake, &directory.path().join("0"));
        fake.make(file(1), b"");
        Self {
            fake,
            host,
            table,
            directory,
            tables: 0,
            id: file(1),
            numbers: 1,
            kernel: Kernel::default(),
            served: None,
            view: Vec::new(),
            views: vec![Vec::new()],
            newest: Arc::default(),
            dirty: Dirty::No,
            was_watched: false,
            appended_to: None,
            stores: 0,
            changes: 0,
            has_news: Arc::default(),
            before_emptied: Vec::new(),
            is_behind: Arc::default(),
            held: None,
        }
    }

    pub(super) fn take(&mut self, step: &Step) {
        self.was_watched = self.is_watched();
        match *step {
            Step::Open { writes, truncates, is_passthrough, appends } => {
                self.open(writes, truncates, is_passthrough, appends)
            }
            Step::Write { handle, offset, len, byte } => self.write(handle, offset, &pattern(len, byte)),
            Step::Read { handle, offset, len } => self.read(handle, offset..offset + len),
            Step::Store { handle, page, byte } => self.store(handle, page, byte),
            Step::Unmap => self.host.has_mapping.store(false, Ordering::Relaxed),
            Step::WriteBack => self.write_back(),
            Step::Truncate { size, is_through_handle } => self.truncate(size, is_through_handle),
            Step::Flush { handle } => self.flush(handle),
            Step::Close { handle } => self.close(handle),
            Step::Sync { handle } => self.sync(handle),
            Step::Refuse { refuses } => *self.fake.refuse.lock().unwrap() = refuses.then_some(FsError::NoSpace),
            Step::Elsewhere { len, byte, is_appended, is_during_commit } => {
                self.change_elsewhere(pattern(len, byte), is_appended, is_during_commit)
            }
            Step::Hold { holds } => self.hold(holds),
            Step::News => self.news(),
            Step::Forget => self.forget(),
            Step::Look => self.look(),
            Step::Settle => self.settle(),
            Step::Observe => self.observe(),
            Step::Wait { seconds } => self.wait(seconds),
            Step::SendAway => self.fake.send_away(),
            Step::MakeRoom => drop(self.table.make_room()),
            Step::Remove => self.remove(),
            Step::Kill => self.kill(),
        }
        self.check_pages();
    }

    pub(super) fn is_watched(&self) -> bool {
        self.table.find(self.id).is_some_and(|open| open.state().life.is_watched())
    }

    pub(super) fn commit(&mut self, open: &Arc<OpenFile>, wait_policy: WaitPolicy) {
        if self.table.commit(open, wait_policy) == Err(OperationError::WouldBlock) {
            self.tell_of_wrong_pages();
            let _ = self.table.commit(open, SOON);
        }
        self.tell_of_wrong_pages();
        self.check_stores();
        self.observe();
    }

    pub(super) fn tell_of_wrong_pages(&mut self) {
        while self.table.poll_wrong_pages().is_some() {
            self.forget_pages();
        }
    }

    /// What reached the engine is what was written.
    pub(super) fn check_stores(&mut self) {
        let contents: Vec<Content> =
            self.fake.stores.lock().unwrap()[self.stores..].iter().map(|store| store.content.clone()).collect();
        self.stores += contents.len();
        let is_stored = !contents.is_empty();
        if !self.fake.is_unwritten.load(Ordering::Relaxed) {
            self.table.written(u64::MAX);
        }
        for content in contents {
            assert!(self.dirty != Dirty::No || self.was_watched, "a version without a change");
            let bytes = self.fake.bytes_in(&content);
            if bytes != self.view {
                assert!(self.moved().as_ref() == Some(&bytes), "what was committed is not what was written");
                self.is_behind.store(false, Ordering::Relaxed);
                self.view = bytes.clone();
                self.views.push(bytes.clone());
            }
            if self.fake.bytes_of(self.id) == bytes {
                let is_lost = self.is_behind.load(Ordering::Relaxed) && *self.newest.lock().unwrap() != bytes;
                assert!(!is_lost, "another machine's version was overwritten by one that knew nothing of it");
                *self.newest.lock().unwrap() = bytes;
            }
        }
        let is_dirty = self.table.find(self.id).is_some_and(|open| open.is_dirty());
        let has_name = !self.fake.removed_here.lock().unwrap().contains(&self.id);
        if self.dirty == Dirty::Yes && !is_dirty && !is_stored && has_name {
            assert!(*self.newest.lock().unwrap() == self.view, "what was written is in no version");
        }
        match (self.dirty, is_dirty) {
            (Dirty::No, true) if !self.was_watched => panic!("uncommitted, and nothing was written"),
            (Dirty::Yes | Dirty::No, _) => self.dirty = if is_dirty { Dirty::Yes } else { Dirty::No },
            (Dirty::Perhaps, _) if self.table.find(self.id).is_none() => self.dirty = Dirty::No,
            (Dirty::Perhaps, _) => {}
        }
        if self.dirty == Dirty::No {
            self.appended_to = None;
        }
    }

    /// Another machine's version comes to the engine.
    pub(super) fn change_elsewhere(&mut self, bytes: Vec<u8>, is_appended: bool, is_during_commit: bool) {
        if self.held.is_some() {
            // Where a kill takes records, those of others come again, which is not in this model.
            return;
        }
        self.changes += 1;
        let is_behind = Arc::clone(&self.is_behind);
        let (fake, newest, has_news) = (Arc::clone(&self.fake), Arc::clone(&self.newest), Arc::clone(&self.has_news));
        let (id, version) = (self.id, record(5000 + self.changes));
        let change = move || {
            let mut newest = newest.lock().unwrap();
            *newest = if is_appended { [&newest[..], &bytes[..]].concat() } else { bytes };
            let mut inode = fake.make(id, &newest);
            inode.version = version;
            fake.put(id, inode);
            has_news.store(true, Ordering::Relaxed);
            is_behind.store(true, Ordering::Relaxed);
        };
        match is_during_commit {
            true => *self.fake.meanwhile.lock().unwrap() = Some(Box::new(change)),
            false => change(),
        }
    }

    /// From here on the host has no record, or it has all.
    pub(super) fn hold(&mut self, holds: bool) {
        if !holds {
            self.fake.is_unwritten.store(false, Ordering::Relaxed);
            self.held = None;
            self.table.written(u64::MAX);
        } else if self.held.is_none() && self.is_in_step() {
            self.fake.is_unwritten.store(true, Ordering::Relaxed);
            let inode = Inode::clone(&self.fake.inode(self.id).unwrap());
            self.held = Some(Held { inode, stores: self.stores });
        }
    }

    /// Whether no version of another machine is on its way.
    fn is_in_step(&self) -> bool {
        let is_on_its_way = self.fake.meanwhile.lock().unwrap().is_some();
        !is_on_its_way && !self.is_behind.load(Ordering::Relaxed)
    }

    pub(super) fn news(&mut self) {
        if self.has_news.swap(false, Ordering::Relaxed) {
            self.table.changed_elsewhere(self.id);
            self.observe();
            self.follow();
            self.forget_pages();
        }
    }

    pub(super) fn follow(&mut self) {
        for open in self.table.behind() {
            if self.table.follow(&open, SOON) == Ok(Followed::Yes) {
                self.forget_pages();
            }
        }
    }

    pub(super) fn forget_pages(&mut self) {
        let renewal = self.table.pages_of_others(self.id);
        self.kernel.told.push_back(renewal);
    }

    /// The kernel forgets pages as it was told.
    pub(super) fn forget(&mut self) {
        let Some(renewal) = self.kernel.told.pop_front() else { return };
        self.write_back();
        self.kernel.cache.drop_pages();
        self.kernel.cache.knows_size = false;
        if let Some(renewal) = renewal {
            self.table.pages_renewed(&renewal);
        }
    }

    /// When all is told, the kernel shows what the file is through handles that were open all the time.
    pub(super) fn settle(&mut self) {
        self.write_back();
        self.news();
        while !self.kernel.told.is_empty() {
            self.forget();
        }
        self.observe();
        let is_cached = |handle: &Handle| matches!(handle.way, KernelWay::Cached { .. });
        let Some(at) = self.kernel.find(0, is_cached) else { return };
        if !self.kernel.cache.knows_size {
            self.look();
        }
        assert_eq!(self.kernel.cache.size, self.view.len() as u64, "the kernel has another length");
        let (open, size) = (Arc::clone(&self.kernel.handles[at].open), self.kernel.cache.size);
        self.fault(&open, &(0..size));
        for number in self.kernel.cache.pages.keys() {
            assert!(self.kernel.cache.shows(&self.view, *number), "page {number} is not of the file");
        }
    }

    /// The kernel asks how long the file is.
    pub(super) fn look(&mut self) {
        let inode = self.fake.inode(self.id).unwrap();
        let size = self.table.overlay(self.id).map_or(inode.content.size(), |overlay| overlay.size);
        let renewal = self.table.pages_to_renew(self.id, inode.version);
        self.observe();
        if let Some(renewal) = renewal {
            self.write_back();
            self.kernel.cache.drop_pages();
            self.table.pages_renewed(&renewal);
        }
        self.kernel.cache.resize(size);
        self.kernel.cache.knows_size = true;
    }

    /// Looks at the file as requests show it.
    pub(super) fn observe(&mut self) {
        let newest = self.newest.lock().unwrap().clone();
        let bytes = match self.table.find(self.id) {
            Some(open) => self.table.read(&open, 0..1 << 30, SOON).unwrap().to_vec(),
            None => {
                assert!(self.dirty != Dirty::Yes, "what was written is nowhere");
                newest.clone()
            }
        };
        if bytes != self.view {
            match self.moved() {
                // A commit moved what was appended, and failed after that.
                Some(moved) if bytes == moved => {
                    self.appended_to = Some(newest.len());
                    self.is_behind.store(false, Ordering::Relaxed);
                }
                _ => {
                    assert!(self.dirty == Dirty::No, "what was written does not show");
                    assert!(bytes == newest, "what shows is no version");
                }
            }
            self.view = bytes;
            self.views.push(self.view.clone());
        }
        if self.dirty == Dirty::No && self.view == newest {
            self.is_behind.store(false, Ordering::Relaxed);
        }
    }

    /// What was appended, behind the newest version.
    pub(super) fn moved(&self) -> Option<Vec<u8>> {
        Some([&self.newest.lock().unwrap()[..], &self.view[self.appended_to?..]].concat())
    }

    pub(super) fn wait(&mut self, seconds: u64) {
        let span = Duration::from_secs(seconds);
        self.host.turn(span);
        self.fake.clock.fetch_add(span.as_nanos() as i64, Ordering::Relaxed);
        for _ in self.table.watch_mappings() {
            self.forget_pages();
        }
        self.follow();
        let _ = self.table.commit_older(DIRTY_AGE, WaitPolicy::Silence(Duration::from_secs(5)));
        self.tell_of_wrong_pages();
        self.check_stores();
        if self.dirty == Dirty::Perhaps && !self.is_watched() {
            self.dirty = Dirty::Yes;
            self.check_stores();
        }
    }

    /// Each page of the kernel shows what the file was at some time.
    pub(super) fn check_pages(&self) {
        for number in self.kernel.cache.clean() {
            let is_known = self.views.iter().rev().any(|view| self.kernel.cache.shows(view, number));
            assert!(is_known, "page {number} shows what the file never was");
        }
    }
}
