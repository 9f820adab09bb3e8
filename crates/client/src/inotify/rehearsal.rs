//! What the thread that tells watchers does through the mount: it changes nothing.
//!
//! Every request of that thread that would change something is answered as a success without any effect, and only for
//! the one name that it announced beforehand; any other is refused. So a mistake of that thread can lose nothing.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use wayfs_types::{FileId, Name};

/// What the thread is about to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// It makes a name that stands for this file already: a look-up finds nothing.
    Make(FileId),
    /// It removes a name that is gone already: a look-up finds this stand-in.
    Remove(FileId),
    /// It touches a file.
    Touch(FileId),
}

/// The thread, and what it does now.
#[derive(Default)]
pub struct Rehearsal {
    /// Zero: none.
    thread: AtomicU32,
    act: Mutex<Option<(FileId, Name, Act)>>,
}

impl Rehearsal {
    /// The calling thread is the one that tells watchers.
    pub(super) fn adopt_this_thread(&self) {
        let thread = rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned();
        self.thread.store(thread, Ordering::SeqCst);
    }

    /// Whether a request is of that thread. Requests of the kernel itself carry zero.
    pub(crate) fn is_of_thread(&self, thread: u32) -> bool {
        thread != 0 && thread == self.thread.load(Ordering::SeqCst)
    }

    /// Announces an act while it is done.
    pub(super) fn perform<T>(&self, parent: FileId, name: &Name, act: Act, perform: impl FnOnce() -> T) -> T {
        *self.act.lock().unwrap_or_else(PoisonError::into_inner) = Some((parent, name.clone(), act));
        let done = perform();
        *self.act.lock().unwrap_or_else(PoisonError::into_inner) = None;
        done
    }

    /// What is announced for a name.
    pub(crate) fn act_on(&self, parent: FileId, name: &std::ffi::OsStr) -> Option<Act> {
        let act = self.act.lock().unwrap_or_else(PoisonError::into_inner);
        let (directory, announced, act) = act.as_ref()?;
        (*directory == parent && announced.as_os_str() == name).then(|| act.clone())
    }

    /// Whether a file is being touched.
    pub fn touches(&self, file: FileId) -> bool {
        let act = self.act.lock().unwrap_or_else(PoisonError::into_inner);
        matches!(*act, Some((_, _, Act::Touch(touched))) if touched == file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_announced_is_known_and_only_while_it_is_done() {
        let rehearsal = Rehearsal::default();
        assert!(!rehearsal.is_of_thread(0), "the kernel's own requests are never the thread's");
        rehearsal.adopt_this_thread();
        let name = Name::new("a").unwrap();
        rehearsal.perform(FileId::ROOT, &name, Act::Make(FileId::ROOT), || {
            assert_eq!(rehearsal.act_on(FileId::ROOT, name.as_os_str()), Some(Act::Make(FileId::ROOT)));
            assert_eq!(rehearsal.act_on(FileId::ROOT, "b".as_ref()), None);
            assert!(!rehearsal.touches(FileId::ROOT));
        });
        assert_eq!(rehearsal.act_on(FileId::ROOT, name.as_os_str()), None);
    }
}
