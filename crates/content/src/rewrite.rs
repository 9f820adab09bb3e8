//! From an old [`Content`] and what was written to the new one.
//!
//! The cost follows the edit, not the file. Words:
//! * a **splice** replaces the entries of one level that cover `[start, end)` of the
//!   file by others that cover the same bytes (only the last splice may end elsewhere
//!   than what it replaces: at the new end of the file);
//! * an edit **falls in step** with the old content where a new boundary meets an old
//!   one and no touched byte follows in that piece.
//!
//! On level 0, bytes are cut again from the chunk before each touched range (a
//! boundary looks one byte ahead, so the chunk that ends where the range begins may
//! change too) until the cuts fall in step. On each level above, the entries of the
//! touched nodes are grouped again until the groups fall in step. When one splice
//! covers the whole file, the rest of the tree is built above it. Because cuts and
//! groups depend only on what follows their beginning, the result is the same as
//! building from the new bytes alone.

use crate::builder::{Builder, emit_node, single_in};
use crate::error::{ContentError, WriteError};
use crate::holes::Zeros;
use crate::limits::{STANDARD, Shape};
use crate::list_node::{Entry, ListNode, Run, ends_after, len_of_same};
use crate::new_bytes::{NewBytes, Sizes};
use crate::reader::{ContentReader, NodeSource};
use crate::sink::ChunkSink;
use crate::touched::{tidy, touched};
use bytes::Bytes;
use std::ops::Range;
use wayfs_types::Content;

/// What a rewrite made, and what it cost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rewritten {
    /// The new content.
    pub content: Content,
    /// Bytes asked from the reader.
    pub bytes_read: u64,
    /// Bytes of chunks given to the sink; nodes not counted.
    pub bytes_emitted: u64,
    /// Chunks given to the sink.
    pub chunks: u64,
    /// List nodes given to the sink.
    pub nodes: u64,
}

/// Makes the content of a file that was edited.
///
/// * `nodes` finds the list nodes of `old`; those near the edit are asked for.
/// * `dirty` are the byte ranges written since `old`, in any order. Bytes past the old
///   end that are in none of them are zeros. A file that was cut short and grew again
///   since counts as written between its smallest size and where it ends.
/// * `read(offset, len)` gives bytes of the *new* file, also some that were not written.
/// * New chunks and nodes go to `sink`; some may equal old ones.
///
/// # Errors
/// [`crate::ContentError::MissingNode`], [`crate::ContentError::BadNode`] for the old tree;
/// [`crate::ContentError::ShortRead`] when the file changes under the reader;
/// [`crate::ContentError::TooLarge`]; the reader's and the sink's own.
pub fn rewrite<S: ChunkSink>(
    old: &Content,
    nodes: &NodeSource<'_>,
    dirty: &[Range<u64>],
    new_size: u64,
    read: &mut dyn FnMut(u64, usize) -> Result<Bytes, S::Error>,
    sink: &mut S,
) -> Result<Rewritten, WriteError<S::Error>> {
    rewrite_in(STANDARD, &Edit { old, nodes, dirty, new_size }, read, sink)
}

/// The edit to follow.
pub(crate) struct Edit<'a, 'd> {
    pub(crate) old: &'d Content,
    pub(crate) nodes: &'a NodeSource<'a>,
    pub(crate) dirty: &'d [Range<u64>],
    pub(crate) new_size: u64,
}

