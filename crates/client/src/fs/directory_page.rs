//! Entries of a directory, as a front end takes them.

use super::attributes::{FileKind, file_kind};
use super::core::FileSystem;
use super::listing::{DOTS, Here, Listing};
use super::results::Entry;
use super::shown::Shown;
use std::ffi::OsStr;
use std::sync::Arc;
use std::time::Duration;
use wayfs_types::{FileId, Inode, Name, Place};

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
    pub(super) fs: Arc<FileSystem>,
    pub(super) listing: Arc<Listing>,
    pub(super) request: PageRequest,
    /// How often the replica had changed when the request came.
    pub(super) since: u64,
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

impl FileSystem {
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
