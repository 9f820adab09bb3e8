//! From chunks, in order, to a [`Content`].

use crate::chunker::cut_in;
use crate::error::{ContentError, WriteError};
use crate::holes::Zeros;
use crate::limits::{DEPTH_MAX, STANDARD, Shape};
use crate::list_node::{Entry, ListNode, Run, ends_after, len_of_same};
use crate::sink::ChunkSink;
use bytes::Bytes;
use wayfs_types::{Content, Digest};

/// Builds the tree of list nodes above chunks that are given in order of the file.
///
/// The chunks themselves go to the sink by the caller's hand; the builder gives it the nodes.
#[derive(Debug)]
pub struct Builder {
    shape: Shape,
    /// Level of the entries that [`Builder::push`] takes; 0 for chunks.
    base: u8,
    size: u64,
    /// Bytes of it in holes; only counted from chunks.
    holes: u64,
    zeros: Zeros,
    levels: Vec<Level>,
    nodes: u64,
}

/// Entries of one level that are in no node yet.
#[derive(Debug, Default)]
struct Level {
    open: Vec<Entry>,
    /// All entries that this level ever had.
    total: u64,
}

impl Default for Builder {
    fn default() -> Self {
        Self::new()
    }
}

impl Builder {
    /// A builder of a file with nothing in it.
    pub fn new() -> Self {
        Self::above(STANDARD, 0)
    }

    /// A builder above entries of a level that is complete already.
    pub(crate) fn above(shape: Shape, base: u8) -> Self {
        Self { shape, base, size: 0, holes: 0, zeros: Zeros::of(&shape), levels: Vec::new(), nodes: 0 }
    }

    /// List nodes given to the sink so far.
    pub fn nodes(&self) -> u64 {
        self.nodes
    }

    /// Adds the next chunk of the file; one without bytes is left out.
    ///
    /// # Errors
    /// [`ContentError::TooLarge`] past [`DEPTH_MAX`] levels; the sink's error.
    pub fn push<S: ChunkSink>(&mut self, entry: Entry, sink: &mut S) -> Result<(), WriteError<S::Error>> {
        self.push_run(Run::of(entry), sink)
    }

    /// Adds a piece many times, at the cost of a node for each level instead of one for each place.
    ///
    /// # Errors
    /// As for [`Builder::push`].
    pub(crate) fn push_run<S: ChunkSink>(&mut self, run: Run, sink: &mut S) -> Result<(), WriteError<S::Error>> {
        let len = run.len().ok_or(ContentError::TooLarge(u64::MAX))?;
        if len == 0 {
            return Ok(());
        }
        self.size = self.size.checked_add(len).ok_or(ContentError::TooLarge(u64::MAX))?;
        if self.base == 0 && self.zeros.is(0, &run.entry) {
            self.holes += len;
        }
        self.push_at(0, run, sink)
    }

    fn push_at<S: ChunkSink>(&mut self, at: usize, run: Run, sink: &mut S) -> Result<(), WriteError<S::Error>> {
        let same = len_of_same(&self.shape, &run.entry.digest);
        let mut left = run.count;
        while left > 0 {
            if self.levels.len() == at {
                self.levels.push(Level::default());
            }
            let level = &mut self.levels[at];
            let nodes = left / same as u64;
            if level.open.is_empty() && nodes > 0 {
                // All these nodes are one.
                level.open = vec![run.entry; same];
                level.total += nodes * same as u64;
                left -= nodes * same as u64;
                let entry = self.seal(at, sink)?;
                self.push_at(at + 1, Run { entry, count: nodes }, sink)?;
                continue;
            }
            level.total += 1;
            level.open.push(run.entry);
            left -= 1;
            if ends_after(&self.shape, level.open.len(), &run.entry.digest) {
                let entry = self.seal(at, sink)?;
                self.push_at(at + 1, Run::of(entry), sink)?;
            }
        }
        Ok(())
    }

