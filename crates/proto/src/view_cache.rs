//! Rows of the committed view that were read lately, decoded. One change looks at a few rows dozens of times: its file, its
//! directory, its origin.
//!
//! Two generations: what is read comes into the young one, and when that is full it becomes the old one, whose rows go unless
//! they are read again. A commit takes out what it writes.

use crate::replica::Replica;
use crate::tables::{Numbered, image_key, table, unpack_view};
use std::cell::RefCell;
use std::collections::BTreeMap;
use wayfs_types::{Batch, Image, Key, MetaStore, StorageError};

/// Longest row that is kept, in encoded bytes.
const ROW_LEN_MAX: usize = 4096;

type Rows = BTreeMap<Vec<u8>, Option<Numbered>>;

/// Of one replica: all that is committed there goes through [`ViewCache::forget`].
#[derive(Debug)]
pub(crate) struct ViewCache {
    generations: RefCell<Generations>,
    /// Most rows of each generation.
    rows_max: usize,
}

#[derive(Debug, Default)]
struct Generations {
    young: Rows,
    old: Rows,
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
        let row = image_key(table::VIEW, key);
        let mut generations = self.generations.borrow_mut();
        if let Some(known) = generations.young.get(&row) {
            return Ok(look(known.as_ref()));
        }
        let known = match generations.old.remove(&row) {
            Some(known) => known,
            None => {
                let bytes = store.get(&row)?;
                let read = bytes.as_deref().map(unpack_view).transpose()?;
                if self.rows_max == 0 || bytes.is_some_and(|bytes| bytes.len() > ROW_LEN_MAX) {
                    return Ok(look(read.as_ref()));
                }
                read
            }
        };
        let looked = look(known.as_ref());
        generations.keep(row, known, self.rows_max);
        Ok(looked)
    }

    /// A commit writes these rows.
    pub(crate) fn forget(&mut self, batch: &Batch) {
        let Generations { young, old } = self.generations.get_mut();
        for (row, _) in batch.changes.iter().filter(|(row, _)| row.first() == Some(&table::VIEW)) {
            young.remove(row);
            old.remove(row);
        }
    }
}

impl Generations {
    fn keep(&mut self, row: Vec<u8>, known: Option<Numbered>, rows_max: usize) {
        if self.young.len() >= rows_max {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(row, known);
    }
}

impl<S: MetaStore> Replica<S> {
    /// A row of the committed view.
    pub(crate) fn row_of(&self, key: &Key) -> Result<Option<Numbered>, StorageError> {
        self.views.look(&self.store, key, |row| row.cloned())
    }

    /// Its image.
    pub(crate) fn image(&self, key: &Key) -> Result<Option<Image>, StorageError> {
        self.views.look(&self.store, key, |row| row.map(|row| row.image.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::pack_view;
    use crate::testing::MemoryStore;
    use std::cell::Cell;
    use wayfs_types::{CommitNumber, Content, Entry, FileId, Name, Pairs, RecordId, Ticket};

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
        batch.put(image_key(table::VIEW, key), pack_view(CommitNumber(number), &image));
        views.forget(&batch);
        store.commit(batch).unwrap();
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
        assert_eq!(number(&store, &views, &key(1)), Some(7));
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
        write(&mut store, &mut views, &key(1), 7, Image::Inode(Box::new(root)));
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
