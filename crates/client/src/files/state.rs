//! The state of one open file: its base, its body, and what is not committed of it.

use super::body::{Body, BodyFile, BodyFiles, MEMORY_MAX, host_error};
use super::closing::Closing;
use super::contents::Contents;
use super::follow::Served;
use super::journaling::Journaled;
use super::loading::{Base, Piece};
use super::mapped::Mapped;
use super::passthrough::PassthroughWrites;
use super::ranges::RangeSet;
use super::removed_elsewhere::SetSince;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Instant;
use wayfs_types::{Content, FileId, FsError, Inode, WallTime};

/// Writes that are in no content yet.
#[derive(Debug, Clone, Default)]
pub(super) struct Changes {
    /// What was written, holes that hide old bytes included.
    pub(super) ranges: RangeSet,
    /// Smallest size that the file had meanwhile; `None` if it was never truncated.
    pub(super) low_water: Option<u64>,
    /// All of it was written through handles that append (`O_APPEND`).
    pub(super) is_appended: bool,
    /// Anything at all, be it only a time.
    pub(super) is_any: bool,
}

impl Changes {
    /// All that was changed, with what came later, in a file that is `size` long now.
    pub(super) fn followed_by(&self, later: &Self, size: u64) -> Self {
        let low_water = match (self.low_water, later.low_water) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        let is_appended = self.is_appended && (later.is_appended || !later.is_any);
        let mut ranges = self.ranges.clone();
        ranges.remove(size..u64::MAX);
        ranges.absorb(&later.ranges, size);
        Self { ranges, low_water, is_any: true, is_appended }
    }
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) base: Base,
    /// Bytes of the base at and above this were cut off: what is there now is in the body.
    pub(super) base_limit: u64,
    pub(super) size: u64,
    pub(super) mtime: WallTime,
    pub(super) body: Option<Body>,
    pub(super) unsaved: Changes,
    /// Taken by the commit that is running.
    pub(super) saving: Option<Changes>,
    pub(super) saving_size: u64,
    pub(super) dirty_since: Option<Instant>,
    /// On whose behalf it was last written.
    pub(super) user: u32,
    pub(super) readers: u32,
    pub(super) writers: u32,
    /// The inode as it was last known to be, without its content, times and names.
    pub(super) known_as: Arc<Inode>,
    /// Another machine took its last name, and attributes were set through a handle since.
    pub(super) set_since: Option<SetSince>,
    /// The inode as it was when the last name went.
    pub(super) removed: Option<Arc<Inode>>,
    /// It never had a name and is being given one: its bytes are wanted.
    pub(super) is_naming: bool,
    /// A commit failed: when to try again.
    pub(super) retry_at: Option<Instant>,
    pub(super) opens: KernelOpens,
    pub(super) mapped: Mapped,
    /// Programs write the body by passthrough.
    pub(super) passthrough: Option<PassthroughWrites>,
    /// It was closed before its commit.
    pub(super) closing: Option<Closing>,
    /// Those that were committed since, whose notes are to be taken back.
    pub(super) closed: Vec<Closing>,
    /// After a commit of all that was written by passthrough: no other one before this, unless somebody waits for it.
    pub(super) rest_until: Option<Instant>,
    /// News from elsewhere came that could not be taken in then.
    pub(super) missed_news: bool,
    /// Emptied by its open, and nothing else since.
    pub(super) is_only_emptied: bool,
    /// What the journal has of it.
    pub(super) journaled: Option<Journaled>,
    /// What is uncommitted is what a killed daemon left; a record may hold it already.
    pub(super) is_left: bool,
}

/// Whether an open file became another version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "what the kernel has of the old version is no longer of the new one"]
pub(super) enum Refreshed {
    Yes,
    No,
}

/// How the kernel reads this inode at present. It refuses to mix the two ways.
#[derive(Debug, Default)]
pub(super) enum KernelOpens {
    /// Not open, or only with direct requests.
    #[default]
    None,
    /// Through its page cache, by so many handles.
    Cached(u32),
    /// From a plain file, by so many handles.
    Passthrough {
        /// Which.
        file: Arc<BodyFile>,
        /// Under which the kernel knows it.
        backing: wayfs_fuse::BackingId,
        /// How many.
        count: u32,
        /// What the plain file holds, if that is not what the file holds.
        behind: Option<Served>,
    },
}

