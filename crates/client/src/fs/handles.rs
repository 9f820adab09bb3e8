//! Handles that the kernel has.

use super::ids::HandleId;
use crate::files::kernel_way::KernelWay;
use crate::files::{Access, OpenFile};
use crate::fs::listing::Listing;
use crate::fs::write_pattern::Kind;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// An open file as one handle sees it.
pub struct OpenHandle {
    /// The file.
    pub file: Arc<OpenFile>,
    /// What it may do.
    pub access: Access,
    /// How the kernel reads and writes through it.
    pub way: KernelWay,
    /// What it is like, if it was made or emptied by its open to be written.
    pub kind: Option<Kind>,
    /// The program that opened it, if it may be copying it.
    pub copier: Option<u32>,
}

/// A handle.
#[derive(Clone)]
pub enum Handle {
    /// Of a file.
    File(Arc<OpenHandle>),
    /// Of a directory.
    Directory(Arc<Listing>),
}

/// All handles.
#[derive(Default)]
pub struct Handles {
    next: AtomicU64,
    open: RwLock<HashMap<HandleId, Handle>>,
}

impl Handles {
    /// Takes one in.
    pub fn insert(&self, handle: Handle) -> HandleId {
        let number = HandleId::new(self.next.fetch_add(1, Ordering::Relaxed) + 1);
        self.open.write().unwrap_or_else(PoisonError::into_inner).insert(number, handle);
        number
    }

    /// The file behind a handle.
    pub fn file(&self, handle: HandleId) -> Option<Arc<OpenHandle>> {
        match self.open.read().unwrap_or_else(PoisonError::into_inner).get(&handle)? {
            Handle::File(open) => Some(Arc::clone(open)),
            Handle::Directory(_) => None,
        }
    }

    /// The listing behind a handle.
    pub fn directory(&self, handle: HandleId) -> Option<Arc<Listing>> {
        match self.open.read().unwrap_or_else(PoisonError::into_inner).get(&handle)? {
            Handle::Directory(listing) => Some(Arc::clone(listing)),
            Handle::File(_) => None,
        }
    }

    /// Lets one go.
    pub fn remove(&self, handle: HandleId) -> Option<Handle> {
        self.open.write().unwrap_or_else(PoisonError::into_inner).remove(&handle)
    }

    /// How many are open.
    pub fn count(&self) -> usize {
        self.open.read().unwrap_or_else(PoisonError::into_inner).len()
    }
}
