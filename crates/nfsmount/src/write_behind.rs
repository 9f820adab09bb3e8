//! What programs have written to a file and the server does not keep for sure yet. Pure.
//!
//! ```text
//!  write ──> dirty ──take──> sending ──wrote──> unstable ──committed──> (the server keeps it)
//!              ^                │                   │
//!              └──again─────────┘   another verifier│
//!              └────────────────────────────────────┘
//! ```
//! Bytes stay in memory until a commit says that they are on the server's disk by the verifier under which they were written: a
//! server that restarted gets them again. Of two writes to the same place the later wins, whatever becomes of the earlier: it is never
//! sent while the earlier is in flight, and takes the earlier's place among what is kept.

use std::collections::BTreeMap;
use std::ops::Range;
use wayfs_nfs::WriteVerifier;

/// Longest piece that grows by appending: larger ones cost copies.
const PIECE_MAX: usize = 1 << 20;

/// Pieces of a file that do not overlap.
#[derive(Debug, Clone)]
struct Pieces<T>(BTreeMap<u64, (Vec<u8>, T)>);

impl<T: Copy> Pieces<T> {
    /// Takes a range out; what lies beside it stays.
    fn cut(&mut self, Range { start, end }: Range<u64>) {
        let first = self.0.range(..start).next_back().map_or(start, |(offset, _)| *offset);
        let touched: Vec<u64> = self.0.range(first..end).map(|(offset, _)| *offset).collect();
        for offset in touched {
            let piece_end = offset + self.0[&offset].0.len() as u64;
            if piece_end <= start {
                continue;
            }
            let Some((mut bytes, tag)) = self.0.remove(&offset) else { continue };
            if piece_end > end {
                let right = bytes.split_off((end.max(offset) - offset) as usize);
                self.0.insert(end.max(offset), (right, tag));
            }
            if offset < start {
                bytes.truncate((start - offset) as usize);
                self.0.insert(offset, (bytes, tag));
            }
        }
    }

    fn len(&self) -> u64 {
        self.0.values().map(|(bytes, _)| bytes.len() as u64).sum()
    }

    fn end(&self) -> u64 {
        self.0.last_key_value().map_or(0, |(offset, (bytes, _))| offset + bytes.len() as u64)
    }
}

/// Names what is being sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PartId(u64);

/// Which parts leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Parts {
    /// Those that fill their block: the rest waits for more.
    Full,
    All,
}

/// What is to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Part {
    /// Comes back with the answer.
    pub(crate) id: PartId,
    /// Where in the file.
    pub(crate) offset: u64,
    /// What.
    pub(crate) bytes: Vec<u8>,
    /// Nothing else of the file is on its way or uncommitted: written durably, it needs no commit.
    pub(crate) is_alone: bool,
}

/// How far answers had come when a commit was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CommitPoint(u64);

#[derive(Debug, Clone, Copy)]
struct Unstable {
    verifier: WriteVerifier,
    /// Place in the order of answers.
    order: u64,
}

/// See the module.
#[derive(Debug, Clone)]
pub(crate) struct WriteBehind {
    dirty: Pieces<()>,
    sending: BTreeMap<PartId, (u64, Vec<u8>)>,
    unstable: Pieces<Unstable>,
    next: u64,
}

impl Default for WriteBehind {
    fn default() -> Self {
        Self { dirty: Pieces(BTreeMap::new()), sending: BTreeMap::new(), unstable: Pieces(BTreeMap::new()), next: 0 }
    }
}

impl WriteBehind {
    /// A program wrote.
    pub(crate) fn write(&mut self, offset: u64, bytes: &[u8]) {
        let end = offset + bytes.len() as u64;
        self.unstable.cut(offset..end);
        self.dirty.cut(offset..end);
        self.insert_dirty(offset, bytes.to_vec());
    }

    fn insert_dirty(&mut self, offset: u64, bytes: Vec<u8>) {
        if bytes.is_empty() {
            return;
        }
        if let Some((left, (piece, ()))) = self.dirty.0.range_mut(..offset).next_back()
            && left + piece.len() as u64 == offset
            && piece.len() + bytes.len() <= PIECE_MAX
        {
            piece.extend_from_slice(&bytes);
            return;
        }
        self.dirty.0.insert(offset, (bytes, ()));
    }

    /// The next part to send, at most `block` bytes and not beyond the next multiple of it.
    pub(crate) fn take(&mut self, block: u32, parts: Parts) -> Option<Part> {
        let block = u64::from(block.max(1));
        let (offset, len) = self.dirty.0.iter().find_map(|(offset, (bytes, ()))| {
            let wanted = block - offset % block;
            let len = wanted.min(bytes.len() as u64);
            let is_whole = parts == Parts::All || len == wanted;
            (is_whole && !self.is_sending(*offset..offset + len)).then_some((*offset, len as usize))
        })?;
        let (mut bytes, ()) = self.dirty.0.remove(&offset)?;
        let rest = bytes.split_off(len);
        if !rest.is_empty() {
            self.dirty.0.insert(offset + len as u64, (rest, ()));
        }
        let id = PartId(self.next);
        self.next += 1;
        let is_alone = self.dirty.0.is_empty() && self.sending.is_empty() && self.unstable.0.is_empty();
        self.sending.insert(id, (offset, bytes.clone()));
        Some(Part { id, offset, bytes, is_alone })
    }

