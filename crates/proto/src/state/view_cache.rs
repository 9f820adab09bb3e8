//! Rows of the committed view that were read or written lately, decoded. One change looks at a few rows dozens of times: its file,
//! its directory, its origin.
//!
//! Two generations: what is read or written comes into the young one, and when that is full it becomes the old one, whose rows go
//! unless they are read again. A row is cheap to copy: what is long in it is shared.

use crate::state::tables::{Numbered, image_key, table, unpack_view};
use std::cell::RefCell;
use std::collections::BTreeMap;
use wayfs_types::{Key, MetaStore, StorageError};

/// Longest row that is kept, in encoded bytes.
const ROW_LEN_MAX: usize = 4096;

type Rows = BTreeMap<Key, Option<Numbered>>;

/// Of one replica: all that is committed there goes through [`ViewCache::wrote`].
#[derive(Debug)]
pub(crate) struct ViewCache {
    pub(super) generations: RefCell<Generations>,
    /// Most rows of each generation.
    rows_max: usize,
}

/// A row that a batch writes.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) key: Key,
    /// `None`: it is removed.
    pub(crate) row: Option<Numbered>,
    /// Its encoded bytes.
    pub(crate) len: usize,
}

#[derive(Debug, Default)]
pub(super) struct Generations {
    pub(super) young: Rows,
    pub(super) old: Rows,
}

impl ViewCache {
    /// With so many rows in each generation; zero: every look reads the store.
    pub(crate) fn of(rows_max: usize) -> Self {
        Self { generations: RefCell::default(), rows_max }
    }

    /// Looks at a row of the committed view, and must not look at another meanwhile.
    pub(crate) fn look<T>(
        &self,
        store: &impl MetaStore,
        key: &Key,
        look: impl FnOnce(Option<&Numbered>) -> T,
    ) -> Result<T, StorageError> {
        let mut generations = self.generations.borrow_mut();
        if let Some(known) = generations.young.get(key) {
            return Ok(look(known.as_ref()));
        }
        let (key, known) = match generations.old.remove_entry(key) {
            Some(known) => known,
            None => {
                let bytes = store.get(&image_key(table::VIEW, key))?;
                let read = bytes.as_deref().map(unpack_view).transpose()?;
                if self.rows_max == 0 || bytes.is_some_and(|bytes| bytes.len() > ROW_LEN_MAX) {
                    return Ok(look(read.as_ref()));
                }
                (key.clone(), read)
            }
        };
        let looked = look(known.as_ref());
        generations.keep(key, known, self.rows_max);
        Ok(looked)
    }

    /// The store was given a batch that writes these rows, and no others of the view.
    pub(crate) fn wrote(&mut self, rows: Vec<Written>) {
        let generations = self.generations.get_mut();
        for Written { key, row, len } in rows {
            generations.old.remove(&key);
            if self.rows_max == 0 || len > ROW_LEN_MAX {
                generations.young.remove(&key);
            } else {
                generations.keep(key, row, self.rows_max);
            }
        }
    }

    /// What the store has may be anything.
    pub(crate) fn forget_all(&mut self) {
        *self.generations.get_mut() = Generations::default();
    }
}

impl Generations {
    fn keep(&mut self, key: Key, known: Option<Numbered>, rows_max: usize) {
        if self.young.len() >= rows_max && !self.young.contains_key(&key) {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, known);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::tables::pack_view;
    use crate::testing::MemoryStore;
    use std::cell::Cell;
    use std::sync::Arc;
    use wayfs_types::{Batch, CommitNumber, Content, Entry, FileId, Image, Name, Pairs, RecordId, Ticket};

    const ROWS_MAX: usize = 64;

    /// Counts what is read.
    #[derive(Default)]
    struct Counting {
        store: MemoryStore,
        reads: Cell<usize>,
    }

    impl MetaStore for Counting {
        fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StorageError> {
            self.reads.set(self.reads.get() + 1);
            self.store.get(key)
        }

        fn scan(&self, from: &[u8], until: &[u8], limit: usize) -> Result<Pairs, StorageError> {
            self.store.scan(from, until, limit)
        }

        fn scan_back(&self, from: &[u8], until: &[u8], limit: usize) -> Result<Pairs, StorageError> {
            self.store.scan_back(from, until, limit)
        }

        fn commit(&mut self, batch: Batch) -> Result<Ticket, StorageError> {
            self.store.commit(batch)
        }
    }

    fn key(n: usize) -> Key {
        Key::Entry(FileId::ROOT, Name::new(format!("name {n}")).unwrap())
    }

    fn write(store: &mut Counting, views: &mut ViewCache, key: &Key, number: u64, image: Image) {
        let mut batch = Batch::default();
        let packed = pack_view(CommitNumber(number), &image);
        let row = Some(Numbered { number: CommitNumber(number), image });
        let written = Written { key: key.clone(), row, len: packed.len() };
        batch.put(image_key(table::VIEW, key), packed);
        store.commit(batch).unwrap();
        views.wrote(vec![written]);
    }

    fn entry() -> Image {
        Image::Entry(Entry { file: FileId::ROOT, version: RecordId::try_from(1).unwrap() })
    }

    fn number(store: &Counting, views: &ViewCache, key: &Key) -> Option<u64> {
        views.look(store, key, |row| row.map(|row| row.number.0)).unwrap()
    }

    #[test]
    fn what_a_commit_writes_is_what_is_seen_behind_it() {
        let (mut store, mut views) = (Counting::default(), ViewCache::of(ROWS_MAX));
        assert_eq!(number(&store, &views, &key(1)), None);
        assert_eq!(
            (number(&store, &views, &key(1)), store.reads.get()),
            (None, 1),
            "that nothing is there is kept, too"
        );
        write(&mut store, &mut views, &key(1), 7, entry());
        assert_eq!((number(&store, &views, &key(1)), store.reads.get()), (Some(7), 1), "what was written is kept");
        // In the old generation it is written, too.
        (10..10 + ROWS_MAX).for_each(|n| assert_eq!(number(&store, &views, &key(n)), None));
        write(&mut store, &mut views, &key(1), 8, entry());
        assert_eq!(number(&store, &views, &key(1)), Some(8));
    }

    #[test]
    fn what_is_looked_at_again_and_again_stays_and_the_rest_goes() {
        let (store, views) = (Counting::default(), ViewCache::of(ROWS_MAX));
        for n in 1..ROWS_MAX * 4 {
            number(&store, &views, &key(0));
            number(&store, &views, &key(n));
        }
        assert_eq!(store.reads.get(), ROWS_MAX * 4);
        let generations = views.generations.borrow();
        assert!(generations.young.len() <= ROWS_MAX && generations.old.len() <= ROWS_MAX);
    }

    #[test]
    fn a_long_row_is_not_kept() {
        let (mut store, mut views) = (Counting::default(), ViewCache::of(ROWS_MAX));
        let mut root = wayfs_tree::root_inode();
        root.content = Content::Inline(vec![7; ROW_LEN_MAX].into());
        write(&mut store, &mut views, &key(1), 7, Image::Inode(Arc::new(root)));
        assert_eq!((number(&store, &views, &key(1)), number(&store, &views, &key(1))), (Some(7), Some(7)));
        assert_eq!((store.reads.get(), views.generations.borrow().young.len()), (2, 0));
    }

    #[test]
    fn where_none_is_to_be_kept_each_look_reads() {
        let (store, views) = (Counting::default(), ViewCache::of(0));
        assert_eq!((number(&store, &views, &key(1)), number(&store, &views, &key(1))), (None, None));
        assert_eq!(store.reads.get(), 2);
    }
}
