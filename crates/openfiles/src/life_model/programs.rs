//! What programs do with the file, and the kernel on their behalf.

use super::kernel::{Handle, PAGE};
use super::world::{Dirty, INLINE_COMMIT_MAX, SOON, World, put};
use crate::kernel_way::BackingId;
use crate::kernel_way::KernelWay;
use crate::testing::host_file;
use crate::{Access, Contents, EarlyClose, OpenFile, WaitPolicy, Writes, body};
use std::cell::RefCell;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

impl World {
    pub(super) fn open(&mut self, writes: bool, truncates: bool, is_passthrough: bool, appends: bool) {
        let access = if writes { Access::Write } else { Access::Read };
        let truncates = truncates && writes;
        let inode = self.fake.inode(self.id).unwrap();
        let open = self.table.open_file(self.id, &inode, access);
        self.observe();
        if truncates {
            if !open.is_only_emptied() {
                self.before_emptied = self.view.clone();
            }
            self.table.empty(&open, 0).unwrap();
            self.changed(Vec::new());
            self.appended_to = None;
            self.kernel.cache.resize(0);
        }
        let writes = match truncates && is_passthrough && !appends {
            true => Writes::Passthrough,
            false => Writes::ByRequest,
        };
        let registered = RefCell::new(None);
        let register = |body: &body::BodyFile| {
            *registered.borrow_mut() = Some(Arc::new(host_file(body)));
            Some(BackingId::new(1))
        };
        let way = self.table.kernel_open(&open, access, writes, &register);
        if let Some(body) = registered.into_inner() {
            self.served = Some(body);
        }
        if way == (KernelWay::Cached { keep: false }) {
            self.write_back();
            self.kernel.cache.drop_pages();
        }
        let body = match way {
            KernelWay::Cached { .. } => None,
            KernelWay::Direct(_) | KernelWay::Passthrough(_) => self.served.clone(),
        };
        self.kernel.handles.push(Handle { open, access, way, body, appends });
        self.host.note_handles(&self.kernel);
        self.look();
    }

    /// A program of this machine changed the bytes.
    pub(super) fn changed(&mut self, view: Vec<u8>) {
        self.dirty = Dirty::Yes;
        self.view = view;
        self.views.push(self.view.clone());
    }

    pub(super) fn writer(&self, which: usize) -> Option<usize> {
        self.kernel.find(which, |handle| handle.access == Access::Write)
    }

    pub(super) fn write(&mut self, which: usize, offset: u64, data: &[u8]) {
        let Some(at) = self.writer(which) else { return };
        let handle = &self.kernel.handles[at];
        let (open, way, appends) = (Arc::clone(&handle.open), handle.way, handle.appends);
        if let (KernelWay::Passthrough(_), Some(body)) = (way, handle.body.clone()) {
            body.write_all_at(data, offset).unwrap();
            let mut view = self.view.clone();
            put(&mut view, offset, data);
            self.appended_to = None;
            self.kernel.cache.size = self.kernel.cache.size.max(offset + data.len() as u64);
            return self.changed(view);
        }
        let place = if appends { self.kernel.cache.size } else { offset };
        let is_first = self.dirty == Dirty::No;
        let went = self.table.write(&open, (!appends).then_some(place), data, 0).unwrap();
        let before = self.view.clone();
        if matches!(way, KernelWay::Cached { .. }) {
            self.kernel.cache.wrote(place, data, &before);
        }
        if appends {
            assert_eq!(went, before.len() as u64, "appended at the end of what this machine has");
            if is_first {
                self.appended_to = Some(before.len());
            }
        } else {
            self.appended_to = None;
        }
        let mut view = before;
        put(&mut view, went, data);
        self.changed(view);
        self.kernel.cache.size = self.kernel.cache.size.max(place + data.len() as u64);
        if went != place {
            self.kernel.cache.mix(&(place..place + data.len() as u64));
            self.table.pages_are_wrong(self.id);
            self.forget_pages();
        }
    }

    pub(super) fn read(&mut self, which: usize, range: Range<u64>) {
        let Some(at) = self.kernel.find(which, |_| true) else { return };
        let handle = &self.kernel.handles[at];
        let (open, body) = (Arc::clone(&handle.open), handle.body.clone());
        match handle.way {
            KernelWay::Cached { .. } => {
                self.fault(&open, &range);
            }
            KernelWay::Direct(_) => {
                let bytes = self.table.read(&open, range, SOON).unwrap();
                drop(bytes);
                self.observe();
            }
            KernelWay::Passthrough(_) => {
                let body = body.unwrap();
                let mut bytes = vec![0; body.metadata().unwrap().len() as usize];
                body.read_exact_at(&mut bytes, 0).unwrap();
                assert!(self.views.contains(&bytes), "what the kernel reads directly was never the file");
            }
        }
    }

    /// Has the kernel read the pages of a range that it does not have.
    pub(super) fn fault(&mut self, open: &Arc<OpenFile>, range: &Range<u64>) {
        for number in self.kernel.cache.lacks(range) {
            let start = self.kernel.cache.start_of(number);
            if start >= self.kernel.cache.size {
                continue;
            }
            let bytes = self.table.read(open, start..start + PAGE, SOON).unwrap().to_vec();
            self.observe();
            self.kernel.cache.has_read(number, bytes);
        }
    }

