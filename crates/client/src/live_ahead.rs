//! Reading ahead through a tree, live: what comes next by the replica's view, fetched in the background.

use crate::tree_ahead::{FILE_LEN_MAX, Node, SmallFile, Tree, TreeAhead};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use wayfs_node::{LiveReplica, Volume};
use wayfs_types::{Content, Digest, FileId, Kind, Name};

/// A fetch that took less is no matter: a station on the local network answers in 1 ms.
const SLOW_MIN: Duration = Duration::from_millis(5);
/// Most files fetched ahead at once. The window in bytes is what binds on thin lines.
const UNDER_WAY_MAX: usize = 32;
/// Longest silence in which one of them goes on.
const TIMEOUT: Duration = Duration::from_secs(20);
/// Entries looked at under one lock.
const PAGE: usize = 64;

/// Reads ahead for a volume.
pub(crate) struct LiveAhead {
    volume: Arc<Volume>,
    /// Taken before the volume's lock.
    state: Mutex<TreeAhead>,
    /// Whether there is a walk, for those who only want to know that there is none.
    is_walking: AtomicBool,
    under_way: AtomicUsize,
}

impl LiveAhead {
    pub(crate) fn new(volume: Arc<Volume>) -> Arc<Self> {
        Arc::new(Self {
            volume,
            state: Mutex::default(),
            is_walking: AtomicBool::default(),
            under_way: AtomicUsize::default(),
        })
    }

    /// A reader is about to wait for a file. If he has waited for another lately, what follows is asked for beside it,
    /// not after it.
    pub(crate) fn waits(self: &Arc<Self>, file: FileId) {
        let state = self.state();
        if state.has_missed(Instant::now(), file) {
            self.missed(state, file);
        }
    }

    /// A reader waited for a file.
    pub(crate) fn waited(self: &Arc<Self>, file: FileId, took: Duration) {
        tracing::debug!(%file, ?took, "a reader waited");
        let mut state = self.state();
        if took < SLOW_MIN {
            state.was_quick(file);
        } else {
            self.missed(state, file);
        }
    }

    fn missed(self: &Arc<Self>, mut state: MutexGuard<'_, TreeAhead>, file: FileId) {
        state.missed(Instant::now(), file, &View(&self.volume));
        self.is_walking.store(state.is_walking(), Ordering::Relaxed);
        drop(state);
        self.go_on();
    }

    /// A reader got a chunk.
    pub(crate) fn read(self: &Arc<Self>, digest: &Digest) {
        if self.is_walking.load(Ordering::Relaxed) && self.state().read(Instant::now(), digest) {
            self.go_on();
        }
    }

    /// Fetches what there is room for, on another thread: the reader has better things to do.
    fn go_on(self: &Arc<Self>) {
        if !self.is_walking.load(Ordering::Relaxed) {
            return;
        }
        let ahead = Arc::clone(self);
        self.volume.settings().runtime.spawn(async move { ahead.fill() });
    }

    fn fill(self: &Arc<Self>) {
        while self.under_way.load(Ordering::Relaxed) < UNDER_WAY_MAX {
            let mut state = self.state();
            let next = state.next(Instant::now(), &View(&self.volume));
            self.is_walking.store(state.is_walking(), Ordering::Relaxed);
            drop(state);
            let Some(SmallFile { file, version, digest, len }) = next else { return };
            tracing::debug!(%file, len, "reads ahead");
            self.under_way.fetch_add(1, Ordering::Relaxed);
            let ahead = Arc::clone(self);
            self.volume.fetch_then(file, version, vec![digest], TIMEOUT, move |result| {
                ahead.under_way.fetch_sub(1, Ordering::Relaxed);
                if let Err(error) = result {
                    tracing::debug!(%file, %error, "nothing is read ahead any more");
                    ahead.state().stop();
                }
                ahead.go_on();
            });
        }
    }

    /// Files that were fetched and not read yet.
    #[cfg(test)]
    pub(crate) fn unread(&self) -> usize {
        self.state().unread()
    }

    fn state(&self) -> MutexGuard<'_, TreeAhead> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The volume's tree as it is known here.
struct View<'a>(&'a Arc<Volume>);

impl Tree for View<'_> {
    fn place(&self, file: FileId) -> Option<(FileId, Name)> {
        let inode = self.0.look(|replica| replica.inode(file))?.ok()??;
        inode.places.first().map(|place| (place.parent, place.name.clone()))
    }

    fn entries(&self, directory: FileId, after: Option<&Name>) -> Vec<(Name, Node)> {
        let look = |replica: &LiveReplica| {
            let entries = replica.list(directory, after, PAGE).unwrap_or_default();
            entries.into_iter().map(|(name, entry)| (name, node(replica, entry.file))).collect()
        };
        self.0.look(look).unwrap_or_default()
    }

    fn has(&self, digest: &Digest) -> bool {
        self.0.contents().is_at_hand(digest)
    }
}

fn node(replica: &LiveReplica, file: FileId) -> Node {
    let Ok(Some(inode)) = replica.inode(file) else { return Node::Other };
    match (&inode.kind, &inode.content) {
        (Kind::Directory, _) => Node::Directory(file),
        (_, Content::Tree { size, root, depth: 0, .. }) if *size <= FILE_LEN_MAX => {
            Node::File(SmallFile { file, version: inode.version, digest: *root, len: *size })
        }
        _ => Node::Other,
    }
}
