//! Where a file has holes: runs of longest chunks of zeros.
//!
//! Such a chunk has one name on all machines, and so has a list node that lists nothing but such chunks (or such
//! nodes). So a hole is found by comparing names, without any bytes, and a terabyte of it in a few steps. Zeros that
//! somebody wrote are a hole as well, as POSIX allows; a hole shorter than a chunk of [`crate::CHUNK_MAX`] is data.

use crate::chunker::{Window, next_cut};
use crate::error::ContentError;
use crate::limits::{DEPTH_MAX, STANDARD, Shape};
use crate::list_node::{Entry, ListNode, len_of_same};
use crate::reader::ContentReader;
use std::ops::Range;
use std::sync::LazyLock;
use wayfs_types::Digest;

/// The entries that stand for zeros and nothing else: on level 0 the chunk, above it full nodes of the level below.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Zeros([Entry; DEPTH_MAX as usize + 1]);

static STANDARD_ZEROS: LazyLock<Zeros> = LazyLock::new(|| Zeros::new(&STANDARD));

impl Zeros {
    pub(crate) fn of(shape: &Shape) -> Self {
        if *shape == STANDARD { *STANDARD_ZEROS } else { Self::new(shape) }
    }

    fn new(shape: &Shape) -> Self {
        let zeros = vec![0; shape.chunk_max];
        let cut = next_cut(shape, &zeros, Window::Open).expect("a largest chunk's worth of bytes always cuts");
        let mut entry = Entry { digest: Digest::of(&zeros[..cut]), len: cut as u64 };
        let mut levels = [entry; DEPTH_MAX as usize + 1];
        for (level, slot) in (1..=DEPTH_MAX).zip(&mut levels[1..]) {
            let entries = vec![entry; len_of_same(shape, &entry.digest)];
            let len = entry.len * entries.len() as u64;
            entry = Entry { digest: Digest::of(&ListNode { level, entries }.encode()), len };
            *slot = entry;
        }
        Self(levels)
    }

    /// Whether an entry of a level stands for zeros only.
    pub(crate) fn is(&self, level: u8, entry: &Entry) -> bool {
        self.0[usize::from(level)] == *entry
    }
}

impl ContentReader<'_> {
    /// Bytes of a range that are in holes. The range begins and ends at boundaries of chunks, or where the file ends.
    ///
    /// # Errors
    /// [`ContentError::MissingNode`] and [`ContentError::BadNode`].
    pub(crate) fn holes_in(&self, range: Range<u64>) -> Result<u64, ContentError> {
        let zeros = Zeros::of(self.shape());
        let (mut at, mut sum) = (range.start, 0);
        while at < range.end {
            if let Some(end) = self.zeros_until(&zeros, at)? {
                sum += end.min(range.end) - at;
                at = end;
                continue;
            }
            let Some(located) = self.locate(0, at)? else { break };
            at = located.end();
        }
        Ok(sum)
    }

    /// The first byte at or after `from` that is not in a hole; `None` if there is none before the end.
    ///
    /// # Errors
    /// As for [`ContentReader::locate`].
    pub fn next_data(&self, from: u64) -> Result<Option<u64>, ContentError> {
        let zeros = Zeros::of(self.shape());
        let mut at = from;
        while at < self.size() {
            match self.zeros_until(&zeros, at)? {
                Some(end) => at = end,
                None => return Ok(Some(at)),
            }
        }
        Ok(None)
    }

    /// The first byte at or after `from` that is in a hole, or the end of the file.
    ///
    /// # Errors
    /// As for [`ContentReader::locate`].
    pub fn next_hole(&self, from: u64) -> Result<u64, ContentError> {
        let zeros = Zeros::of(self.shape());
        for located in self.entries(0, from) {
            let located = located?;
            if zeros.is(0, &located.entry) {
                return Ok(located.offset.max(from));
            }
        }
        Ok(self.size())
    }

    /// Where the zeros end that the highest entry of zeros around `at` stands for.
    fn zeros_until(&self, zeros: &Zeros, at: u64) -> Result<Option<u64>, ContentError> {
        for level in (0..=DEPTH_MAX).rev() {
            if let Some(located) = self.locate(level, at)?
                && zeros.is(level, &located.entry)
            {
                return Ok(Some(located.end()));
            }
        }
        Ok(None)
    }
}
