//! Commits on their way into the log: gathered in memory, written as one batch.
//!
//! A batch costs a system call, a lock and an insertion for each key, whatever is in it. Most
//! commits come in runs that change the same few rows again and again, and nobody may rely on one of them before
//! it is synced. So commits are put together here, share one ticket, and go to log and index as one batch when
//! somebody wants them synced or written, or when they have become many.
//!
//! ```text
//!   commit ──▶ open ──freeze──▶ closed ──tables have it──▶ (gone)
//!                └──── reads look here first ────┘
//! ```

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use wayfs_types::{Batch, Ticket};

/// New values by key; `None` removes.
pub(crate) type Changes = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// Which way a range is gone through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    /// The first key first.
    Forth,
    /// The last key first.
    Back,
}

impl Direction {
    /// Whether one key comes before another.
    pub(crate) fn is_before(self, one: &[u8], other: &[u8]) -> bool {
        match self {
            Self::Forth => one < other,
            Self::Back => one > other,
        }
    }
}

/// What is accepted and not yet in the tables.
#[derive(Debug, Default)]
pub(crate) struct Gathering {
    open: Changes,
    open_len: usize,
    /// Whether the open batch has its ticket, be it without a change.
    is_begun: bool,
    /// Ended, and to be written next. Reads still find it here until the tables show it.
    closed: Option<Arc<Changes>>,
    /// Ticket of the last batch that was ended.
    closed_through: Ticket,
    /// Ticket of the last commit.
    accepted: Ticket,
    commits: u64,
}

impl Gathering {
    /// Nothing gathered, after a last batch.
    pub(crate) fn after(last: Ticket) -> Self {
        Self { accepted: last, closed_through: last, ..Self::default() }
    }

    /// Ticket of the last commit.
    pub(crate) fn accepted(&self) -> Ticket {
        self.accepted
    }

    /// How often something was committed.
    pub(crate) fn commits(&self) -> u64 {
        self.commits
    }

    /// Bytes that wait to be written.
    pub(crate) fn len(&self) -> usize {
        self.open_len
    }

    /// Whether every read can go to the tables.
    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty() && self.closed.is_none()
    }

    /// Adds a commit to the open batch, and names that.
    pub(crate) fn add(&mut self, batch: Batch) -> Ticket {
        if !self.is_begun {
            self.is_begun = true;
            self.accepted = Ticket(self.accepted.0 + 1);
        }
        self.commits += 1;
        for (key, value) in batch.changes {
            self.open_len += key.len() + value.as_ref().map_or(0, Vec::len);
            // What a replaced value took counts on: the bound is on what was copied, roughly.
            self.open.insert(key, value);
        }
        self.accepted
    }

    /// Ends the open batch, if there is one and no closed one waits to be written; says how far the closed ones go.
    pub(crate) fn freeze(&mut self) -> Ticket {
        if self.closed.is_none() && std::mem::take(&mut self.is_begun) {
            self.open_len = 0;
            self.closed = Some(Arc::new(std::mem::take(&mut self.open)));
            self.closed_through = self.accepted;
        }
        self.closed_through
    }

    /// The closed batch that is to be written next.
    pub(crate) fn closed(&self) -> Option<Arc<Changes>> {
        self.closed.clone()
    }

    /// Whether a closed batch waits to be written.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.is_some()
    }

    /// The tables show the closed batch.
    pub(crate) fn written(&mut self) {
        self.closed = None;
    }

    /// What is gathered of a key: outer `None` if nothing, inner `None` if it is removed.
    pub(crate) fn get(&self, key: &[u8]) -> Option<Option<Vec<u8>>> {
        self.open.get(key).or_else(|| self.closed.as_ref()?.get(key)).cloned()
    }

    /// The gathered changes of a range that is not empty; an empty `until` means to the end.
    pub(crate) fn range<'g>(&'g self, from: &[u8], until: &[u8], direction: Direction) -> Merge<'g> {
        let end = if until.is_empty() { Bound::Unbounded } else { Bound::Excluded(until) };
        let bounds = (Bound::Included(from), end);
        let newer = self.open.range::<[u8], _>(bounds);
        let older = self.closed.as_ref().map(|closed| closed.range::<[u8], _>(bounds));
        let older = older.into_iter().flatten();
        match direction {
            Direction::Forth => Merge::new(Box::new(newer), Box::new(older), direction),
            Direction::Back => Merge::new(Box::new(newer.rev()), Box::new(older.rev()), direction),
        }
    }
}

