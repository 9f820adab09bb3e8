//! The replica and its contents, live: a volume behind the mount's two seams.

use crate::engine::{Callback, Engine};
use crate::events::Events;
use crate::files::host::Host;
use crate::files::{Contents, OldBase, Store, Stored, Wanted};
use crate::live_ahead::LiveAhead;
use crate::this_host::ThisHost;
use crate::vain::Vain;
use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use wayfs_node::LiveReplica;
use wayfs_node::{ContentsError, FetchError, Volume};
use wayfs_proto::{Holder, Keeping};
use wayfs_types::request::{Answer, Change, Level, LockFamily, LockOwner, Outcome, Request, RequestId};
use wayfs_types::{Digest, Fact, Facts, FileId, FsError, Inode, OriginId, Place, RecordId, StorageError, WallTime};

/// Most chunks asked for ahead: twice as many as a line has under way. Past it, reading ahead would only delay who waits.
const PREFETCH_MAX: usize = 128;
/// Longest silence in which a read-ahead goes on.
const PREFETCH_TIMEOUT: Duration = Duration::from_secs(20);
/// Longest wait for the engine to take a store. It answers at once unless it forgot the file.
const STORE_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest wait for the disk of this machine.
const SYNC_TIMEOUT: Duration = Duration::from_secs(30);
/// A wait for bytes that is not to be had twice.
const LONG_WAIT: Duration = Duration::from_secs(5);
/// Longest chain of ids that mean another file.
const ALIASES_MAX: usize = 8;
/// Conflicts looked through for one file.
const CONFLICTS_MAX: usize = 1000;

/// A volume as engine and contents.
pub struct Live {
    volume: Arc<Volume>,
    events: Arc<Events>,
    /// Chunks asked for ahead that are not here yet.
    prefetching: Arc<AtomicUsize>,
    pub(crate) ahead: Arc<LiveAhead>,
    vain: Vain,
}

impl Live {
    /// What a reader is told of chunks that did not come.
    fn fetch_failed(&self, wanted: &Wanted, error: &FetchError) -> FsError {
        let Wanted { file, version, .. } = wanted;
        if self.volume.look(|replica| replica.is_lost(*version)).is_some_and(|lost| lost == Ok(true)) {
            tracing::error!(%file, %version, "read fails: nobody has these bytes any more (`wayfs info`, `wayfs conflicts list`)");
            return FsError::Io;
        }
        fetch_error(error)
    }

    /// Over a volume; what becomes of changes is told there.
    pub fn new(volume: Arc<Volume>, events: Arc<Events>) -> Arc<Self> {
        let ahead = LiveAhead::new(Arc::clone(&volume));
        Arc::new(Self { volume, events, prefetching: Arc::default(), ahead, vain: Vain::default() })
    }
}

/// Has the way of a change told.
fn follow(events: &Events, outcome: &Outcome) {
    if let Ok(Answer::Changed { record, file, inode, .. }) = outcome {
        events.follow(*record, *file, inode.content.size());
    }
}

impl Engine for Live {
    fn make_room(&self, free: u64) -> bool {
        self.volume.make_room(free)
    }

    fn room_above(&self) -> Option<(wayfs_proto::Room, u64)> {
        self.volume.look(wayfs_proto::Replica::room_on_the_way).flatten()
    }

    fn has_quota_for(&self, file: FileId, size: u64) -> bool {
        self.volume.has_quota_for(file, size)
    }

    fn submit(&self, request: Request, timeout: Duration, callback: Callback) -> Option<RequestId> {
        if !matches!(request, Request::Change { .. }) || !self.events.is_heard() {
            return self.volume.submit(request, timeout, callback);
        }
        let events = Arc::clone(&self.events);
        let followed = Box::new(move |outcome: Outcome| {
            follow(&events, &outcome);
            callback(outcome);
        });
        self.volume.submit(request, timeout, followed)
    }

