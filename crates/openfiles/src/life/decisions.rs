//! What is decided by where an open file is in its life: what is due when, and what news, copies and kernels may have.

use super::table::{Event, Stage};
use super::{Commit, Life, News};
use crate::body::{Body, MEMORY_MAX};
use crate::ranges::RangeSet;
use std::time::Duration;
use wayfs_types::Time;

/// How long a closed file that another handle keeps open waits for that handle's close.
pub(crate) const CLOSING_AGE: Duration = Duration::from_secs(1);
/// An open file is committed when nobody wrote to it for so long: a power cut takes no more of what a program wrote and left open, and
/// others see it.
pub(crate) const PAUSE: Duration = Duration::from_secs(1);

/// Whether what is uncommitted is to be committed without being asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Dueness {
    /// For how long something is uncommitted.
    pub(crate) age: Duration,
    /// It is to be committed whatever its age.
    pub(crate) is_due: bool,
    /// It is not to be committed yet, whatever its age.
    pub(crate) is_resting: bool,
}

/// Whether another version was taken in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taking {
    /// It may be.
    May,
    /// Not while this machine has its own.
    Later,
}

impl Life {
    /// Whether anything is uncommitted.
    pub(crate) fn is_dirty(&self) -> bool {
        self.changes.is_any || self.stage() == Stage::Running
    }

    /// Whether all there is to commit is that an open emptied it: what is to be written comes yet.
    pub(crate) fn is_only_emptied(&self) -> bool {
        self.stage() == Stage::Emptied
    }

    /// Whether a commit has something to take.
    pub(crate) fn is_to_be_committed(&self) -> bool {
        self.changes.is_any && !self.is_removed()
    }

    /// Whether nobody has it open to write, and something is to be committed: no close will come for it.
    pub(crate) fn is_set_since_its_close(&self) -> bool {
        self.changes.is_any && self.writers == 0
    }

    /// Whether it may wait long for its commit, and others should not: it was closed, or nobody writes what it was emptied for.
    pub(crate) fn is_closed_or_emptied(&self) -> bool {
        self.commit.closing().is_some() || self.is_only_emptied() || self.writers == 0
    }

    /// Whether a commit runs, or one that took a note is not known to be durable: no note may be written beside that.
    pub(crate) fn is_behind_a_commit(&self) -> bool {
        self.stage() == Stage::Running || !self.noted.is_empty()
    }

    /// Whether it may be closed before its commit: all of its `size` bytes are to be committed and lie in its body, and no
    /// mapping may store into that.
    pub(crate) fn may_close_early(&self, size: u64) -> bool {
        self.changes.are_whole(size) && size > 0 && !self.is_removed() && !self.is_watched()
    }

    /// When it is to be committed without being asked for; `None` if there is nothing. `idle` is for how long nobody wrote.
    pub(crate) fn due(&self, now: Time, idle: Duration) -> Option<Dueness> {
        let since = self.dirty_since.filter(|_| self.is_dirty() && !self.is_removed())?;
        let age = now.since(since);
        let is_paused = !self.is_only_emptied() && age >= PAUSE && idle >= PAUSE;
        let is_closed = self.commit.closing().is_some_and(|closing| now.since(closing.since) >= CLOSING_AGE);
        let (is_retried, is_backing_off) = match self.commit {
            Commit::Due(_) => (true, false),
            Commit::BackingOff { until, .. } => (until <= now, until > now),
            Commit::Idle | Commit::Emptied | Commit::Deferred(_) | Commit::Running { .. } => (false, false),
        };
        let rest_until = self.passthrough.as_ref().and_then(|writes| writes.rest_until);
        let is_resting = is_backing_off || rest_until.is_some_and(|until| until > now);
        Some(Dueness { age, is_due: is_retried || is_closed || is_paused, is_resting })
    }

    /// Whether nobody needs it but its handles: it may leave the table with the last of them.
    pub(crate) fn may_be_forgotten(&self) -> bool {
        let is_owed = self.is_dirty() || !self.noted.is_empty();
        !self.is_watched() && (!is_owed || self.is_removed())
    }

