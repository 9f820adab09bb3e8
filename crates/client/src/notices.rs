//! What the kernel must be told to forget, on threads of its own.
//!
//! A notification can wait for requests in hand (a read holds its pages, a create its directory), so
//! it is never given from a thread on which an answer depends. Several threads, because one slow
//! read must not hold up the news about all other files. Notices for one key coalesce.
//!
//! An answer that must not come before such news waits for it ([`Notices::pages_then`]), [`LATE`] at most: the kernel lets go
//! of a page only when a read that fills it is answered, and that may wait for bytes from afar.
//!
//! Limit: past [`ENTRIES_MAX`] names the whole lot is replaced by one expiry of all cached entries;
//! notices about inodes are bounded by the inodes that the kernel knows.

use crate::numbers::Numbers;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use wayfs_types::{FileId, Name};

/// Most names waiting to be told: 6 MiB of them.
const ENTRIES_MAX: usize = 65_536;
/// Threads: a slow read occupies one.
const THREADS: usize = 4;
/// How long an answer waits for what is told before it.
const LATE: Duration = Duration::from_secs(2);

/// Something to do when the kernel was told.
type Told = Box<dyn FnOnce() + Send>;

/// Who keeps names, attributes and pages of the mount, and forgets them when it is told. Files are named by the numbers under which
/// it knows them. A call may wait for requests in hand.
pub trait Caches: Send + Sync {
    /// The attributes of a file are out of date.
    fn forget_attributes(&self, file: FileId);

    /// Attributes and pages of a file are out of date.
    fn forget_pages(&self, file: FileId);

    /// Where a name leads is to be asked again at its next use; what is in use below it stays.
    fn expire_name(&self, parent: FileId, name: &Name);

    /// The same of all names. Waits for no request in hand.
    fn expire_names(&self);
}

/// What of an inode is out of date.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stale {
    /// Its attributes.
    Attributes,
    /// Its attributes and bytes.
    Pages,
}

/// The queue.
#[derive(Default)]
pub struct Notices {
    /// What the kernel calls the files that it is told of.
    pub numbers: Numbers,
    queue: Mutex<Queue>,
    changed: Condvar,
    /// For [`Notices::drain`] alone, which must not take a wake-up meant for a teller.
    told: Condvar,
}

#[derive(Default)]
struct Queue {
    inodes: BTreeMap<FileId, News>,
    /// What waits for news, by its number; the oldest first.
    waiting: BTreeMap<u64, (Instant, Told)>,
    waited: u64,
    entries: BTreeSet<(FileId, Name)>,
    /// Names that are being told: whoever has their directory's lock is waited for.
    telling: Vec<(FileId, Name)>,
    all_entries: bool,
    at_work: usize,
    is_stopping: bool,
}

/// What is to be told of an inode, and what waits for that.
struct News {
    stale: Stale,
    then: Vec<u64>,
}

enum Notice {
    Inode(FileId, News),
    Entry(FileId, Name),
    AllEntries,
}

impl Queue {
    fn is_idle(&self) -> bool {
        self.inodes.is_empty() && self.entries.is_empty() && !self.all_entries && self.at_work == 0
    }

    fn pop(&mut self) -> Option<Notice> {
        if std::mem::take(&mut self.all_entries) {
            return Some(Notice::AllEntries);
        }
        if let Some((parent, name)) = self.entries.pop_first() {
            self.telling.push((parent, name.clone()));
            return Some(Notice::Entry(parent, name));
        }
        self.inodes.pop_first().map(|(file, news)| Notice::Inode(file, news))
    }

    fn note(&mut self, file: FileId, stale: Stale) -> &mut News {
        let news = self.inodes.entry(file).or_insert(News { stale, then: Vec::new() });
        news.stale = news.stale.max(stale);
        news
    }

    /// What waited too long by then.
    fn take_late(&mut self, now: Instant) -> Vec<Told> {
        let late = self.waiting.iter().take_while(|(_, (since, _))| now.saturating_duration_since(*since) >= LATE);
        let late: Vec<u64> = late.map(|(number, _)| *number).collect();
        self.take(&late)
    }