    fn request(&self, request: Request, timeout: Duration) -> Outcome {
        let outcome = self.volume.request(request, timeout);
        follow(&self.events, &outcome);
        outcome
    }

    fn cancel(&self, id: RequestId) {
        self.volume.cancel(id);
    }

    fn inode(&self, file: FileId) -> Option<Arc<Inode>> {
        let mut at = file;
        for _ in 0..ALIASES_MAX {
            match self.volume.look(|replica| replica.inode(at))? {
                Ok(None) => return None,
                Ok(Some(inode)) => match inode.merged_into {
                    Some(next) => at = next,
                    None => return Some(inode),
                },
                Err(error) => {
                    tracing::error!(%file, %error, "read an inode");
                    return None;
                }
            }
        }
        None
    }

    fn names(&self, file: FileId) -> Vec<Place> {
        self.volume.look(|replica| replica.names_of(file)).and_then(Result::ok).unwrap_or_default()
    }

    fn has_name(&self, file: FileId, inode: &Inode, place: &Place) -> bool {
        self.volume.look(|replica| replica.has_name(file, inode, place)).and_then(Result::ok).unwrap_or(false)
    }

    fn changes(&self) -> u64 {
        self.volume.commits()
    }

    fn unvouched(&self) -> u64 {
        self.volume.unvouched()
    }

    fn is_vouched_for(&self) -> bool {
        self.volume.look(LiveReplica::is_trusted).unwrap_or(false)
    }

    fn keeping(&self, directory: FileId) -> Keeping {
        self.volume.look(|replica| replica.keeping(directory)).unwrap_or(Keeping::No)
    }

    fn is_close_to_open(&self) -> bool {
        self.volume.look(LiveReplica::is_close_to_open).unwrap_or(false)
    }

    fn lost_locks(&self, file: FileId) -> Vec<(LockFamily, LockOwner)> {
        self.volume.look(|replica| replica.lost_locks(file)).unwrap_or_default()
    }

    fn is_exclusive(&self, file: FileId) -> bool {
        // What cannot be read is shown as what others may change at any moment.
        self.volume.look(|replica| replica.is_the_homes(file)).is_some_and(|is_the_homes| is_the_homes.unwrap_or(true))
    }

    fn sync(&self, timeout: Duration) -> Result<(), StorageError> {
        self.volume.sync(timeout)
    }

    fn is_connected(&self) -> bool {
        self.volume.look(LiveReplica::progress).is_some_and(|progress| progress.connected)
    }

    fn origin(&self) -> OriginId {
        self.volume.origin()
    }

    fn attribute(&self, file: FileId, what: &str) -> Option<String> {
        match what {
            "version" => Engine::inode(self, file).map(|inode| inode.version.to_string()),
            "exclusive" => Engine::is_exclusive(self, file).then(|| "1".to_owned()),
            "holder" => {
                let inode = Engine::inode(self, file)?;
                let holder = self.volume.look(|replica| replica.holder(file, inode.version))?.ok()?;
                // Who edits a part of a file answers for the whole, and need not have the rest of it ([S-edit-cost], [S-facts]).
                let is_whole = || inode.content.root().is_none() || self.volume.contents().has_all(&inode.content);
                Some(holder_name(if holder == Holder::Here && !is_whole() { Holder::Parent } else { holder }))
            }
            "conflict" => {
                let open = self.volume.look(|replica| replica.conflicts(None, CONFLICTS_MAX))?.ok()?;
                let about: Vec<String> = open
                    .iter()
                    .filter(|open| open.conflict.file == file || open.conflict.copy == Some(file))
                    .map(|open| open.id.to_string())
                    .collect();
                (!about.is_empty()).then(|| about.join(" "))
            }
            _ => None,
        }
    }

    fn level(&self, file: FileId) -> Option<Level> {
        self.volume.look(|replica| replica.level(file))?.ok().flatten().map(|state| state.facts.level())
    }

