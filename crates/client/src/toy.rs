//! A replica without neighbours, in memory, for tests of the mount alone.

use crate::engine::{Callback, Engine};
use crate::files::host::Host;
use crate::files::{Contents, Store, Stored, Wanted};
use crate::this_host::ThisHost;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;
use wayfs_proto::Keeping;
use wayfs_types::request::{
    Answer, Change, Level, LockRequest, Outcome, Removed, RenameTarget, Request, RequestId, XattrPresence,
};
use wayfs_types::{
    AttrChange, Content, Digest, Fact, Facts, FileId, FsError, Inode, Kind, Name, OriginId, Place, RecordId,
    StorageError, WallTime,
};

#[derive(Default)]
pub(crate) struct Toy {
    state: Mutex<State>,
    /// What happens between the next look at a file's attributes and their being told.
    meanwhile: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    before_rename: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    chunks: Mutex<BTreeMap<Digest, Bytes>>,
    distance: Distance,
}

/// Whether chunks are on this machine, or come when the test says so.
#[derive(Default)]
struct Distance {
    is_far: Mutex<bool>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    sequence: u64,
    inodes: BTreeMap<FileId, Inode>,
    entries: BTreeMap<(FileId, Name), FileId>,
    locks: Vec<LockRequest>,
    waiting: BTreeMap<RequestId, (LockRequest, Callback)>,
    stores: u64,
    next_request: u64,
    is_offline: bool,
    /// How long the kernel may keep names; `None`: as of a volume that is relaxed.
    keeping: Option<Keeping>,
    asked: u64,
    unvouched: u64,
}

fn set_attr(inode: &mut Inode, change: &AttrChange, id: RecordId) {
    inode.mode = change.mode.unwrap_or(inode.mode);
    inode.uid = change.uid.unwrap_or(inode.uid);
    inode.gid = change.gid.unwrap_or(inode.gid);
    inode.mtime = change.mtime.unwrap_or(inode.mtime);
    inode.attr_version = wayfs_types::AttrVersion(id);
    inode.ctime = now();
}

fn blank(kind: Kind, id: RecordId, now: WallTime) -> Inode {
    Inode {
        kind,
        mode: 0o755,
        uid: 0,
        gid: 0,
        content: Content::EMPTY,
        version: id,
        attr_version: wayfs_types::AttrVersion(id),
        mtime: now,
        ctime: now,
        btime: now,
        places: Vec::new(),
        removed_from: None,
        merged_into: None,
        subdirectories: 0,
        unlisted: 0,
        xattrs: BTreeMap::new(),
    }
}

fn now() -> WallTime {
    wayfs_node::clock::wall()
}

impl State {
    fn next(&mut self) -> RecordId {
        self.sequence += 1;
        RecordId::new(OriginId::new(1).unwrap(), self.sequence).unwrap()
    }

    fn inode(&mut self, file: FileId) -> Result<&mut Inode, FsError> {
        self.inodes.get_mut(&file).filter(|inode| !inode.is_removed()).ok_or(FsError::NotFound)
    }

    fn entry(&self, parent: FileId, name: &Name) -> Result<FileId, FsError> {
        self.entries.get(&(parent, name.clone())).copied().ok_or(FsError::NotFound)
    }

    fn touch(&mut self, parent: FileId) {
        if let Some(inode) = self.inodes.get_mut(&parent) {
            inode.mtime = now();
            inode.ctime = inode.mtime;
        }
    }

    fn make(&mut self, place: Place, mut inode: Inode, id: RecordId) -> Result<(FileId, Option<Removed>), FsError> {
        if self.entry(place.parent, &place.name).is_ok() {
            return Err(FsError::Exists);
        }
        self.inode(place.parent)?;
        let file = FileId::made_by(id);
        if inode.is_directory() {
            self.inode(place.parent)?.subdirectories += 1;
        }
        inode.places = vec![place.clone()];
        self.inodes.insert(file, inode);
        self.entries.insert((place.parent, place.name), file);
        self.touch(place.parent);
        Ok((file, None))
    }