    fn take(&mut self, waiting: &[u64]) -> Vec<Told> {
        waiting.iter().filter_map(|number| self.waiting.remove(number)).map(|(_, then)| then).collect()
    }
}

impl Notices {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An inode is out of date.
    pub fn inode(&self, file: FileId, stale: Stale) {
        self.queue().note(file, stale);
        self.changed.notify_one();
    }

    /// The pages of an inode are out of date; `then` is to happen when the kernel has forgotten them, on a thread that must not wait.
    pub(crate) fn pages_then(&self, file: FileId, then: impl FnOnce() + Send + 'static) {
        let mut queue = self.queue();
        queue.waited += 1;
        let number = queue.waited;
        queue.waiting.insert(number, (Instant::now(), Box::new(then)));
        queue.note(file, Stale::Pages).then.push(number);
        drop(queue);
        // One tells it, and another sees to it that this does not take too long.
        self.changed.notify_all();
    }

    /// Waits no longer for what takes too long to be told; a thread that has nothing to tell does it in time, and whoever calls this
    /// once a second or so where all of them are held up.
    pub(crate) fn end_late(&self) {
        let late = self.queue().take_late(Instant::now());
        late.into_iter().for_each(|then| then());
    }

    /// Until there is something to tell, or something waited too long.
    fn rest<'a>(&'a self, queue: MutexGuard<'a, Queue>) -> MutexGuard<'a, Queue> {
        let Some((_, (since, _))) = queue.waiting.first_key_value() else {
            return self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        };
        let left = LATE.saturating_sub(since.elapsed());
        if !left.is_zero() {
            return self.changed.wait_timeout(queue, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        drop(queue);
        self.end_late();
        self.queue()
    }

    /// What stands under a name is out of date.
    pub fn entry(&self, parent: FileId, name: Name) {
        let mut queue = self.queue();
        if queue.entries.len() >= ENTRIES_MAX {
            drop(queue);
            return self.all_entries();
        } else if !queue.all_entries {
            queue.entries.insert((parent, name));
        }
        drop(queue);
        self.changed.notify_one();
    }

    /// Whether it is still to be told what stands under a name.
    pub(crate) fn is_entry_due(&self, parent: FileId, name: &Name) -> bool {
        let queue = self.queue();
        let entry = (parent, name.clone());
        queue.entries.contains(&entry) || queue.telling.contains(&entry)
    }

    /// What stands under any name may be out of date.
    pub(crate) fn all_entries(&self) {
        let mut queue = self.queue();
        queue.entries.clear();
        queue.all_entries = true;
        drop(queue);
        self.changed.notify_one();
    }

    /// Whether nothing is queued or being told.
    pub fn is_idle(&self) -> bool {
        self.queue().is_idle()
    }

    /// Waits until nothing is queued or being told, at most so long; for tests and for orderly ends.
    pub fn drain(&self, wait_policy: Duration) -> bool {
        let end = Instant::now() + wait_policy;
        let mut queue = self.queue();
        loop {
            if queue.is_idle() {
                return true;
            }
            let Some(left) = end.checked_duration_since(Instant::now()) else { return false };
            queue = self.told.wait_timeout(queue, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Starts to tell.
    ///
    /// # Errors
    /// When the system has no room for a thread.
    pub fn start(self: &Arc<Self>, caches: &Arc<dyn Caches>) -> std::io::Result<NoticeThreads> {
        let mut threads = Vec::with_capacity(THREADS);
        for number in 0..THREADS {
            let (notices, caches) = (Arc::clone(self), Arc::clone(caches));
            let thread = std::thread::Builder::new().name(format!("notice-{number}"));
            threads.push(thread.spawn(move || notices.run(&*caches))?);
        }
        Ok(NoticeThreads { notices: Arc::clone(self), threads })
    }

    fn run(&self, caches: &dyn Caches) {
        let mut queue = self.queue();
        loop {
            if queue.is_stopping {
                return;
            }
            let Some(notice) = queue.pop() else {
                queue = self.rest(queue);
                continue;
            };
            queue.at_work += 1;
            drop(queue);
            self.tell(caches, &notice);
            queue = self.queue();
            if let Notice::Inode(_, News { then, .. }) = &notice
                && !then.is_empty()
            {
                let told = queue.take(then);
                drop(queue);
                told.into_iter().for_each(|then| then());
                queue = self.queue();
            }
            if let Notice::Entry(parent, name) = &notice
                && let Some(at) = queue.telling.iter().position(|(of, one)| of == parent && one == name)
            {
                queue.telling.swap_remove(at);
            }
            queue.at_work -= 1;
            self.told.notify_all();
        }
    }

    fn tell(&self, caches: &dyn Caches, notice: &Notice) {
        match notice {
            Notice::Inode(file, News { stale: Stale::Attributes, .. }) => {
                caches.forget_attributes(self.numbers.shown(*file));
            }
            Notice::Inode(file, News { stale: Stale::Pages, .. }) => caches.forget_pages(self.numbers.shown(*file)),
            Notice::Entry(parent, name) => caches.expire_name(self.numbers.shown(*parent), name),
            Notice::AllEntries => caches.expire_names(),
        }
    }
}

/// The threads; dropping it ends them.
pub struct NoticeThreads {
    notices: Arc<Notices>,
    threads: Vec<JoinHandle<()>>,
}

impl Drop for NoticeThreads {
    fn drop(&mut self) {
        self.notices.queue().is_stopping = true;
        self.notices.changed.notify_all();
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a notice thread panicked");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notices_for_one_key_coalesce_to_the_stronger() {
        let notices = Notices::default();
        notices.inode(FileId::ROOT, Stale::Pages);
        notices.inode(FileId::ROOT, Stale::Attributes);
        notices.entry(FileId::ROOT, Name::new("a").unwrap());
        notices.entry(FileId::ROOT, Name::new("a").unwrap());
        let mut queue = notices.queue();
        assert!(matches!(queue.pop(), Some(Notice::Entry(..))));
        assert!(matches!(queue.pop(), Some(Notice::Inode(FileId::ROOT, News { stale: Stale::Pages, .. }))));
        assert!(queue.pop().is_none());
    }

    #[test]
    fn a_name_is_due_until_it_is_told() {
        let (notices, name) = (Notices::default(), Name::new("a").unwrap());
        let is_due = || notices.is_entry_due(FileId::ROOT, &name);
        assert!(!is_due());
        notices.entry(FileId::ROOT, name.clone());
        assert!(is_due());
        assert!(notices.queue().pop().is_some());
        assert!(is_due(), "while it is told");
    }

    #[test]
    fn what_waits_for_news_waits_for_so_long_and_is_done_once() {
        let notices = Notices::default();
        let done = Arc::new(Mutex::new(0));
        let counted = Arc::clone(&done);
        notices.pages_then(FileId::ROOT, move || *counted.lock().unwrap() += 1);
        let asked = Instant::now();
        assert!(notices.queue().take_late(asked).is_empty());
        let late = notices.queue().take_late(asked + LATE);
        assert_eq!(late.len(), 1);
        late.into_iter().for_each(|then| then());
        let Some(Notice::Inode(_, news)) = notices.queue().pop() else { panic!("the news is told all the same") };
        assert!(notices.queue().take(&news.then).is_empty());
        assert_eq!(*done.lock().unwrap(), 1);
    }

    #[test]
    fn too_many_names_become_one_expiry_of_all() {
        let notices = Notices::default();
        for number in 0..=ENTRIES_MAX {
            notices.entry(FileId::ROOT, Name::new(number.to_string()).unwrap());
        }
        notices.entry(FileId::ROOT, Name::new("one more").unwrap());
        let mut queue = notices.queue();
        assert!(matches!(queue.pop(), Some(Notice::AllEntries)));
        assert!(queue.pop().is_none());
    }
}