    fn is_sending(&self, range: Range<u64>) -> bool {
        self.sending.values().any(|(offset, bytes)| *offset < range.end && offset + bytes.len() as u64 > range.start)
    }

    /// The server took the first `count` bytes; the rest goes again. `verifier` is `None` if they are durable.
    pub(crate) fn wrote(&mut self, id: PartId, count: u32, verifier: Option<WriteVerifier>) {
        let Some((offset, mut bytes)) = self.sending.remove(&id) else { return };
        let rest = bytes.split_off((count as usize).min(bytes.len()));
        self.put_back(offset + bytes.len() as u64, &rest);
        if let Some(verifier) = verifier {
            let order = self.next;
            self.next += 1;
            for (offset, bytes) in self.not_newer(offset, &bytes) {
                self.unstable.cut(offset..offset + bytes.len() as u64);
                self.unstable.0.insert(offset, (bytes, Unstable { verifier, order }));
            }
        }
    }

    /// It was not written, and is to go again.
    pub(crate) fn again(&mut self, id: PartId) {
        if let Some((offset, bytes)) = self.sending.remove(&id) {
            self.put_back(offset, &bytes);
        }
    }

    /// The server refuses it for good; its bytes are dropped. How many.
    pub(crate) fn refused(&mut self, id: PartId) -> u64 {
        self.sending.remove(&id).map_or(0, |(_, bytes)| bytes.len() as u64)
    }

    /// Older bytes become dirty where nothing newer is.
    fn put_back(&mut self, offset: u64, bytes: &[u8]) {
        for (offset, bytes) in self.not_newer(offset, bytes) {
            self.insert_dirty(offset, bytes);
        }
    }

    /// Those of these bytes in whose place nothing dirty is.
    fn not_newer(&self, offset: u64, bytes: &[u8]) -> Vec<(u64, Vec<u8>)> {
        let end = offset + bytes.len() as u64;
        let mut left = Pieces(BTreeMap::from([(offset, (bytes.to_vec(), ()))]));
        if bytes.is_empty() {
            return Vec::new();
        }
        for (start, (newer, ())) in self.dirty.0.range(..end) {
            left.cut(*start..start + newer.len() as u64);
        }
        left.0.into_iter().filter(|(_, (bytes, ()))| !bytes.is_empty()).map(|(at, (bytes, ()))| (at, bytes)).collect()
    }

    /// A commit is about to be sent: what was answered before, it covers.
    pub(crate) fn commit_point(&mut self) -> CommitPoint {
        self.next += 1;
        CommitPoint(self.next - 1)
    }

    /// The commit was answered: what was written under this verifier is durable; what was written under another is forgotten by the
    /// server, and becomes dirty again.
    pub(crate) fn committed(&mut self, point: CommitPoint, verifier: WriteVerifier) {
        let covered: Vec<u64> =
            self.unstable.0.iter().filter(|(_, (_, it))| it.order < point.0).map(|(offset, _)| *offset).collect();
        for offset in covered {
            if let Some((bytes, it)) = self.unstable.0.remove(&offset)
                && it.verifier != verifier
            {
                self.put_back(offset, &bytes);
            }
        }
    }

    /// The file was cut to this size, by a program here: what lies beyond is of no use any more.
    pub(crate) fn cut_to(&mut self, size: u64) {
        self.dirty.cut(size..u64::MAX);
        self.unstable.cut(size..u64::MAX);
    }

    /// Drops everything that is not in flight; gives how many bytes the server does not have.
    pub(crate) fn discard(&mut self) -> u64 {
        let lost = self.dirty.len();
        self.dirty.0.clear();
        self.unstable.0.clear();
        lost
    }

    /// Whether something was not written to the server at all.
    pub(crate) fn has_unwritten(&self) -> bool {
        !self.dirty.0.is_empty() || !self.sending.is_empty()
    }

    /// Whether there is nothing: the server keeps all.
    pub(crate) fn is_clean(&self) -> bool {
        !self.has_unwritten() && self.unstable.0.is_empty()
    }

    /// Parts in flight.
    pub(crate) fn sending(&self) -> usize {
        self.sending.len()
    }

    /// Bytes in memory.
    pub(crate) fn len_in_memory(&self) -> u64 {
        self.dirty.len() + self.unstable.len() + self.sending.values().map(|(_, bytes)| bytes.len() as u64).sum::<u64>()
    }

    /// Bytes that were written and not committed.
    pub(crate) fn unstable_len(&self) -> u64 {
        self.unstable.len()
    }

    /// The size that the file has at least.
    pub(crate) fn end(&self) -> u64 {
        let sending = self.sending.values().map(|(offset, bytes)| offset + bytes.len() as u64).max().unwrap_or(0);
        self.dirty.end().max(self.unstable.end()).max(sending)
    }
}

#[cfg(test)]
mod tests;
