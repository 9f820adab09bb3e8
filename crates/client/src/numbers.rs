//! Numbers under which the kernel knows files that were made without a name.
//!
//! A file's number is that of the record that makes it, and a file without a name has no record: it may never get one.
//! Until it gets a name it goes by a number of the last origin that a volume can grant, which none ever comes to. The kernel
//! cannot be told that a number changed, so it goes on with the first one for as long as it knows the file, and everybody
//! else uses the second.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use wayfs_types::{FileId, OriginId, RecordId};

/// The translation. Bounded by the files that the kernel knows.
#[derive(Debug, Default)]
pub struct Numbers {
    given: AtomicU64,
    /// Files that have both, so that whoever has none to translate needs no lock.
    both: AtomicUsize,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// By the first number.
    files: HashMap<FileId, File>,
    /// From the second to the first.
    first: HashMap<FileId, FileId>,
}

#[derive(Debug, Default)]
struct File {
    /// How often the kernel was told of it and did not forget it since.
    lookups: u64,
    second: Option<FileId>,
}

/// Whether a number is one of a file that was made without a name.
pub fn is_first(file: FileId) -> bool {
    file.maker().origin() == OriginId::MAX
}

impl Numbers {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A number for a file without a name; `None` after a million million of them.
    pub fn give(&self) -> Option<FileId> {
        let sequence = self.given.fetch_add(1, Ordering::Relaxed) + 1;
        let file = FileId::made_by(RecordId::new(OriginId::MAX, sequence).ok()?);
        self.known().files.insert(file, File::default());
        Some(file)
    }

    /// The file got a name, and its second number.
    pub fn named(&self, first: FileId, second: FileId) {
        let mut known = self.known();
        if let Some(file) = known.files.get_mut(&first) {
            file.second = Some(second);
            known.first.insert(second, first);
            self.both.fetch_add(1, Ordering::Release);
        }
    }

    /// What everybody but the kernel calls a file that the kernel names.
    pub fn real(&self, file: FileId) -> FileId {
        if !is_first(file) {
            return file;
        }
        self.known().files.get(&file).and_then(|file| file.second).unwrap_or(file)
    }

    /// What the kernel calls a file.
    pub fn shown(&self, file: FileId) -> FileId {
        if self.both.load(Ordering::Acquire) == 0 {
            return file;
        }
        self.known().first.get(&file).copied().unwrap_or(file)
    }

    /// What the kernel calls a file of which it is told.
    pub fn tell(&self, file: FileId) -> FileId {
        let shown = self.shown(file);
        if is_first(shown)
            && let Some(file) = self.known().files.get_mut(&shown)
        {
            file.lookups += 1;
        }
        shown
    }

    /// The kernel forgot a file of which it had been told so often.
    pub fn forgotten(&self, file: FileId, lookups: u64) {
        if !is_first(file) {
            return;
        }
        let mut known = self.known();
        let Some(entry) = known.files.get_mut(&file) else { return };
        entry.lookups = entry.lookups.saturating_sub(lookups);
        if entry.lookups > 0 {
            return;
        }
        if let Some(second) = known.files.remove(&file).and_then(|file| file.second) {
            known.first.remove(&second);
            self.both.fetch_sub(1, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_keeps_the_first_number_until_it_forgets_the_file() {
        let numbers = Numbers::default();
        let second = FileId::made_by(RecordId::new(OriginId::new(3).unwrap(), 9).unwrap());
        let first = numbers.give().unwrap();
        assert_ne!(numbers.give().unwrap(), first);
        assert_eq!((numbers.tell(first), numbers.real(first)), (first, first));
        numbers.named(first, second);
        assert_eq!((numbers.real(first), numbers.shown(second)), (second, first));
        assert_eq!(numbers.tell(second), first);
        // Told twice: one answer may be under way while the kernel forgets what the other said.
        numbers.forgotten(first, 1);
        assert_eq!(numbers.real(first), second);
        numbers.forgotten(first, 1);
        assert_eq!((numbers.real(first), numbers.shown(second)), (first, second));
        assert_eq!((numbers.real(second), numbers.tell(second)), (second, second));
    }
}
