//! Bytes of a content, chunk by chunk, from this machine or from afar.

use super::base::Base;
use super::contents::{Contents, OperationError, WaitPolicy};
use bytes::Bytes;
use std::ops::Range;
use std::sync::Mutex;
use wayfs_content::{ContentError, ContentReader, Span};
use wayfs_types::{Content, Digest, FsError};

/// How often a chunk that was fetched may vanish (evicted again at once) before the read fails.
const ATTEMPTS_MAX: usize = 4;
/// Lists that one question may find missing, one after the other: enough for a file of a terabyte.
const LOOKS_MAX: usize = 16_384;
/// List nodes remembered by one loader: a walk in order needs one per level.
const NODES_MAX: usize = 8;

/// A chunk and where it lies in its file.
#[derive(Debug, Clone)]
pub struct Piece {
    /// First byte in the file.
    pub offset: u64,
    /// The whole chunk.
    pub bytes: Bytes,
}

impl Piece {
    /// Its place in the file.
    pub fn range(&self) -> Range<u64> {
        self.offset..self.offset + self.bytes.len() as u64
    }
}

/// List nodes used last: reading and checking one costs far more than finding it here.
#[derive(Debug, Default)]
pub struct NodeCache {
    recent: Mutex<Vec<(Digest, Bytes)>>,
}

impl NodeCache {
    /// The node, from memory or from the chunk store.
    pub(super) fn node(&self, contents: &dyn Contents, digest: &Digest) -> Option<Bytes> {
        let mut recent = self.recent.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some((_, bytes)) = recent.iter().find(|(name, _)| name == digest) {
            return Some(bytes.clone());
        }
        let bytes = contents.chunk(digest).ok().flatten()?;
        if recent.len() >= NODES_MAX {
            recent.remove(0);
        }
        recent.push((*digest, bytes.clone()));
        Some(bytes)
    }
}

/// Loads the chunks that hold a range of a content.
///
/// # Errors
/// [`OperationError::WouldBlock`] if it may not wait; what fetching says; [`FsError::Io`] for a damaged tree.
pub fn load(
    contents: &dyn Contents,
    nodes: &NodeCache,
    base: &Base,
    range: Range<u64>,
    wait_policy: WaitPolicy,
) -> Result<Vec<Piece>, OperationError> {
    if let Content::Inline(bytes) = &base.content {
        return Ok(vec![Piece { offset: 0, bytes: bytes.clone() }]);
    }
    for _ in 0..ATTEMPTS_MAX {
        let spans = spans(contents, nodes, base, &range, wait_policy)?;
        let mut pieces = Vec::with_capacity(spans.len());
        let mut missing = Vec::new();
        for span in spans {
            match contents.chunk(&span.digest)? {
                Some(bytes) if bytes.len() as u64 == span.chunk_len => {
                    pieces.push(Piece { offset: span.offset - span.within.start as u64, bytes });
                }
                Some(_) => {
                    tracing::error!(chunk = %span.digest, "chunk is not as long as its list says");
                    return Err(FsError::Io.into());
                }
                None => missing.push(span.digest),
            }
        }
        if missing.is_empty() {
            return Ok(pieces);
        }
        fetch(contents, base, missing, wait_policy)?;
    }
    Err(FsError::Unreachable.into())
}

/// Names of the chunks that hold a range.
fn spans(
    contents: &dyn Contents,
    nodes: &NodeCache,
    base: &Base,
    range: &Range<u64>,
    wait_policy: WaitPolicy,
) -> Result<Vec<Span>, OperationError> {
    look(contents, nodes, base, wait_policy, |reader| reader.spans(range.clone()).collect())
}

/// Asks the lists of a content something, and fetches those that are missing.
///
/// # Errors
/// As [`load`].
pub fn look<T>(
    contents: &dyn Contents,
    nodes: &NodeCache,
    base: &Base,
    wait_policy: WaitPolicy,
    question: impl Fn(&ContentReader<'_>) -> Result<T, ContentError>,
) -> Result<T, OperationError> {
    let source = |digest: &Digest| nodes.node(contents, digest);
    for _ in 0..LOOKS_MAX {
        match ContentReader::new(&base.content, &source).and_then(|reader| question(&reader)) {
            Ok(answer) => return Ok(answer),
            Err(ContentError::MissingNode(digest)) => fetch(contents, base, vec![digest], wait_policy)?,
            Err(error) => {
                tracing::error!(file = %base.file, %error, "content cannot be read");
                return Err(FsError::Io.into());
            }
        }
    }
    Err(FsError::Unreachable.into())
}

fn spans_here(
    contents: &dyn Contents,
    nodes: &NodeCache,
    base: &Base,
    range: &Range<u64>,
) -> Result<Vec<Span>, ContentError> {
    let source = |digest: &Digest| nodes.node(contents, digest);
    let reader = ContentReader::new(&base.content, &source)?;
    reader.spans(range.clone()).collect()
}

/// Names of chunks of a range that are not on this machine, as far as that is known without waiting.
pub fn absent(contents: &dyn Contents, nodes: &NodeCache, base: &Base, range: Range<u64>) -> Vec<Digest> {
    let spans = spans_here(contents, nodes, base, &range).unwrap_or_default();
    spans.into_iter().map(|span| span.digest).filter(|digest| !contents.has(digest)).collect()
}

/// Whether all chunks of a content are on this machine.
pub fn is_whole(contents: &dyn Contents, nodes: &NodeCache, base: &Base) -> bool {
    let source = |digest: &Digest| nodes.node(contents, digest);
    let is_here = |span: Result<Span, ContentError>| span.is_ok_and(|span| contents.has(&span.digest));
    // One by one: a content may have millions of them.
    ContentReader::new(&base.content, &source).is_ok_and(|reader| reader.spans(0..base.content.size()).all(is_here))
}

/// Fetches, or says that it would take waiting.
///
/// # Errors
/// As [`load`].
pub fn fetch(
    contents: &dyn Contents,
    base: &Base,
    digests: Vec<Digest>,
    wait_policy: WaitPolicy,
) -> Result<(), OperationError> {
    let WaitPolicy::Silence(patience) = wait_policy else { return Err(OperationError::WouldBlock) };
    let wanted = base.wanted(digests);
    Ok(contents.fetch(wanted, patience)?)
}
