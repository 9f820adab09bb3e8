//! Listing directories, page by page.
//!
//! A position in a listing is a number for the kernel and a name for the replica. The handle
//! remembers the last name of every page that it went through, so that any earlier position can be
//! found again, and holds the entries of one page only.

use super::attributes::file_kind;
use super::core::{Caller, FileSystem, answered, refuse};
use super::handles::Handle;
use super::in_step::Shown;
use crate::notices::Stale;
use std::ffi::OsStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use wayfs_fuse::{
    DirectoryBuffer, DirectoryEntry, Entry, Errno, FileHandle, FileKind, OpenFlags, Opened, Pushed, Reply,
};
use wayfs_proto::Keeping;
use wayfs_types::request::{Answer, Request as Ask};
use wayfs_types::{FileId, Inode, Name, Place};

/// Entries in a page: what fits the kernel's largest listing request with attributes.
const PAGE: usize = 1024;
/// Positions below this are `.` and `..`.
const DOTS: u64 = 2;

/// What one request for entries asks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Page {
    pub(crate) offset: u64,
    pub(crate) size: u32,
    pub(crate) plus: bool,
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
    pub(crate) fn open_directory(self: &Arc<Self>, caller: &Caller, directory: FileId, reply: Reply) {
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

    fn opened_directory(&self, directory: FileId, state: State, reply: Reply) {
        let listing = Listing { directory, state: Mutex::new(state) };
        let handle = self.handles.insert(Handle::Directory(Arc::new(listing)));
        // The kernel keeps a listing only as long as somebody tells what changes in it.
        let is_kept =
            self.engine.is_vouched_for() && self.engine.keeping(directory) != Keeping::No && self.notices.is_idle();
        let flags = match is_kept {
            true if self.cold.take(directory) => OpenFlags::CACHE_DIR,
            true => OpenFlags::CACHE_DIR | OpenFlags::KEEP_CACHE,
            false => OpenFlags::EMPTY,
        };
        if reply.opened(&Opened::new(handle, flags)) == wayfs_fuse::Delivery::Gone {
            self.handles.remove(handle);
        }
    }

    pub(crate) fn list(self: &Arc<Self>, caller: &Caller, handle: FileHandle, page: Page, reply: Reply) {
        let Some(listing) = self.handles.directory(handle) else { return answered(reply.error(Errno::BADF)) };
        if page.offset == 0 && self.engine.inode(listing.directory).is_some_and(|inode| inode.removed_from.is_some()) {
            // As the kernel says of a directory that it removed itself.
            return answered(reply.error(Errno::NOENT));
        }
        listing.state().turn_to(page.offset);
        self.list_on(caller, &listing, page, reply);
    }

    fn list_on(self: &Arc<Self>, caller: &Caller, listing: &Arc<Listing>, page: Page, reply: Reply) {
        let next = listing.state().next(page.offset.saturating_sub(DOTS));
        if let Next::End = next {
            self.cold.listed(listing.directory, page.offset.saturating_sub(DOTS));
        }
        let Next::Ask(PageBegin { position, after }) = next else {
            return answered(reply.directory(&self.pack(listing, page, caller.since)));
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
            other => refuse(reply, other),
        });
    }

    /// Fills an answer from the page that is here. The request came when the replica had changed `since` times.
    fn pack(&self, listing: &Listing, page: Page, since: u64) -> DirectoryBuffer {
        let mut buffer = DirectoryBuffer::new(page.size);
        let mut offset = page.offset;
        while offset < DOTS {
            let (name, file) = match offset {
                0 => (".", listing.directory),
                _ => ("..", self.parent_of(listing.directory)),
            };
            offset += 1;
            let dot = DirectoryEntry {
                inode: wayfs_fuse::Inode::new(file.inode_number()),
                kind: FileKind::Directory,
                next_offset: offset,
                name: OsStr::new(name),
            };
            let nothing = Entry::negative(Duration::ZERO);
            let pushed = if page.plus { buffer.push_plus(&dot, &nothing) } else { buffer.push(&dot) };
            if pushed == Pushed::Full {
                return buffer;
            }
        }
        let state = listing.state();
        let Some(here) = &state.here else { return buffer };
        let skipped = (offset - DOTS).saturating_sub(here.first);
        for (name, file, inode) in here.entries.iter().skip(skipped as usize) {
            offset += 1;
            let entry = DirectoryEntry {
                inode: wayfs_fuse::Inode::new(file.inode_number()),
                kind: file_kind(&inode.kind),
                next_offset: offset,
                name: name.as_os_str(),
            };
            let pushed = match (page.plus, here.since == since) {
                (true, true) => {
                    let shown = self.entry(*file, inode, since, here.ttl);
                    buffer.push_plus(&entry, &self.listed(shown))
                }
                (true, false) => {
                    let entry_by_now = self.entry_by_now((listing.directory, name), *file, (since, here.ttl));
                    buffer.push_plus(&entry, &entry_by_now)
                }
                (false, _) => buffer.push(&entry),
            };
            if pushed == Pushed::Full {
                break;
            }
        }
        buffer
    }

    /// What the kernel may keep of an entry that was asked for by an earlier request. It takes all of it for as new as
    /// the present one, and was told since of what changed between them. What is gone is listed and not kept.
    fn entry_by_now(&self, (directory, name): (FileId, &Name), file: FileId, (since, ttl): (u64, Duration)) -> Entry {
        let place = Place { parent: directory, name: name.clone() };
        let stands = |inode: &Arc<Inode>| self.engine.has_name(file, inode, &place);
        match self.engine.inode(file).filter(stands) {
            Some(inode) => self.listed(self.entry(file, &inode, since, ttl)),
            None => Entry::negative(Duration::ZERO),
        }
    }

    /// What the kernel is told of an entry: nothing, if it has to forget pages before, and asks by itself.
    fn listed(&self, shown: Shown<Entry>) -> Entry {
        if self.is_in_step(shown.file, shown.version) {
            return shown.what;
        }
        let numbers = &self.notices.numbers;
        numbers.forgotten(numbers.shown(shown.file), 1);
        Entry::negative(Duration::ZERO)
    }

    fn parent_of(&self, directory: FileId) -> FileId {
        let parent = self.engine.inode(directory).and_then(|inode| inode.places.first().map(|place| place.parent));
        parent.unwrap_or(directory)
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
