//! The last name goes, the daemon is killed, and the end of the world.

use super::kernel::{Handle, Kernel};
use super::world::{Dirty, Held, SOON, World, table};
use crate::WaitPolicy;
use crate::kernel_way::KernelWay;
use crate::testing::file;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use wayfs_types::request::Removed;

impl World {
    /// The last name goes by our own doing: handles keep the file, and nobody else hears of it.
    pub(super) fn remove(&mut self) {
        self.observe();
        self.hold(false);
        *self.fake.meanwhile.lock().unwrap() = None;
        let inode = Arc::new(self.fake.mark_removed(self.id));
        self.fake.removed_here.lock().unwrap().insert(self.id);
        self.table.removed(Removed { file: self.id, inode });
        self.write(0, 3, b"written after the last name went");
        let stores = self.stores;
        if let Some(handle) = self.kernel.handles.first() {
            let open = Arc::clone(&handle.open);
            let shown = self.table.read(&open, 0..1 << 30, SOON).unwrap();
            assert!(shown == self.view, "a file without a name shows something else");
            let _ = self.table.commit(&open, SOON);
        }
        self.wait(9);
        while let Some(Handle { open, access, way, .. }) = self.kernel.handles.pop() {
            self.host.note_handles(&self.kernel);
            self.table.kernel_close(&open, access, way);
            self.table.close_file(&open, access);
        }
        self.host.has_mapping.store(false, Ordering::Relaxed);
        self.table.watch_mappings();
        assert_eq!(self.fake.stores.lock().unwrap().len(), stores, "a record of what has no name");
        assert!(self.table.find(self.id).is_none(), "nobody has it, and it is there");
        self.begin_another();
    }

    pub(super) fn begin_another(&mut self) {
        self.table.kernel_forgot(self.id);
        self.numbers += 1;
        self.id = file(self.numbers);
        self.fake.make(self.id, b"");
        (self.kernel, self.served) = (Kernel::default(), None);
        (self.view, self.views) = (Vec::new(), vec![Vec::new()]);
        self.newest = Arc::default();
        (self.dirty, self.appended_to) = (Dirty::No, None);
        self.has_news = Arc::default();
        self.is_behind = Arc::default();
    }

    /// The daemon is killed, and another one starts.
    pub(super) fn kill(&mut self) {
        *self.fake.refuse.lock().unwrap() = None;
        self.observe();
        if self.dirty == Dirty::Perhaps {
            // The journal has what was stored into mappings a second later.
            self.table.tend_journals();
            self.dirty = Dirty::Yes;
        }
        if self.table.find(self.id).is_some_and(|open| open.is_only_emptied()) {
            // A program was about to write: what was before is as good.
            self.dirty = Dirty::No;
            self.view = self.before_emptied.clone();
        }
        self.host.has_mapping.store(false, Ordering::Relaxed);
        self.lose_records();
        self.tables += 1;
        let (before, after) = (self.path(self.tables - 1), self.path(self.tables));
        link_all(&before, &after);
        self.kernel = Kernel::default();
        self.host.note_handles(&self.kernel);
        self.served = None;
        self.table = table(&self.fake, &after);
        self.table.commit_left();
        let failed = self.table.commit_older(Duration::from_secs(3600), WaitPolicy::Silence(Duration::from_secs(5)));
        assert_eq!(failed, []);
        self.check_stores();
        assert!(self.dirty == Dirty::No, "what a killed daemon left is committed");
        assert!(self.table.dirty().is_empty());
        self.observe();
    }

    /// What the host does not have goes with the daemon; the files that were open are to be committed once more.
    fn lose_records(&mut self) {
        self.fake.is_unwritten.store(false, Ordering::Relaxed);
        let Some(Held { inode, stores }) = self.held.take() else { return };
        if self.stores > stores {
            self.fake.put(self.id, inode);
            *self.newest.lock().unwrap() = self.fake.bytes_of(self.id);
            self.dirty = Dirty::Yes;
        }
    }

    pub(super) fn path(&self, number: u32) -> PathBuf {
        self.directory.path().join(number.to_string())
    }

    /// All is told, closed and committed: then all agree.
    pub(super) fn end(&mut self) {
        *self.fake.refuse.lock().unwrap() = None;
        self.hold(false);
        while !self.kernel.handles.is_empty() {
            self.was_watched = self.is_watched();
            self.close(0);
        }
        self.host.has_mapping.store(false, Ordering::Relaxed);
        for _ in 0..3 {
            self.wait(9);
            self.news();
            while !self.kernel.told.is_empty() {
                self.forget();
            }
        }
        assert!(self.table.dirty().is_empty(), "not all was committed");
        assert_eq!(self.table.closing_len(), 0);
        self.open(false, false, false, false);
        let handle = self.kernel.handles.last().unwrap();
        let (open, way, size) = (Arc::clone(&handle.open), handle.way, self.kernel.cache.size);
        let newest = self.newest.lock().unwrap().clone();
        assert!(self.view == newest, "this machine shows an older version");
        assert_eq!(size, newest.len() as u64);
        if let KernelWay::Cached { .. } = way {
            self.fault(&open, &(0..size));
            for number in self.kernel.cache.pages.keys() {
                assert!(self.kernel.cache.shows(&newest, *number), "page {number} is of an older version");
            }
        }
    }
}

/// A killed daemon removes nothing, whatever becomes of its files here.
fn link_all(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        std::fs::hard_link(entry.path(), to.join(entry.file_name())).unwrap();
    }
}