    /// Ends the file.
    ///
    /// # Errors
    /// As for [`Builder::push`].
    pub fn finish<S: ChunkSink>(mut self, sink: &mut S) -> Result<Content, WriteError<S::Error>> {
        self.end(sink)
    }

    /// As [`Builder::finish`], for those who count nodes afterwards.
    pub(crate) fn end<S: ChunkSink>(&mut self, sink: &mut S) -> Result<Content, WriteError<S::Error>> {
        let mut at = 0;
        while let Some(level) = self.levels.get(at) {
            if let ([only], 1) = (level.open.as_slice(), level.total) {
                let depth = self.base + u8::try_from(at).expect("a level was refused above DEPTH_MAX");
                return Ok(Content::Tree { size: self.size, root: only.digest, depth, holes: self.holes });
            }
            if level.open.is_empty() {
                at += 1;
                continue;
            }
            let carried = self.seal(at, sink)?;
            at += 1;
            if self.levels.len() == at {
                self.levels.push(Level::default());
            }
            self.levels[at].total += 1;
            self.levels[at].open.push(carried);
        }
        Ok(Content::EMPTY)
    }

    /// Makes a node of the open entries of a level and returns its entry for the level above.
    fn seal<S: ChunkSink>(&mut self, at: usize, sink: &mut S) -> Result<Entry, WriteError<S::Error>> {
        let level = u8::try_from(at + 1 + usize::from(self.base)).unwrap_or(u8::MAX);
        if level > DEPTH_MAX {
            return Err(ContentError::TooLarge(self.size).into());
        }
        let entries = std::mem::take(&mut self.levels[at].open);
        self.nodes += 1;
        emit_node(ListNode { level, entries }, sink).map_err(WriteError::Io)
    }
}

/// Gives a node to the sink and returns its entry for the level above.
pub(crate) fn emit_node<S: ChunkSink>(node: ListNode, sink: &mut S) -> Result<Entry, S::Error> {
    let len = node.entries.iter().map(|entry| entry.len).sum();
    let bytes = node.encode();
    let digest = Digest::of(&bytes);
    sink.put(digest, bytes)?;
    Ok(Entry { digest, len })
}

/// The content of a file that needs no cutting, or `None` if it is too large for that.
///
/// Returns the one chunk too unless the content is inline.
pub fn single(bytes: &Bytes) -> Option<(Content, Option<Entry>)> {
    single_in(&STANDARD, bytes)
}

pub(crate) fn single_in(shape: &Shape, bytes: &Bytes) -> Option<(Content, Option<Entry>)> {
    if bytes.len() <= shape.inline_max {
        return Some((Content::Inline(bytes.clone()), None));
    }
    if bytes.len() > shape.whole_max {
        return None;
    }
    let entry = Entry { digest: Digest::of(bytes), len: bytes.len() as u64 };
    Some((Content::Tree { size: entry.len, root: entry.digest, depth: 0, holes: 0 }, Some(entry)))
}

/// The content of bytes that are all in memory; chunks and nodes go to the sink.
///
/// # Errors
/// [`ContentError::TooLarge`]; the sink's error.
pub fn build<S: ChunkSink>(bytes: &Bytes, sink: &mut S) -> Result<Content, WriteError<S::Error>> {
    build_in(&STANDARD, bytes, sink)
}

pub(crate) fn build_in<S: ChunkSink>(
    shape: &Shape,
    bytes: &Bytes,
    sink: &mut S,
) -> Result<Content, WriteError<S::Error>> {
    if let Some((content, chunk)) = single_in(shape, bytes) {
        if let Some(entry) = chunk {
            sink.put(entry.digest, bytes.clone()).map_err(WriteError::Io)?;
        }
        return Ok(content);
    }
    let mut builder = Builder::above(*shape, 0);
    let mut at = 0;
    for len in cut_in(shape, bytes) {
        let chunk = bytes.slice(at..at + len);
        let entry = Entry { digest: Digest::of(&chunk), len: len as u64 };
        sink.put(entry.digest, chunk).map_err(WriteError::Io)?;
        builder.push(entry, sink)?;
        at += len;
    }
    builder.finish(sink)
}
