//! The file system behind the mount: what all its parts need.

use crate::asker::Asker;
use crate::fail::Fail;
use crate::listing::OpenDirectory;
use crate::nodes::{Believed, Name, Node, Nodes, is_same_file, version};
use crate::open_file::OpenFile;
use crate::settings::Caching;
use crate::users::{Users, Waiter};
use crate::workers::Workers;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use wayfs_fuse::{Attributes, Entry, Errno, FileHandle, Inode, Timestamp};
use wayfs_nfs::live::SharedCaller;
use wayfs_nfs::operations::{self, Asked, Located, Mark};
use wayfs_nfs::rpc::Credentials;
use wayfs_nfs::{FileAttributes, FileKind, Handle, Status};

/// So many directories are looked up again at most to find a file whose handle the server forgot.
const DEPTH_MAX: u32 = 64;

/// Asks for the root of the export again.
pub(crate) type FindRoot = Box<dyn Fn() -> Option<Handle> + Send + Sync>;

/// The file system.
pub(crate) struct Vfs {
    pub(crate) caller: SharedCaller,
    pub(crate) nodes: Nodes,
    pub(crate) users: Users,
    pub(crate) caching: Caching,
    pub(crate) workers: Workers,
    /// Ends every wait.
    pub(crate) is_ending: AtomicBool,
    pub(crate) own: Arc<Credentials>,
    pub(crate) find_root: FindRoot,
    pub(crate) files: Mutex<BTreeMap<u64, Arc<OpenFile>>>,
    pub(crate) directories: Mutex<BTreeMap<u64, Arc<Mutex<OpenDirectory>>>>,
    pub(crate) without_plus: AtomicBool,
    /// Bytes that were dropped because the server refused them, or because the mount was ended by force.
    pub(crate) lost: AtomicU64,
    next: AtomicU64,
}

/// What a file system is made from.
pub(crate) struct Parts {
    pub(crate) caller: SharedCaller,
    pub(crate) root: Located,
    pub(crate) users: Users,
    pub(crate) caching: Caching,
    pub(crate) own: Credentials,
    pub(crate) find_root: FindRoot,
}

impl Vfs {
    pub(crate) fn new(parts: Parts) -> Self {
        let Parts { caller, root, users, caching, own, find_root } = parts;
        Self {
            caller,
            nodes: Nodes::new(root),
            users,
            caching,
            workers: Workers::new(),
            is_ending: AtomicBool::new(false),
            own: Arc::new(own),
            find_root,
            files: Mutex::default(),
            directories: Mutex::default(),
            without_plus: AtomicBool::new(false),
            lost: AtomicU64::new(0),
            next: AtomicU64::new(1),
        }
    }

