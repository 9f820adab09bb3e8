//! The state of one open file: its base, its body, and what is not committed of it.

use super::base::Base;
use super::body::{Body, host_error};
use super::body_files::BodyFiles;
use super::contents::Contents;
use super::host::Host;
use super::journaled::Journaled;
use super::kernel_way::{KernelOpens, Served};
use super::life::{Hole, Life, Taking};
use super::loading::Piece;
use super::ranges::RangeSet;
use std::ops::Range;
use std::sync::Arc;
use wayfs_types::{Content, FileId, FsError, Inode, Time, WallTime};

#[derive(Debug)]
pub(super) struct State {
    pub(super) base: Base,
    /// Bytes of the base at and above this were cut off: what is there now is in the body.
    pub(super) base_limit: u64,
    pub(super) size: u64,
    pub(super) mtime: WallTime,
    /// Where its bytes are, what of them is uncommitted, and how far its commit is.
    pub(super) life: Life,
    /// The machine that it is on.
    pub(super) host: Arc<dyn Host>,
    /// On whose behalf it was last written.
    pub(super) user: u32,
    /// The inode as it was last known to be, without its content, times and names.
    pub(super) known_as: Arc<Inode>,
    /// Another machine took its last name, and attributes were set through a handle since.
    pub(super) set_since: Option<SetSince>,
    pub(super) opens: KernelOpens,
    /// What the journal has of it.
    pub(super) journaled: Option<Journaled>,
    /// The journal did not take all that is uncommitted.
    pub(super) is_refused: bool,
    /// How far records go that hold what the journal had not taken.
    pub(super) unkept: Option<u64>,
    /// It was written upon another version than the one that programs went on from, and is not what they see.
    pub(super) is_beside: bool,
}

/// Attributes that were set through a handle since another machine removed the file.
#[derive(Debug, Clone)]
pub(super) struct SetSince {
    /// All that the file has, contents apart.
    pub(super) inode: Arc<Inode>,
    /// Who set them last.
    pub(super) user: u32,
}

/// Whether an open file became another version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "what the kernel has of the old version is no longer of the new one"]
pub(super) enum Refreshed {
    Yes,
    No,
}

impl State {
    pub(super) fn new(id: FileId, inode: &Inode, host: Arc<dyn Host>) -> Self {
        let size = inode.content.size();
        Self {
            base: Base { file: id, version: inode.version, content: inode.content.clone(), lender: None },
            base_limit: size,
            size,
            mtime: inode.mtime,
            life: Life::default(),
            host,
            user: inode.uid,
            known_as: Arc::new(Inode { content: Content::EMPTY, ..inode.clone() }),
            set_since: None,
            opens: KernelOpens::None,
            journaled: None,
            is_refused: false,
            unkept: None,
            is_beside: false,
        }
    }

    /// Now, on the clock by which things become due.
    pub(super) fn time(&self) -> Time {
        self.host.now()
    }

