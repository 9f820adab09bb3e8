//! Listing directories, page by page.
//!
//! A position in a listing is a number for the kernel and a name for the replica. The handle
//! remembers the last name of every page that it went through, so that any earlier position can be
//! found again, and holds the entries of one page only.

use super::Error;
use super::attributes::{FileKind, file_kind};
use super::caller::Caller;
use super::core::{FileSystem, refusal};
use super::handles::Handle;
use super::ids::HandleId;
use super::in_step::Shown;
use super::reply::{Delivery, Reply, RespondWith};
use super::results::{Entry, ListingCache, OpenedDirectory};
use crate::notices::Stale;
use std::ffi::OsStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use wayfs_proto::Keeping;
use wayfs_types::FsError;
use wayfs_types::request::{Answer, Request as Ask};
use wayfs_types::{FileId, Inode, Name, Place};

/// Entries in a page: what fits the kernel's largest listing request with attributes.
const PAGE: usize = 1024;
/// Positions below this are `.` and `..`.
const DOTS: u64 = 2;

/// What is wanted of each entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// Its name, number and kind.
    Names,
    /// Its attributes, too: each entry that is taken with them counts as one lookup of the file.
    Attributes,
}

/// What one request for entries asks.
#[derive(Debug, Clone, Copy)]
pub struct PageRequest {
    /// The offset of the last entry that the caller has; zero at the start.
    pub offset: u64,
    /// What is wanted of each.
    pub detail: Detail,
}

/// Entries of a directory from an offset on, of which a front end takes as many as it has room for. Without any the listing is at
/// its end.
pub struct DirectoryPage {
    fs: Arc<FileSystem>,
    listing: Arc<Listing>,
    request: PageRequest,
    /// How often the replica had changed when the request came.
    since: u64,
}

/// One entry of a directory.
#[derive(Debug, Clone, Copy)]
pub struct DirectoryEntry<'a> {
    /// The file.
    pub file: FileId,
    /// Its kind.
    pub kind: FileKind,
    /// Where the listing goes on after this entry. Never zero.
    pub next_offset: u64,
    /// Its name.
    pub name: &'a OsStr,
    /// What may be cached of it, if attributes are wanted and any may be.
    pub entry: Option<Entry>,
}

/// Whether a front end had room for an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// It had.
    Yes,
    /// It had not, and wants no more.
    Full,
}

/// An open directory.
pub struct Listing {
    directory: FileId,
    state: Mutex<State>,
}

struct State {
    /// Where each page that was gone through begins, in order; the first is the directory's begin.
    /// Pages may be short: the replica bounds them by bytes, too.
    pages: Vec<PageBegin>,
    /// The page that is here.
    here: Option<Here>,
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
struct Here {
    /// Position of its first entry.
    first: u64,
    entries: Entries,
    /// How often the replica had changed by then.
    since: u64,
    /// How long the kernel may keep what it holds.
    ttl: Duration,
}

/// Entries of a page.
type Entries = Vec<(Name, FileId, Arc<Inode>)>;

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
    fn state(&self) -> MutexGuard<'_, State> {
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
        let is_here = |here: &Here| (here.first..here.first + here.entries.len() as u64).contains(&position);
        if self.here.as_ref().is_some_and(is_here) {
            return Next::Here;
        }
        // A position beyond what was ever listed is reached page by page from the last begin.
        let page = self.pages.partition_point(|page| page.position <= position) - 1;
        Next::Ask(self.pages[page].clone())
    }

    fn take_in(&mut self, first: u64, (entries, since, ttl): (Entries, u64, Duration), end: bool) {
        let next = first + entries.len() as u64;
        if end {
            self.end = Some(next);
        } else if let Some((last, _, _)) = entries.last()
            && self.pages.last().is_some_and(|page| page.position == first)
        {
            self.pages.push(PageBegin { position: next, after: Some(last.clone()) });
        }
        self.here = Some(Here { first, entries, since, ttl });
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
                state.take_in(0, (entries, asker.since, ttl), end);
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
                listing.state().take_in(position, (entries, asker.since, ttl), end);
                if ttl.is_zero() {
                    // It was opened to be kept, and cannot be any more.
                    fs.notices.inode(listing.directory, Stale::Pages);
                }
                fs.list_on(&asker, &listing, page, reply);
            }
            other => reply.refuse(refusal(other)),
        });
    }

    /// What the kernel may keep of an entry that was asked for by an earlier request. It takes all of it for as new as
    /// the present one, and was told since of what changed between them. What is gone is listed and not kept.
    fn entry_by_now(
        &self,
        (directory, name): (FileId, &Name),
        file: FileId,
        (since, ttl): (u64, Duration),
    ) -> Option<Entry> {
        let place = Place { parent: directory, name: name.clone() };
        let stands = |inode: &Arc<Inode>| self.engine.has_name(file, inode, &place);
        let inode = self.engine.inode(file).filter(stands)?;
        self.listed(self.entry(file, &inode, since, ttl))
    }

    /// What the kernel is told of an entry: nothing, if it has to forget pages before, and asks by itself.
    fn listed(&self, shown: Shown<Entry>) -> Option<Entry> {
        if self.is_in_step(shown.file, shown.version) {
            return Some(shown.what);
        }
        self.notices.numbers.forgotten(shown.what.file, 1);
        None
    }

    fn parent_of(&self, directory: FileId) -> FileId {
        let parent = self.engine.inode(directory).and_then(|inode| inode.places.first().map(|place| place.parent));
        parent.unwrap_or(directory)
    }
}

