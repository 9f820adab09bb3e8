//! The kernel's second walk to a name.
//!
//! A file that the kernel knows by a name may be replaced by another machine before it is opened. The kernel is told `ESTALE` then, and walks
//! again, asking for each name; if it hears `ESTALE` once more, so does the program. What the second walk finds it finds
//! during the program's own call: the file that stood there at that moment is a right answer, be it replaced by now.
//! What a walk before that call found is not, since the call may have begun after the other file was there. So only names
//! count that the kernel may not keep: it asks for them on each walk, and what it asked for last is of the present one.
//!
//! The kernel says which thread asks. One that was told `ESTALE` and asks for a name is on its second walk.

use std::collections::VecDeque;
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use wayfs_types::{FileId, Inode};

/// Threads remembered; of those beyond, the oldest hears `ESTALE` as ever.
const MAX: usize = 256;

/// Threads on their second walk.
#[derive(Default)]
pub(super) struct SecondWalks {
    walks: Mutex<VecDeque<Walk>>,
    /// So that nobody waits for others where no file is replaced.
    is_used: AtomicBool,
}

struct Walk {
    thread: u32,
    /// What the last name led to, as it was then.
    found: Option<(FileId, Arc<Inode>)>,
}

impl SecondWalks {
    fn walks(&self) -> MutexGuard<'_, VecDeque<Walk>> {
        self.walks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A thread is told `ESTALE` for what its walk led to.
    pub(super) fn begin(&self, thread: u32) {
        let mut walks = self.walks();
        // The kernel has no number for a thread of a namespace that it does not share with us.
        if thread == 0 || walks.iter().any(|walk| walk.thread == thread) {
            return;
        }
        if walks.len() >= MAX {
            walks.pop_front();
        }
        walks.push_back(Walk { thread, found: None });
        self.is_used.store(true, Ordering::Release);
    }

    /// A thread asked for a name and is shown this, to be kept for so long.
    pub(super) fn found(&self, thread: u32, ttl: Duration, (file, inode): (FileId, &Inode)) {
        if self.is_used.load(Ordering::Acquire)
            && let Some(walk) = self.walks().iter_mut().find(|walk| walk.thread == thread)
        {
            walk.found = ttl.is_zero().then(|| (file, Arc::new(inode.clone())));
        }
    }

    /// A file as the present walk of a thread found it, if it did.
    pub(super) fn shown(&self, thread: u32, file: FileId) -> Option<Arc<Inode>> {
        if !self.is_used.load(Ordering::Acquire) {
            return None;
        }
        let walks = self.walks();
        let (found, inode) = walks.iter().find(|walk| walk.thread == thread)?.found.as_ref()?;
        (*found == file).then(|| inode.clone())
    }

    /// A thread opened something.
    pub(super) fn end(&self, thread: u32) {
        if self.is_used.load(Ordering::Acquire) {
            let mut walks = self.walks();
            walks.retain(|walk| walk.thread != thread);
            self.is_used.store(!walks.is_empty(), Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::testing::inode;
    use wayfs_types::{Content, RecordId};

    fn file(number: u64) -> FileId {
        FileId::made_by(RecordId::try_from(number).unwrap())
    }

    #[test]
    fn what_is_found_counts_for_the_second_walk_of_that_thread_only() {
        let (walks, now) = (SecondWalks::default(), Duration::ZERO);
        let inode = inode(Content::EMPTY, RecordId::try_from(1).unwrap());
        walks.found(7, now, (file(1), &inode));
        assert!(walks.shown(7, file(1)).is_none(), "its first walk");
        walks.begin(7);
        walks.found(8, now, (file(1), &inode));
        walks.found(7, now, (file(2), &inode));
        walks.found(7, now, (file(3), &inode));
        assert!(walks.shown(8, file(1)).is_none(), "another's");
        assert!(walks.shown(7, file(2)).is_none(), "of a walk before");
        assert!(walks.shown(7, file(3)).is_some());
        walks.end(7);
        assert!(walks.shown(7, file(3)).is_none(), "that is over");
    }

    #[test]
    fn a_name_that_the_kernel_keeps_may_be_of_a_walk_before() {
        let (walks, inode) = (SecondWalks::default(), inode(Content::EMPTY, RecordId::try_from(1).unwrap()));
        walks.begin(7);
        walks.found(7, Duration::from_secs(1), (file(1), &inode));
        assert!(walks.shown(7, file(1)).is_none());
    }
}