    fn take(&mut self, parent: FileId, name: &Name) -> Option<Removed> {
        let file = self.entries.remove(&(parent, name.clone()))?;
        self.touch(parent);
        let inode = self.inodes.get_mut(&file)?;
        let last = Inode { places: Vec::new(), ..inode.clone() };
        inode.places.retain(|place| place.parent != parent || place.name != *name);
        inode.ctime = now();
        if inode.is_directory() {
            self.inodes.get_mut(&parent)?.subdirectories -= 1;
            return None;
        }
        if inode.places.is_empty() {
            // As the tree does it: the marker keeps nothing that costs room.
            inode.removed_from = Some(Place { parent, name: name.clone() });
            inode.content = Content::EMPTY;
            if let Kind::Symlink(target) = &mut inode.kind {
                target.clear();
            }
            return Some(Removed { file, inode: Arc::new(last) });
        }
        None
    }

    fn is_empty(&self, directory: FileId) -> bool {
        !self.entries.keys().any(|(parent, _)| *parent == directory)
    }

    fn change(&mut self, change: Change) -> Result<(FileId, Option<Removed>, RecordId), FsError> {
        let id = self.next();
        let outcome = match change {
            Change::Create { parent, name, kind, mode, uid, gid } => {
                let inode = Inode { mode, uid, gid, ..blank(kind, id, now()) };
                self.make(Place { parent, name }, inode, id)?
            }
            Change::Publish { parent, name, mode, uid, gid, content } => {
                let inode = Inode { mode, uid, gid, content, ..blank(Kind::File, id, now()) };
                self.make(Place { parent, name }, inode, id)?
            }
            Change::Mkdir { parent, name, mode, uid, gid } => {
                let inode = Inode { mode, uid, gid, ..blank(Kind::Directory, id, now()) };
                self.make(Place { parent, name }, inode, id)?
            }
            Change::Link { file, parent, name } => {
                if self.entry(parent, &name).is_ok() {
                    return Err(FsError::Exists);
                }
                self.inode(file)?.places.push(Place { parent, name: name.clone() });
                self.entries.insert((parent, name), file);
                self.touch(parent);
                (file, None)
            }
            Change::Unlink { parent, name } => {
                let file = self.entry(parent, &name)?;
                if self.inode(file)?.is_directory() {
                    return Err(FsError::IsDirectory);
                }
                (file, self.take(parent, &name))
            }
            Change::Rmdir { parent, name } => {
                let file = self.entry(parent, &name)?;
                if !self.is_empty(file) {
                    return Err(FsError::NotEmpty);
                }
                self.take(parent, &name);
                (file, None)
            }
            Change::Rename { from_parent, from_name, to_parent, to_name, target } => {
                self.rename((from_parent, from_name), (to_parent, to_name), target)?
            }
            Change::SetAttr { file, change } => {
                set_attr(self.inode(file)?, &change, id);
                (file, None)
            }
            Change::SetXattr { file, name, value, presence } => {
                let xattrs = &mut self.inode(file)?.xattrs;
                match (xattrs.contains_key(&name), presence) {
                    (true, XattrPresence::MustBeNew) => return Err(FsError::Exists),
                    (false, XattrPresence::MustExist) => return Err(FsError::NoAttribute),
                    _ => {}
                }
                match value {
                    Some(value) => xattrs.insert(name, value),
                    None => xattrs.remove(&name),
                };
                (file, None)
            }
            Change::Store { file, content, mtime, .. } | Change::Append { file, content, mtime, .. } => {
                self.stores += 1;
                let inode = self.inode(file)?;
                (inode.content, inode.mtime, inode.ctime, inode.version) = (content, mtime, mtime, id);
                (file, None)
            }
            Change::Resolve { .. } => return Err(FsError::NotFound),
        };
        Ok((outcome.0, outcome.1, id))
    }

    fn rename(
        &mut self,
        from: (FileId, Name),
        to: (FileId, Name),
        target: RenameTarget,
    ) -> Result<(FileId, Option<Removed>), FsError> {
        let file = self.entry(from.0, &from.1)?;
        let mut removed = None;
        if let Ok(old) = self.entry(to.0, &to.1) {
            if target == RenameTarget::MustBeFree {
                return Err(FsError::Exists);
            }
            if old == file {
                return Ok((file, None));
            }
            if target == RenameTarget::Exchange {
                return self.exchange((file, from), (old, to));
            }
            if self.inode(old)?.is_directory() && !self.is_empty(old) {
                return Err(FsError::NotEmpty);
            }
            removed = self.take(to.0, &to.1);
        }
        self.entries.remove(&from);
        self.entries.insert(to.clone(), file);
        let is_directory = self.inode(file)?.is_directory();
        let place = Place { parent: to.0, name: to.1 };
        let inode = self.inode(file)?;
        inode.places.retain(|old| old.parent != from.0 || old.name != from.1);
        inode.places.push(place);
        inode.ctime = now();
        if is_directory {
            self.inode(from.0)?.subdirectories -= 1;
            self.inode(to.0)?.subdirectories += 1;
        }
        self.touch(from.0);
        self.touch(to.0);
        Ok((file, removed))
    }

