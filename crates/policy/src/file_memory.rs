//! A bounded map by file that forgets what was used longest ago.

use std::collections::BTreeMap;
use wayfs_types::FileId;

/// Files remembered by default: a month's shared files of the published traces (12,273 at most)
/// several times over, in some 10 MiB.
pub(crate) const FILES_MAX: usize = 65_536;

/// Values by file, at most so many.
#[derive(Debug, Clone)]
pub(crate) struct FileMemory<T> {
    values: BTreeMap<FileId, (u64, T)>,
    by_use: BTreeMap<u64, FileId>,
    uses: u64,
    max: usize,
}

impl<T> FileMemory<T> {
    /// Holds at most `max` values, at least one.
    pub(crate) fn new(max: usize) -> Self {
        Self { values: BTreeMap::new(), by_use: BTreeMap::new(), uses: 0, max: max.max(1) }
    }

    /// The value of a file, which counts as used.
    pub(crate) fn get(&mut self, file: FileId) -> Option<&mut T> {
        let (used, value) = self.values.get_mut(&file)?;
        self.uses += 1;
        self.by_use.remove(used);
        self.by_use.insert(self.uses, file);
        *used = self.uses;
        Some(value)
    }

    /// Sets a value; the one used longest ago makes room.
    pub(crate) fn insert(&mut self, file: FileId, value: T) {
        self.remove(file);
        if self.values.len() >= self.max
            && let Some((_, oldest)) = self.by_use.pop_first()
        {
            self.values.remove(&oldest);
        }
        self.uses += 1;
        self.by_use.insert(self.uses, file);
        self.values.insert(file, (self.uses, value));
    }

    pub(crate) fn remove(&mut self, file: FileId) -> Option<T> {
        let (used, value) = self.values.remove(&file)?;
        self.by_use.remove(&used);
        Some(value)
    }
}

impl<T: Default> FileMemory<T> {
    /// The value of a file, made if there is none.
    pub(crate) fn entry(&mut self, file: FileId) -> &mut T {
        if !self.values.contains_key(&file) {
            self.insert(file, T::default());
        }
        self.get(file).expect("it was there or has just been inserted")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::propagator::tests::file;

    #[test]
    fn the_file_used_longest_ago_is_forgotten() {
        let mut memory = FileMemory::new(2);
        memory.insert(file(1), 'a');
        memory.insert(file(2), 'b');
        memory.get(file(1));
        memory.insert(file(3), 'c');
        assert_eq!(
            (memory.remove(file(1)), memory.remove(file(2)), memory.remove(file(3))),
            (Some('a'), None, Some('c'))
        );
        assert!(memory.by_use.is_empty());
    }
}
