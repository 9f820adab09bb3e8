//! The kernel of a client, between its programs and its open files: pages that it keeps, sizes that it believes, mappings that programs
//! store into, and what it was told to forget and has not yet.
//!
//! Reads take the pages that are there. A page shows what the file was at some time since it was read; those that a new open keeps are of
//! the version that the open shows; and in the end, when all was told, a kernel shows what the home has.

use super::event::OpenEvent;
use super::handle::Handle;
use super::side::AT_ONCE;
use super::views::difference;
use crate::coverage::Branch;
use crate::world::World;
use rand::Rng;
use std::ops::Range;
use std::sync::Arc;
use wayfs_openfiles::kernel_way::KernelWay;
use wayfs_openfiles::{Access, OpenFile, Writes};
use wayfs_pagecache::PageCache;
use wayfs_types::{FileId, Inode};

impl World {
    pub(super) fn pages(&mut self, index: usize, file: FileId) -> Option<&mut PageCache> {
        let page_len = self.plan.open_files?.page_len;
        let kernel = &mut self.hosts[index].open.as_mut()?.kernel;
        Some(kernel.of_file.entry(file).or_insert_with(|| PageCache::new(page_len)))
    }

    /// Pages that the kernel has of a file are out of date: it hears of that soon.
    pub(super) fn tell_kernel(&mut self, index: usize, file: FileId) {
        let renewal = self.on_table(index, |table| table.pages_of_others(file));
        let (Some(renewal), Some(open)) = (renewal, self.hosts[index].open.as_mut()) else { return };
        open.kernel.told.push_back((file, renewal));
        let span = self.millis(0..=50);
        self.open_event_after(index, span, OpenEvent::Forget);
    }

    /// Commits may have made pages those of another version.
    pub(super) fn tell_kernel_of_wrong_pages(&mut self, index: usize) {
        while let Some(Some(file)) = self.on_table(index, |table| table.poll_wrong_pages()) {
            self.tell_kernel(index, file);
        }
    }

    /// It forgets the pages that it was told of first.
    pub(super) fn forget_pages(&mut self, index: usize) {
        let told = self.hosts[index].open.as_mut().and_then(|open| open.kernel.told.pop_front());
        let Some((file, renewal)) = told else { return };
        self.drop_pages(index, file);
        if let Some(pages) = self.pages(index, file) {
            pages.knows_size = false;
        }
        if let Some(renewal) = renewal {
            self.on_table(index, |table| table.pages_renewed(&renewal));
            self.cover(Branch::PagesForgotten);
        }
    }

    fn drop_pages(&mut self, index: usize, file: FileId) {
        self.write_back(index, file);
        if let Some(pages) = self.pages(index, file) {
            pages.drop_pages();
        }
        if let Some(view) = self.view(index, file) {
            view.forget_past();
        }
    }

    /// A program asks how long a file is: the kernel, too, believes the answer.
    pub(super) fn look_at_size(&mut self, index: usize, file: FileId) {
        let Some(inode) = self.inode(index, file) else { return };
        let overlay = self.on_table(index, |table| table.overlay(file));
        let Some(size) = overlay.map(|overlay| overlay.map_or(inode.content.size(), |overlay| overlay.size)) else {
            return;
        };
        let renewal = self.on_table(index, |table| table.pages_to_renew(file, inode.version));
        self.observe(index, file);
        if let Some(Some(renewal)) = renewal {
            self.drop_pages(index, file);
            self.on_table(index, |table| table.pages_renewed(&renewal));
            self.cover(Branch::PagesRenewedByAnswer);
        }
        if let Some(pages) = self.pages(index, file) {
            pages.resize(size);
            pages.knows_size = true;
        }
    }

    /// How the kernel reads through a new handle.
    pub(super) fn open_in_kernel(&mut self, index: usize, open: &OpenFile, access: Access) -> Option<KernelWay> {
        let file = open.id();
        let way = self.on_table(index, |table| table.kernel_open(open, access, Writes::ByRequest, &|_| None))?;
        if way == (KernelWay::Cached { keep: false }) {
            self.drop_pages(index, file);
        }
        self.check_kept_pages(index, open);
        Some(way)
    }

    fn check_kept_pages(&mut self, index: usize, open: &OpenFile) {
        let file = open.id();
        let Some(bytes) = self.shown_by(index, open) else { return };
        let Some(pages) = self.pages(index, file) else { return };
        let (count, old) = (pages.pages.len(), pages.clean().find(|number| !pages.agrees(&bytes, *number)));
        if count > 0 {
            self.cover(Branch::PagesKept);
        }
        if let Some(number) = old {
            self.violate("pages that an open keeps are of the file", format!("host {index}, {file}: page {number}"));
        }
    }

    /// What an open shows, be it that it lies elsewhere.
    fn shown_by(&mut self, index: usize, open: &OpenFile) -> Option<Vec<u8>> {
        let view = self.view(index, open.id())?;
        if !view.is_unknown {
            return Some(view.bytes.clone());
        }
        let is_first = self.hosts[index].open.as_ref()?.handles.iter().all(|handle| handle.file != open.id());
        let is_version = is_first && !open.is_dirty();
        is_version.then(|| self.engine_bytes(index, open.id())).flatten()
    }

