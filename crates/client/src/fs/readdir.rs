//! Requests for the entries of directories, which the replica answers page by page.

use super::Error;
use super::asking::refusal;
use super::caller::Caller;
use super::core::FileSystem;
use super::directory_page::{DirectoryPage, PageRequest};
use super::handles::Handle;
use super::ids::HandleId;
use super::listing::{DOTS, Here, Listing, Next, PageBegin, State};
use super::reply::{Delivery, Reply, RespondWith};
use super::results::{ListingCache, OpenedDirectory};
use crate::notices::Stale;
use std::sync::Arc;
use wayfs_proto::Keeping;
use wayfs_types::request::{Answer, Request as Ask};
use wayfs_types::{FileId, FsError};

/// Entries in a page: what fits the kernel's largest listing request with attributes.
const PAGE: usize = 1024;

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
        let listing = Listing::new(directory, state);
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