impl DirectoryPage {
    /// Hands out entries, one after the other, until one finds no room. `take` must not ask the file system for anything.
    pub fn fill(&self, mut take: impl FnMut(&DirectoryEntry<'_>) -> Taken) {
        let Some(offset) = self.fill_dots(&mut take) else { return };
        let state = self.listing.state();
        let Some(here) = &state.here else { return };
        let skipped = (offset - DOTS).saturating_sub(here.first);
        for (next_offset, (name, file, inode)) in (offset + 1..).zip(here.entries.iter().skip(skipped as usize)) {
            let entry = match self.request.detail {
                Detail::Names => None,
                Detail::Attributes => self.entry(here, name, (*file, inode)),
            };
            let (kind, name) = (file_kind(&inode.kind), name.as_os_str());
            if take(&DirectoryEntry { file: *file, kind, next_offset, name, entry }) == Taken::Full {
                return self.not_taken(entry);
            }
        }
    }

    /// An entry that found no room is no lookup of the file.
    fn not_taken(&self, entry: Option<Entry>) {
        if let Some(entry) = entry {
            self.fs.notices.numbers.forgotten(entry.file, 1);
        }
    }

    /// `.` and `..`, as far as they are asked for. Answers where the names go on, if there is room.
    fn fill_dots(&self, take: &mut impl FnMut(&DirectoryEntry<'_>) -> Taken) -> Option<u64> {
        let directory = self.listing.directory;
        for offset in self.request.offset..DOTS {
            let (name, file) = match offset {
                0 => (".", directory),
                _ => ("..", self.fs.parent_of(directory)),
            };
            let (name, kind) = (OsStr::new(name), FileKind::Directory);
            let dot = DirectoryEntry { file, kind, next_offset: offset + 1, name, entry: None };
            if take(&dot) == Taken::Full {
                return None;
            }
        }
        Some(self.request.offset.max(DOTS))
    }

    /// What may be cached of an entry of the page that is here.
    fn entry(&self, here: &Here, name: &Name, (file, inode): (FileId, &Inode)) -> Option<Entry> {
        let (fs, since) = (&self.fs, self.since);
        match here.since == since {
            true => fs.listed(fs.entry(file, inode, since, here.ttl)),
            false => fs.entry_by_now((self.listing.directory, name), file, (since, here.ttl)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(from: u64, len: u64) -> Entries {
        let inode = crate::files::testing::inode(wayfs_types::Content::EMPTY, wayfs_types::RecordId::GENESIS);
        (from..from + len)
            .map(|number| {
                (
                    Name::new(format!("{number:08}")).unwrap(),
                    crate::files::testing::file(number + 1),
                    Arc::new(inode.clone()),
                )
            })
            .collect()
    }

    #[test]
    fn pages_of_any_length_follow_each_other_by_name() {
        let mut state = State::default();
        assert!(matches!(state.next(0), Next::Ask(PageBegin { position: 0, after: None })));
        state.take_in(0, (entries(0, 200), 0, Duration::ZERO), false);
        assert!(matches!(state.next(199), Next::Here));
        let Next::Ask(page) = state.next(200) else { panic!("the second page is asked for") };
        assert_eq!((page.position, page.after.unwrap().as_bytes()), (200, &b"00000199"[..]));
        state.take_in(200, (entries(200, 5), 0, Duration::ZERO), true);
        assert!(matches!(state.next(204), Next::Here));
        assert!(matches!(state.next(205), Next::End));
        // Going back asks for the first page again, and that does not begin a new one.
        assert!(matches!(state.next(3), Next::Ask(PageBegin { position: 0, .. })));
        state.take_in(0, (entries(0, 200), 0, Duration::ZERO), false);
        assert_eq!(state.pages.len(), 2);
    }

    #[test]
    fn what_came_when_it_was_opened_is_read_once() {
        let mut state = State::default();
        state.take_in(0, (entries(0, 5), 0, Duration::ZERO), true);
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
        state.take_in(0, (Vec::new(), 0, Duration::ZERO), true);
        assert!(matches!(state.next(0), Next::End));
    }
}