    fn exchange(
        &mut self,
        one: (FileId, (FileId, Name)),
        other: (FileId, (FileId, Name)),
    ) -> Result<(FileId, Option<Removed>), FsError> {
        for ((file, from), (_, to)) in [(&one, &other), (&other, &one)] {
            self.entries.insert(to.clone(), *file);
            let inode = self.inode(*file)?;
            inode.places.retain(|place| (place.parent, &place.name) != (from.0, &from.1));
            inode.places.push(Place { parent: to.0, name: to.1.clone() });
            inode.ctime = now();
            if inode.is_directory() {
                self.inode(from.0)?.subdirectories -= 1;
                self.inode(to.0)?.subdirectories += 1;
            }
            self.touch(from.0);
        }
        Ok((one.0, None))
    }

    fn blocker(&self, wish: &LockRequest) -> Option<LockRequest> {
        let stands_in = |held: &&LockRequest| {
            held.file == wish.file
                && held.family == wish.family
                && held.owner != wish.owner
                && held.range.start <= wish.range.end
                && wish.range.start <= held.range.end
                && (held.kind == wayfs_types::request::LockKind::Write
                    || wish.kind == wayfs_types::request::LockKind::Write)
        };
        self.locks.iter().find(stands_in).copied()
    }

    fn answer(&mut self, request: Request) -> Outcome {
        match request {
            Request::Lookup { parent, name } => {
                let file = self.entry(parent, &name)?;
                Ok(Answer::File(file, Arc::new(self.inode(file)?.clone())))
            }
            Request::Attributes { file } => Ok(Answer::File(file, Arc::new(self.inode(file)?.clone()))),
            Request::List { directory, after, limit } => {
                self.inode(directory)?;
                let found: Vec<_> = self
                    .entries
                    .iter()
                    .filter(|((parent, name), _)| {
                        *parent == directory && after.as_ref().is_none_or(|after| name > after)
                    })
                    .take(limit)
                    .map(|((_, name), file)| (name.clone(), *file, Arc::new(self.inodes[file].clone())))
                    .collect();
                let end = found.len() < limit;
                Ok(Answer::List { entries: found, end })
            }
            Request::Change { change, .. } => {
                let (file, removed, record) = self.change(change)?;
                Ok(Answer::Changed { record, file, inode: Arc::new(self.inodes[&file].clone()), removed })
            }
            Request::Wait { .. } => Ok(Answer::Reached),
            Request::Refresh => Ok(Answer::Done),
            Request::Facts { versions } => {
                let safe = Facts { safe: Fact::Holds(None), ..Facts::default() };
                Ok(Answer::Facts(vec![safe; versions.len()]))
            }
            Request::TestLock(wish) => Ok(Answer::Lock(self.blocker(&wish))),
            Request::Lock(wish) => match self.blocker(&wish) {
                Some(_) => Err(FsError::Locked),
                None => {
                    self.locks.push(wish);
                    Ok(Answer::Done)
                }
            },
            Request::Unlock { file, family, owner, .. } => {
                self.locks.retain(|held| held.file != file || held.family != family || held.owner != owner);
                Ok(Answer::Done)
            }
        }
    }
}

