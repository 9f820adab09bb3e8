//! From a [`Content`] to the chunks of a range.
//!
//! The reader asks for list nodes by name and remembers the last one of each level,
//! so that walking a file in order decodes each node once. A node that is not here
//! is an error that names it: fetch it, check its name, and ask again.

use crate::error::ContentError;
use crate::limits::{DEPTH_MAX, STANDARD, Shape};
use crate::list_node::{Entry, Expected, ListNode};
use bytes::Bytes;
use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use wayfs_types::{Content, Digest};

/// Finds a list node by name; its bytes must have been checked against it.
pub type NodeSource<'a> = dyn Fn(&Digest) -> Option<Bytes> + 'a;

/// An entry and where it begins in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Located {
    /// First byte in the file.
    pub offset: u64,
    /// The chunk or node.
    pub entry: Entry,
}

impl Located {
    /// First byte of the file after it.
    pub fn end(&self) -> u64 {
        self.offset + self.entry.len
    }
}

/// A part of a chunk that is a part of a wanted range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// Name of the chunk.
    pub digest: Digest,
    /// Length of the whole chunk in bytes.
    pub chunk_len: u64,
    /// Where the part begins in the file.
    pub offset: u64,
    /// The part, in bytes of the chunk.
    pub within: Range<usize>,
}

/// Reads the structure of one file.
pub struct ContentReader<'a> {
    shape: Shape,
    nodes: &'a NodeSource<'a>,
    /// The top entry and its level; none for an inline file.
    top: Option<(Entry, u8)>,
    /// The last node of each level.
    recent: RefCell<[Option<Rc<Indexed>>; DEPTH_MAX as usize + 1]>,
}

/// A checked node with the offset where each entry ends, counted from the node's begin.
struct Indexed {
    of: Entry,
    entries: Vec<Entry>,
    ends: Vec<u64>,
}

impl Indexed {
    fn new(of: Entry, node: ListNode) -> Self {
        let mut end = 0;
        let ends = node.entries.iter().map(|child| {
            end += child.len;
            end
        });
        Self { of, ends: ends.collect(), entries: node.entries }
    }

    /// The entry that holds a byte of the node, and where it begins.
    fn child(&self, byte: u64) -> Located {
        let at = self.ends.partition_point(|end| *end <= byte);
        let entry = self.entries[at];
        Located { offset: self.ends[at] - entry.len, entry }
    }
}

impl<'a> ContentReader<'a> {
    /// A reader of `content`.
    ///
    /// # Errors
    /// [`ContentError::BadContent`] when it is outside the format.
    pub fn new(content: &Content, nodes: &'a NodeSource<'a>) -> Result<Self, ContentError> {
        Self::in_shape(STANDARD, content, nodes)
    }

    pub(crate) fn in_shape(shape: Shape, content: &Content, nodes: &'a NodeSource<'a>) -> Result<Self, ContentError> {
        let top = match content {
            Content::Inline(bytes) => {
                if bytes.len() > shape.inline_max {
                    return Err(ContentError::BadContent { size: bytes.len() as u64, depth: 0 });
                }
                None
            }
            Content::Tree { size, root, depth, .. } => {
                let is_chunk_too_large = *depth == 0 && *size > shape.chunk_max as u64;
                if *size == 0 || *depth > DEPTH_MAX || is_chunk_too_large {
                    return Err(ContentError::BadContent { size: *size, depth: *depth });
                }
                Some((Entry { digest: *root, len: *size }, *depth))
            }
        };
        Ok(Self { shape, nodes, top, recent: RefCell::default() })
    }

    pub(crate) fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Bytes in the chunks of the file; 0 when it is inline.
    pub fn size(&self) -> u64 {
        self.top.map_or(0, |(entry, _)| entry.len)
    }

    /// Entries of a level from the one that holds byte `from` on; level 0 are the chunks.
    ///
    /// Empty at the end of the file and above the top. Ends after the first error.
    pub fn entries(&self, level: u8, from: u64) -> Entries<'_, 'a> {
        Entries { reader: self, level, next: from }
    }

    /// The entry of a level that holds a byte of the file.
    ///
    /// # Errors
    /// [`ContentError::MissingNode`] and [`ContentError::BadNode`].
    pub fn locate(&self, level: u8, byte: u64) -> Result<Option<Located>, ContentError> {
        let Some((mut entry, mut at)) = self.top else {
            return Ok(None);
        };
        if byte >= entry.len || level > at {
            return Ok(None);
        }
        let mut offset = 0;
        while at > level {
            // The byte is inside the entry, and the children of a checked node add up to it.
            let child = self.node(entry, at)?.child(byte - offset);
            offset += child.offset;
            entry = child.entry;
            at -= 1;
        }
        Ok(Some(Located { offset, entry }))
    }

    /// The parts of chunks that make up a range of the file, which is cut at its end.
    pub fn spans(&self, range: Range<u64>) -> Spans<'_, 'a> {
        Spans { end: range.end.min(self.size()), at: range.start, entries: self.entries(0, range.start) }
    }

    /// All list nodes from the top down, the nodes of one level in order.
    ///
    /// # Errors
    /// [`ContentError::MissingNode`] and [`ContentError::BadNode`].
    pub fn list_nodes(&self) -> Result<Vec<Digest>, ContentError> {
        let mut names = Vec::new();
        let Some((_, depth)) = self.top else {
            return Ok(names);
        };
        for level in (1..=depth).rev() {
            for located in self.entries(level, 0) {
                names.push(located?.entry.digest);
            }
        }
        Ok(names)
    }

    fn node(&self, entry: Entry, level: u8) -> Result<Rc<Indexed>, ContentError> {
        let slot = usize::from(level);
        if let Some(recent) = &self.recent.borrow()[slot]
            && recent.of == entry
        {
            return Ok(Rc::clone(recent));
        }
        let bytes = (self.nodes)(&entry.digest).ok_or(ContentError::MissingNode(entry.digest))?;
        let expected = Expected { digest: entry.digest, level, len: entry.len };
        let node = ListNode::parse_in(&self.shape, &bytes, expected)?;
        let node = Rc::new(Indexed::new(entry, node));
        self.recent.borrow_mut()[slot] = Some(Rc::clone(&node));
        Ok(node)
    }
}

/// Entries of one level, in order of the file.
pub struct Entries<'r, 'a> {
    reader: &'r ContentReader<'a>,
    level: u8,
    next: u64,
}

impl Iterator for Entries<'_, '_> {
    type Item = Result<Located, ContentError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.reader.locate(self.level, self.next) {
            Ok(Some(located)) => {
                self.next = located.end();
                Some(Ok(located))
            }
            Ok(None) => None,
            Err(error) => {
                self.next = u64::MAX;
                Some(Err(error))
            }
        }
    }
}

/// The parts of chunks that make up a range.
pub struct Spans<'r, 'a> {
    entries: Entries<'r, 'a>,
    at: u64,
    end: u64,
}

impl Iterator for Spans<'_, '_> {
    type Item = Result<Span, ContentError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.end {
            return None;
        }
        let located = match self.entries.next()? {
            Ok(located) => located,
            Err(error) => return Some(Err(error)),
        };
        // A chunk was checked to be at most CHUNK_MAX long, so its inner offsets fit any usize.
        let begin = (self.at - located.offset) as usize;
        let until = (self.end.min(located.end()) - located.offset) as usize;
        let offset = self.at;
        self.at = located.end();
        Some(Ok(Span { digest: located.entry.digest, chunk_len: located.entry.len, offset, within: begin..until }))
    }
}
