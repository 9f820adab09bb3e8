//! Changes from elsewhere, shown to programs that watch files with inotify.
//!
//! The kernel raises inotify events for what programs on this machine do, never for what a FUSE daemon reports. So a
//! thread of the daemon repeats each change of another machine through the mount: it makes, touches or removes the
//! name, and the daemon recognises its own thread and answers without changing anything ([`Rehearsal`]). The kernel
//! then tells watchers `CREATE`, `MODIFY`, `CLOSE_WRITE`, `ATTRIB` and `DELETE` as for a local change. A rename is
//! told as a `DELETE` and a `CREATE`.
//!
//! Only what a program watches costs anything: the watches of this mount are read from `/proc` at most twice a second,
//! and only while changes arrive. A daemon that is not root sees the watches of its own user's programs alone.
//!
//! Limits: [`CHANGES_MAX`] changes wait; past it each watched directory gets one `ATTRIB`, upon which watchers read it
//! anew. Nothing is raised on a read-only mount, or where the daemon's user may not change the directory.

mod raise;
mod rehearsal;
mod watches;

pub(crate) use watches::watched;

pub use rehearsal::{Act, Rehearsal};

use crate::engine::Engine;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use wayfs_types::{FileId, Name};

/// Most changes that wait to be told; a checkout of a large project is one batch of some ten thousand.
const CHANGES_MAX: usize = 16_384;
/// Changes of one update arrive together; so long they are gathered, so that a name is told once.
const GATHER: Duration = Duration::from_millis(20);

/// A change that another machine made.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Change {
    /// What stands under a name.
    Entry(FileId, Name),
    /// A file's bytes.
    Content(FileId),
    /// A file's attributes.
    Attributes(FileId),
}

/// Changes that wait to be told to watchers.
#[derive(Default)]
pub struct Watchers {
    queue: Mutex<Queue>,
    changed: Condvar,
    rehearsal: Rehearsal,
}

#[derive(Default)]
struct Queue {
    changes: BTreeSet<Change>,
    overflowed: bool,
    is_running: bool,
    is_stopping: bool,
}

/// A batch of changes.
struct Batch {
    changes: BTreeSet<Change>,
    overflowed: bool,
}

impl Watchers {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What stands under a name changed elsewhere.
    pub fn entry(&self, parent: FileId, name: &Name) {
        self.push(Change::Entry(parent, name.clone()));
    }

    /// A file's bytes changed elsewhere.
    pub fn content(&self, file: FileId) {
        self.push(Change::Content(file));
    }

    /// A file's attributes changed elsewhere.
    pub fn attributes(&self, file: FileId) {
        self.push(Change::Attributes(file));
    }

    fn push(&self, change: Change) {
        let mut queue = self.queue();
        if !queue.is_running {
            return;
        }
        if queue.changes.len() < CHANGES_MAX {
            queue.changes.insert(change);
        } else {
            queue.overflowed = true;
        }
        drop(queue);
        self.changed.notify_one();
    }

    /// Calls that the thread makes through the mount, as the mount is to answer them.
    pub(crate) fn rehearsal(&self) -> &Rehearsal {
        &self.rehearsal
    }

    /// Starts to tell.
    ///
    /// # Errors
    /// When the system has no room for a thread, or the mount does not answer.
    pub fn start(self: &Arc<Self>, engine: Arc<dyn Engine>, mountpoint: PathBuf) -> std::io::Result<WatcherThread> {
        let device = rustix::fs::stat(&mountpoint)?.st_dev;
        let watchers = Arc::clone(self);
        self.queue().is_running = true;
        let thread = std::thread::Builder::new().name("inotify".to_owned()).spawn(move || {
            watchers.rehearsal.adopt_this_thread();
            let raiser = raise::Raiser::new(&*engine, &watchers.rehearsal, mountpoint, device);
            let mut watches = watches::Watches::new(device);
            while let Some(batch) = watchers.next(watches.due_in()) {
                watches.refresh();
                raiser.raise(&batch, &watches);
            }
        })?;
        Ok(WatcherThread { watchers: Arc::clone(self), thread: Some(thread) })
    }

    /// Waits for changes, and a moment more for those that belong to them: at least until the watches may be read again, for
    /// a program that began to watch before a change hears of it. `None`: the mount ends.
    fn next(&self, due_in: Duration) -> Option<Batch> {
        let due = Instant::now() + due_in;
        let mut queue = self.queue();
        while queue.changes.is_empty() && !queue.is_stopping {
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        let pause = GATHER.max(due.saturating_duration_since(Instant::now()));
        let gather = |queue: &mut Queue| !queue.is_stopping;
        queue = self.changed.wait_timeout_while(queue, pause, gather).unwrap_or_else(PoisonError::into_inner).0;
        if queue.is_stopping {
            return None;
        }
        let overflowed = std::mem::take(&mut queue.overflowed);
        Some(Batch { changes: std::mem::take(&mut queue.changes), overflowed })
    }
}

/// The thread; dropping it ends it.
pub struct WatcherThread {
    watchers: Arc<Watchers>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for WatcherThread {
    fn drop(&mut self) {
        let mut queue = self.watchers.queue();
        queue.is_running = false;
        queue.is_stopping = true;
        drop(queue);
        self.watchers.changed.notify_all();
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread that tells watchers panicked");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn running() -> Watchers {
        let watchers = Watchers::default();
        watchers.queue().is_running = true;
        watchers
    }

    #[test]
    fn changes_of_one_name_are_told_once() {
        let watchers = running();
        for _ in 0..3 {
            watchers.entry(FileId::ROOT, &Name::new("a").unwrap());
            watchers.content(FileId::ROOT);
        }
        let batch = watchers.next(Duration::ZERO).unwrap();
        assert_eq!(batch.changes.len(), 2);
        assert!(!batch.overflowed);
    }

    #[test]
    fn too_many_changes_are_told_as_one_overflow() {
        let watchers = running();
        for number in 0..=CHANGES_MAX {
            watchers.entry(FileId::ROOT, &Name::new(number.to_string()).unwrap());
        }
        let batch = watchers.next(Duration::ZERO).unwrap();
        assert_eq!(batch.changes.len(), CHANGES_MAX);
        assert!(batch.overflowed);
    }

    #[test]
    fn nothing_gathers_where_no_thread_tells() {
        let watchers = Watchers::default();
        watchers.content(FileId::ROOT);
        assert!(watchers.queue().changes.is_empty());
    }
}