impl Toy {
    pub(crate) fn new() -> Self {
        let toy = Self::default();
        let root = blank(Kind::Directory, RecordId::GENESIS, now());
        toy.state().inodes.insert(FileId::ROOT, root);
        toy
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Has something happen after the replica knows the answer to the next question for attributes, before it tells it.
    pub(crate) fn meanwhile(&self, happens: impl FnOnce() + Send + 'static) {
        *self.meanwhile.lock().unwrap() = Some(Box::new(happens));
    }

    /// Has something happen right before the replica renames next.
    pub(crate) fn before_rename(&self, happens: impl FnOnce() + Send + 'static) {
        *self.before_rename.lock().unwrap() = Some(Box::new(happens));
    }

    /// Exchanges two names in the root behind the mount's back.
    pub(crate) fn exchange_behind(&self, one: &str, other: &str) {
        let name = |text: &str| Name::try_from(text).unwrap();
        let (from_parent, to_parent, target) = (FileId::ROOT, FileId::ROOT, RenameTarget::Exchange);
        let change = Change::Rename { from_parent, from_name: name(one), to_parent, to_name: name(other), target };
        self.state().change(change).unwrap();
    }

    /// Stores so far.
    pub(crate) fn stores(&self) -> u64 {
        self.state().stores
    }

    /// A file in the root.
    pub(crate) fn find(&self, name: &str) -> FileId {
        self.state().entry(FileId::ROOT, &Name::try_from(name).unwrap()).unwrap()
    }

    /// What the newest store of a file holds.
    pub(crate) fn bytes_of(&self, name: &str) -> Vec<u8> {
        let file = self.find(name);
        let content = self.state().inodes[&file].content.clone();
        if let Content::Inline(bytes) = &content {
            return bytes.to_vec();
        }
        let chunks = self.chunks.lock().unwrap();
        let find = |digest: &Digest| chunks.get(digest).cloned();
        let reader = wayfs_content::ContentReader::new(&content, &find).unwrap();
        let spans: Vec<_> = reader.spans(0..content.size()).collect::<Result<_, _>>().unwrap();
        spans.iter().flat_map(|span| find(&span.digest).unwrap().slice(span.within.clone())).collect()
    }

    /// Changes a file behind the mount's back.
    pub(crate) fn change_behind(&self, name: &str, bytes: &[u8]) -> FileId {
        let mut state = self.state();
        let file = state.entry(FileId::ROOT, &Name::try_from(name).unwrap()).unwrap();
        let content = wayfs_content::build(&Bytes::copy_from_slice(bytes), &mut Sink(self)).unwrap();
        let change = Change::Store { file, base: RecordId::GENESIS, content, mtime: now() };
        state.change(change).unwrap();
        file
    }

    /// Undoes a removal from the root behind the mount's back.
    pub(crate) fn bring_back(&self, name: &str, file: FileId, bytes: &[u8]) {
        let place = Place { parent: FileId::ROOT, name: Name::try_from(name).unwrap() };
        let mut state = self.state();
        state.entries.insert((place.parent, place.name.clone()), file);
        let inode = state.inodes.get_mut(&file).unwrap();
        (inode.places, inode.removed_from) = (vec![place], None);
        drop(state);
        self.change_behind(name, bytes);
    }

    /// From now on whoever wants bytes waits for them, until they come.
    pub(crate) fn set_far(&self, is_far: bool) {
        *self.distance.is_far.lock().unwrap() = is_far;
        self.distance.changed.notify_all();
    }

    /// How many questions there were.
    pub(crate) fn asked(&self) -> u64 {
        self.state().asked
    }

    /// Removes a file behind the mount's back.
    pub(crate) fn remove_behind(&self, name: &str) {
        let unlink = Change::Unlink { parent: FileId::ROOT, name: Name::try_from(name).unwrap() };
        self.state().change(unlink).unwrap();
    }

    /// From now on nobody vouches for what is answered, or somebody does again.
    pub(crate) fn set_offline(&self, is_offline: bool) {
        self.state().is_offline = is_offline;
    }

    /// From now on the kernel may keep what it is told of directories as long as that.
    pub(crate) fn set_keeping(&self, keeping: Keeping) {
        self.state().keeping = Some(keeping);
    }

    /// Makes a file, or something else that is no directory, behind the mount's back.
    pub(crate) fn make_behind(&self, name: &str, kind: Kind) {
        let create = Change::Create {
            parent: FileId::ROOT,
            name: Name::try_from(name).unwrap(),
            kind,
            mode: 0o644,
            uid: 0,
            gid: 0,
        };
        self.state().change(create).unwrap();
    }
}

struct Sink<'a>(&'a Toy);

impl wayfs_content::ChunkSink for Sink<'_> {
    type Error = FsError;
    fn put(&mut self, digest: Digest, bytes: Bytes) -> Result<(), FsError> {
        Contents::put(self.0, digest, bytes)
    }
}

