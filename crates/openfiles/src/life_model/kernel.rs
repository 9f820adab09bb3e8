//! What a kernel has of one file: its pages and its size, its handles, and what it was told to forget.

use crate::body::BodyFile;
use crate::host::Host;
use crate::kernel_way::KernelWay;
use crate::{Access, OpenFile, Renewal};
use std::collections::VecDeque;
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use wayfs_pagecache::PageCache;
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

/// An open of a program.
pub(super) struct Handle {
    pub(super) open: Arc<OpenFile>,
    pub(super) access: Access,
    pub(super) way: KernelWay,
    /// What it reads or maps without a request.
    pub(super) body: Option<Arc<File>>,
    pub(super) appends: bool,
}

pub(super) struct Kernel {
    pub(super) cache: PageCache,
    pub(super) handles: Vec<Handle>,
    /// What it was told to forget and has not yet.
    pub(super) told: VecDeque<Option<Renewal>>,
}

impl Default for Kernel {
    fn default() -> Self {
        Self { cache: PageCache::new(PAGE), handles: Vec::new(), told: VecDeque::new() }
    }
}

impl Kernel {
    pub(super) fn find(&self, which: usize, is_fit: impl Fn(&Handle) -> bool) -> Option<usize> {
        let fit: Vec<usize> = (0..self.handles.len()).filter(|at| is_fit(&self.handles[*at])).collect();
        (!fit.is_empty()).then(|| fit[which % fit.len()])
    }
}