    /// Takes the engine's word for what the file holds; only when nothing is uncommitted. The marker of a removed file
    /// says nothing of that; one that came back (its removal met a change of it) is a file like any other.
    /// Answers whether it is another version now.
    pub(super) fn refresh(&mut self, inode: &Inode) -> Refreshed {
        let taking = if inode.is_removed() { self.life.removal_came() } else { self.life.news_came() };
        if taking == Taking::Later || inode.is_removed() {
            return Refreshed::No;
        }
        self.life.named();
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
            self.life.renewed();
        }
        Refreshed::Yes
    }

    /// Whether programs have the body from the kernel.
    pub(super) fn is_served_or_watched(&self) -> bool {
        matches!(self.opens, KernelOpens::Passthrough { .. }) || self.life.is_watched()
    }

    /// The size below which a hole would hide bytes of the base, or of the base to come.
    pub(super) fn hidden_below(&self) -> u64 {
        self.base.content.size().max(self.life.taken_size())
    }

    /// Notes that bytes changed and the file is `size` long.
    pub(super) fn touched(&mut self, written: Range<u64>, mtime: WallTime) {
        let old_size = self.size;
        let all = old_size..written.start.max(old_size);
        let hole = Hole { hiding: old_size..all.end.min(self.hidden_below()), all };
        self.size = old_size.max(written.end);
        self.mtime = mtime;
        self.life.written(written, hole, self.time());
        self.stamp_body();
    }

    /// Notes that there is something to commit, which is not in the body.
    pub(super) fn changed(&mut self, mtime: WallTime) {
        self.mtime = mtime;
        self.life.changed(self.time());
        self.stamp_body();
    }

    /// Does something to a body that can take writes up to `end`.
    pub(super) fn write_body(
        &mut self,
        contents: &dyn Contents,
        files: &BodyFiles,
        end: u64,
        act: impl FnOnce(&mut Body) -> Result<(), FsError>,
    ) -> Result<(), FsError> {
        self.name_record(contents, files);
        let made = if self.life.body().is_none() { Some(self.new_body(contents, files)?) } else { None };
        self.life.load(|body| {
            let body = body.get_or_insert_with(|| made.expect("made where there is none"));
            if end > files.memory_max() {
                body.spill(files)?;
            }
            act(body)
        })
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
        self.write_body(contents, files, end, |body| match body {
            Body::Memory(bytes) => {
                let (from, until) = (start as usize, end as usize);
                if bytes.len() < until {
                    bytes.resize(until, 0);
                }
                bytes[from..until].copy_from_slice(data);
                Ok(())
            }
            Body::Disk { file, .. } => {
                file.file().write_at(start, [&[], data]).map_err(|error| host_error(&error, "write body file"))
            }
        })
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
        let is_kept = self.is_served_or_watched() && matches!(self.life.body(), Some(Body::Disk { .. }));
        let former = if size == 0 && !is_kept {
            // A commit may still be reading the body of what was closed before: it keeps it.
            self.life.unstaged(Vec::new())
        } else {
            self.write_body(contents, files, size, |body| resize_body(body, size))?;
            None
        };
        if size < self.size {
            self.base_limit = self.base_limit.min(size);
            self.size = size;
            self.mtime = now;
            self.life.cut(size, self.time());
            self.stamp_body();
        } else {
            // An empty write at the new end: everything between is a hole.
            self.touched(size..size, now);
        }
        Ok(former)
    }

    pub(super) fn new_body(&self, contents: &dyn Contents, files: &BodyFiles) -> Result<Body, FsError> {
        match &self.base.content {
            Content::Inline(bytes) => return Ok(Body::Memory(bytes.to_vec())),
            Content::Tree { root, depth: 0, size, .. } if *size <= files.memory_max() => {
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
    let made = match state.life.body() {
        Some(_) => None,
        None => {
            let file = files.make()?;
            file.file().set_len(state.size).map_err(|error| host_error(&error, "size body file"))?;
            Some(Body::Disk { file, present: RangeSet::new() })
        }
    };
    state.life.load(|body| {
        *body = body.take().or(made);
        pieces.iter().try_for_each(|piece| fill_piece(body, limit, piece))
    })
}

/// Writes what of a piece is neither present nor cut off.
fn fill_piece(body: &mut Option<Body>, limit: u64, piece: &Piece) -> Result<(), FsError> {
    let Some(Body::Disk { file, present }) = body else { return Ok(()) };
    let range = piece.range();
    for gap in present.gaps(&(range.start..range.end.min(limit).max(range.start))) {
        // What is not present reads as zeros already.
        if !is_hole(&piece.bytes) {
            let bytes = &piece.bytes[(gap.start - range.start) as usize..(gap.end - range.start) as usize];
            file.file().write_at(gap.start, [&[], bytes]).map_err(|error| host_error(&error, "fill body file"))?;
        }
        present.insert(gap);
    }
    Ok(())
}

fn resize_body(body: &mut Body, size: u64) -> Result<(), FsError> {
    match body {
        Body::Memory(bytes) => bytes.resize(size as usize, 0),
        Body::Disk { file, present } => {
            file.file().set_len(size).map_err(|error| host_error(&error, "size body file"))?;
            present.remove(size..u64::MAX);
        }
    }
    Ok(())
}

/// Whether a chunk is one of those that holes are made of.
fn is_hole(chunk: &[u8]) -> bool {
    chunk.len() == wayfs_content::CHUNK_MAX && chunk.iter().all(|byte| *byte == 0)
}
