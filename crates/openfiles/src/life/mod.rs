//! The life of an open file: where its uncommitted bytes are, how far their commit is, and what may happen when.
//!
//! [`Life`] does no input or output and has no clock: whoever drives it ([`super::state`], under the lock of the file) does
//! what an event stands for, tells it, and says what time it is. Each event is checked against the tables in
//! [`table`]; a step that they do not allow is a bug of this program, which is logged, counted, and ends a test.
//!
//! Where the bytes are that no record holds and no commit took ([`Backing`]):
//!
//! ```text
//!                    ┌───────────────────── taken by a commit ─────────────────────┐
//!                    ▼                                                             │
//!   renewed ──► ┌─────────┐  a time, a copy   ┌────────┐                           │
//!   from        │  Clean  ├──────────────────►│  Base  ├─┐ written                 │
//!   elsewhere   └─┬─┬───▲─┘                   └────────┘ │                         │
//!                 │ │   └── ended, nothing new ────────┐ │                         │
//!                 │ │ written                          │ ▼                         │
//!                 │ └────────────► ┌────────┐ grows  ┌─┼──────┐  taken, failed: ───┤
//!                 │                │ Memory ├───────►│ │Staged│  back to where it  │
//!   opened to be  │                └────────┘◄───────┤ └──▲───┘  was               │
//!   written whole ▼                  emptied, small  └────┼───┘                    │
//!            ┌─────────────┐                              │                        │
//!            │ Passthrough ├───── last writer closed ─────┘                        │
//!            └──────┬──────┘ (a commit takes what is there, and it stays)          │
//!                   └──────────────────────────────────────────────────────────────┘
//! ```
//!
//! How far the commit is ([`Stage`]):
//!
//! ```text
//!                  emptied by an open
//!        ┌────────┐ ────────────────► ┌─────────┐
//!    ┌──►│  Idle  │ ◄──────────────── │ Emptied │
//!    │   └─┬────┬─┘      changed      └────┬────┘
//!    │     │    │ closed early             │ taken
//!    │     │    ▼                          │
//!    │     │  ┌──────────┐  taken          ▼
//!    │     │  │ Deferred ├────────────► ┌─────────┐  failed   ┌────────────┐
//!    │     │  └──────────┘    taken     │ Running ├──────────►│ BackingOff ├─┐ closed early:
//!    │     └───────────────────────────►│         │◄──────────┤            │◄┘ still
//!    │                                  └─┬──┬──▲─┘   taken   └──────┬─────┘
//!    │        made                        │  │  │ taken             │ to be retried at once
//!    └────────────────────────────────────┘  │  │                   ▼
//!                                            │ ┌┴─────┐◄────────────┘
//!          made, and set since its close ────┴►│ Due  │◄── recovered after a kill
//!                                              └──────┘
//! ```
//!
//! A file that loses its last name drops from `Deferred` to `Idle`; elsewhere it stays, and what it holds goes with its handles.

mod changes;
mod commits;
mod decisions;
mod name;
mod passthrough;
pub(crate) mod table;
#[cfg(test)]
mod tests;
mod watch;

use super::body::Body;
use super::handle::Access;
use super::ranges::RangeSet;
pub(super) use changes::Changes;
pub(super) use commits::Closing;
use commits::Commit;
#[cfg(test)]
pub(super) use decisions::PAUSE;
pub(super) use decisions::Taking;
use name::NameState;
use passthrough::PassthroughWrites;
use std::ops::Range;
pub use table::illegal_count;
use table::{Backing, Event, Stage};
use watch::Watch;
use wayfs_types::Time;

/// The life of one open file.
#[derive(Debug, Clone, Default)]
pub(super) struct Life {
    /// The bytes of the file that are here, uncommitted or not.
    body: Option<Body>,
    /// What no commit took.
    changes: Changes,
    commit: Commit,
    /// Since when something is uncommitted.
    dirty_since: Option<Time>,
    /// While programs write the body by passthrough.
    passthrough: Option<PassthroughWrites>,
    watch: Watch,
    name: NameState,
    readers: u32,
    writers: u32,
    /// Closes that were committed, and whose notes stay until the disk has the records.
    noted: Vec<Closing>,
    news: News,
    origin: Origin,
    /// What was appended has another place since the kernel was told of it.
    has_moved: bool,
}

/// Whether another machine's version came that could not be taken in then.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum News {
    #[default]
    TakenIn,
    Missed,
}

/// Where uncommitted changes come from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Origin {
    /// From programs of this mount.
    #[default]
    Own,
    /// From a daemon that was killed; a record may hold them already.
    Left,
    /// From one, and from programs of this mount since: no record holds that.
    LeftAndChanged,
}

impl Life {
    /// The bytes of the file that are here.
    pub(super) fn body(&self) -> Option<&Body> {
        self.body.as_ref()
    }

    /// What no commit took.
    pub(super) fn changes(&self) -> &Changes {
        &self.changes
    }

    /// Where the bytes are that no record holds and no commit took.
    pub(super) fn backing(&self) -> Backing {
        match &self.body {
            _ if self.passthrough.is_some() => Backing::Passthrough,
            _ if !self.changes.is_any => Backing::Clean,
            None => Backing::Base,
            Some(Body::Memory(_)) => Backing::Memory,
            Some(Body::Disk { .. }) => Backing::Staged,
        }
    }

    /// How far its commit is.
    pub(super) fn stage(&self) -> Stage {
        self.commit.stage()
    }

