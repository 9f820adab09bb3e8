//! The inodes that the kernel knows.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::Stat;

use super::files::Backing;
use crate::{Errno, Inode};

/// One inode of the host.
#[derive(Debug)]
pub(super) struct Node {
    /// An `O_PATH` descriptor.
    pub(super) fd: OwnedFd,
    /// Device and inode number on the host.
    host: (u64, u64),
    /// How often the kernel was told of it and has not forgotten. Changed under the table's lock.
    lookups: AtomicU64,
    /// The passthrough registration that its open handles share.
    pub(super) backing: Mutex<Option<Backing>>,
}

/// All of them. The lock is a leaf.
#[derive(Debug)]
pub(super) struct Inodes {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    nodes: HashMap<Inode, Arc<Node>>,
    by_host: HashMap<(u64, u64), Inode>,
    next: u64,
}

impl Inodes {
    pub(super) fn new(root: OwnedFd) -> std::io::Result<Self> {
        let stat = rustix::fs::fstat(&root)?;
        let host = (stat.st_dev, stat.st_ino);
        let root = Node { fd: root, host, lookups: AtomicU64::new(1), backing: Mutex::default() };
        Ok(Self {
            state: Mutex::new(State {
                nodes: HashMap::from([(Inode::ROOT, Arc::new(root))]),
                by_host: HashMap::from([(host, Inode::ROOT)]),
                next: Inode::ROOT.number() + 1,
            }),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn len(&self) -> usize {
        self.state().nodes.len()
    }

    /// The inode of this number.
    ///
    /// # Errors
    /// ESTALE for a number that the kernel should not know.
    pub(super) fn node(&self, inode: Inode) -> Result<Arc<Node>, Errno> {
        self.state().nodes.get(&inode).cloned().ok_or(Errno::STALE)
    }

    /// Counts one more lookup of the host's file behind `fd`, which is dropped if the file is known.
    pub(super) fn look_up(&self, fd: OwnedFd, stat: &Stat) -> Inode {
        let host = (stat.st_dev, stat.st_ino);
        let mut state = self.state();
        if let Some(&inode) = state.by_host.get(&host) {
            state.nodes[&inode].lookups.fetch_add(1, Ordering::Relaxed);
            return inode;
        }
        let inode = Inode::new(state.next);
        state.next += 1;
        let node = Node { fd, host, lookups: AtomicU64::new(1), backing: Mutex::default() };
        state.nodes.insert(inode, Arc::new(node));
        state.by_host.insert(host, inode);
        inode
    }

    /// Takes lookups back; the last one lets the file go.
    pub(super) fn forget(&self, inode: Inode, lookups: u64) {
        if inode == Inode::ROOT || inode == Inode::NONE {
            return;
        }
        let mut state = self.state();
        let Some(node) = state.nodes.get(&inode) else { return };
        let left = node.lookups.load(Ordering::Relaxed).saturating_sub(lookups);
        node.lookups.store(left, Ordering::Relaxed);
        if left == 0 {
            let host = node.host;
            let gone = state.nodes.remove(&inode);
            state.by_host.remove(&host);
            drop(state);
            // Closing may be slow, so it happens outside the lock.
            drop(gone);
        }
    }
}
