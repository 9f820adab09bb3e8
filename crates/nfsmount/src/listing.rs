//! Listings, fetched in parts as programs read them.

use crate::asker::Asker;
use crate::fail::Fail;
use crate::nodes::Node;
use crate::vfs::{Vfs, kind_of};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use wayfs_fuse::{DirectoryBuffer, DirectoryEntry, Entry, Errno, FileHandle, FileKind, Inode, Pushed};
use wayfs_nfs::calls::{Cookie, Place};
use wayfs_nfs::operations::{self, Detail, Located};
use wayfs_nfs::{Status, results};

/// Bytes of names that are asked for at once.
const LISTING_LEN: u32 = 8192;
/// Most names of a directory: a server that never ends would fill the memory.
const NAMES_MAX: usize = 2_000_000;
/// How often a listing is begun anew because the directory changed under it.
const RESTARTS_MAX: u32 = 5;

/// A directory that a program reads.
#[derive(Debug)]
pub(crate) struct OpenDirectory {
    node: Arc<Node>,
    entries: Vec<results::Entry>,
    /// Where the listing goes on; `None` at its end.
    cookie: Option<Cookie>,
    places: BTreeSet<u64>,
    /// After a listing was begun anew: names that the program has.
    shown: BTreeSet<Vec<u8>>,
    restarts: u32,
}

impl OpenDirectory {
    pub(crate) fn new(node: Arc<Node>) -> Self {
        Self {
            node,
            entries: Vec::new(),
            cookie: Some(Cookie::default()),
            places: BTreeSet::new(),
            shown: BTreeSet::new(),
            restarts: 0,
        }
    }

    fn rewind(&mut self) {
        *self = Self::new(Arc::clone(&self.node));
    }

    /// The directory changed, and the server knows the place no more: from the beginning, without what was shown.
    fn restart(&mut self) -> Result<(), Fail> {
        self.restarts += 1;
        if self.restarts > RESTARTS_MAX {
            return Err(Fail(Errno::AGAIN));
        }
        self.shown = self.entries.iter().map(|entry| entry.name.clone()).collect();
        self.cookie = Some(Cookie::default());
        self.places.clear();
        Ok(())
    }

    fn take(&mut self, listing: results::Listing) -> Result<(), Fail> {
        self.cookie = listing.next();
        let loops = self.cookie.is_some_and(|cookie| !self.places.insert(cookie.place));
        if loops || self.entries.len() + listing.entries.len() > NAMES_MAX {
            tracing::warn!("the server's listing does not end");
            return Err(Fail(Errno::IO));
        }
        let shown = &self.shown;
        self.entries.extend(listing.entries.into_iter().filter(|entry| !shown.contains(&entry.name)));
        Ok(())
    }
}

impl Vfs {
    pub(crate) fn open_directory(&self, inode: Inode) -> Result<FileHandle, Fail> {
        let node = self.node(inode)?;
        let handle = self.next_handle();
        let mut directories = self.directories.lock().unwrap_or_else(PoisonError::into_inner);
        directories.insert(handle, Arc::new(Mutex::new(OpenDirectory::new(node))));
        Ok(FileHandle::new(handle))
    }

    pub(crate) fn release_directory(&self, handle: FileHandle) {
        self.directories.lock().unwrap_or_else(PoisonError::into_inner).remove(&handle.number());
    }

    fn directory(&self, handle: FileHandle) -> Result<Arc<Mutex<OpenDirectory>>, Fail> {
        let directories = self.directories.lock().unwrap_or_else(PoisonError::into_inner);
        directories.get(&handle.number()).cloned().ok_or(Fail(Errno::BADF))
    }