impl State {
    pub(super) fn new(id: FileId, inode: &Inode) -> Self {
        let size = inode.content.size();
        Self {
            base: Base { file: id, version: inode.version, content: inode.content.clone(), lender: None },
            base_limit: size,
            size,
            mtime: inode.mtime,
            body: None,
            unsaved: Changes::default(),
            saving: None,
            saving_size: 0,
            dirty_since: None,
            user: inode.uid,
            readers: 0,
            writers: 0,
            known_as: Arc::new(Inode { content: Content::EMPTY, ..inode.clone() }),
            set_since: None,
            removed: None,
            is_naming: false,
            retry_at: None,
            opens: KernelOpens::None,
            mapped: Mapped::default(),
            passthrough: None,
            closing: None,
            closed: Vec::new(),
            rest_until: None,
            missed_news: false,
            is_only_emptied: false,
            journaled: None,
            is_left: false,
        }
    }

    /// Whether anything is uncommitted.
    pub(super) fn is_dirty(&self) -> bool {
        self.unsaved.is_any || self.saving.is_some()
    }

    /// Takes the engine's word for what the file holds; only when nothing is uncommitted. The marker of a removed file
    /// says nothing of that; one that came back (its removal met a change of it) is a file like any other.
    /// Answers whether it is another version now.
    pub(super) fn refresh(&mut self, inode: &Inode) -> Refreshed {
        let stays_removed = self.removed.is_some() && inode.is_removed();
        if self.is_dirty() || stays_removed || self.is_watched() || self.is_written_by_passthrough() {
            self.missed_news = true;
            return Refreshed::No;
        }
        self.missed_news = false;
        if inode.is_removed() {
            return Refreshed::No;
        }
        self.removed = None;
        self.mtime = inode.mtime;
        if self.base.version == inode.version && self.base.content == inode.content {
            return Refreshed::No;
        }
        self.base.version = inode.version;
        if self.base.content != inode.content {
            self.leave_served(Served::Older(self.base.content.clone()));
            self.size = inode.content.size();
            self.base_limit = self.size;
            self.base.content = inode.content.clone();
            self.body = None;
        }
        Refreshed::Yes
    }

    /// Whether programs have the body from the kernel.
    pub(super) fn is_served_or_watched(&self) -> bool {
        matches!(self.opens, KernelOpens::Passthrough { .. }) || self.is_watched()
    }

    /// The size below which a hole would hide bytes of the base, or of the base to come.
    pub(super) fn hidden_below(&self) -> u64 {
        let coming = if self.saving.is_some() { self.saving_size } else { 0 };
        self.base.content.size().max(coming)
    }

    /// Notes that bytes changed and the file is `size` long.
    pub(super) fn touched(&mut self, written: Range<u64>, now: WallTime) {
        let old_size = self.size;
        if written.start > old_size {
            let hole = old_size..written.start;
            self.unsaved.ranges.insert(hole.start..hole.end.min(self.hidden_below()));
            if let Some(Body::Disk { present, .. }) = &mut self.body {
                present.insert(hole);
            }
        }
        if let Some(Body::Disk { present, .. }) = &mut self.body {
            present.insert(written.clone());
        }
        self.size = old_size.max(written.end);
        self.unsaved.ranges.insert(written);
        self.unsaved.is_appended = false;
        self.changed(now);
    }

    /// Notes that there is something to commit.
    pub(super) fn changed(&mut self, now: WallTime) {
        self.mtime = now;
        self.unsaved.is_any = true;
        self.is_only_emptied = false;
        self.stamp_body();
        self.dirty_since.get_or_insert_with(Instant::now);
    }

    /// A body that can take writes up to `end`.
    pub(super) fn writable_body(
        &mut self,
        contents: &dyn Contents,
        files: &BodyFiles,
        end: u64,
    ) -> Result<&mut Body, FsError> {
        if self.body.is_none() {
            self.body = Some(self.new_body(contents, files)?);
        }
        let body = self.body.as_mut().expect("made above");
        if end > MEMORY_MAX as u64 {
            body.spill(files)?;
        }
        Ok(body)
    }

