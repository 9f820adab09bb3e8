//! Finding chunk boundaries by content (FastCDC with normalised lengths).
//!
//! The search begins anew at each boundary and looks at the bytes from there only,
//! the first byte past the boundary included. Two files that agree around a
//! boundary therefore agree on what follows until their bytes differ: that is what
//! makes edits cheap to ship and [`crate::rewrite`](mod@crate::rewrite) possible.

use crate::limits::{STANDARD, Shape};
use bytes::Bytes;
use fastcdc::v2020::{self, Normalization};

/// Whether a window holds the last byte of its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Window {
    /// Bytes may follow.
    Open,
    /// The file ends where the window ends.
    Last,
}

/// The length of the chunk that begins where `bytes` begin, or `None` if that depends
/// on bytes that follow. An open window must have an even length.
pub(crate) fn next_cut(shape: &Shape, bytes: &[u8], window: Window) -> Option<usize> {
    if bytes.is_empty() {
        return None;
    }
    let bits = v2020::select_masks(shape.chunk_avg, Normalization::Level1);
    let (mask_s, mask_l) = bits;
    let (_, len) =
        v2020::cut(bytes, shape.chunk_min, shape.chunk_avg, shape.chunk_max, mask_s, mask_l, mask_s << 1, mask_l << 1);
    let decided = len < bytes.len() || bytes.len() >= shape.chunk_max || window == Window::Last;
    decided.then_some(len)
}

/// Cuts a whole file larger than [`crate::WHOLE_MAX`] and returns the lengths of its chunks.
///
/// Smaller files are not cut: the answer is their length, or nothing for an empty file.
pub fn cut(bytes: &[u8]) -> Vec<usize> {
    cut_in(&STANDARD, bytes)
}

pub(crate) fn cut_in(shape: &Shape, bytes: &[u8]) -> Vec<usize> {
    if bytes.is_empty() {
        return Vec::new();
    }
    if bytes.len() <= shape.whole_max {
        return vec![bytes.len()];
    }
    let mut lens = Vec::new();
    let mut rest = bytes;
    while let Some(len) = next_cut(shape, rest, Window::Last) {
        lens.push(len);
        rest = &rest[len..];
    }
    lens
}

/// Cuts a stream whose end is not known yet.
///
/// Holds at most one chunk and what was pushed last. A stream that turns out no
/// larger than [`crate::WHOLE_MAX`] gives one chunk, as [`cut`] does.
#[derive(Debug)]
pub struct Chunker {
    shape: Shape,
    held: Vec<u8>,
    /// Whether the stream is known to be larger than one whole chunk.
    is_large: bool,
}

impl Default for Chunker {
    fn default() -> Self {
        Self::new()
    }
}

impl Chunker {
    /// A chunker at the beginning of a stream.
    pub fn new() -> Self {
        Self::in_shape(STANDARD)
    }

    pub(crate) fn in_shape(shape: Shape) -> Self {
        Self { shape, held: Vec::new(), is_large: false }
    }

    /// Takes more bytes and returns the chunks they complete, in order.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<Bytes> {
        self.held.extend_from_slice(bytes);
        self.is_large |= self.held.len() > self.shape.whole_max;
        let mut chunks = Vec::new();
        if !self.is_large {
            return chunks;
        }
        let mut begin = 0;
        // Waiting for a full window finds every cut in one look; the rest waits for `finish`.
        while self.held.len() - begin >= self.shape.chunk_max {
            let window = &self.held[begin..begin + self.shape.chunk_max];
            let Some(len) = next_cut(&self.shape, window, Window::Open) else {
                break;
            };
            chunks.push(Bytes::copy_from_slice(&window[..len]));
            begin += len;
        }
        self.held.drain(..begin);
        chunks
    }

    /// Ends the stream and returns the chunks that remain.
    pub fn finish(self) -> Vec<Bytes> {
        if !self.is_large {
            return if self.held.is_empty() { Vec::new() } else { vec![Bytes::from(self.held)] };
        }
        let mut chunks = Vec::new();
        let mut rest = Bytes::from(self.held);
        while let Some(len) = next_cut(&self.shape, &rest, Window::Last) {
            chunks.push(rest.split_to(len));
        }
        chunks
    }
}
