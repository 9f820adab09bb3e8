//! Contents in memory, with a switch for what is far away.

use super::body::BodyFile;
use super::contents::{Contents, OldBase, Store, Stored, Wanted};
use super::host::Host;
use super::open_file::OpenFile;
use super::table::FileTable;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::time::Duration;
use wayfs_types::request::Change;
use wayfs_types::{Content, Digest, FileId, FsError, Inode, Kind, OriginId, Place, RecordId, Time, WallTime};

pub(crate) struct Fake {
    pub(crate) near: Mutex<BTreeMap<Digest, Bytes>>,
    pub(crate) far: Mutex<BTreeMap<Digest, Bytes>>,
    pub(crate) inodes: Mutex<BTreeMap<FileId, Inode>>,
    pub(crate) stores: Mutex<Vec<Store>>,
    pub(crate) refuse: Mutex<Option<FsError>>,
    pub(crate) is_cut_off: Mutex<bool>,
    /// Nothing becomes durable.
    pub(crate) is_disk_stuck: AtomicBool,
    pub(crate) sync_count: AtomicUsize,
    pub(crate) put_len: AtomicUsize,
    pub(crate) prefetched: Mutex<BTreeSet<Digest>>,
    /// Versions whose chunks were asked for.
    pub(crate) fetched: Mutex<BTreeSet<(FileId, RecordId)>>,
    /// What happens beside the next chunk that is kept, or, if none is, the next store.
    pub(crate) meanwhile: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    /// Done when somebody asks for the time: a write does between the body and the journal.
    pub(crate) at_clock: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    /// Files that programs of this machine removed: the engine stores nothing into them.
    pub(crate) removed_here: Mutex<BTreeSet<FileId>>,
    pub clock: AtomicI64,
    /// What is recorded would not survive a kill.
    pub(crate) is_unwritten: AtomicBool,
    /// Stores of which a kill takes nothing.
    pub(crate) written_stores: AtomicUsize,
    /// All files stand in exclusive directories.
    pub(crate) is_exclusive: AtomicBool,
    host: Arc<dyn Host>,
}

/// The machine that tests run on.
#[derive(Debug)]
struct ThisHost {
    start: std::time::Instant,
}

impl Host for ThisHost {
    fn now(&self) -> Time {
        Time::ZERO + self.start.elapsed()
    }

    fn is_held_elsewhere(&self, body: &BodyFile) -> bool {
        body.descriptor().is_some_and(|body| wayfs_fuse::is_held_elsewhere(body).unwrap_or(false))
    }
}

/// A body as a kernel has it.
pub(crate) fn host_file(body: &BodyFile) -> std::fs::File {
    body.descriptor().unwrap().try_clone_to_owned().unwrap().into()
}

/// Where the body of a file is.
pub(crate) fn body_path(table: &FileTable, open: &OpenFile) -> std::path::PathBuf {
    table.directory().join(open.state().body_name().unwrap())
}

pub(crate) fn record(sequence: u64) -> RecordId {
    RecordId::new(OriginId::new(7).unwrap(), sequence).unwrap()
}

pub(crate) fn file(sequence: u64) -> FileId {
    FileId::made_by(record(sequence))
}

pub(crate) fn inode(content: Content, version: RecordId) -> Inode {
    Inode {
        kind: Kind::File,
        mode: 0o644,
        uid: 1000,
        gid: 1000,
        content,
        version,
        attr_version: wayfs_types::AttrVersion(version),
        mtime: WallTime::EPOCH,
        ctime: WallTime::EPOCH,
        btime: WallTime::EPOCH,
        places: Vec::new(),
        removed_from: None,
        merged_into: None,
        subdirectories: 0,
        unlisted: 0,
        xattrs: BTreeMap::new(),
    }
}

impl Fake {
    pub(crate) fn new() -> Self {
        Self::on(Arc::new(ThisHost { start: std::time::Instant::now() }))
    }