    /// Makes calls in somebody's name.
    pub(crate) fn asker(&self, who: Arc<Credentials>, waiter: Waiter) -> Asker<'_> {
        Asker { caller: &self.caller, who, waiter, is_ending: &self.is_ending }
    }

    pub(crate) fn node(&self, inode: Inode) -> Result<Arc<Node>, Fail> {
        self.nodes.find(inode).ok_or(Fail(Errno::STALE))
    }

    pub(crate) fn next_handle(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn files(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<OpenFile>>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn file(&self, handle: FileHandle) -> Result<Arc<OpenFile>, Fail> {
        self.files().get(&handle.number()).cloned().ok_or(Fail(Errno::BADF))
    }

    /// Carries out something on a file; if the server does not know its handle any more, it is looked for once.
    pub(crate) fn on<'a, T>(
        &self,
        asker: &mut Asker<'a>,
        node: &Node,
        mut operation: impl FnMut(&mut Asker<'a>, &Handle) -> Asked<T, Asker<'a>>,
    ) -> Result<T, Fail> {
        let handle = node.handle();
        match operation(asker, &handle)? {
            Err(status) if is_stale(status) => match self.look_again(asker, node, DEPTH_MAX)? {
                Some(handle) => Ok(operation(asker, &handle)??),
                None => Err(Fail(Errno::STALE)),
            },
            other => Ok(other?),
        }
    }

    /// Looks for a file whose handle is stale under the name that it had: `None` if it is not there, or still has this handle.
    pub(crate) fn look_again(&self, asker: &mut Asker<'_>, node: &Node, depth: u32) -> Result<Option<Handle>, Fail> {
        let (old, name, attributes) = {
            let state = node.lock();
            (state.handle.clone(), state.silly.clone().or_else(|| state.name.clone()), state.attributes)
        };
        if node.number == Inode::ROOT.number() {
            let found = (self.find_root)().filter(|root| *root != old);
            if let Some(root) = &found {
                self.nodes.rebind(node, root);
            }
            return Ok(found);
        }
        let Some((parent, name)) = name else { return Ok(None) };
        let Some(parent) = self.nodes.find(Inode::new(parent)) else { return Ok(None) };
        let look = |asker: &mut Asker<'_>, directory: &Handle| {
            operations::lookup(asker, wayfs_nfs::calls::Place { directory, name: &name })
        };
        let found = match look(asker, &parent.handle())? {
            Err(status) if is_stale(status) && depth > 0 => match self.look_again(asker, &parent, depth - 1)? {
                Some(directory) => look(asker, &directory)?,
                None => Err(status),
            },
            other => other,
        };
        let is_same = |found: &Located| is_same_file(&found.attributes, &attributes) && found.handle != old;
        match found {
            Ok(found) if is_same(&found) => {
                self.nodes.rebind(node, &found.handle);
                Ok(Some(found.handle))
            }
            _ => Ok(None),
        }
    }

    /// Attributes as programs see them: what was written here and is on its way counts.
    pub(crate) fn shown(&self, node: &Node) -> Attributes {
        let state = node.lock();
        let mut attributes = to_fuse(&state.attributes);
        if !state.file.behind.is_clean() {
            attributes.size = attributes.size.max(state.file.behind.end());
        }
        if state.file.behind.has_unwritten()
            && let Some(at) = state.file.written_at
        {
            (attributes.mtime, attributes.ctime) = (time(at), time(at));
        }
        attributes
    }

    pub(crate) fn believed(&self, kind: FileKind) -> Believed {
        match kind {
            FileKind::Directory => self.caching.directories,
            _ => self.caching.files,
        }
    }

    /// Takes in attributes that were asked for; gives how long they hold.
    ///
    /// A handle under which the server shows another file than before is stale: the kernel would never use the file again if it
    /// became a directory under its hands.
    pub(crate) fn learn(&self, node: &Node, attributes: FileAttributes) -> Result<Duration, Fail> {
        let mut state = node.lock();
        if !is_same_file(&state.attributes, &attributes) {
            tracing::warn!(file = state.attributes.file_id, now = attributes.file_id, "a handle leads to another file");
            return Err(Fail(Errno::STALE));
        }
        Ok(state.learn(attributes, self.believed(attributes.kind)))
    }

    /// An entry for the kernel, which then knows the file once more.
    pub(crate) fn entry(&self, found: Located, name: Name) -> (Arc<Node>, Entry) {
        let attributes = found.attributes;
        let node = self.nodes.looked_up(found, name);
        // The table found the node by these attributes.
        let ttl = node.lock().learn(attributes, self.believed(attributes.kind));
        let entry = Entry {
            inode: node.inode(),
            generation: 0,
            entry_ttl: self.caching.names,
            attributes_ttl: ttl,
            attributes: self.shown(&node),
        };
        (node, entry)
    }

    /// Whether the kernel may keep the pages that it has of a file that is opened; from here on it has those of this version.
    pub(crate) fn may_keep_pages(&self, node: &Node) -> bool {
        let mut state = node.lock();
        let present = Some(version(&state.attributes));
        std::mem::replace(&mut state.pages_of, present) == present
    }
}

/// A mark that nobody uses twice.
pub(crate) fn fresh_mark() -> Mark {
    let nanoseconds = random() % 1_000_000_000;
    Mark(wayfs_nfs::Timestamp { nanoseconds, ..crate::open_file::now() })
}

/// A number that others do not guess; a kernel without any leaves the time.
pub(crate) fn random() -> u32 {
    rand::TryRngCore::try_next_u32(&mut rand::rngs::OsRng).unwrap_or_else(|_| crate::open_file::now().nanoseconds)
}

/// The server does not know the file, or what we take for its handle.
pub(crate) fn is_stale(status: Status) -> bool {
    status == Status::STALE || status.number() == 10_001
}

pub(crate) fn time(at: wayfs_nfs::Timestamp) -> Timestamp {
    Timestamp { seconds: at.seconds.into(), nanoseconds: at.nanoseconds }
}

/// What the kernel takes for a preferred size of input and output.
const BLOCK_SIZE: u32 = 64 * 1024;

pub(crate) fn to_fuse(attributes: &FileAttributes) -> Attributes {
    let (major, minor) = attributes.device;
    Attributes {
        inode: Inode::new(attributes.file_id),
        // The kernel never uses a file again that claims to be larger than files can be.
        size: attributes.size.min(i64::MAX as u64),
        blocks: attributes.used.div_ceil(512),
        atime: time(attributes.atime),
        mtime: time(attributes.mtime),
        ctime: time(attributes.ctime),
        btime: None,
        mode: kind_of(attributes.kind).mode_bits() | attributes.mode,
        links: attributes.links,
        uid: attributes.uid,
        gid: attributes.gid,
        // As the kernel packs device numbers: 12 bits of major, 20 of minor.
        device: (minor & 0xff) | ((major & 0xfff) << 8) | ((minor & 0xf_ff00) << 12),
        block_size: BLOCK_SIZE,
    }
}

pub(crate) const fn kind_of(kind: FileKind) -> wayfs_fuse::FileKind {
    match kind {
        FileKind::Regular => wayfs_fuse::FileKind::Regular,
        FileKind::Directory => wayfs_fuse::FileKind::Directory,
        FileKind::BlockDevice => wayfs_fuse::FileKind::BlockDevice,
        FileKind::CharacterDevice => wayfs_fuse::FileKind::CharacterDevice,
        FileKind::Symlink => wayfs_fuse::FileKind::Symlink,
        FileKind::Socket => wayfs_fuse::FileKind::Socket,
        FileKind::Pipe => wayfs_fuse::FileKind::Pipe,
    }
}