    /// A read through the kernel, which takes the pages that it has.
    pub(super) fn read_pages(&mut self, index: usize, file: FileId, open: &Arc<OpenFile>, range: Range<u64>) {
        if self.pages(index, file).is_some_and(|pages| !pages.knows_size) {
            self.look_at_size(index, file);
        }
        if self.fault_pages(index, file, open, &range).is_none() {
            return;
        }
        let Some(pages) = self.hosts[index].open.as_ref().and_then(|open| open.kernel.of_file.get(&file)) else {
            return;
        };
        let Some(view) = self.hosts[index].open.as_ref().and_then(|open| open.views.get(&file)) else { return };
        let numbers = pages.numbers(&range);
        let is_known = |number: &u64| view.may_have_been(|bytes| pages.shows(bytes, *number));
        let strange = pages.clean().filter(|number| numbers.contains(number)).find(|number| !is_known(number));
        if let Some(number) = strange {
            let line = format!("host {index}, {file}: page {number} of {} bytes", pages.size);
            self.violate("a page shows what its file was", line);
        }
    }

    /// Has the kernel read the pages of a range that it does not have; `None`: it could not.
    fn fault_pages(&mut self, index: usize, file: FileId, open: &Arc<OpenFile>, range: &Range<u64>) -> Option<()> {
        for number in self.pages(index, file)?.lacks(range) {
            let pages = self.pages(index, file)?;
            let (start, end) = (pages.start_of(number), pages.start_of(number + 1));
            if start >= pages.size {
                continue;
            }
            let read = self.on_table(index, |table| table.read(open, start..end, AT_ONCE));
            self.observe(index, file);
            let bytes = read?.ok()?.to_vec();
            self.pages(index, file)?.has_read(number, bytes);
        }
        Some(())
    }

    /// A program stores into a page that it mapped.
    pub(super) fn store_in_page(&mut self, index: usize, file: FileId, open: &Arc<OpenFile>) {
        if self.pages(index, file).is_some_and(|pages| !pages.knows_size) {
            self.look_at_size(index, file);
        }
        let Some(size) = self.pages(index, file).map(|pages| pages.size).filter(|size| *size > 0) else { return };
        let at = self.random.random_range(0..size);
        if self.fault_pages(index, file, open, &(at..at + 1)).is_none() {
            return;
        }
        let byte = self.random.random();
        let Some(pages) = self.pages(index, file) else { return };
        let number = pages.numbers(&(at..at + 1)).start;
        let within = usize::try_from(at - pages.start_of(number)).unwrap_or(0);
        let Some(page) = pages.pages.get_mut(&number) else { return };
        page.bytes[within] = byte;
        (page.is_dirty, page.is_mixed) = (true, true);
        self.note(|| format!("host {index} stores a byte of {file} at {at} through a mapping"));
        let span = self.millis(0..=3000);
        self.open_event_after(index, span, OpenEvent::WriteBack(file));
    }

    /// The kernel sends what mappings stored.
    pub(super) fn write_back(&mut self, index: usize, file: FileId) {
        let Some(host) = self.hosts[index].open.as_ref() else { return };
        let is_fit = |handle: &&Handle| handle.file == file && handle.access == Access::Write;
        let Some(open) = host.handles.iter().find(is_fit).map(|handle| Arc::clone(&handle.open)) else { return };
        let dirty = self.pages(index, file).map(PageCache::take_dirty).unwrap_or_default();
        for (offset, bytes) in dirty {
            self.note(|| format!("host {index} writes {} bytes of {file} back at {offset}", bytes.len()));
            self.cover(Branch::PageWrittenBack);
            let is_sent = self.send_write(index, &open, Some(offset), &bytes).is_some();
            if let Some(host) = self.hosts[index].open.as_mut().filter(|_| !is_sent) {
                host.kernel.unwritten.insert(file);
            }
        }
    }

    /// The kernel drops an inode that nobody has open.
    pub(super) fn drop_inode(&mut self, index: usize, file: FileId) {
        let Some(host) = self.hosts[index].open.as_mut() else { return };
        if host.handles.iter().all(|handle| handle.file != file) {
            host.kernel.of_file.remove(&file);
            host.kernel.unwritten.remove(&file);
            self.on_table(index, |table| table.kernel_forgot(file));
        }
    }

    /// In the end a kernel that was told all shows what the file is.
    pub(super) fn check_kernel(&mut self, index: usize, file: FileId, inode: &Inode, wanted: &[u8]) {
        self.look_at_size(index, file);
        let Some(open) = self.on_table(index, |table| table.open_file(file, inode, Access::Read)) else { return };
        let Some(way) = self.open_in_kernel(index, &open, Access::Read) else { return };
        let is_whole = self.fault_pages(index, file, &open, &(0..u64::MAX)).is_some();
        // Of what could not be written back (a full disk) a kernel goes on showing what mappings stored (seed 180225704).
        let is_unwritten = self.hosts[index].open.as_ref().is_some_and(|host| host.kernel.unwritten.contains(&file));
        if let Some(pages) = self.pages(index, file).filter(|_| is_whole && !is_unwritten) {
            let size = pages.size;
            let shown: Vec<u8> = pages.pages.values().flat_map(|page| page.bytes.iter().copied()).collect();
            let shown = shown.get(..usize::try_from(size).unwrap_or(0)).unwrap_or(&shown);
            if shown != wanted {
                let line = format!("host {index}, {file}: {}", difference(wanted, shown));
                self.violate("in the end a kernel shows what a file is", line);
            }
        }
        self.on_table(index, |table| {
            table.kernel_close(&open, Access::Read, way);
            table.close_file(&open, Access::Read);
        });
    }
}