impl Engine for Toy {
    fn submit(&self, request: Request, _timeout: Duration, callback: Callback) -> Option<RequestId> {
        if matches!(&request, Request::Change { change: Change::Rename { .. }, .. }) {
            let happens = self.before_rename.lock().unwrap().take();
            happens.into_iter().for_each(|happens| happens());
        }
        let mut state = self.state();
        if let Request::Lock(wish) = &request
            && wish.wait
            && state.blocker(wish).is_some()
        {
            state.next_request += 1;
            let id = RequestId(state.next_request);
            state.waiting.insert(id, (*wish, callback));
            return Some(id);
        }
        let is_look = matches!(request, Request::Attributes { .. });
        state.asked += 1;
        state.unvouched += u64::from(state.is_offline);
        let outcome = state.answer(request);
        let free: Vec<RequestId> = state
            .waiting
            .iter()
            .filter(|(_, (wish, _))| state.blocker(wish).is_none())
            .map(|(id, _)| *id)
            .take(1)
            .collect();
        let mut woken: Vec<Callback> = Vec::new();
        for id in free {
            if let Some((wish, callback)) = state.waiting.remove(&id) {
                state.locks.push(wish);
                woken.push(callback);
            }
        }
        drop(state);
        let meanwhile = if is_look { self.meanwhile.lock().unwrap().take() } else { None };
        if let Some(happens) = meanwhile {
            happens();
        }
        callback(outcome);
        for callback in woken {
            callback(Ok(Answer::Done));
        }
        None
    }

    fn request(&self, request: Request, _timeout: Duration) -> Outcome {
        self.state().answer(request)
    }

    fn cancel(&self, id: RequestId) {
        let waiting = self.state().waiting.remove(&id);
        if let Some((_, callback)) = waiting {
            callback(Err(FsError::Interrupted));
        }
    }

    fn inode(&self, file: FileId) -> Option<Arc<Inode>> {
        self.state().inodes.get(&file).cloned().map(Arc::new)
    }

    fn changes(&self) -> u64 {
        self.state().sequence
    }

    fn unvouched(&self) -> u64 {
        self.state().unvouched
    }

    fn is_vouched_for(&self) -> bool {
        !self.state().is_offline
    }

    fn keeping(&self, _directory: FileId) -> Keeping {
        self.state().keeping.unwrap_or(Keeping::Relaxed)
    }

    fn is_close_to_open(&self) -> bool {
        false
    }

    fn sync(&self, _timeout: Duration) -> Result<(), StorageError> {
        Ok(())
    }

    fn is_connected(&self) -> bool {
        true
    }

    fn origin(&self) -> OriginId {
        OriginId::new(1).unwrap()
    }

    fn attribute(&self, _file: FileId, _what: &str) -> Option<String> {
        None
    }

    fn level(&self, _file: FileId) -> Option<Level> {
        Some(Level::Safe)
    }
}

impl Contents for Toy {
    fn chunk(&self, digest: &Digest) -> Result<Option<Bytes>, FsError> {
        let is_far = *self.distance.is_far.lock().unwrap();
        Ok(self.chunks.lock().unwrap().get(digest).filter(|_| !is_far).cloned())
    }

    fn has(&self, digest: &Digest) -> bool {
        !*self.distance.is_far.lock().unwrap() && self.chunks.lock().unwrap().contains_key(digest)
    }

    fn fetch(&self, _wanted: Wanted, patience: Duration) -> Result<(), FsError> {
        let is_far = self.distance.is_far.lock().unwrap();
        if !*is_far {
            return Err(FsError::Unreachable);
        }
        let is_far = self.distance.changed.wait_timeout_while(is_far, patience, |is_far| *is_far).unwrap().0;
        if *is_far { Err(FsError::Unreachable) } else { Ok(()) }
    }

    fn window(&self) -> u64 {
        0
    }

    fn prefetch(&self, _wanted: Wanted) {}

    fn put(&self, digest: Digest, bytes: Bytes) -> Result<(), FsError> {
        self.chunks.lock().unwrap().insert(digest, bytes);
        Ok(())
    }

    fn inode(&self, file: FileId) -> Option<Arc<Inode>> {
        Engine::inode(self, file)
    }

    fn store(&self, store: Store) -> Result<Stored, FsError> {
        let Store { file, base, content, mtime, .. } = store;
        let mut state = self.state();
        let (_, _, record) = state.change(Change::Store { file, base, content, mtime })?;
        Ok(Stored { record, inode: Arc::new(state.inodes[&file].clone()) })
    }

    fn change(&self, _user: u32, change: Change) -> Result<(), FsError> {
        self.state().change(change).map(|_| ())
    }

    fn last_record(&self) -> Option<RecordId> {
        None
    }

    fn sync(&self) -> Result<(), FsError> {
        Ok(())
    }

    fn now(&self) -> WallTime {
        now()
    }

    fn host(&self) -> Arc<dyn Host> {
        Arc::new(ThisHost)
    }
}