    /// On a machine that is a model.
    pub(crate) fn on(host: Arc<dyn Host>) -> Self {
        Self {
            near: Mutex::default(),
            far: Mutex::default(),
            inodes: Mutex::default(),
            stores: Mutex::default(),
            refuse: Mutex::default(),
            is_cut_off: Mutex::default(),
            is_disk_stuck: AtomicBool::new(false),
            sync_count: AtomicUsize::new(0),
            put_len: AtomicUsize::new(0),
            prefetched: Mutex::default(),
            fetched: Mutex::default(),
            meanwhile: Mutex::default(),
            at_clock: Mutex::default(),
            removed_here: Mutex::default(),
            clock: AtomicI64::new(0),
            is_unwritten: AtomicBool::new(false),
            written_stores: AtomicUsize::new(0),
            is_exclusive: AtomicBool::new(false),
            host,
        }
    }

    /// A file with these bytes, whose chunks are here.
    pub(crate) fn make(&self, id: FileId, bytes: &[u8]) -> Inode {
        let mut sink = wayfs_content::MemorySink::default();
        let content = wayfs_content::build(&Bytes::copy_from_slice(bytes), &mut sink).unwrap();
        self.near.lock().unwrap().extend(sink.chunks);
        let made = inode(content, id.maker());
        self.inodes.lock().unwrap().insert(id, made.clone());
        made
    }

    /// Makes a file what it was, or what it will be.
    pub(crate) fn put(&self, id: FileId, inode: Inode) {
        self.inodes.lock().unwrap().insert(id, inode);
    }

    /// Leaves of a file what the tree leaves of a removed one; answers what it was.
    pub(crate) fn mark_removed(&self, id: FileId) -> Inode {
        let place = Place { parent: FileId::ROOT, name: "gone".try_into().unwrap() };
        let mut inodes = self.inodes.lock().unwrap();
        let inode = inodes.get_mut(&id).unwrap();
        let marker = Inode { content: Content::EMPTY, removed_from: Some(place), ..inode.clone() };
        std::mem::replace(inode, marker)
    }

    fn happen(&self) {
        let meanwhile = self.meanwhile.lock().unwrap().take();
        if let Some(meanwhile) = meanwhile {
            meanwhile();
        }
    }

    /// Brings what was asked for ahead; answers how many chunks.
    pub(crate) fn bring_ahead(&self) -> usize {
        let asked = std::mem::take(&mut *self.prefetched.lock().unwrap());
        let far = self.far.lock().unwrap();
        self.near.lock().unwrap().extend(asked.iter().map(|digest| (*digest, far[digest].clone())));
        asked.len()
    }

    /// Moves all chunks away.
    pub(crate) fn send_away(&self) {
        let near = std::mem::take(&mut *self.near.lock().unwrap());
        self.far.lock().unwrap().extend(near);
    }

    /// The bytes of the file as a fresh reader would see them.
    pub(crate) fn bytes_of(&self, id: FileId) -> Vec<u8> {
        let content = self.inodes.lock().unwrap()[&id].content.clone();
        self.bytes_in(&content)
    }

    /// The bytes of a content.
    pub(crate) fn bytes_in(&self, content: &Content) -> Vec<u8> {
        if let Content::Inline(bytes) = content {
            return bytes.to_vec();
        }
        let find = |digest: &Digest| {
            let near = self.near.lock().unwrap().get(digest).cloned();
            near.or_else(|| self.far.lock().unwrap().get(digest).cloned())
        };
        let reader = wayfs_content::ContentReader::new(content, &find).unwrap();
        let spans: Vec<_> = reader.spans(0..content.size()).collect::<Result<_, _>>().unwrap();
        spans.iter().flat_map(|span| find(&span.digest).unwrap().slice(span.within.clone())).collect()
    }
}

impl Contents for Fake {
    fn chunk(&self, digest: &Digest) -> Result<Option<Bytes>, FsError> {
        Ok(self.near.lock().unwrap().get(digest).cloned())
    }

    fn has(&self, digest: &Digest) -> bool {
        self.near.lock().unwrap().contains_key(digest)
    }