    fn is_made_elsewhere(&self, file: FileId) -> bool {
        let is_others = |replica: &LiveReplica| {
            let inode = replica.inode(file).ok().flatten();
            inode.is_some_and(|inode| inode.version.origin() != replica.config().origin)
        };
        self.volume.look(is_others).unwrap_or(false)
    }
}

/// A readable attribute that tells of the facts about a file's version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FactName {
    /// The furthest level of which all facts hold.
    State,
    /// Record and contents are durable at a server.
    Safe,
    /// The home knows the record.
    Visible,
    /// The home has record and contents.
    Stable,
}

/// A name that is no [`FactName`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotAFact;

impl std::str::FromStr for FactName {
    type Err = NotAFact;
    fn from_str(name: &str) -> Result<Self, NotAFact> {
        match name {
            "state" => Ok(Self::State),
            "safe" => Ok(Self::Safe),
            "visible" => Ok(Self::Visible),
            "stable" => Ok(Self::Stable),
            _ => Err(NotAFact),
        }
    }
}

impl FactName {
    /// Its value.
    pub fn told(self, facts: Facts) -> String {
        let fact = match self {
            Self::State => return level_name(facts.level()).to_owned(),
            Self::Safe => facts.safe,
            Self::Visible => facts.visible,
            Self::Stable => facts.stable,
        };
        match fact {
            Fact::Holds(Some(time)) => time.compact(),
            Fact::Holds(None) => "yes".to_owned(),
            Fact::No => "no".to_owned(),
            Fact::Unknown => "unknown here".to_owned(),
        }
    }
}

/// A level as users read it.
pub(crate) fn level_name(level: Level) -> &'static str {
    match level {
        Level::Modified => "modified",
        Level::Safe => "safe",
        Level::Visible => "visible",
        Level::Stable => "stable",
    }
}

/// A holder as users read it.
pub(crate) fn holder_name(holder: Holder) -> String {
    match holder {
        Holder::Here => "here".to_owned(),
        Holder::Parent => "parent".to_owned(),
        Holder::Child(origin, _) => format!("member {origin}"),
        Holder::Unknown => "unknown".to_owned(),
    }
}

fn contents_error(error: &ContentsError) -> FsError {
    match error {
        ContentsError::NoSpace => FsError::NoSpace,
        ContentsError::Missing(_) | ContentsError::Damaged(_) => FsError::Unreachable,
        ContentsError::Peer(_) | ContentsError::Stopped | ContentsError::Io(_) => {
            tracing::error!(%error, "contents");
            FsError::Io
        }
    }
}

fn fetch_error(error: &FetchError) -> FsError {
    match error {
        FetchError::Unreachable => FsError::Unreachable,
        FetchError::TimedOut => FsError::TimedOut,
        // The version was replaced and its bytes are gone: the handle lost to a newer one.
        FetchError::NotHeld => FsError::Stale,
        FetchError::Local(error) => contents_error(error),
        FetchError::Refused(_) => {
            tracing::warn!(%error, "fetch");
            FsError::Io
        }
    }
}

impl Contents for Live {
    fn chunk(&self, digest: &Digest) -> Result<Option<Bytes>, FsError> {
        match self.volume.contents().get(digest) {
            Ok(bytes) => {
                self.ahead.read(digest);
                Ok(Some(bytes))
            }
            Err(ContentsError::Missing(_)) => Ok(None),
            Err(ContentsError::Damaged(digest)) => {
                tracing::error!(chunk = %digest, "chunk is damaged on this disk and is fetched again");
                Ok(None)
            }
            Err(error) => Err(contents_error(&error)),
        }
    }

    fn has(&self, digest: &Digest) -> bool {
        self.volume.contents().is_at_hand(digest)
    }

    fn keep(&self, digest: &Digest) -> bool {
        let is_here = self.volume.contents().keep(digest);
        if is_here {
            // A copy that shares what was fetched ahead has as much use of it as a reader.
            self.ahead.read(digest);
        }
        is_here
    }