/// A key and its change.
pub(crate) type Change<'g> = (&'g Vec<u8>, &'g Option<Vec<u8>>);
type Source<'g> = std::iter::Peekable<Box<dyn Iterator<Item = Change<'g>> + 'g>>;

/// Two ranges as one: of a key in both, the newer change counts.
pub(crate) struct Merge<'g> {
    newer: Source<'g>,
    older: Source<'g>,
    direction: Direction,
}

impl<'g> Merge<'g> {
    fn new(
        newer: Box<dyn Iterator<Item = Change<'g>> + 'g>,
        older: Box<dyn Iterator<Item = Change<'g>> + 'g>,
        direction: Direction,
    ) -> Self {
        Self { newer: newer.peekable(), older: older.peekable(), direction }
    }
}

impl<'g> Iterator for Merge<'g> {
    type Item = Change<'g>;

    fn next(&mut self) -> Option<Change<'g>> {
        let (Some((newer, _)), Some((older, _))) = (self.newer.peek(), self.older.peek()) else {
            return self.newer.next().or_else(|| self.older.next());
        };
        if newer == older {
            self.older.next();
            return self.newer.next();
        }
        if self.direction.is_before(newer, older) { self.newer.next() } else { self.older.next() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(changes: &[(&[u8], Option<&[u8]>)]) -> Batch {
        let changes = changes.iter().map(|(key, value)| (key.to_vec(), value.map(<[u8]>::to_vec)));
        Batch { changes: changes.collect() }
    }

    #[test]
    fn commits_share_a_ticket_until_they_are_frozen() {
        let mut gathering = Gathering::after(Ticket(7));
        assert_eq!(gathering.freeze(), Ticket(7));
        assert!(!gathering.is_closed(), "nothing came");
        assert_eq!(gathering.add(batch(&[(b"a", Some(b"1"))])), Ticket(8));
        assert_eq!(gathering.add(Batch::default()), Ticket(8));
        assert_eq!(gathering.freeze(), Ticket(8));
        assert_eq!(gathering.add(Batch::default()), Ticket(9), "an empty commit has its place, too");
        assert_eq!(gathering.freeze(), Ticket(8), "one is closed at a time");
        assert_eq!(gathering.closed().map(|changes| changes.len()), Some(1));
        gathering.written();
        assert_eq!(gathering.freeze(), Ticket(9));
        assert_eq!(gathering.closed().map(|changes| changes.len()), Some(0));
        assert_eq!(gathering.accepted(), Ticket(9));
    }

    #[test]
    fn the_newest_change_of_a_key_is_read() {
        let mut gathering = Gathering::default();
        gathering.add(batch(&[(b"a", Some(b"1")), (b"b", Some(b"1")), (b"d", None)]));
        gathering.freeze();
        gathering.add(batch(&[(b"b", None), (b"c", Some(b"2"))]));
        assert_eq!(gathering.get(b"a"), Some(Some(b"1".to_vec())));
        assert_eq!(gathering.get(b"b"), Some(None), "removed");
        assert_eq!(gathering.get(b"e"), None);
        let keys = |from: &[u8], until: &[u8], direction| -> Vec<(u8, bool)> {
            gathering.range(from, until, direction).map(|(key, value)| (key[0], value.is_some())).collect()
        };
        let all = [(b'a', true), (b'b', false), (b'c', true), (b'd', false)];
        assert_eq!(keys(b"", b"", Direction::Forth), all);
        assert_eq!(keys(b"b", b"d", Direction::Forth), all[1..3]);
        let back: Vec<_> = all.iter().rev().copied().collect();
        assert_eq!(keys(b"", b"", Direction::Back), back);
        gathering.written();
        assert_eq!(gathering.get(b"a"), None, "the tables have it");
        assert_eq!(gathering.get(b"b"), Some(None));
    }
}
