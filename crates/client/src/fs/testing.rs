//! A file system without a kernel: over a replica in memory, with a front end that keeps what it is answered, and a model of the
//! caches that are told what is out of date.

use super::attributes::Attributes;
use super::data::WriteRequest;
use super::names::NewMode;
use super::opening::{NewFile, OpenRequest};
use super::reply::{Delivery, Reply, Respond, RespondWith};
use super::results::{Absent, CachedAttributes, Created, Entry, Opened, OpenedDirectory, Written};
use super::{
    Abilities, Caller, Credentials, Detail, DirectoryPage, Error, FileSystem, FileSystemSettings, HandleId, Interrupt,
    Kernel, LockOwner, NotRegistered, PageRequest, Taken, Token,
};
use crate::files::body::BodyFile;
use crate::files::kernel_way::BackingId;
use crate::files::{FileTable, HostDisk, TableSettings};
use crate::notices::{Caches, NoticeThreads, Notices};
use crate::toy::Toy;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use wayfs_types::{AttrVersion, Content, FileId, Inode, Kind, Name, OriginId, RecordId, WallTime};

/// After this an answer is taken not to come.
const PATIENCE: Duration = Duration::from_secs(20);
/// For so long an answer must not come that is waited for in vain.
const SILENCE: Duration = Duration::from_millis(150);

/// A file by a number.
pub(super) fn file(sequence: u64) -> FileId {
    FileId::made_by(RecordId::new(OriginId::new(7).unwrap(), sequence).unwrap())
}

/// A file without a name.
pub(super) fn inode(content: Content, version: RecordId) -> Inode {
    Inode {
        kind: Kind::File,
        mode: 0o644,
        uid: 1000,
        gid: 1000,
        content,
        version,
        attr_version: AttrVersion(version),
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

/// The front end's side of a reply: it hands on what it is answered.
pub(super) struct To<T>(Sender<Result<T, Error>>);

impl<T: Send + 'static> Respond for To<T> {
    fn refuse(self, error: Error) {
        let _ = self.0.send(Err(error));
    }
}

impl<T: Send + 'static> RespondWith<T> for To<T> {
    fn give(self, result: T) -> Delivery {
        match self.0.send(Ok(result)) {
            Ok(()) => Delivery::Delivered,
            Err(_) => Delivery::Gone,
        }
    }
}

/// What a look-up finds: an entry, or the time for which there may be taken to be none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    Entry(Entry),
    Absent(Duration),
}

impl RespondWith<Entry> for To<Found> {
    fn give(self, result: Entry) -> Delivery {
        self.give(Found::Entry(result))
    }
}

impl RespondWith<Absent> for To<Found> {
    fn give(self, result: Absent) -> Delivery {
        self.give(Found::Absent(result.ttl))
    }
}

/// An answer that is owed.
pub(super) struct Owed<T> {
    from: Receiver<Result<T, Error>>,
    pub(super) caller: Caller,
    interrupt: Arc<AtomicBool>,
}

impl<T> Owed<T> {
    /// The answer, which was given while the question was asked.
    pub(super) fn now(self) -> Result<T, Error> {
        self.from.try_recv().expect("it is answered at once")
    }

    /// The answer, which may take a while.
    pub(super) fn later(self) -> Result<T, Error> {
        self.from.recv_timeout(PATIENCE).expect("it is answered")
    }

    /// Whether it is still owed after a while.
    pub(super) fn waits(&self) -> bool {
        matches!(self.from.recv_timeout(SILENCE), Err(RecvTimeoutError::Timeout))
    }
}

/// What the model kernel was told to forget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Told {
    Attributes(FileId),
    Pages(FileId),
    Name(FileId, Name),
    Names,
}

/// A kernel that keeps what it is told, and has body files.
#[derive(Default)]
pub(super) struct ModelKernel {
    told: Mutex<Vec<Told>>,
    registered: Mutex<Vec<Option<File>>>,
    refuses: Mutex<Option<NotRegistered>>,
    asked: AtomicU64,
}

impl ModelKernel {
    pub(super) fn told(&self) -> Vec<Told> {
        self.told.lock().unwrap().clone()
    }

    /// From now on no body is taken.
    pub(super) fn refuse(&self, why: NotRegistered) {
        *self.refuses.lock().unwrap() = Some(why);
    }

    /// How often it was asked to take a body.
    pub(super) fn asked(&self) -> u64 {
        self.asked.load(Ordering::SeqCst)
    }