    fn begin_making(&self) -> u64 {
        self.volume.contents().begin_making()
    }

    fn end_making(&self, making: u64) {
        self.volume.contents().end_making(making);
    }

    fn fetch(&self, wanted: Wanted, patience: Duration) -> Result<(), FsError> {
        let begin = Instant::now();
        self.ahead.waits(wanted.file);
        if let Some(error) = self.vain.recent(wanted.version, &wanted.digests, begin) {
            return Err(error);
        }
        let fetched = self.volume.fetch(wanted.file, wanted.version, &wanted.digests, patience);
        if let Err(error) = fetched {
            let error = self.fetch_failed(&wanted, &error);
            if begin.elapsed() >= LONG_WAIT {
                let lacking = wanted.digests.iter().copied().filter(|digest| !self.has(digest));
                self.vain.note(wanted.version, lacking, error, Instant::now());
            }
            return Err(error);
        }
        self.ahead.waited(wanted.file, begin.elapsed());
        Ok(())
    }

    fn window(&self) -> u64 {
        self.volume.fetch_window()
    }

    fn prefetch(&self, wanted: Wanted) {
        let Wanted { file, version, mut digests } = wanted;
        let more = |under_way: usize| {
            (under_way < PREFETCH_MAX).then(|| under_way + digests.len().min(PREFETCH_MAX - under_way))
        };
        let Ok(before) = self.prefetching.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more) else { return };
        digests.truncate(PREFETCH_MAX - before);
        let count = digests.len();
        let prefetching = Arc::clone(&self.prefetching);
        self.volume.fetch_then(file, version, digests, PREFETCH_TIMEOUT, move |_| {
            prefetching.fetch_sub(count, Ordering::Relaxed);
        });
    }

    fn put(&self, digest: Digest, bytes: Bytes) -> Result<(), FsError> {
        self.volume.contents().put_new(digest, bytes).map_err(|error| contents_error(&error))
    }

    fn inode(&self, file: FileId) -> Option<Arc<Inode>> {
        Engine::inode(self, file)
    }

    fn is_ordered_by_home(&self, file: FileId) -> bool {
        Engine::is_exclusive(self, file)
    }

    fn is_free(&self, file: FileId) -> bool {
        self.volume.look(|replica| replica.is_change_free(file)).unwrap_or(true)
    }

    fn store(&self, store: Store) -> Result<Stored, FsError> {
        let Store { user, file, base, content, mtime, old_base } = store;
        let change = match old_base {
            OldBase::Conflicts => Change::Store { file, base, content, mtime },
            OldBase::IsRefused => Change::Append { file, base, content, mtime },
        };
        let outcome = self.volume.request(Request::Change { user, change }, STORE_TIMEOUT);
        follow(&self.events, &outcome);
        match outcome? {
            Answer::Changed { record, inode, .. } => Ok(Stored { record, inode }),
            answer => {
                tracing::error!(?answer, "the replica answered a store with something else");
                Err(FsError::Io)
            }
        }
    }

    fn change(&self, user: u32, change: Change) -> Result<(), FsError> {
        self.volume.request(Request::Change { user, change }, STORE_TIMEOUT).map(|_| ())
    }

    fn sync(&self) -> Result<(), FsError> {
        self.volume.sync(SYNC_TIMEOUT).map_err(|error| match error {
            StorageError::NoSpace => FsError::NoSpace,
            error => {
                tracing::error!(%error, "sync");
                FsError::Io
            }
        })
    }

    fn last_record(&self) -> Option<RecordId> {
        self.volume.look(|replica| replica.progress().last_record).flatten()
    }

    fn recorded(&self) -> u64 {
        self.volume.recorded().0
    }

    fn written(&self) -> u64 {
        self.volume.written().0
    }

    fn now(&self) -> WallTime {
        wayfs_node::clock::wall()
    }

    fn host(&self) -> Arc<dyn Host> {
        Arc::new(ThisHost)
    }
}
