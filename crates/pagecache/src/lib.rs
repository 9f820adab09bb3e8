//! A model of what a kernel keeps of one file: its pages and its size. Tests and the simulator have it between programs and open files.
//!
//! It does what Linux does with FUSE without a write-back cache: writes go through, and into the pages that it has; pages that a mapping
//! stored into are written back late, whole, and from the version that they were read from. It believes the size that it was told last.

use std::collections::BTreeMap;
use std::ops::Range;

/// A page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// All of it; zeros beyond the end of the file.
    pub bytes: Vec<u8>,
    /// A mapping stored into it since it was read or written back.
    pub is_dirty: bool,
    /// Written in part while it was of another version than the file: the kernel is about to be told to forget it.
    pub is_mixed: bool,
}

/// What a kernel keeps of one file.
#[derive(Debug)]
pub struct PageCache {
    page_len: u64,
    /// By number.
    pub pages: BTreeMap<u64, Page>,
    /// How long the file is, as far as it knows, in bytes.
    pub size: u64,
    /// It was told nothing since it asked for the size.
    pub knows_size: bool,
}

impl PageCache {
    /// Nothing of a file, with pages of so many bytes.
    #[must_use]
    pub const fn new(page_len: u64) -> Self {
        Self { page_len, pages: BTreeMap::new(), size: 0, knows_size: false }
    }

    /// Numbers of the pages of a range.
    #[must_use]
    pub const fn numbers(&self, range: &Range<u64>) -> Range<u64> {
        range.start / self.page_len..range.end.div_ceil(self.page_len)
    }

    /// Where the first byte of a page is.
    #[must_use]
    pub const fn start_of(&self, number: u64) -> u64 {
        number * self.page_len
    }

    /// Numbers of the pages of a range that it does not have, up to the end of the file.
    #[must_use]
    pub fn lacks(&self, range: &Range<u64>) -> Vec<u64> {
        let numbers = self.numbers(&(range.start..range.end.min(self.size)));
        numbers.filter(|number| !self.pages.contains_key(number)).collect()
    }

    /// A page was read. A short one says where the file ends.
    pub fn has_read(&mut self, number: u64, mut bytes: Vec<u8>) {
        let end = self.start_of(number) + bytes.len() as u64;
        if end < self.size.min(self.start_of(number + 1)) {
            self.resize(end);
        }
        bytes.resize(to_len(self.page_len), 0);
        self.pages.insert(number, Page { bytes, is_dirty: false, is_mixed: false });
    }

    /// Drops what it has; dirty pages were written back before.
    pub fn drop_pages(&mut self) {
        self.pages.clear();
    }

    /// The file is so long, as far as it knows: what was beyond is zeros if it grows again.
    pub fn resize(&mut self, size: u64) {
        if size < self.size {
            let (page_len, within) = (self.page_len, to_len(size % self.page_len));
            self.pages.retain(|number, _| number * page_len < size);
            if let Some(last) = self.pages.get_mut(&(size / page_len)) {
                last.bytes[within..].fill(0);
            }
        }
        self.size = size;
    }

    /// Bytes that were sent are in its pages, too, as far as it has them whole. `view` is what the file was before.
    pub fn wrote(&mut self, offset: u64, data: &[u8], view: &[u8]) {
        let end = offset + data.len() as u64;
        for number in self.numbers(&(offset..end)) {
            let start = self.start_of(number);
            let (from, until) = (offset.max(start), end.min(start + self.page_len));
            let part = &data[to_len(from - offset)..to_len(until - offset)];
            let is_of_view = self.is_of(view, number);
            if until - from == self.page_len {
                self.pages.insert(number, Page { bytes: part.to_vec(), is_dirty: false, is_mixed: false });
            } else if let Some(page) = self.pages.get_mut(&number) {
                page.is_mixed |= !is_of_view;
                page.bytes[to_len(from - start)..to_len(until - start)].copy_from_slice(part);
            }
        }
        self.extend(end, view);
    }

    /// The file is at least so long by its own doing. `view` is what the file was before.
    pub fn extend(&mut self, size: u64, view: &[u8]) {
        if size <= self.size {
            return;
        }
        let last = self.size / self.page_len;
        let is_of_view = self.is_of(view, last);
        if let Some(page) = self.pages.get_mut(&last) {
            page.is_mixed |= !is_of_view;
        }
        self.size = size;
    }

    /// It has bytes where the file does not have them.
    pub fn mix(&mut self, range: &Range<u64>) {
        for number in self.numbers(range) {
            if let Some(page) = self.pages.get_mut(&number) {
                page.is_mixed = true;
            }
        }
    }

