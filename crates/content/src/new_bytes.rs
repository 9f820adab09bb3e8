//! The new bytes of an edited file, a window at a time.
//!
//! Bytes past the old end that nobody wrote are zeros; they are not asked for, and
//! a run of them that spans whole chunks is not even hashed: growing a file by a
//! hole costs one chunk and a list node for each level, however long it is.
//!
//! Where as much was written as the largest chunk takes, all of it will be cut in any case: there the bytes
//! are read in blocks, each chunk is found in one look and is a slice of its block.

use crate::chunker::{Window, next_cut};
use crate::error::{ContentError, WriteError};
use crate::limits::Shape;
use crate::list_node::{Entry, Run};
use crate::sink::ChunkSink;
use bytes::Bytes;
use std::ops::Range;
use wayfs_types::Digest;

/// Largest chunks in a block: the part of a block after its last cut is read twice, a quarter of it at most.
const BLOCK_CHUNKS: usize = 4;

/// Reads bytes of the new file.
pub(crate) type Read<'a, E> = dyn FnMut(u64, usize) -> Result<Bytes, E> + 'a;

/// A window over the new bytes that moves forward chunk by chunk.
pub(crate) struct NewBytes<'a, E> {
    pub(crate) shape: Shape,
    pub(crate) read: &'a mut Read<'a, E>,
    /// What was written, tidied.
    pub(crate) dirty: &'a [Range<u64>],
    pub(crate) old_size: u64,
    pub(crate) new_size: u64,
    held: Vec<u8>,
    held_from: u64,
    /// Bytes that were all written, and where they begin.
    block: (u64, Bytes),
    zero_chunk: Option<Entry>,
    /// Bytes asked from the reader.
    pub(crate) bytes_read: u64,
    /// Bytes of chunks given to the sink.
    pub(crate) bytes_emitted: u64,
    /// Chunks given to the sink.
    pub(crate) chunks: u64,
}

/// The sizes of a file before and after.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    pub(crate) old: u64,
    pub(crate) new: u64,
}

impl<'a, E> NewBytes<'a, E> {
    pub(crate) fn new(shape: Shape, read: &'a mut Read<'a, E>, dirty: &'a [Range<u64>], sizes: Sizes) -> Self {
        Self {
            shape,
            read,
            dirty,
            old_size: sizes.old,
            new_size: sizes.new,
            held: Vec::new(),
            held_from: 0,
            block: (0, Bytes::new()),
            zero_chunk: None,
            bytes_read: 0,
            bytes_emitted: 0,
            chunks: 0,
        }
    }

    /// The whole new file, which must be small.
    pub(crate) fn all(&mut self) -> Result<Bytes, WriteError<E>> {
        let len = usize::try_from(self.new_size).map_err(|_| ContentError::TooLarge(self.new_size))?;
        self.fill(0, len)?;
        Ok(Bytes::from(std::mem::take(&mut self.held)))
    }

    /// Cuts the chunk that begins at `at`, gives it to the sink, and returns its entry; in a hole so many of the same
    /// as follow each other.
    pub(crate) fn cut_run_at<S: ChunkSink<Error = E>>(&mut self, at: u64, sink: &mut S) -> Result<Run, WriteError<E>> {
        let most = self.shape.chunk_max as u64;
        match self.hole_end(at).and_then(|end| (end - at).checked_sub(most)) {
            Some(beyond) => {
                let entry = self.cut_zeros(sink)?;
                Ok(Run { entry, count: beyond / entry.len + 1 })
            }
            None => self.cut_at(at, sink).map(Run::of),
        }
    }

    fn cut_at<S: ChunkSink<Error = E>>(&mut self, at: u64, sink: &mut S) -> Result<Entry, WriteError<E>> {
        let written_until = self.written_from(at);
        if written_until == self.new_size || written_until - at >= self.shape.chunk_max as u64 {
            return self.cut_written(at..written_until, sink);
        }
        let left = self.new_size - at;
        let mut want = self.shape.chunk_avg;
        loop {
            let len = left.min(want as u64) as usize;
            self.fill(at, len)?;
            let window = if len as u64 == left { Window::Last } else { Window::Open };
            if let Some(cut) = next_cut(&self.shape, &self.held[..len], window) {
                let chunk = Bytes::copy_from_slice(&self.held[..cut]);
                return self.emit(chunk, sink);
            }
            want = (want * 2).min(self.shape.chunk_max);
        }
    }

    /// The end of what was written without a gap from `at` on; `at` if that was not.
    fn written_from(&self, at: u64) -> u64 {
        let next = self.dirty.partition_point(|dirty| dirty.end <= at);
        self.dirty.get(next).filter(|dirty| dirty.start <= at).map_or(at, |dirty| dirty.end)
    }