    fn fetch(&self, wanted: Wanted, _patience: Duration) -> Result<(), FsError> {
        if *self.is_cut_off.lock().unwrap() {
            return Err(FsError::Unreachable);
        }
        self.fetched.lock().unwrap().insert((wanted.file, wanted.version));
        for digest in wanted.digests {
            let bytes = self.far.lock().unwrap().get(&digest).cloned().ok_or(FsError::Unreachable)?;
            self.near.lock().unwrap().insert(digest, bytes);
        }
        Ok(())
    }

    fn window(&self) -> u64 {
        0
    }

    fn prefetch(&self, wanted: Wanted) {
        self.prefetched.lock().unwrap().extend(wanted.digests);
    }

    fn put(&self, digest: Digest, bytes: Bytes) -> Result<(), FsError> {
        if let Some(error) = *self.refuse.lock().unwrap() {
            return Err(error);
        }
        self.happen();
        self.put_len.fetch_add(bytes.len(), Ordering::Relaxed);
        self.near.lock().unwrap().insert(digest, bytes);
        Ok(())
    }

    fn inode(&self, file: FileId) -> Option<Arc<Inode>> {
        self.inodes.lock().unwrap().get(&file).cloned().map(Arc::new)
    }

    fn store(&self, store: Store) -> Result<Stored, FsError> {
        if let Some(error) = *self.refuse.lock().unwrap() {
            return Err(error);
        }
        self.happen();
        if self.removed_here.lock().unwrap().contains(&store.file) {
            return Err(FsError::Stale);
        }
        let mut stores = self.stores.lock().unwrap();
        let record = record(1_000_000 + stores.len() as u64);
        let mut inodes = self.inodes.lock().unwrap();
        let inode = inodes.get_mut(&store.file).ok_or(FsError::NotFound)?;
        if inode.version != store.base && store.old_base == OldBase::IsRefused {
            return Err(FsError::Changed);
        }
        if inode.version == store.base {
            inode.version = record;
            inode.content = store.content.clone();
            inode.mtime = store.mtime;
            inode.removed_from = None;
        }
        let inode = Arc::new(inode.clone());
        stores.push(store);
        if !self.is_unwritten.load(Ordering::Relaxed) {
            self.written_stores.store(stores.len(), Ordering::Relaxed);
        }
        Ok(Stored { record, inode })
    }

    fn change(&self, _user: u32, change: Change) -> Result<(), FsError> {
        let mut inodes = self.inodes.lock().unwrap();
        match change {
            Change::SetAttr { file, change } => {
                let inode = inodes.get_mut(&file).ok_or(FsError::NotFound)?;
                inode.mode = change.mode.unwrap_or(inode.mode);
            }
            Change::SetXattr { file, name, value: Some(value), .. } => {
                inodes.get_mut(&file).ok_or(FsError::NotFound)?.xattrs.insert(name, value);
            }
            other => panic!("no change of attributes: {other:?}"),
        }
        Ok(())
    }

    fn sync(&self) -> Result<(), FsError> {
        self.sync_count.fetch_add(1, Ordering::Relaxed);
        if self.is_disk_stuck.load(Ordering::Relaxed) {
            return Err(FsError::TimedOut);
        }
        self.refuse.lock().unwrap().map_or(Ok(()), Err)
    }

    fn is_ordered_by_home(&self, _file: FileId) -> bool {
        self.is_exclusive.load(Ordering::Relaxed)
    }

    fn last_record(&self) -> Option<RecordId> {
        Some(record(999_999 + self.written_stores.load(Ordering::Relaxed) as u64))
    }

    fn recorded(&self) -> u64 {
        1 + self.stores.lock().unwrap().len() as u64
    }

    fn written(&self) -> u64 {
        if self.is_unwritten.load(Ordering::Relaxed) { 0 } else { u64::MAX }
    }

    fn host(&self) -> Arc<dyn Host> {
        Arc::clone(&self.host)
    }

    fn now(&self) -> WallTime {
        let at_clock = self.at_clock.lock().unwrap().take();
        if let Some(at_clock) = at_clock {
            at_clock();
        }
        WallTime::from_nanos(self.clock.fetch_add(1, Ordering::Relaxed))
    }
}
