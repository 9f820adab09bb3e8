//! Listing directories, page by page.
//!
//! A position in a listing is a number for the kernel and a name for the replica. The handle
//! remembers the last name of every page that it went through, so that any earlier position can be
//! found again, and holds the entries of one page only.

use super::Error;
use super::asking::refusal;
use super::caller::Caller;
use super::core::FileSystem;
use super::directory_page::{DirectoryPage, PageRequest};
use super::handles::Handle;
use super::ids::HandleId;
use super::reply::{Delivery, Reply, RespondWith};
use super::results::{ListingCache, OpenedDirectory};
use crate::notices::Stale;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use wayfs_proto::Keeping;
use wayfs_types::FsError;
use wayfs_types::request::{Answer, Request as Ask};
use wayfs_types::{FileId, Inode, Name};

/// Entries in a page: what fits the kernel's largest listing request with attributes.
const PAGE: usize = 1024;
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
struct PageBegin {
    /// Position of its first entry.
    position: u64,
    /// The name before it; `None`: from the start.
    after: Option<Name>,
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
enum Next {
    /// They are here.
    Here,
    /// There are none.
    End,
    /// This page must be asked for.
    Ask(PageBegin),
}

impl Listing {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// A listing that is read from its begin again sees what there is by then.
    fn turn_to(&mut self, offset: u64) {
        if offset == 0 && std::mem::replace(&mut self.is_read, true) {
            *self = Self { is_read: true, ..Self::default() };
        }
    }

    fn next(&self, position: u64) -> Next {
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
    fn take_in(&mut self, here: Here) {
        if let Some((last, _, _)) = here.entries.last()
            && self.pages.last().is_some_and(|page| page.position == here.first)
        {
            self.pages.push(PageBegin { position: here.end(), after: Some(last.clone()) });
        }
        self.here = Some(here);
    }

    fn take_in_last(&mut self, here: Here) {
        self.end = Some(here.end());
        self.here = Some(here);
    }
}

impl FileSystem {
    /// Whoever opens a directory lists it. What nobody tells us of yet is asked for right here, since the kernel keeps a listing only
    /// if the directory is watched when it is opened.
    pub(crate) fn open_directory<R: RespondWith<OpenedDirectory>>(
        self: &Arc<Self>,
        caller: &Caller,
        directory: FileId,
        reply: Reply<R>,
    ) {
        if !self.engine.is_vouched_for() || self.engine.keeping(directory) != Keeping::No {
            return self.opened_directory(directory, State::default(), reply);
        }
        let ask = Ask::List { directory, after: None, limit: PAGE };
        let asker = caller.clone();
        self.ask(caller, ask, reply, move |fs, reply, outcome| {
            let mut state = State::default();
            if let Ok(Answer::List { entries, end }) = outcome {
                let ttl = fs.ttl(&asker, directory);
                let here = Here { first: 0, entries, since: asker.since, ttl };
                if end { state.take_in_last(here) } else { state.take_in(here) }
            }
            // Without an answer the listing is asked for when it is read: a directory can be opened for other reasons.
            fs.opened_directory(directory, state, reply);
        });
    }

    fn opened_directory<R: RespondWith<OpenedDirectory>>(&self, directory: FileId, state: State, reply: Reply<R>) {
        let listing = Listing { directory, state: Mutex::new(state) };
        let handle = self.handles.insert(Handle::Directory(Arc::new(listing)));
        // The kernel keeps a listing only as long as somebody tells what changes in it.
        let is_kept =
            self.engine.is_vouched_for() && self.engine.keeping(directory) != Keeping::No && self.notices.is_idle();
        let listing = match is_kept {
            true if self.cold.take(directory) => ListingCache::Anew,
            true => ListingCache::Kept,
            false => ListingCache::None,
        };
        if reply.deliver(OpenedDirectory { handle, listing }) == Delivery::Gone {
            self.handles.remove(handle);
        }
    }

    /// The handle of a directory went.
    pub(crate) fn release_directory<R: RespondWith<()>>(&self, handle: HandleId, reply: Reply<R>) {
        self.handles.remove(handle);
        reply.give(());
    }

    pub(crate) fn list<R: RespondWith<DirectoryPage>>(
        self: &Arc<Self>,
        caller: &Caller,
        handle: HandleId,
        page: PageRequest,
        reply: Reply<R>,
    ) {
        let Some(listing) = self.handles.directory(handle) else { return reply.refuse(Error::BadHandle) };
        if page.offset == 0 && self.engine.inode(listing.directory).is_some_and(|inode| inode.removed_from.is_some()) {
            // As the kernel says of a directory that it removed itself.
            return reply.refuse(FsError::NotFound);
        }
        listing.state().turn_to(page.offset);
        self.list_on(caller, &listing, page, reply);
    }

    fn list_on<R: RespondWith<DirectoryPage>>(
        self: &Arc<Self>,
        caller: &Caller,
        listing: &Arc<Listing>,
        page: PageRequest,
        reply: Reply<R>,
    ) {
        let next = listing.state().next(page.offset.saturating_sub(DOTS));
        if let Next::End = next {
            self.cold.listed(listing.directory, page.offset.saturating_sub(DOTS));
        }
        let Next::Ask(PageBegin { position, after }) = next else {
            return reply.give(DirectoryPage {
                fs: Arc::clone(self),
                listing: Arc::clone(listing),
                request: page,
                since: caller.since,
            });
        };
        let ask = Ask::List { directory: listing.directory, after, limit: PAGE };
        let (asker, listing) = (caller.clone(), Arc::clone(listing));
        self.ask(caller, ask, reply, move |fs, reply, outcome| match outcome {
            Ok(Answer::List { entries, end }) => {
                // A page without entries would not get us further.
                let end = end || entries.is_empty();
                let ttl = fs.ttl(&asker, listing.directory);
                let here = Here { first: position, entries, since: asker.since, ttl };
                if end {
                    listing.state().take_in_last(here)
                } else {
                    listing.state().take_in(here)
                }
                if ttl.is_zero() {
                    // It was opened to be kept, and cannot be any more.
                    fs.notices.inode(listing.directory, Stale::Pages);
                }
                fs.list_on(&asker, &listing, page, reply);
            }
            other => reply.refuse(refusal(other)),
        });
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