    /// Whether a kill of the daemon must not take what it holds.
    pub(crate) fn is_to_be_journaled(&self) -> bool {
        let is_changed = self.is_dirty() && !self.is_only_emptied();
        !self.is_removed() && (is_changed || self.is_written_by_passthrough())
    }

    /// Whether programs of this machine have made it their own: what others do to it does not show meanwhile.
    pub(crate) fn is_ours(&self) -> bool {
        self.is_dirty() || self.is_watched() || self.is_written_by_passthrough()
    }

    /// The removal of the file is known. Answers whether to take it in.
    pub(crate) fn removal_came(&mut self) -> Taking {
        if self.is_removed() {
            self.news = News::Missed;
            return Taking::Later;
        }
        self.news_came()
    }

    /// Another version is known of the file. Answers whether to take it in.
    pub(crate) fn news_came(&mut self) -> Taking {
        if self.is_ours() {
            self.news = News::Missed;
            return Taking::Later;
        }
        self.news = News::TakenIn;
        Taking::May
    }

    /// Whether news came that could not be taken in then.
    pub(crate) fn has_missed_news(&self) -> bool {
        self.news == News::Missed
    }

    /// News that were missed are to be asked for again; answers whether there were any.
    pub(crate) fn ask_for_news(&mut self) -> bool {
        std::mem::take(&mut self.news) == News::Missed
    }

    /// Another content is its base: the bytes that were here are of an older one.
    pub(crate) fn renewed(&mut self) {
        self.step(Event::Renewed, |life| life.body = None);
    }

    /// Whether the kernel has pages of it that are not what others are told that it is.
    pub(crate) fn shows_its_own(&self) -> bool {
        self.has_missed_news() || self.is_removed()
    }

    /// Whether its content may be lent to a copy; nothing is uncommitted then.
    pub(crate) fn may_lend(&self) -> bool {
        !self.is_removed() && !self.is_watched() && !self.is_written_by_passthrough() && !self.has_missed_news()
    }

    /// Whether the content of another file may become its own.
    pub(crate) fn may_borrow(&self) -> bool {
        let is_quiet = self.stage() != Stage::Running && self.commit.closing().is_none();
        is_quiet && !self.is_removed() && !self.is_watched() && !self.is_written_by_passthrough()
    }

    /// Whether nothing was written into it since it took the content of another file.
    pub(crate) fn is_unwritten(&self) -> bool {
        self.body.is_none() && self.changes.ranges.is_empty()
    }

    /// Whether a file of this size may get a body that the kernel writes by itself.
    pub(crate) fn may_begin_passthrough(&self, size: u64) -> bool {
        size == 0 && !self.is_removed() && !self.is_watched()
    }

    /// Whether one more handle may write the body by passthrough: everything in it counts as written anyway, or nothing is in it.
    pub(crate) fn may_join_passthrough(&self, size: u64) -> bool {
        self.is_written_by_passthrough() || (size == 0 && !self.is_watched())
    }

    /// Whether the body, which the kernel has let go of, is to be kept in memory, where small files live.
    pub(crate) fn is_to_be_taken_in(&self, size: u64) -> bool {
        let is_whole = matches!(&self.body, Some(Body::Disk { present, .. }) if present.contains(&(0..size)));
        is_whole && !self.is_watched() && size <= MEMORY_MAX as u64
    }

    /// Bytes written that no record holds.
    pub(crate) fn uncommitted_len(&self) -> u64 {
        self.changes.ranges.len() + self.taken().map_or(0, |taken| taken.ranges.len())
    }

    /// Whether no byte of the file differs from the base.
    pub(crate) fn is_all_of_base(&self) -> bool {
        self.changes.ranges.is_empty() && self.taken().is_none()
    }

    /// The ranges of the file that are uncommitted, be it that a commit is at them.
    pub(crate) fn uncommitted(&self, size: u64) -> RangeSet {
        let mut ranges = self.changes.ranges.clone();
        if let Some(taken) = self.taken() {
            ranges.absorb(&taken.ranges, size);
        }
        ranges
    }
}
