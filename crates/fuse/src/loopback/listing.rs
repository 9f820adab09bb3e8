//! Open directories.

use std::collections::{HashMap, VecDeque};
use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{FileType, Mode, OFlags, RawDir, SeekFrom};

use super::inodes::Node;
use super::{Loopback, descriptor_path};
use crate::{
    Delivery, DirectoryBuffer, DirectoryEntry, Entry, Errno, FileHandle, FileKind, Inode, OpenFlags, Opened, Operation,
    Pushed, Reply, Request,
};

/// Entries are fetched from the host by so many bytes at a time.
const FETCH_LEN: usize = 32 * 1024;

/// One open directory: entries fetched and not yet given, in order.
#[derive(Debug)]
struct Listing {
    fd: OwnedFd,
    node: Arc<Node>,
    fetched: VecDeque<Name>,
    /// The offset at which the first of `fetched` stands.
    at: u64,
}

#[derive(Debug)]
struct Name {
    host_inode: u64,
    kind: FileKind,
    next_offset: u64,
    name: OsString,
}

/// All of them. The lock is held only to find one; each has its own.
#[derive(Debug, Default)]
pub(super) struct Listings {
    open: Mutex<HashMap<FileHandle, Arc<Mutex<Listing>>>>,
    next: AtomicU64,
}

impl Listings {
    fn listing(&self, handle: FileHandle) -> Result<Arc<Mutex<Listing>>, Errno> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.get(&handle).cloned().ok_or(Errno::BADF)
    }

    fn insert(&self, listing: Listing) -> FileHandle {
        let handle = FileHandle::new(self.next.fetch_add(1, Ordering::Relaxed));
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.insert(handle, Arc::new(Mutex::new(listing)));
        handle
    }

    fn remove(&self, handle: FileHandle) {
        let gone = self.open.lock().unwrap_or_else(PoisonError::into_inner).remove(&handle);
        drop(gone);
    }
}

impl Listing {
    /// Makes `fetched` start at `offset`; empty afterwards only at the end.
    fn seek(&mut self, offset: u64) -> Result<(), Errno> {
        if self.at != offset {
            rustix::fs::seek(&self.fd, SeekFrom::Start(offset))?;
            self.fetched.clear();
            self.at = offset;
        }
        if self.fetched.is_empty() {
            self.fetch()?;
        }
        Ok(())
    }

    fn fetch(&mut self) -> Result<(), Errno> {
        let mut space = Vec::with_capacity(FETCH_LEN);
        let mut directory = RawDir::new(&self.fd, space.spare_capacity_mut());
        while let Some(entry) = directory.next() {
            let entry = entry?;
            self.fetched.push_back(Name {
                host_inode: entry.ino(),
                kind: kind(entry.file_type()),
                next_offset: entry.next_entry_cookie(),
                name: OsStr::from_bytes(entry.file_name().to_bytes()).to_owned(),
            });
            if directory.is_buffer_empty() {
                break;
            }
        }
        Ok(())
    }

    fn advance(&mut self) {
        if let Some(name) = self.fetched.pop_front() {
            self.at = name.next_offset;
        }
    }
}

impl Loopback {
    pub(super) fn handle_listing(&self, request: &Request, reply: Reply) {
        match request.operation() {
            Operation::OpenDirectory { .. } => match self.open_directory(request.inode()) {
                Ok(handle) => {
                    let flags = OpenFlags::CACHE_DIR | OpenFlags::KEEP_CACHE;
                    if reply.opened(&Opened::new(handle, flags)) == Delivery::Gone {
                        self.listings.remove(handle);
                    }
                }
                Err(errno) => {
                    reply.error(errno);
                }
            },
            Operation::ReadDirectory { handle, offset, size } => {
                match self.list(handle, offset, size) {
                    Ok(buffer) => reply.directory(&buffer),
                    Err(errno) => reply.error(errno),
                };
            }
            Operation::ReadDirectoryPlus { handle, offset, size } => {
                self.reply_list_plus(reply, handle, offset, size);
            }
            Operation::FsyncDirectory { handle, .. } => {
                let result = self.listings.listing(handle).and_then(|listing| {
                    let listing = listing.lock().unwrap_or_else(PoisonError::into_inner);
                    Ok(rustix::fs::fsync(&listing.fd)?)
                });
                reply.result(result);
            }
            Operation::ReleaseDirectory { handle } => {
                self.listings.remove(handle);
                reply.ok();
            }
            _ => {
                reply.error(Errno::NOSYS);
            }
        }
    }

    fn open_directory(&self, inode: Inode) -> Result<FileHandle, Errno> {
        let node = self.inodes.node(inode)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(descriptor_path(&node.fd), flags, Mode::empty())?;
        Ok(self.listings.insert(Listing { fd, node, fetched: VecDeque::new(), at: 0 }))
    }

    fn list(&self, handle: FileHandle, offset: u64, size: u32) -> Result<DirectoryBuffer, Errno> {
        let listing = self.listings.listing(handle)?;
        let mut listing = listing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut buffer = DirectoryBuffer::new(size);
        listing.seek(offset)?;
        while let Some(name) = listing.fetched.front() {
            if buffer.push(&name.entry()) == Pushed::Full {
                break;
            }
            listing.advance();
        }
        Ok(buffer)
    }

    fn reply_list_plus(&self, reply: Reply, handle: FileHandle, offset: u64, size: u32) {
        let mut looked_up = Vec::new();
        let delivery = match self.list_plus(handle, offset, size, &mut looked_up) {
            Ok(buffer) => reply.directory(&buffer),
            Err(errno) => {
                reply.error(errno);
                Delivery::Gone
            }
        };
        if delivery == Delivery::Gone {
            for inode in looked_up {
                self.inodes.forget(inode, 1);
            }
        }
    }

    fn list_plus(
        &self,
        handle: FileHandle,
        offset: u64,
        size: u32,
        looked_up: &mut Vec<Inode>,
    ) -> Result<DirectoryBuffer, Errno> {
        let listing = self.listings.listing(handle)?;
        let mut listing = listing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut buffer = DirectoryBuffer::new(size);
        listing.seek(offset)?;
        while let Some(name) = listing.fetched.front() {
            let attributes = self.plus_entry(&listing.node, name);
            if buffer.push_plus(&name.entry(), &attributes) == Pushed::Full {
                self.inodes.forget(attributes.inode, 1);
                break;
            }
            if attributes.inode != Inode::NONE {
                looked_up.push(attributes.inode);
            }
            listing.advance();
        }
        Ok(buffer)
    }

    /// What goes with a name. Without attributes: the two dots, and what vanished meanwhile.
    fn plus_entry(&self, parent: &Node, name: &Name) -> Entry {
        let nothing = Entry::negative(std::time::Duration::ZERO);
        if name.name == "." || name.name == ".." {
            return nothing;
        }
        self.look_up_at(parent, &name.name).map_or(nothing, |(entry, _)| entry)
    }
}

impl Name {
    fn entry(&self) -> DirectoryEntry<'_> {
        DirectoryEntry {
            inode: Inode::new(self.host_inode),
            kind: self.kind,
            next_offset: self.next_offset,
            name: &self.name,
        }
    }
}

fn kind(host: FileType) -> FileKind {
    FileKind::from_mode(host.as_raw_mode())
}