    /// Carries out an event and checks the step against the tables.
    fn step<T>(&mut self, event: Event, act: impl FnOnce(&mut Self) -> T) -> T {
        let (backing, stage) = (self.backing(), self.stage());
        let done = act(self);
        let is_legal = table::next(stage, event) == Some(self.stage())
            && table::may_become(backing, event, self.backing())
            && self.is_consistent();
        if !is_legal {
            table::illegal(event, (backing, self.backing()), stage);
        }
        done
    }

    /// What holds between any two events.
    fn is_consistent(&self) -> bool {
        let is_to_be_committed = match self.stage() {
            Stage::Idle | Stage::Running => true,
            Stage::Emptied | Stage::Deferred | Stage::Due | Stage::BackingOff => self.changes.is_any,
        };
        let is_in_a_file = self.passthrough.is_none() || matches!(self.body, Some(Body::Disk { .. }));
        is_to_be_committed && is_in_a_file && self.dirty_since.is_some() == self.is_dirty()
    }

    /// A handle was opened.
    pub(super) fn opened(&mut self, access: Access) {
        match access {
            Access::Read => self.readers += 1,
            Access::Write => self.writers += 1,
        }
    }

    /// A handle was closed.
    pub(super) fn closed(&mut self, access: Access) {
        match access {
            Access::Read => self.readers = self.readers.saturating_sub(1),
            Access::Write => self.writers = self.writers.saturating_sub(1),
        }
    }

    /// Bytes are in the body that were written there; those of `hole` are zeros now, and hide bytes of the base.
    pub(super) fn written(&mut self, written: Range<u64>, hole: Hole, now: Time) {
        self.step(Event::Changed, |life| {
            life.changes.write(hole.hiding);
            life.add_present(hole.all);
            life.add_present(written.clone());
            life.changes.write(written);
            life.change(now);
        });
    }

    /// The file was cut off, and its body with it.
    pub(super) fn cut(&mut self, size: u64, now: Time) {
        self.step(Event::Changed, |life| {
            life.changes.cut(size);
            life.change(now);
        });
    }

    /// Something was changed that is not in the body, such as a time.
    pub(super) fn changed(&mut self, now: Time) {
        self.step(Event::Changed, |life| life.change(now));
    }

    /// All of a file of this length may have been stored into: which bytes is not known.
    pub(super) fn all_written(&mut self, len: u64, now: Time) {
        self.step(Event::Changed, |life| {
            life.changes.ranges.insert(0..len);
            life.change(now);
        });
    }

    /// What was written last came through a handle that appends, as did all before.
    pub(super) fn was_appended(&mut self) {
        self.changes.is_appended = true;
    }

    /// The rules for conflicts are to decide: what was appended stays where it is.
    pub(super) fn stays_where_written(&mut self) {
        self.changes.is_appended = false;
    }

    /// All that happened to it is that an open emptied it.
    pub(super) fn emptied(&mut self) {
        self.step(Event::Emptied, |life| {
            if matches!(life.commit, Commit::Idle) {
                life.commit = Commit::Emptied;
            }
        });
    }

    /// It took the content of another file for its base.
    pub(super) fn shared(&mut self, now: Time) {
        self.step(Event::Shared, |life| {
            life.body = None;
            life.changes = Changes::default();
            life.change(now);
        });
    }

    /// It has another base, behind which what was appended is to be written again.
    pub(super) fn moved(&mut self) {
        self.step(Event::Moved, |life| {
            life.body = None;
            life.changes = Changes { is_any: true, ..Changes::default() };
            life.has_moved = true;
        });
    }

    /// Whether what was appended has another place since this was asked last.
    pub(super) fn take_moved(&mut self) -> bool {
        std::mem::take(&mut self.has_moved)
    }

    /// The body comes, grows into a file, is filled, or is written to.
    pub(super) fn load<T>(&mut self, act: impl FnOnce(&mut Option<Body>) -> T) -> T {
        self.step(Event::Loaded, |life| act(&mut life.body))
    }

    /// Its body is in memory again; answers the one that it had.
    pub(super) fn unstaged(&mut self, bytes: Vec<u8>) -> Option<Body> {
        self.step(Event::Unstaged, |life| life.body.replace(Body::Memory(bytes)))
    }

    /// Nothing is uncommitted, and its bytes are in the base.
    pub(super) fn body_dropped(&mut self) {
        self.step(Event::Dropped, |life| life.body = None);
    }

    /// What was uncommitted when a daemon was killed.
    pub(super) fn recovered(&mut self, body: Option<Body>, changes: Changes, now: Time) {
        self.step(Event::Recovered, |life| {
            life.body = body;
            life.changes = changes;
            life.commit = Commit::Due(None);
            life.dirty_since = Some(now);
            life.origin = Origin::Left;
        });
    }

    /// The body of a file that an earlier daemon let be closed before its commit.
    pub(super) fn taken_over(&mut self, body: Body, closing: Closing, now: Time) {
        self.step(Event::Recovered, |life| {
            life.body = Some(body);
            life.changes = Changes::whole(closing.len);
            life.commit = Commit::Due(Some(closing));
            life.dirty_since = Some(now);
        });
    }

    fn change(&mut self, now: Time) {
        self.changes.is_any = true;
        if self.origin == Origin::Left {
            self.origin = Origin::LeftAndChanged;
        }
        if matches!(self.commit, Commit::Emptied) {
            self.commit = Commit::Idle;
        }
        self.dirty_since.get_or_insert(now);
    }

    fn add_present(&mut self, range: Range<u64>) {
        if let Some(Body::Disk { present, .. }) = &mut self.body {
            present.insert(range);
        }
    }
}

/// What lies between the former end of a file and a write beyond it.
#[derive(Debug, Clone)]
pub(super) struct Hole {
    /// All of it.
    pub(super) all: Range<u64>,
    /// What of it hides bytes of the base.
    pub(super) hiding: Range<u64>,
}
