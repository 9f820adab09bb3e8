//! Which step of an open file's life may follow which: the tables that [`super`] draws.
//!
//! [`next`] moves the commit; where the uncommitted bytes are follows from the body and the changes, and
//! [`may_become`] says whether an event may have led there.

use std::sync::atomic::{AtomicU64, Ordering};

/// Where the bytes are that no record holds and no commit took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Backing {
    /// There are none.
    Clean,
    /// In the base: only a time or the size changed, or the content is that of another file.
    Base,
    /// In memory.
    Memory,
    /// In a body file that requests are written to.
    Staged,
    /// In a body file that the kernel writes to by itself; perhaps nothing was written since the last commit.
    Passthrough,
}

/// How far the commit of what was written is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// Nothing is to be committed, or a close, a sync or its age will have it committed.
    Idle,
    /// An open emptied the file and nobody wrote yet: no pause has this committed.
    Emptied,
    /// It was closed before its commit, which follows.
    Deferred,
    /// It is to be committed at once: no close will come for it.
    Due,
    /// A commit failed.
    BackingOff,
    /// A commit took what was written so far.
    Running,
}

/// What happens to an open file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Event {
    /// Bytes were written, zeroed or cut off, or a time was set.
    Changed,
    /// All that was changed is that an open emptied it.
    Emptied,
    /// It took the content of another file.
    Shared,
    /// What was appended stands behind what another machine appended.
    Moved,
    /// Its body came, grew into a file, or was filled with bytes of the base.
    Loaded,
    /// Its body is in memory again: it is empty, or small and the kernel let go of it.
    Unstaged,
    /// Its body went: the bytes are in the base.
    Dropped,
    /// The kernel writes the body by itself.
    PassthroughBegan,
    /// The last handle that wrote so was closed.
    PassthroughEnded,
    /// Another machine's version is its base.
    Renewed,
    /// What a killed daemon left was put into it.
    Recovered,
    /// It was closed before its commit.
    Closed,
    /// A commit took what was written so far.
    Taken,
    /// A record holds what the commit took.
    Made,
    /// The same, and what was set since the close waits for no other one.
    MadeInPart,
    /// The commit did not come to a record.
    Failed,
    /// It is to be tried again without a pause.
    Retried,
    /// Its last name went, and nobody wants a record of it.
    Unnamed,
}

/// The stage after an event; `None` if the event cannot be at this stage.
pub(crate) const fn next(stage: Stage, event: Event) -> Option<Stage> {
    use Stage::{BackingOff, Deferred, Due, Emptied, Idle, Running};
    let next = match (event, stage) {
        (Event::Changed | Event::Shared, Emptied) => Idle,
        (Event::Changed, stage) => stage,
        (Event::Shared, Idle | Due | BackingOff) => stage,
        (Event::Emptied, Idle | Emptied) => Emptied,
        (Event::Moved, Idle | Deferred | Due | BackingOff) => stage,
        (Event::Loaded | Event::Unstaged | Event::Dropped, stage) => stage,
        (Event::PassthroughBegan | Event::PassthroughEnded, stage) => stage,
        (Event::Renewed, Idle) => Idle,
        (Event::Recovered, Idle) => Due,
        (Event::Closed, Idle | Deferred) => Deferred,
        (Event::Closed, Due | BackingOff) => stage,
        (Event::Taken, Idle | Emptied | Deferred | Due | BackingOff) => Running,
        (Event::Made, Running) => Idle,
        (Event::MadeInPart, Running) => Due,
        (Event::Failed, Running) => BackingOff,
        (Event::Retried, Due | BackingOff) => Due,
        (Event::Unnamed, Deferred) => Idle,
        (Event::Unnamed, stage) => stage,
        (
            Event::Shared
            | Event::Emptied
            | Event::Moved
            | Event::Renewed
            | Event::Recovered
            | Event::Closed
            | Event::Taken
            | Event::Made
            | Event::MadeInPart
            | Event::Failed
            | Event::Retried,
            _,
        ) => return None,
    };
    Some(next)
}

/// Whether an event may have taken the uncommitted bytes from one place to another.
pub(crate) const fn may_become(before: Backing, event: Event, after: Backing) -> bool {
    use Backing::{Base, Clean, Memory, Passthrough, Staged};
    match (event, before, after) {
        (Event::Changed, Passthrough, Passthrough) => true,
        (Event::Changed, Clean | Base, Base | Memory | Staged) => true,
        (Event::Changed, Memory | Staged, Memory | Staged) => true,
        (Event::Emptied, Memory, Memory) | (Event::Emptied, Staged, Staged) => true,
        (Event::Emptied, Passthrough, Passthrough) => true,
        (Event::Shared, Clean | Base | Memory | Staged, Base) => true,
        (Event::Moved, Memory | Staged, Base) => true,
        (Event::Loaded, Clean, Clean) | (Event::Loaded, Passthrough, Passthrough) => true,
        (Event::Loaded, Base | Memory, Memory | Staged) | (Event::Loaded, Staged, Staged) => true,
        (Event::Unstaged, Clean, Clean) | (Event::Unstaged, Base | Memory | Staged, Memory) => true,
        (Event::Dropped, Clean, Clean) => true,
        (Event::PassthroughBegan, _, Passthrough) => true,
        (Event::PassthroughEnded, Passthrough, Clean | Staged) => true,
        (Event::Renewed, Clean, Clean) => true,
        (Event::Recovered, Clean, Base | Memory | Staged) => true,
        (Event::Closed, Staged, Staged) | (Event::Closed, Passthrough, Passthrough) => true,
        (Event::Taken, Passthrough, Passthrough) => true,
        (Event::Taken, Clean | Base | Memory | Staged, Clean) => true,
        (Event::Failed, Passthrough, Passthrough) => true,
        (Event::Failed, Clean | Base, Base | Memory | Staged) => true,
        (Event::Failed, Memory | Staged, Memory | Staged) => true,
        (Event::Made | Event::MadeInPart | Event::Retried | Event::Unnamed, before, after) => {
            before as u8 == after as u8
        }
        (
            Event::Changed
            | Event::Emptied
            | Event::Shared
            | Event::Moved
            | Event::Loaded
            | Event::Unstaged
            | Event::Dropped
            | Event::PassthroughBegan
            | Event::PassthroughEnded
            | Event::Renewed
            | Event::Recovered
            | Event::Closed
            | Event::Taken
            | Event::Failed,
            _,
            _,
        ) => false,
    }
}

/// Steps that no table allows, since this program began.
static ILLEGAL: AtomicU64 = AtomicU64::new(0);

/// How many steps of open files were taken that no table allows: each is a bug of this program.
pub fn illegal_count() -> u64 {
    ILLEGAL.load(Ordering::Relaxed)
}

/// Tells of a step that no table allows. The file goes on with what it has: to stop the mount would lose what was written.
#[track_caller]
pub(crate) fn illegal(event: Event, backing: (Backing, Backing), stage: Stage) {
    ILLEGAL.fetch_add(1, Ordering::Relaxed);
    tracing::error!(?event, ?backing, ?stage, "an open file took a step that its table does not allow");
    debug_assert!(false, "{event:?} takes an open file from {:?} at {stage:?} to {:?}", backing.0, backing.1);
}