    /// As [`NewBytes::cut_at`], at the start of a range that was written.
    fn cut_written<S: ChunkSink<Error = E>>(
        &mut self,
        Range { start: at, end: until }: Range<u64>,
        sink: &mut S,
    ) -> Result<Entry, WriteError<E>> {
        let len = (until - at).min(self.shape.chunk_max as u64) as usize;
        let skip = at.checked_sub(self.block.0).map_or(usize::MAX, |skip| usize::try_from(skip).unwrap_or(usize::MAX));
        if skip.checked_add(len).is_none_or(|end| end > self.block.1.len()) {
            let block_len = (until - at).min((self.shape.chunk_max * BLOCK_CHUNKS) as u64) as usize;
            // The old block is let go of first, so that its memory serves the next.
            self.block = (at, Bytes::new());
            self.block.1 = self.read_all(at, block_len)?;
        }
        let skip = (at - self.block.0) as usize;
        let bytes = self.block.1.slice(skip..skip + len);
        let window = if at + len as u64 == self.new_size { Window::Last } else { Window::Open };
        let cut = next_cut(&self.shape, &bytes, window).expect("a largest chunk's worth, or the end, always cuts");
        self.emit(bytes.slice(..cut), sink)
    }

    /// How far the zeros go that begin at `at` and that nobody wrote.
    fn hole_end(&self, at: u64) -> Option<u64> {
        let next = self.dirty.partition_point(|dirty| dirty.end <= at);
        let end = self.dirty.get(next).map_or(self.new_size, |dirty| dirty.start.min(self.new_size));
        (at >= self.old_size && end > at).then_some(end)
    }

    fn cut_zeros<S: ChunkSink<Error = E>>(&mut self, sink: &mut S) -> Result<Entry, WriteError<E>> {
        if let Some(entry) = self.zero_chunk {
            return Ok(entry);
        }
        let zeros = Bytes::from(vec![0; self.shape.chunk_max]);
        let cut = next_cut(&self.shape, &zeros, Window::Open).expect("a largest chunk's worth of bytes always cuts");
        let entry = self.emit(zeros.slice(..cut), sink)?;
        self.zero_chunk = Some(entry);
        Ok(entry)
    }

    fn emit<S: ChunkSink<Error = E>>(&mut self, chunk: Bytes, sink: &mut S) -> Result<Entry, WriteError<E>> {
        let entry = Entry { digest: Digest::of(&chunk), len: chunk.len() as u64 };
        self.bytes_emitted += entry.len;
        self.chunks += 1;
        sink.put(entry.digest, chunk).map_err(WriteError::Io)?;
        Ok(entry)
    }

    /// Makes the window begin at `at` and hold at least `len` bytes.
    fn fill(&mut self, at: u64, len: usize) -> Result<(), WriteError<E>> {
        let skip = at.checked_sub(self.held_from).and_then(|skip| usize::try_from(skip).ok());
        match skip {
            Some(skip) if skip <= self.held.len() => drop(self.held.drain(..skip)),
            Some(_) | None => self.held.clear(),
        }
        self.held_from = at;
        while self.held.len() < len {
            let from = at + self.held.len() as u64;
            self.fetch(from, len - self.held.len())?;
        }
        Ok(())
    }

    /// Appends up to `len` bytes from `from`: zeros as far as the hole goes, else what the reader gives.
    fn fetch(&mut self, from: u64, len: usize) -> Result<(), WriteError<E>> {
        let end = from + len as u64;
        if from >= self.old_size {
            let next = self.dirty.partition_point(|dirty| dirty.end <= from);
            let written_from = self.dirty.get(next).map_or(end, |dirty| dirty.start.clamp(from, end));
            if written_from > from {
                self.held.resize(self.held.len() + (written_from - from) as usize, 0);
                return Ok(());
            }
            let written_until = self.dirty.get(next).map_or(end, |dirty| dirty.end.min(end));
            return self.ask(from, (written_until - from) as usize);
        }
        self.ask(from, (end.min(self.old_size) - from) as usize)
    }

    fn ask(&mut self, from: u64, len: usize) -> Result<(), WriteError<E>> {
        let bytes = self.read_all(from, len)?;
        self.held.extend_from_slice(&bytes);
        Ok(())
    }

    fn read_all(&mut self, from: u64, len: usize) -> Result<Bytes, WriteError<E>> {
        let bytes = (self.read)(from, len).map_err(WriteError::Io)?;
        if bytes.len() != len {
            return Err(ContentError::ShortRead { offset: from, asked: len, found: bytes.len() }.into());
        }
        self.bytes_read += len as u64;
        Ok(bytes)
    }
}