    /// The body behind a registration.
    pub(super) fn body(&self, backing: BackingId) -> File {
        let registered = self.registered.lock().unwrap();
        registered[backing.number() as usize].as_ref().expect("it is registered").try_clone().unwrap()
    }

    /// Bodies that it has.
    pub(super) fn registered(&self) -> usize {
        self.registered.lock().unwrap().iter().flatten().count()
    }

    fn note(&self, told: Told) {
        self.told.lock().unwrap().push(told);
    }
}

impl Caches for ModelKernel {
    fn forget_attributes(&self, file: FileId) {
        self.note(Told::Attributes(file));
    }

    fn forget_pages(&self, file: FileId) {
        self.note(Told::Pages(file));
    }

    fn expire_name(&self, parent: FileId, name: &Name) {
        self.note(Told::Name(parent, name.clone()));
    }

    fn expire_names(&self) {
        self.note(Told::Names);
    }
}

impl Kernel for ModelKernel {
    fn register(&self, body: &BodyFile) -> Result<BackingId, NotRegistered> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        if let Some(why) = *self.refuses.lock().unwrap() {
            return Err(why);
        }
        let mut registered = self.registered.lock().unwrap();
        registered.push(Some(body.descriptor().unwrap().try_clone_to_owned().unwrap().into()));
        Ok(BackingId::new(u32::try_from(registered.len() - 1).unwrap()))
    }

    fn unregister(&self, backing: BackingId) {
        self.registered.lock().unwrap()[backing.number() as usize] = None;
    }
}

/// A file system and all around it.
pub(super) struct Bench {
    pub(super) toy: Arc<Toy>,
    pub(super) fs: Arc<FileSystem>,
    pub(super) notices: Arc<Notices>,
    pub(super) kernel: Arc<ModelKernel>,
    tokens: AtomicU64,
    _told: NoticeThreads,
    _directory: tempfile::TempDir,
}

impl Bench {
    /// With a kernel that takes no files over.
    pub(super) fn new() -> Self {
        Self::with(Abilities::default())
    }

