//! Files that the kernel knows.
//!
//! Locking order: the table, then a node's state; neither is held over a call or an answer to the kernel.

use crate::open_file::FileState;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use wayfs_fuse::Inode;
use wayfs_nfs::operations::Located;
use wayfs_nfs::{FileAttributes, Handle, Timestamp};

/// A name: its directory's number, and the name.
pub(crate) type Name = (u64, Vec<u8>);

/// Bounds on how long attributes are believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Believed {
    pub(crate) min: Duration,
    pub(crate) max: Duration,
}

/// A file.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) number: u64,
    pub(crate) state: Mutex<NodeState>,
    /// Writes of the file that were answered.
    pub(crate) changed: Condvar,
}

/// What is known of it.
#[derive(Debug)]
pub(crate) struct NodeState {
    pub(crate) handle: Handle,
    pub(crate) attributes: FileAttributes,
    /// How long they were believed last.
    believed: Duration,
    /// Of what version of the file the kernel has pages.
    pub(crate) pages_of: Option<(u64, Timestamp, Timestamp)>,
    /// Under which name it was looked up last.
    pub(crate) name: Option<Name>,
    names: BTreeSet<Name>,
    lookups: u64,
    pub(crate) opens: u32,
    /// Its name was removed while it was open: where it waits, to be removed when it is closed.
    pub(crate) silly: Option<Name>,
    pub(crate) file: FileState,
}

impl NodeState {
    /// Takes in attributes that a call brought; gives for how long they are to be believed. What did not change for long is believed
    /// for longer.
    pub(crate) fn learn(&mut self, attributes: FileAttributes, bounds: Believed) -> Duration {
        let is_same = version(&self.attributes) == version(&attributes);
        self.attributes = attributes;
        self.believed = if is_same { (self.believed * 2).clamp(bounds.min, bounds.max) } else { bounds.min };
        self.believed
    }

    /// The same from an answer to a write, which may have been overtaken by others.
    pub(crate) fn learn_late(&mut self, attributes: FileAttributes) {
        if is_same_file(&self.attributes, &attributes) && attributes.ctime >= self.attributes.ctime {
            self.attributes = attributes;
        }
    }
}

/// Whether two attributes can be of one file.
pub(crate) fn is_same_file(one: &FileAttributes, other: &FileAttributes) -> bool {
    (one.file_id, one.kind) == (other.file_id, other.kind)
}

/// By which it shows that a file was changed.
pub(crate) const fn version(attributes: &FileAttributes) -> (u64, Timestamp, Timestamp) {
    (attributes.size, attributes.mtime, attributes.ctime)
}

impl Node {
    pub(crate) fn lock(&self) -> MutexGuard<'_, NodeState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn handle(&self) -> Handle {
        self.lock().handle.clone()
    }

    pub(crate) const fn inode(&self) -> Inode {
        Inode::new(self.number)
    }
}

/// All files that the kernel or somebody's open file knows.
#[derive(Debug)]
pub(crate) struct Nodes {
    table: Mutex<Table>,
}

#[derive(Debug)]
struct Table {
    nodes: BTreeMap<u64, Arc<Node>>,
    by_handle: BTreeMap<Handle, u64>,
    by_name: BTreeMap<Name, u64>,
    next: u64,
}