    /// Writes bytes into the body.
    pub(super) fn put(
        &mut self,
        contents: &dyn Contents,
        files: &BodyFiles,
        start: u64,
        data: &[u8],
    ) -> Result<(), FsError> {
        let end = start + data.len() as u64;
        match self.writable_body(contents, files, end)? {
            Body::Memory(bytes) => {
                let (from, until) = (start as usize, end as usize);
                if bytes.len() < until {
                    bytes.resize(until, 0);
                }
                bytes[from..until].copy_from_slice(data);
            }
            Body::Disk { file, .. } => {
                file.file().write_all_at(data, start).map_err(|error| host_error(&error, "write body file"))?;
            }
        }
        Ok(())
    }

    /// Gives it another size; answers the body that it had, if it has another one now: it is needed until the journal says so.
    pub(super) fn resize(
        &mut self,
        contents: &dyn Contents,
        files: &BodyFiles,
        size: u64,
        user: u32,
    ) -> Result<Option<Body>, FsError> {
        self.user = user;
        let now = contents.now();
        let is_served = self.is_served_or_watched();
        let mut former = None;
        if size == 0 && !(is_served && matches!(self.body, Some(Body::Disk { .. }))) {
            // A commit may still be reading the body of what was closed before: it keeps it.
            former = self.body.replace(Body::Memory(Vec::new()));
        } else {
            match self.writable_body(contents, files, size)? {
                Body::Memory(bytes) => bytes.resize(size as usize, 0),
                Body::Disk { file, present } => {
                    file.file().set_len(size).map_err(|error| host_error(&error, "size body file"))?;
                    present.remove(size..u64::MAX);
                }
            }
        }
        if size < self.size {
            self.unsaved.ranges.remove(size..u64::MAX);
            self.unsaved.low_water = Some(self.unsaved.low_water.map_or(size, |low| low.min(size)));
            self.unsaved.is_appended = false;
            self.base_limit = self.base_limit.min(size);
            self.size = size;
            self.changed(now);
        } else {
            // An empty write at the new end: everything between is a hole.
            self.touched(size..size, now);
        }
        Ok(former)
    }

    pub(super) fn new_body(&self, contents: &dyn Contents, files: &BodyFiles) -> Result<Body, FsError> {
        match &self.base.content {
            Content::Inline(bytes) => return Ok(Body::Memory(bytes.to_vec())),
            Content::Tree { root, depth: 0, size, .. } if *size <= MEMORY_MAX as u64 => {
                if let Some(bytes) = contents.chunk(root)? {
                    return Ok(Body::Memory(bytes.to_vec()));
                }
            }
            Content::Tree { .. } => {}
        }
        let file = files.make()?;
        file.file().set_len(self.size).map_err(|error| host_error(&error, "size body file"))?;
        Ok(Body::Disk { file, present: RangeSet::new() })
    }
}

/// Writes the parts of chunks that are neither present nor cut off into the body.
pub(super) fn fill(state: &mut State, files: &BodyFiles, pieces: &[Piece]) -> Result<(), FsError> {
    let limit = state.base_limit.min(state.size);
    if state.body.is_none() {
        let file = files.make()?;
        file.file().set_len(state.size).map_err(|error| host_error(&error, "size body file"))?;
        state.body = Some(Body::Disk { file, present: RangeSet::new() });
    }
    let Some(Body::Disk { file, present }) = &mut state.body else { return Ok(()) };
    for piece in pieces {
        let range = piece.range();
        for gap in present.gaps(&(range.start..range.end.min(limit).max(range.start))) {
            if is_hole(&piece.bytes) {
                // What is not present reads as zeros already.
                present.insert(gap);
                continue;
            }
            let bytes = &piece.bytes[(gap.start - range.start) as usize..(gap.end - range.start) as usize];
            file.file().write_all_at(bytes, gap.start).map_err(|error| host_error(&error, "fill body file"))?;
            present.insert(gap);
        }
    }
    Ok(())
}

/// Whether a chunk is one of those that holes are made of.
fn is_hole(chunk: &[u8]) -> bool {
    chunk.len() == wayfs_content::CHUNK_MAX && chunk.iter().all(|byte| *byte == 0)
}