    /// Pages that a mapping stored into, by offset, with what of them is within the file.
    pub fn take_dirty(&mut self) -> Vec<(u64, Vec<u8>)> {
        let (size, page_len) = (self.size, self.page_len);
        let mut dirty = Vec::new();
        for (number, page) in self.pages.iter_mut().filter(|(_, page)| page.is_dirty) {
            page.is_dirty = false;
            let len = size.saturating_sub(number * page_len).min(page_len);
            dirty.push((number * page_len, page.bytes[..to_len(len)].to_vec()));
        }
        dirty.retain(|(_, bytes)| !bytes.is_empty());
        dirty
    }

    /// Numbers of pages that are as they were read, or written through.
    pub fn clean(&self) -> impl Iterator<Item = u64> {
        self.pages.iter().filter(|(_, page)| !page.is_mixed && !page.is_dirty).map(|(number, _)| *number)
    }

    /// Whether a page that it has is one of what a file is.
    #[must_use]
    pub fn is_of(&self, view: &[u8], number: u64) -> bool {
        self.has(number, view, self.start_of(number)..self.start_of(number + 1).min(view.len() as u64))
    }

    /// The same up to the size that it believes.
    #[must_use]
    pub fn shows(&self, view: &[u8], number: u64) -> bool {
        let shown = self.start_of(number)..self.start_of(number + 1).min(self.size);
        shown.is_empty() || self.has(number, view, shown)
    }

    /// The same up to the size that it believes, or up to the end of the file if that comes first.
    #[must_use]
    pub fn agrees(&self, view: &[u8], number: u64) -> bool {
        let shown = self.start_of(number)..self.start_of(number + 1).min(self.size).min(view.len() as u64);
        shown.is_empty() || self.has(number, view, shown)
    }

    /// Whether a page begins with a part of a file.
    fn has(&self, number: u64, view: &[u8], part: Range<u64>) -> bool {
        let part = view.get(to_len(part.start)..to_len(part.end));
        self.pages.get(&number).zip(part).is_some_and(|(page, part)| page.bytes.starts_with(part))
    }
}

fn to_len(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(bytes: &[u8]) -> PageCache {
        let mut cache = PageCache::new(4);
        cache.size = bytes.len() as u64;
        for number in cache.lacks(&(0..cache.size)) {
            let start = cache.start_of(number) as usize;
            cache.has_read(number, bytes[start..bytes.len().min(start + 4)].to_vec());
        }
        cache
    }

    #[test]
    fn what_is_written_through_is_in_the_pages_that_it_has() {
        let mut cache = cache(b"abcdefgh");
        cache.drop_pages();
        cache.has_read(1, b"efgh".to_vec());
        cache.wrote(2, b"CDE", b"abcdefgh");
        assert_eq!(cache.pages.keys().collect::<Vec<_>>(), [&1], "a part of a page is no page");
        assert!(cache.shows(b"abCDEfgh", 1));
        cache.wrote(0, b"ABCD", b"abCDEfgh");
        assert!(cache.shows(b"ABCDEfgh", 0) && !cache.pages[&0].is_mixed);
    }

    #[test]
    fn a_page_of_another_version_that_is_written_in_part_is_of_none() {
        let mut cache = cache(b"abcd");
        cache.wrote(0, b"X", b"0123");
        assert!(cache.pages[&0].is_mixed);
        assert_eq!(cache.clean().count(), 0);
    }

    #[test]
    fn what_was_cut_off_is_zeros_when_the_file_grows() {
        let mut cache = cache(b"abcdef");
        cache.resize(5);
        cache.extend(8, b"abcde");
        assert!(cache.shows(b"abcde\0\0\0", 1) && !cache.pages[&1].is_mixed);
        cache.resize(2);
        assert_eq!((cache.pages.len(), cache.lacks(&(0..10))), (1, vec![]));
    }

    #[test]
    fn dirty_pages_are_written_back_up_to_the_end() {
        let mut cache = cache(b"abcdef");
        cache.pages.get_mut(&1).unwrap().is_dirty = true;
        assert_eq!(cache.take_dirty(), [(4, b"ef".to_vec())]);
        assert_eq!(cache.take_dirty(), []);
    }

    #[test]
    fn a_short_read_tells_where_the_file_ends() {
        let mut cache = cache(b"abcdefgh");
        cache.drop_pages();
        cache.has_read(1, b"e".to_vec());
        assert_eq!(cache.size, 5);
    }
}