    /// A program stores into what it mapped.
    pub(super) fn store(&mut self, which: usize, page: u64, byte: u8) {
        let Some(at) = self.writer(which) else { return };
        let handle = &self.kernel.handles[at];
        let open = Arc::clone(&handle.open);
        match handle.way {
            KernelWay::Passthrough(_) => {}
            KernelWay::Direct(_) => self.store_in_body(at, page, byte),
            KernelWay::Cached { .. } if page * PAGE < self.kernel.cache.size => {
                self.fault(&open, &(page * PAGE..page * PAGE + 1));
                if let Some(page) = self.kernel.cache.pages.get_mut(&page) {
                    page.bytes[7] = byte;
                    (page.is_dirty, page.is_mixed) = (true, true);
                }
            }
            KernelWay::Cached { .. } => {}
        }
    }

    /// The mapping is of the body that other handles read directly.
    pub(super) fn store_in_body(&mut self, at: usize, page: u64, byte: u8) {
        let body = self.kernel.handles[at].body.clone().unwrap();
        let is_body = self.kernel.handles[at].open.state().body_name().is_some();
        let offset = page * PAGE + 7;
        if !is_body || offset >= body.metadata().unwrap().len() {
            return;
        }
        self.observe();
        if body.metadata().unwrap().len() != self.view.len() as u64 {
            // It is not what the file holds any more: the mapping is of a past version.
            return;
        }
        self.host.has_mapping.store(true, Ordering::Relaxed);
        body.write_all_at(&[byte], offset).unwrap();
        self.changes += 1;
        let moment = std::time::UNIX_EPOCH + Duration::from_secs(1_000_000_000 + self.changes);
        body.set_modified(moment).unwrap();
        let mut view = self.view.clone();
        put(&mut view, offset, &[byte]);
        self.changed(view);
        self.appended_to = None;
        self.dirty = Dirty::Perhaps;
    }

    pub(super) fn write_back(&mut self) {
        let Some(at) = self
            .kernel
            .find(0, |handle| handle.access == Access::Write && matches!(handle.way, KernelWay::Cached { .. }))
        else {
            return;
        };
        let open = Arc::clone(&self.kernel.handles[at].open);
        for (offset, bytes) in self.kernel.cache.take_dirty() {
            self.table.write(&open, Some(offset), &bytes, 0).unwrap();
            let mut view = self.view.clone();
            put(&mut view, offset, &bytes);
            self.appended_to = None;
            self.changed(view);
        }
    }

    pub(super) fn truncate(&mut self, size: u64, is_through_handle: bool) {
        if let Some(at) = self.writer(0).filter(|_| is_through_handle) {
            let open = Arc::clone(&self.kernel.handles[at].open);
            self.resize(&open, size);
            return self.look();
        }
        let inode = self.fake.inode(self.id).unwrap();
        let open = self.table.open_file(self.id, &inode, Access::Write);
        self.observe();
        self.resize(&open, size);
        if open.dirty_len() <= INLINE_COMMIT_MAX {
            self.commit(&open, WaitPolicy::None);
        }
        self.table.close_file(&open, Access::Write);
        self.look();
    }

    fn resize(&mut self, open: &Arc<OpenFile>, size: u64) {
        self.table.truncate(open, size, 0).unwrap();
        let mut view = self.view.clone();
        self.kernel.cache.extend(size, &view);
        view.resize(size as usize, 0);
        self.appended_to = None;
        self.changed(view);
        self.kernel.cache.resize(size);
    }

    pub(super) fn flush(&mut self, which: usize) {
        let Some(at) = self.writer(which) else { return };
        self.write_back();
        let open = Arc::clone(&self.kernel.handles[at].open);
        open.notice_mapped_writes();
        if open.is_only_emptied() || !open.is_dirty() {
            return;
        }
        if open.dirty_len() <= INLINE_COMMIT_MAX {
            return self.commit(&open, WaitPolicy::None);
        }
        if self.table.close_early(&open, 1 << 40) != EarlyClose::Noted {
            self.commit(&open, SOON);
        }
    }

    pub(super) fn close(&mut self, which: usize) {
        let Some(at) = self.kernel.find(which, |_| true) else { return };
        if self.kernel.handles[at].access == Access::Write {
            self.flush_handle(at);
        }
        let Handle { open, access, way, .. } = self.kernel.handles.remove(at);
        self.host.note_handles(&self.kernel);
        if access == Access::Write {
            open.notice_mapped_writes();
        }
        if self.table.kernel_close(&open, access, way).is_some() {
            self.served = None;
        }
        if self.was_watched {
            // What may have been stored counts as written at the end of the watch.
            self.check_stores();
        }
        let missed = self.table.catch_up(&open);
        self.table.close_file(&open, access);
        if missed {
            self.forget_pages();
        }
        self.observe();
        if access == Access::Write && open.is_dirty() && !self.table.is_closing(self.id) {
            self.commit(&open, SOON);
        }
    }

    pub(super) fn flush_handle(&mut self, at: usize) {
        let writers: Vec<usize> =
            (0..self.kernel.handles.len()).filter(|at| self.kernel.handles[*at].access == Access::Write).collect();
        if let Some(which) = writers.iter().position(|one| *one == at) {
            self.flush(which);
        }
    }

    pub(super) fn sync(&mut self, which: usize) {
        let Some(at) = self.writer(which) else { return };
        self.write_back();
        let open = Arc::clone(&self.kernel.handles[at].open);
        open.notice_mapped_writes();
        self.commit(&open, SOON);
        open.note_sync();
    }
}