pub(crate) fn rewrite_in<S: ChunkSink>(
    shape: Shape,
    edit: &Edit<'_, '_>,
    read: &mut dyn FnMut(u64, usize) -> Result<Bytes, S::Error>,
    sink: &mut S,
) -> Result<Rewritten, WriteError<S::Error>> {
    let sizes = Sizes { old: edit.old.size(), new: edit.new_size };
    let dirty = tidy(edit.dirty, sizes.new);
    let touched = touched(&dirty, sizes);
    let mut read_more = |offset, len| read(offset, len);
    let mut bytes = NewBytes::new(shape, &mut read_more, &dirty, sizes);
    if touched.is_empty() && sizes.old == sizes.new {
        return Ok(report(edit.old.clone(), &bytes, 0));
    }
    if sizes.new <= shape.whole_max as u64 {
        return rewrite_small(&mut bytes, sink);
    }
    let reader = ContentReader::in_shape(shape, edit.old, edit.nodes)?;
    // A file that was one piece or inline has no boundaries of content to fall in step with.
    let is_old_cut = reader.size() > shape.whole_max as u64;
    let mut work = Work { shape, reader: &reader, sizes, nodes: 0 };
    let mut splices =
        if is_old_cut { work.cut_again(&touched, &mut bytes, sink)? } else { vec![cut_all(&mut bytes, sink)?] };
    let holes = if is_old_cut { work.holes(edit.old.holes(), &splices)? } else { holes_of(&shape, &splices) };
    let mut level = 0;
    loop {
        if let [whole] = splices.as_slice()
            && whole.start == 0
            && whole.end == sizes.new
        {
            let mut builder = Builder::above(shape, level);
            for run in &whole.entries {
                builder.push_run(*run, sink)?;
            }
            let content = with_holes(builder.end(sink)?, holes);
            return Ok(report(content, &bytes, work.nodes + builder.nodes()));
        }
        level += 1;
        splices = work.group_again(level, &splices, sink)?;
    }
}

fn report<E>(content: Content, bytes: &NewBytes<'_, E>, nodes: u64) -> Rewritten {
    Rewritten { content, bytes_read: bytes.bytes_read, bytes_emitted: bytes.bytes_emitted, chunks: bytes.chunks, nodes }
}

fn rewrite_small<S: ChunkSink>(
    bytes: &mut NewBytes<'_, S::Error>,
    sink: &mut S,
) -> Result<Rewritten, WriteError<S::Error>> {
    let all = bytes.all()?;
    let (content, chunk) = single_in(&bytes.shape, &all).expect("the caller saw that the file is small");
    if let Some(entry) = chunk {
        bytes.bytes_emitted += entry.len;
        bytes.chunks += 1;
        sink.put(entry.digest, all).map_err(WriteError::Io)?;
    }
    Ok(report(content, bytes, 0))
}

/// Entries of one level that replace those between two offsets.
#[derive(Debug)]
struct Splice {
    start: u64,
    end: u64,
    entries: Vec<Run>,
}

impl Splice {
    fn push(&mut self, run: Run) -> Result<(), ContentError> {
        let end = run.len().and_then(|len| self.end.checked_add(len));
        self.end = end.ok_or(ContentError::TooLarge(u64::MAX))?;
        self.entries.push(run);
        Ok(())
    }
}

fn cut_all<S: ChunkSink>(bytes: &mut NewBytes<'_, S::Error>, sink: &mut S) -> Result<Splice, WriteError<S::Error>> {
    let mut splice = Splice { start: 0, end: 0, entries: Vec::new() };
    while splice.end < bytes.new_size {
        splice.push(bytes.cut_run_at(splice.end, sink)?)?;
    }
    Ok(splice)
}

/// Bytes of holes in the new chunks.
fn holes_of(shape: &Shape, splices: &[Splice]) -> u64 {
    let zeros = Zeros::of(shape);
    let runs = splices.iter().flat_map(|splice| &splice.entries).filter(|run| zeros.is(0, &run.entry));
    runs.filter_map(Run::len).sum()
}

fn with_holes(mut content: Content, bytes: u64) -> Content {
    if let Content::Tree { holes, size, .. } = &mut content {
        *holes = bytes.min(*size);
    }
    content
}

/// What the passes over the levels share.
struct Work<'r, 'a> {
    shape: Shape,
    reader: &'r ContentReader<'a>,
    sizes: Sizes,
    nodes: u64,
}

impl Work<'_, '_> {
    /// Cuts the bytes again around each touched range.
    fn cut_again<S: ChunkSink>(
        &self,
        touched: &[Range<u64>],
        bytes: &mut NewBytes<'_, S::Error>,
        sink: &mut S,
    ) -> Result<Vec<Splice>, WriteError<S::Error>> {
        let mut splices = Vec::new();
        let mut left = touched.iter().peekable();
        while let Some(range) = left.next() {
            let start = self.start_of(0, range.start.saturating_sub(1))?;
            let mut splice = Splice { start, end: start, entries: Vec::new() };
            let mut dirty_until = range.end;
            loop {
                splice.push(bytes.cut_run_at(splice.end, sink)?)?;
                while let Some(range) = left.next_if(|range| range.start <= splice.end) {
                    dirty_until = dirty_until.max(range.end);
                }
                let is_past = splice.end >= dirty_until;
                if splice.end == self.sizes.new || (is_past && self.is_old_boundary(0, splice.end)?) {
                    break;
                }
            }
            splices.push(splice);
        }
        Ok(splices)
    }