impl Nodes {
    /// With the root, which is never forgotten.
    pub(crate) fn new(root: Located) -> Self {
        let nodes = Self {
            table: Mutex::new(Table {
                nodes: BTreeMap::new(),
                by_handle: BTreeMap::new(),
                by_name: BTreeMap::new(),
                next: Inode::ROOT.number(),
            }),
        };
        let root = nodes.add(root);
        root.lock().lookups = 1;
        nodes
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn find(&self, inode: Inode) -> Option<Arc<Node>> {
        self.table().nodes.get(&inode.number()).cloned()
    }

    pub(crate) fn by_name(&self, name: &Name) -> Option<Arc<Node>> {
        let table = self.table();
        table.by_name.get(name).and_then(|number| table.nodes.get(number)).cloned()
    }

    pub(crate) fn all(&self) -> Vec<Arc<Node>> {
        self.table().nodes.values().cloned().collect()
    }

    fn add(&self, found: Located) -> Arc<Node> {
        let mut table = self.table();
        let number = table.next;
        table.next += 1;
        let state = NodeState {
            handle: found.handle.clone(),
            attributes: found.attributes,
            believed: Duration::ZERO,
            pages_of: None,
            name: None,
            names: BTreeSet::new(),
            lookups: 0,
            opens: 0,
            silly: None,
            file: FileState::default(),
        };
        let node = Arc::new(Node { number, state: Mutex::new(state), changed: Condvar::new() });
        table.by_handle.insert(found.handle, number);
        table.nodes.insert(number, Arc::clone(&node));
        node
    }

    /// The node of a file that was found under a name; the kernel will know it once more.
    pub(crate) fn looked_up(&self, found: Located, name: Name) -> Arc<Node> {
        let known = {
            let table = self.table();
            table.by_handle.get(&found.handle).and_then(|number| table.nodes.get(number)).cloned()
        };
        // A handle that servers use again for another file is another file.
        let same = known.filter(|node| is_same_file(&node.lock().attributes, &found.attributes));
        let node = same.unwrap_or_else(|| self.add(found));
        let mut table = self.table();
        if let Some(other) = table.by_name.insert(name.clone(), node.number).filter(|other| *other != node.number)
            && let Some(other) = table.nodes.get(&other).cloned()
        {
            other.lock().names.remove(&name);
        }
        // It may have been forgotten between the two looks at the table.
        table.nodes.insert(node.number, Arc::clone(&node));
        let mut state = node.lock();
        table.by_handle.insert(state.handle.clone(), node.number);
        state.names.insert(name.clone());
        state.name = Some(name);
        state.lookups += 1;
        drop(state);
        node
    }

    /// A name leads nowhere any more.
    pub(crate) fn unname(&self, name: &Name) {
        let mut table = self.table();
        if let Some(node) = table.by_name.remove(name).and_then(|number| table.nodes.get(&number).cloned()) {
            let mut state = node.lock();
            state.names.remove(name);
            if state.name.as_ref() == Some(name) {
                state.name = state.names.first().cloned();
            }
        }
    }

    /// A file got another name.
    pub(crate) fn renamed(&self, from: &Name, to: &Name) {
        let node = self.by_name(from);
        self.unname(to);
        self.unname(from);
        if let Some(node) = node {
            self.table().by_name.insert(to.clone(), node.number);
            let mut state = node.lock();
            state.names.insert(to.clone());
            state.name = Some(to.clone());
        }
    }

    /// The server calls the same file by another handle now.
    pub(crate) fn rebind(&self, node: &Node, handle: &Handle) {
        let mut table = self.table();
        let mut state = node.lock();
        table.by_handle.remove(&state.handle);
        table.by_handle.insert(handle.clone(), node.number);
        state.handle = handle.clone();
    }

    /// The kernel knows it so many times less.
    pub(crate) fn forget(&self, inode: Inode, lookups: u64) {
        if let Some(node) = self.find(inode) {
            let mut state = node.lock();
            state.lookups = state.lookups.saturating_sub(lookups);
            drop(state);
            self.settle(&node);
        }
    }

    /// Drops a node that nobody needs any more.
    pub(crate) fn settle(&self, node: &Node) {
        let mut table = self.table();
        let state = node.lock();
        let is_root = node.number == Inode::ROOT.number();
        if is_root || state.lookups > 0 || state.opens > 0 || state.silly.is_some() || !state.file.behind.is_clean() {
            return;
        }
        for name in &state.names {
            if table.by_name.get(name) == Some(&node.number) {
                table.by_name.remove(name);
            }
        }
        if table.by_handle.get(&state.handle) == Some(&node.number) {
            table.by_handle.remove(&state.handle);
        }
        table.nodes.remove(&node.number);
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.table().nodes.len()
    }
}
