//! Of which version of a file the kernel has pages.
//!
//! The kernel takes the bytes of its pages and the size that it was told last for one version. It would show the end of an old last
//! page as zeros, if it heard of a new size first: so a size is told only when the pages are of its version, and else when they were
//! forgotten (`crate::fs::in_step`).

use std::collections::BTreeMap;
use wayfs_types::{FileId, RecordId};

/// What the kernel has of one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pages {
    /// Pages of this version, or none.
    Of(RecordId),
    /// Pages of other versions than one, since the moment of this number. It also holds when the file came back to a version that
    /// it was before.
    Mixed(u64),
}

/// What the kernel has of each file that it knows; nothing of those that are not here.
#[derive(Debug, Default)]
pub(super) struct KernelPages {
    of_file: BTreeMap<FileId, Pages>,
    moment: u64,
}

/// Pages that the kernel is asked to forget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Renewal {
    file: FileId,
    had: Pages,
    /// What it reads from now on.
    version: RecordId,
}

impl KernelPages {
    /// The kernel dropped the inode, and its pages with it.
    pub(super) fn forget(&mut self, file: FileId) {
        self.of_file.remove(&file);
    }

    /// The kernel is about to read through its pages. Answers whether it may keep those that it has.
    pub(super) fn open(&mut self, file: FileId, version: RecordId) -> bool {
        match self.of_file.get(&file) {
            Some(Pages::Of(known)) if *known == version => return true,
            // It forgets them when it has the answer; another program may ask for the size before that.
            Some(_) => self.mix(file),
            None => {
                self.of_file.insert(file, Pages::Of(version));
            }
        }
        false
    }

    /// The file became another version, or the kernel put bytes where they are not.
    pub(super) fn mix(&mut self, file: FileId) {
        self.moment += 1;
        let moment = self.moment;
        self.of_file.entry(file).and_modify(|pages| *pages = Pages::Mixed(moment));
    }

    /// The file goes by another number than before.
    pub(super) fn rename(&mut self, former: FileId, file: FileId) {
        if self.of_file.remove(&former).is_some() {
            self.of_file.insert(file, Pages::Mixed(self.moment));
            self.mix(file);
        }
    }

    /// What the kernel wrote upon `base` became `version`.
    pub(super) fn commit(&mut self, file: FileId, base: RecordId, version: RecordId) {
        if let Some(pages) = self.of_file.get_mut(&file)
            && *pages == Pages::Of(base)
        {
            *pages = Pages::Of(version);
        }
    }

    /// Whether the kernel may have pages, and they are of this version.
    pub(super) fn are_of(&self, file: FileId, version: RecordId) -> Option<bool> {
        self.of_file.get(&file).map(|pages| *pages == Pages::Of(version))
    }

    /// Whether the kernel may have pages of any version.
    pub(super) fn may_be_there(&self, file: FileId) -> bool {
        self.of_file.contains_key(&file)
    }

    /// What it is to forget before it is told of a version; `None`: nothing.
    pub(super) fn renewal(&self, file: FileId, version: RecordId) -> Option<Renewal> {
        let had = *self.of_file.get(&file).filter(|pages| **pages != Pages::Of(version))?;
        Some(Renewal { file, had, version })
    }

    /// It forgot them.
    pub(super) fn renewed(&mut self, renewal: &Renewal) {
        if let Some(pages) = self.of_file.get_mut(&renewal.file)
            && *pages == renewal.had
        {
            *pages = Pages::Of(renewal.version);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wayfs_types::OriginId;

    const FILE: FileId = FileId::ROOT;

    fn version(sequence: u64) -> RecordId {
        RecordId::new(OriginId::new(1).unwrap(), sequence).unwrap()
    }

    #[test]
    fn pages_are_kept_by_those_who_open_the_version_that_they_are_of() {
        let mut pages = KernelPages::default();
        assert_eq!(pages.are_of(FILE, version(1)), None);
        assert!(!pages.open(FILE, version(1)));
        assert!(pages.open(FILE, version(1)));
        pages.commit(FILE, version(1), version(2));
        assert!(pages.open(FILE, version(2)));
        pages.forget(FILE);
        assert!(!pages.open(FILE, version(2)));
    }

    #[test]
    fn pages_of_several_versions_are_of_none_until_they_are_forgotten() {
        let mut pages = KernelPages::default();
        pages.open(FILE, version(1));
        assert!(pages.renewal(FILE, version(1)).is_none());
        pages.mix(FILE);
        pages.commit(FILE, version(1), version(2));
        assert_eq!(pages.are_of(FILE, version(1)), Some(false));
        assert!(!pages.open(FILE, version(1)));
        assert!(!pages.open(FILE, version(1)), "until the first has its answer");
        let renewal = pages.renewal(FILE, version(1)).unwrap();
        pages.renewed(&renewal);
        assert!(pages.open(FILE, version(1)));
    }

    #[test]
    fn what_changes_while_pages_are_forgotten_is_not_taken_for_the_version_before() {
        let mut pages = KernelPages::default();
        pages.open(FILE, version(1));
        pages.mix(FILE);
        let renewal = pages.renewal(FILE, version(2)).unwrap();
        pages.mix(FILE);
        pages.renewed(&renewal);
        assert_eq!(pages.are_of(FILE, version(2)), Some(false));
    }
}