    /// Names from the `offset`th on, as many as there is room for; the files of `known` count as looked up.
    pub(crate) fn read_directory(
        &self,
        asker: &mut Asker<'_>,
        (handle, offset, size): (FileHandle, u64, u32),
        detail: Detail,
    ) -> Result<(DirectoryBuffer, Vec<Inode>), Fail> {
        let directory = self.directory(handle)?;
        let mut directory = directory.lock().unwrap_or_else(PoisonError::into_inner);
        if offset == 0 {
            directory.rewind();
        }
        let (mut buffer, mut known) = (DirectoryBuffer::new(size), Vec::new());
        let mut at = usize::try_from(offset).unwrap_or(usize::MAX);
        loop {
            while at >= directory.entries.len() && directory.cookie.is_some() {
                // What is there already is sent first: a program may want no more.
                if !buffer.is_empty() {
                    return Ok((buffer, known));
                }
                self.fetch(asker, &mut directory)?;
            }
            let Some(entry) = directory.entries.get(at) else { return Ok((buffer, known)) };
            let pushed = match detail {
                Detail::Attributes => self.push_plus(&directory.node, entry, at as u64 + 1, (&mut buffer, &mut known)),
                Detail::Names => buffer.push(&plain(entry, at as u64 + 1)),
            };
            if pushed == Pushed::Full {
                return Ok((buffer, known));
            }
            at += 1;
        }
    }

    fn push_plus(
        &self,
        directory: &Node,
        entry: &results::Entry,
        next: u64,
        (buffer, known): (&mut DirectoryBuffer, &mut Vec<Inode>),
    ) -> Pushed {
        let name = plain(entry, next);
        let is_dots = entry.name == b"." || entry.name == b"..";
        match (&entry.handle, entry.attributes) {
            (Some(handle), Some(attributes)) if !is_dots => {
                let found = Located { handle: handle.clone(), attributes };
                let (node, shown) = self.entry(found, (directory.number, entry.name.clone()));
                let pushed = buffer.push_plus(&name, &shown);
                match pushed {
                    Pushed::Yes => known.push(node.inode()),
                    Pushed::Full => self.nodes.forget(node.inode(), 1),
                }
                pushed
            }
            _ => buffer.push_plus(&name, &Entry::negative(std::time::Duration::ZERO)),
        }
    }

    fn fetch(&self, asker: &mut Asker<'_>, directory: &mut OpenDirectory) -> Result<(), Fail> {
        let Some(cookie) = directory.cookie else { return Ok(()) };
        let without_plus = self.without_plus.load(Ordering::Relaxed);
        let detail = if without_plus { Detail::Names } else { Detail::Attributes };
        let node = Arc::clone(&directory.node);
        let mut outcome = Ok(());
        let listing = self.on(asker, &node, |asker, handle| {
            match operations::list(asker, handle, cookie, LISTING_LEN, detail)? {
                Err(Status::NOTSUPP) if detail == Detail::Attributes => Ok(Ok(None)),
                Err(Status::BAD_COOKIE) => {
                    outcome = Err(());
                    Ok(Ok(None))
                }
                Err(status) => Ok(Err(status)),
                Ok(listing) => Ok(Ok(Some(listing))),
            }
        })?;
        match (listing, outcome) {
            (Some(mut listing), _) => {
                self.fill_in(asker, &node, &mut listing)?;
                directory.take(listing)
            }
            (None, Err(())) => directory.restart(),
            (None, Ok(())) => {
                self.without_plus.store(true, Ordering::Relaxed);
                Ok(())
            }
        }
    }
}

impl Vfs {
    /// Programs rely on kinds in listings: what a server leaves out is looked up.
    fn fill_in(&self, asker: &mut Asker<'_>, node: &Node, listing: &mut results::Listing) -> Result<(), Fail> {
        for entry in &mut listing.entries {
            if entry.attributes.is_some() || entry.name == b"." || entry.name == b".." {
                continue;
            }
            let name = &entry.name;
            let found = self.on(asker, node, |asker, directory| operations::lookup(asker, Place { directory, name }));
            match found {
                Ok(found) => (entry.handle, entry.attributes) = (Some(found.handle), Some(found.attributes)),
                // Gone meanwhile, or not to be looked at: the name alone is shown.
                Err(Fail(Errno::NOENT | Errno::ACCES | Errno::STALE)) => {}
                Err(fail) => return Err(fail),
            }
        }
        Ok(())
    }
}

fn plain(entry: &results::Entry, next: u64) -> DirectoryEntry<'_> {
    let is_dots = entry.name == b"." || entry.name == b"..";
    let unknown = if is_dots { FileKind::Directory } else { FileKind::Regular };
    let kind = entry.attributes.map_or(unknown, |attributes| kind_of(attributes.kind));
    DirectoryEntry { inode: Inode::new(entry.file_id), kind, next_offset: next, name: OsStr::from_bytes(&entry.name) }
}
