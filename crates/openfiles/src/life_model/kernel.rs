//! A model of what a kernel keeps of one file: its pages, its size, its handles, and what it was told to forget.
//!
//! It does what Linux does with FUSE without a write-back cache: writes go through, pages that a mapping stored into are written
//! back late, whole, and from the version that they were read from.

use crate::body::BodyFile;
use crate::host::Host;
use crate::kernel_way::KernelWay;
use crate::{Access, OpenFile, Renewal};
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use wayfs_types::Time;

/// Length of a page. It is longer than a real one, so that a file has few.
pub(super) const PAGE: u64 = 16 << 10;

/// A machine whose clock stands still until it is turned.
#[derive(Debug, Default)]
pub(super) struct ModelHost {
    micros: AtomicU64,
    /// A program has a body mapped.
    pub(super) has_mapping: AtomicBool,
    /// The kernel has it for a handle.
    has_handle: AtomicBool,
}

impl ModelHost {
    pub(super) fn turn(&self, by: Duration) {
        self.micros.fetch_add(by.as_micros() as u64, Ordering::Relaxed);
    }

    /// The kernel has these handles.
    pub(super) fn note_handles(&self, kernel: &Kernel) {
        let has_one = kernel.handles.iter().any(|handle| handle.body.is_some());
        self.has_handle.store(has_one, Ordering::Relaxed);
    }
}

impl Host for ModelHost {
    fn now(&self) -> Time {
        Time::from_micros(self.micros.load(Ordering::Relaxed))
    }

    fn is_held_elsewhere(&self, _body: &BodyFile) -> bool {
        self.has_mapping.load(Ordering::Relaxed) || self.has_handle.load(Ordering::Relaxed)
    }
}

#[derive(Debug, Clone)]
pub(super) struct Page {
    pub(super) bytes: Vec<u8>,
    pub(super) is_dirty: bool,
    /// Written in part while it was of another version than the file: the kernel is about to be told to forget it.
    pub(super) is_mixed: bool,
}

/// An open of a program.
pub(super) struct Handle {
    pub(super) open: Arc<OpenFile>,
    pub(super) access: Access,
    pub(super) way: KernelWay,
    /// What it reads or maps without a request.
    pub(super) body: Option<Arc<File>>,
    pub(super) appends: bool,
}

#[derive(Default)]
pub(super) struct Kernel {
    pub(super) pages: BTreeMap<u64, Page>,
    pub(super) size: u64,
    /// It was told nothing since it asked for the length.
    pub(super) knows_attributes: bool,
    pub(super) handles: Vec<Handle>,
    /// What it was told to forget and has not yet.
    pub(super) told: VecDeque<Option<Renewal>>,
}

impl Kernel {
    /// Numbers of the pages of a range.
    pub(super) fn numbers(range: &Range<u64>) -> Range<u64> {
        range.start / PAGE..range.end.div_ceil(PAGE)
    }

    /// Drops what it has; dirty pages were written back before.
    pub(super) fn drop_pages(&mut self) {
        self.pages.clear();
    }

    /// The file is so long, as far as it knows: what was beyond is zeros if it grows again.
    pub(super) fn resize(&mut self, size: u64) {
        if size < self.size {
            self.pages.retain(|number, _| number * PAGE < size);
            let within = (size % PAGE) as usize;
            if let Some(last) = self.pages.get_mut(&(size / PAGE)) {
                last.bytes[within..].fill(0);
            }
        }
        self.size = size;
    }

    /// Bytes that were sent are in its pages, too, as far as it has them whole. `is_of_view` says of which pages what they had
    /// before is what the file had.
    pub(super) fn wrote(&mut self, offset: u64, data: &[u8], is_of_view: impl Fn(u64, &[u8]) -> bool) {
        let end = offset + data.len() as u64;
        for number in Self::numbers(&(offset..end)) {
            let start = number * PAGE;
            let (from, until) = (offset.max(start), end.min(start + PAGE));
            let part = &data[(from - offset) as usize..(until - offset) as usize];
            if until - from == PAGE {
                self.pages.insert(number, Page { bytes: part.to_vec(), is_dirty: false, is_mixed: false });
            } else if let Some(page) = self.pages.get_mut(&number) {
                page.is_mixed |= !is_of_view(number, &page.bytes);
                page.bytes[(from - start) as usize..(until - start) as usize].copy_from_slice(part);
            }
        }
        self.extend(end, &is_of_view);
    }

    /// The file is at least so long by its own doing.
    pub(super) fn extend(&mut self, size: u64, is_of_view: impl Fn(u64, &[u8]) -> bool) {
        let last = self.size / PAGE;
        if size <= self.size {
            return;
        }
        if let Some(page) = self.pages.get_mut(&last) {
            page.is_mixed |= !is_of_view(last, &page.bytes);
        }
        self.size = size;
    }

    /// It has bytes where the file does not have them.
    pub(super) fn mix(&mut self, range: &Range<u64>) {
        for number in Self::numbers(range) {
            if let Some(page) = self.pages.get_mut(&number) {
                page.is_mixed = true;
            }
        }
    }

    /// Pages that a mapping stored into, with what of them is within the file.
    pub(super) fn take_dirty(&mut self) -> Vec<(u64, Vec<u8>)> {
        let size = self.size;
        let mut dirty = Vec::new();
        for (number, page) in self.pages.iter_mut().filter(|(_, page)| page.is_dirty) {
            page.is_dirty = false;
            let len = size.saturating_sub(number * PAGE).min(PAGE) as usize;
            dirty.push((number * PAGE, page.bytes[..len].to_vec()));
        }
        dirty
    }

    pub(super) fn find(&self, which: usize, is_fit: impl Fn(&Handle) -> bool) -> Option<usize> {
        let fit: Vec<usize> = (0..self.handles.len()).filter(|at| is_fit(&self.handles[*at])).collect();
        (!fit.is_empty()).then(|| fit[which % fit.len()])
    }
}