    pub(super) fn with(abilities: Abilities) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let toy = Arc::new(Toy::new());
        let table = TableSettings {
            disk: HostDisk::at(&directory.path().join("files"), 0),
            idle_len_max: 1 << 30,
            idle_count_max: 64,
            memory_max: crate::files::body::MEMORY_MAX,
            body_count_max: 512,
        };
        let files = Arc::new(FileTable::open(toy.clone(), table).unwrap());
        let notices = Arc::new(Notices::default());
        let settings = FileSystemSettings { free_min: 1 << 20, passthrough_room: 0, ..FileSystemSettings::default() };
        let fs = FileSystem::new(toy.clone(), files, Arc::clone(&notices), settings).unwrap();
        let kernel = Arc::new(ModelKernel::default());
        fs.begin(abilities, kernel.clone());
        let caches: Arc<dyn Caches> = kernel.clone();
        let told = notices.start(&caches).unwrap();
        Self { toy, fs, notices, kernel, tokens: AtomicU64::new(0), _told: told, _directory: directory }
    }

    /// Asks as root.
    pub(super) fn ask<T: Send + 'static>(&self, ask: impl FnOnce(&Arc<FileSystem>, &Caller, Reply<To<T>>)) -> Owed<T> {
        self.ask_as((0, 0), ask)
    }

    /// Asks as a user, from a thread.
    pub(super) fn ask_as<T: Send + 'static>(
        &self,
        (uid, pid): (u32, u32),
        ask: impl FnOnce(&Arc<FileSystem>, &Caller, Reply<To<T>>),
    ) -> Owed<T> {
        let (to, from) = channel();
        let interrupt = Arc::new(AtomicBool::new(false));
        let token = Token::new(self.tokens.fetch_add(1, Ordering::SeqCst) + 1);
        let flag = Interrupt::from(Arc::clone(&interrupt));
        let caller = self.fs.caller(Credentials { token, uid, gid: uid, pid, interrupt: flag });
        ask(&self.fs, &caller, self.fs.reply(To(to)));
        Owed { from, caller, interrupt }
    }

    /// Its caller gets a signal.
    pub(super) fn signal<T>(&self, owed: &Owed<T>) {
        owed.interrupt.store(true, Ordering::SeqCst);
        self.fs.signalled(owed.caller.token);
    }

    pub(super) fn lookup(&self, name: &str) -> Result<Found, Error> {
        self.ask(|fs, caller, reply| fs.lookup(caller, FileId::ROOT, OsStr::new(name), reply)).later()
    }

    /// A file that is there.
    pub(super) fn entry(&self, name: &str) -> Entry {
        match self.lookup(name) {
            Ok(Found::Entry(entry)) => entry,
            other => panic!("{name}: {other:?}"),
        }
    }

    pub(super) fn is_absent(&self, name: &str) -> bool {
        matches!(self.lookup(name), Ok(Found::Absent(_)))
    }

    pub(super) fn try_create(&self, name: &str, flags: i32) -> Result<Created, Error> {
        let new = NewFile { flags, mode: NewMode { asked: 0o644, umask: 0o022 } };
        self.ask(|fs, caller, reply| fs.create(caller, FileId::ROOT, OsStr::new(name), new, reply)).later()
    }

    /// Makes a file, open to be read and written.
    pub(super) fn create(&self, name: &str) -> Opened {
        self.try_create(name, libc::O_RDWR).unwrap().opened
    }

    pub(super) fn open(&self, file: FileId, flags: i32) -> Opened {
        let request = OpenRequest { flags, kill_suid_gid: false };
        self.ask(|fs, caller, reply| fs.open(caller, file, request, reply)).later().unwrap()
    }

    pub(super) fn write(&self, handle: HandleId, offset: u64, bytes: &[u8]) -> Result<usize, Error> {
        let request = WriteRequest { handle, offset, flags: libc::O_RDWR, kill_suid_gid: false, from_cache: false };
        self.ask(|fs, caller, reply| fs.write(caller, request, bytes, reply)).later().map(|Written(len)| len)
    }

    pub(super) fn read(&self, handle: HandleId, offset: u64, size: u32) -> Result<Bytes, Error> {
        self.ask(|fs, caller, reply| fs.read(caller, handle, offset, size, reply)).later()
    }

    /// Closes a handle: flush and release.
    pub(super) fn close(&self, handle: HandleId) {
        let owner = LockOwner::new(handle.number());
        self.ask(|fs, caller, reply| fs.flush(caller, handle, owner, reply)).later().unwrap();
        self.ask(|fs, _, reply| fs.release(handle, None, reply)).later().unwrap();
    }

    /// A file with these bytes, closed.
    pub(super) fn file(&self, name: &str, bytes: &[u8]) -> FileId {
        let opened = self.create(name);
        assert_eq!(self.write(opened.handle, 0, bytes), Ok(bytes.len()));
        self.close(opened.handle);
        self.entry(name).file
    }

    pub(super) fn attributes(&self, file: FileId) -> Attributes {
        let owed = self.ask(|fs, caller, reply| fs.attributes_of(caller, file, reply));
        let cached: CachedAttributes = owed.later().unwrap();
        cached.attributes
    }

    pub(super) fn open_directory(&self, directory: FileId) -> HandleId {
        let owed = self.ask(|fs, caller, reply| fs.open_directory(caller, directory, reply));
        let opened: OpenedDirectory = owed.later().unwrap();
        opened.handle
    }

    /// At most so many entries from an offset on, with the offset behind each.
    pub(super) fn page(&self, handle: HandleId, offset: u64, len: usize) -> Vec<Listed> {
        let request = PageRequest { offset, detail: Detail::Attributes };
        let page: DirectoryPage =
            self.ask(|fs, caller, reply| fs.list(caller, handle, request, reply)).later().unwrap();
        let mut listed = Vec::new();
        page.fill(|entry| {
            if listed.len() == len {
                return Taken::Full;
            }
            let name = entry.name.to_str().unwrap().to_owned();
            listed.push(Listed { name, next_offset: entry.next_offset, entry: entry.entry });
            Taken::Yes
        });
        listed
    }

    pub(super) fn unlink(&self, name: &str) -> Result<(), Error> {
        self.ask(|fs, caller, reply| fs.unlink(caller, FileId::ROOT, OsStr::new(name), reply)).later()
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.toy.set_far(false);
        self.fs.stop();
    }
}

/// An entry of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Listed {
    pub(super) name: String,
    pub(super) next_offset: u64,
    pub(super) entry: Option<Entry>,
}

/// Bytes of which no part is like another.
pub(super) fn noise(len: usize) -> Vec<u8> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..len).map(|_| next()).collect()
}
