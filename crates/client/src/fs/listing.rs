//! An open directory, which is listed page by page.
//!
//! A position in a listing is a number for the kernel and a name for the replica. The handle
//! remembers the last name of every page that it went through, so that any earlier position can be
//! found again, and holds the entries of one page only.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use wayfs_types::{FileId, Inode, Name};

/// Positions below this are `.` and `..`.
pub(super) const DOTS: u64 = 2;

/// An open directory.
pub struct Listing {
    pub(super) directory: FileId,
    state: Mutex<State>,
}

pub(super) struct State {
    /// Where each page that was gone through begins, in order; the first is the directory's begin.
    /// Pages may be short: the replica bounds them by bytes, too.
    pages: Vec<PageBegin>,
    /// The page that is here.
    pub(super) here: Option<Here>,
    /// Entries in all, once the end was seen.
    end: Option<u64>,
    /// It was read from its begin before.
    is_read: bool,
}

impl Default for State {
    fn default() -> Self {
        Self { pages: vec![PageBegin { position: 0, after: None }], here: None, end: None, is_read: false }
    }
}

/// The begin of a page.
#[derive(Debug, Clone)]
pub(super) struct PageBegin {
    /// Position of its first entry.
    pub(super) position: u64,
    /// The name before it; `None`: from the start.
    pub(super) after: Option<Name>,
}

/// A page that was asked for.
pub(super) struct Here {
    /// Position of its first entry.
    pub(super) first: u64,
    pub(super) entries: Entries,
    /// How often the replica had changed by then.
    pub(super) since: u64,
    /// How long the kernel may keep what it holds.
    pub(super) ttl: Duration,
}

impl Here {
    /// Position behind its last entry.
    fn end(&self) -> u64 {
        self.first + self.entries.len() as u64
    }
}

/// Entries of a page.
pub(super) type Entries = Vec<(Name, FileId, Arc<Inode>)>;

/// Where the next entries come from.
pub(super) enum Next {
    /// They are here.
    Here,
    /// There are none.
    End,
    /// This page must be asked for.
    Ask(PageBegin),
}

impl Listing {
    pub(super) fn new(directory: FileId, state: State) -> Self {
        Self { directory, state: Mutex::new(state) }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// A listing that is read from its begin again sees what there is by then.
    pub(super) fn turn_to(&mut self, offset: u64) {
        if offset == 0 && std::mem::replace(&mut self.is_read, true) {
            *self = Self { is_read: true, ..Self::default() };
        }
    }

    pub(super) fn next(&self, position: u64) -> Next {
        if self.end.is_some_and(|end| position >= end) {
            return Next::End;
        }
        let is_here = |here: &Here| (here.first..here.end()).contains(&position);
        if self.here.as_ref().is_some_and(is_here) {
            return Next::Here;
        }
        // A position beyond what was ever listed is reached page by page from the last begin.
        let page = self.pages.partition_point(|page| page.position <= position) - 1;
        Next::Ask(self.pages[page].clone())
    }

    /// Takes in a page after which there are more.
    pub(super) fn take_in(&mut self, here: Here) {
        if let Some((last, _, _)) = here.entries.last()
            && self.pages.last().is_some_and(|page| page.position == here.first)
        {
            self.pages.push(PageBegin { position: here.end(), after: Some(last.clone()) });
        }
        self.here = Some(here);
    }

    pub(super) fn take_in_last(&mut self, here: Here) {
        self.end = Some(here.end());
        self.here = Some(here);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(from: u64, len: u64) -> Entries {
        let inode = crate::fs::testing::inode(wayfs_types::Content::EMPTY, wayfs_types::RecordId::GENESIS);
        (from..from + len)
            .map(|number| {
                (
                    Name::new(format!("{number:08}")).unwrap(),
                    crate::fs::testing::file(number + 1),
                    Arc::new(inode.clone()),
                )
            })
            .collect()
    }

    fn here(first: u64, len: u64) -> Here {
        Here { first, entries: entries(first, len), since: 0, ttl: Duration::ZERO }
    }

    #[test]
    fn pages_of_any_length_follow_each_other_by_name() {
        let mut state = State::default();
        assert!(matches!(state.next(0), Next::Ask(PageBegin { position: 0, after: None })));
        state.take_in(here(0, 200));
        assert!(matches!(state.next(199), Next::Here));
        let Next::Ask(page) = state.next(200) else { panic!("the second page is asked for") };
        assert_eq!((page.position, page.after.unwrap().as_bytes()), (200, &b"00000199"[..]));
        state.take_in_last(here(200, 5));
        assert!(matches!(state.next(204), Next::Here));
        assert!(matches!(state.next(205), Next::End));
        // Going back asks for the first page again, and that does not begin a new one.
        assert!(matches!(state.next(3), Next::Ask(PageBegin { position: 0, .. })));
        state.take_in(here(0, 200));
        assert_eq!(state.pages.len(), 2);
    }

    #[test]
    fn what_came_when_it_was_opened_is_read_once() {
        let mut state = State::default();
        state.take_in_last(here(0, 5));
        state.turn_to(0);
        assert!(matches!(state.next(0), Next::Here));
        state.turn_to(5);
        assert!(matches!(state.next(5), Next::End));
        state.turn_to(0);
        assert!(matches!(state.next(0), Next::Ask(_)));
    }

    #[test]
    fn an_empty_directory_ends_at_once() {
        let mut state = State::default();
        state.take_in_last(here(0, 0));
        assert!(matches!(state.next(0), Next::End));
    }
}