    /// Bytes of holes in the new file, from those in the old one and the splices of level 0.
    fn holes(&self, old: u64, splices: &[Splice]) -> Result<u64, ContentError> {
        let mut gone = 0;
        for splice in splices {
            // What ends the new file takes the place of all that the old one had from there on.
            let end = if splice.end == self.sizes.new { self.sizes.old } else { splice.end };
            gone += self.reader.holes_in(splice.start..end)?;
        }
        Ok(old.saturating_sub(gone) + holes_of(&self.shape, splices))
    }

    /// Groups the entries of the level below again around each splice.
    fn group_again<S: ChunkSink>(
        &mut self,
        level: u8,
        below: &[Splice],
        sink: &mut S,
    ) -> Result<Vec<Splice>, WriteError<S::Error>> {
        let mut splices = Vec::new();
        let mut left = below.iter().peekable();
        while let Some(first) = left.peek() {
            let start = self.start_of(level, first.start)?;
            let mut group = Group { at: start, open: Vec::new() };
            let mut splice = Splice { start, end: start, entries: Vec::new() };
            loop {
                let pieces = match left.next_if(|next| next.start == group.at) {
                    Some(next) => next.entries.as_slice(),
                    None => &[Run::of(self.old_entry(level - 1, group.at)?)],
                };
                for run in pieces {
                    group
                        .push(&self.shape, *run, |entries, count| {
                            self.nodes += 1;
                            let entry = emit_node(ListNode { level, entries }, sink)?;
                            splice.entries.push(Run { entry, count });
                            Ok(())
                        })
                        .map_err(WriteError::Io)?;
                }
                let is_in_step = group.open.is_empty() && self.is_old_boundary(level, group.at)?;
                if group.at == self.sizes.new || is_in_step {
                    break;
                }
            }
            splice.end = group.at;
            if !group.open.is_empty() {
                self.nodes += 1;
                let node = ListNode { level, entries: group.open };
                splice.entries.push(Run::of(emit_node(node, sink).map_err(WriteError::Io)?));
            }
            splices.push(splice);
        }
        Ok(splices)
    }

    /// Where the old entry of a level that holds a byte begins.
    fn start_of(&self, level: u8, byte: u64) -> Result<u64, crate::ContentError> {
        let located = self.reader.locate(level, byte)?;
        Ok(located.expect("splices begin inside the old file, at or below its top level").offset)
    }

    fn old_entry(&self, level: u8, at: u64) -> Result<Entry, crate::ContentError> {
        let located = self.reader.locate(level, at)?;
        Ok(located.expect("a splice covers every byte that the old file does not have").entry)
    }

    fn is_old_boundary(&self, level: u8, at: u64) -> Result<bool, crate::ContentError> {
        Ok(self.reader.locate(level, at)?.is_some_and(|located| located.offset == at))
    }
}

/// Entries that are becoming a node.
struct Group {
    at: u64,
    open: Vec<Entry>,
}

impl Group {
    /// Adds pieces; `seal` gets the entries of each node that is complete, and how many such nodes follow each other.
    fn push<E>(
        &mut self,
        shape: &Shape,
        run: Run,
        mut seal: impl FnMut(Vec<Entry>, u64) -> Result<(), E>,
    ) -> Result<(), E> {
        let same = len_of_same(shape, &run.entry.digest);
        self.at += run.entry.len * run.count;
        let mut left = run.count;
        while left > 0 {
            let nodes = left / same as u64;
            if self.open.is_empty() && nodes > 0 {
                seal(vec![run.entry; same], nodes)?;
                left -= nodes * same as u64;
                continue;
            }
            self.open.push(run.entry);
            left -= 1;
            if ends_after(shape, self.open.len(), &run.entry.digest) {
                seal(std::mem::take(&mut self.open), 1)?;
            }
        }
        Ok(())
    }
}
