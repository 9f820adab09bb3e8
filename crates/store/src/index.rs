//! The index: tables on disk in a log-structured merge tree, without a log of its own.
//!
//! What is applied is in memory. A *checkpoint* seals it and writes it to tables; these hold the chain record of the last
//! batch in them, so that an open knows from where on the log counts. The tree syncs tables, its list of them and their
//! directories before a flush ends. Everything here but [`Index::flush`] and [`Index::merge`] touches memory only, or reads.

use crate::chain::{CHAIN_KEY, Chain};
use crate::descriptors::TABLE_FILES_MAX;
use crate::error::OpenError;
use crate::log::format::{Item, ItemRef};
use crate::meta_config::MetaConfig;
use lsm_tree::compaction::Leveled;
use lsm_tree::config::{
    BloomConstructionPolicy, CompressionPolicy, FilterPolicy, FilterPolicyEntry, RestartIntervalPolicy,
};
use lsm_tree::{
    AbstractTree, AnyTree, Cache, CompressionType, Config, DescriptorTable, Guard, SeqNo, SequenceNumberCounter,
};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, TryLockError};
use wayfs_disk::{Disk, SystemDisk};

/// Sealed tables in memory that writers wait behind.
const SEALED_MAX: usize = 3;
/// Unmerged tables on disk that writers wait behind.
const UNMERGED_MAX: usize = 24;
/// Unmerged tables on disk from which on they are merged.
pub(crate) const UNMERGED_MIN: u8 = 4;
/// So many times [`MetaConfig::memtable_bytes`] may be in the table in memory while there is no next file for the log.
const OVERFULL: u64 = 4;

/// The tables of a store.
///
/// Order of locks: `tree`, then `readers`.
pub(crate) struct Index {
    path: PathBuf,
    config: MetaConfig,
    /// Exchanged by [`Index::reopen`] only.
    tree: RwLock<AnyTree>,
    /// Numbers of batches and of the tree's own changes, for this run of the program.
    numbers: SequenceNumberCounter,
    readers: Mutex<Readers>,
    /// Bytes in the table in memory that takes batches.
    active_bytes: AtomicU64,
    /// The disk has no room for a merge: writers do not wait for one.
    is_cramped: AtomicBool,
    merging: Arc<Leveled>,
}

/// Who reads what of the past.
#[derive(Debug, Default)]
struct Readers {
    /// What has a smaller number is applied, in whole batches.
    visible: SeqNo,
    /// Open snapshots, by what they see.
    open: BTreeMap<SeqNo, usize>,
}

impl Index {
    /// Opens the tables in a directory, making it if it is not there.
    pub(crate) fn open(path: &Path, config: MetaConfig) -> Result<Self, OpenError> {
        make(path, config)?;
        Self::open_numbered(path, config, SequenceNumberCounter::default())
    }

    /// Opens the tables, whose next batch has the counter's next number.
    fn open_numbered(path: &Path, config: MetaConfig, numbers: SequenceNumberCounter) -> Result<Self, OpenError> {
        let tree = tree_config(path, config, &numbers).open()?;
        let first = tree.get_highest_persisted_seqno().map_or(0, |highest| highest + 1);
        numbers.fetch_max(first);
        Ok(Self {
            path: path.to_path_buf(),
            config,
            tree: RwLock::new(tree),
            numbers,
            readers: Mutex::new(Readers { visible: first, open: BTreeMap::new() }),
            active_bytes: AtomicU64::new(0),
            is_cramped: AtomicBool::new(false),
            merging: Arc::new(Leveled::default().with_l0_threshold(UNMERGED_MIN)),
        })
    }

    /// Opens the tables on disk anew, filled again by `replay`, which returns `T`: what a flush or a merge that failed left on
    /// the disk is known and removed by an open only. Readers wait meanwhile. `None`: snapshots are open, which read on in the
    /// tables as they are.
    ///
    /// No batch may be applied at the same time. After an error these tables may miss files on disk.
    pub(crate) fn reopen<T>(&self, replay: impl FnOnce(&Self) -> Result<T, OpenError>) -> Result<Option<T>, OpenError> {
        let mut tree = self.tree.write().unwrap_or_else(PoisonError::into_inner);
        let mut readers = self.readers();
        if !readers.open.is_empty() {
            return Ok(None);
        }
        let fresh = Self::open_numbered(&self.path, self.config, self.numbers.clone())?;
        let replayed = replay(&fresh)?;
        readers.visible = fresh.readers().visible;
        self.active_bytes.store(fresh.active_bytes.load(Ordering::Relaxed), Ordering::Relaxed);
        // The old tree removes the tables that were merged away when it ends. It ends here, before there are new ones of
        // the same numbers: nobody reads it, and it has no snapshot.
        *tree = fresh.tree.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok(Some(replayed))
    }

    fn tree(&self) -> RwLockReadGuard<'_, AnyTree> {
        self.tree.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The chain at the last batch in the tables on disk.
    pub(crate) fn chain(&self) -> Result<Chain, OpenError> {
        match self.tree().get(CHAIN_KEY, SeqNo::MAX)? {
            None => Ok(Chain::default()),
            Some(bytes) => {
                Chain::decode(&bytes).ok_or_else(|| OpenError::Damaged("its chain record does not decode".to_owned()))
            }
        }
    }

    /// Applies a batch. One at a time, in their order.
    pub(crate) fn apply(&self, items: Vec<Item>) {
        let tree = self.tree();
        let number = self.numbers.next();
        for (key, value) in items {
            match value {
                Some(value) => self.note_size(tree.insert(key, value, number)),
                None => self.note_size(tree.remove(key, number)),
            }
        }
        self.readers().visible = number + 1;
    }

    /// The same with a batch that was read from the log.
    pub(crate) fn apply_read(&self, items: &[ItemRef<'_>]) {
        self.apply(items.iter().map(|(key, value)| (key.to_vec(), value.map(<[u8]>::to_vec))).collect());
    }

    fn note_size(&self, (_, active_bytes): (u64, u64)) {
        self.active_bytes.store(active_bytes, Ordering::Relaxed);
    }

    /// Ends the table in memory after a batch, if there is anything in it.
    pub(crate) fn seal(&self, last: Chain) {
        if self.active_bytes.load(Ordering::Relaxed) == 0 {
            return;
        }
        self.apply(vec![(CHAIN_KEY.to_vec(), Some(last.encode().to_vec()))]);
        self.tree().rotate_memtable();
        self.active_bytes.store(0, Ordering::Relaxed);
    }

    /// Whether the table in memory should be sealed.
    pub(crate) fn is_full(&self) -> bool {
        self.active_bytes.load(Ordering::Relaxed) >= self.config.memtable_bytes
    }

    /// Whether it should have been sealed for a while: whoever does it otherwise is busy.
    pub(crate) fn is_overdue(&self) -> bool {
        self.active_bytes.load(Ordering::Relaxed)
            >= self.config.memtable_bytes.saturating_add(self.config.memtable_bytes / 2)
    }

    /// Whether writers should wait: for a flush, for a merge, for room in memory, or for [`Index::reopen`]. Never waits itself: a
    /// commit asks, too.
    pub(crate) fn is_behind(&self) -> bool {
        let tree = match self.tree.try_read() {
            Ok(tree) => tree,
            Err(TryLockError::Poisoned(tree)) => tree.into_inner(),
            Err(TryLockError::WouldBlock) => return true,
        };
        tree.sealed_memtable_count() >= SEALED_MAX
            || (tree.l0_run_count() >= UNMERGED_MAX && !self.is_cramped.load(Ordering::Relaxed))
            || self.active_bytes.load(Ordering::Relaxed) >= self.config.memtable_bytes.saturating_mul(OVERFULL)
    }

    /// The disk has no room for a merge.
    pub(crate) fn note_cramped(&self) {
        self.is_cramped.store(true, Ordering::Relaxed);
    }

    /// It has.
    pub(crate) fn note_roomy(&self) {
        self.is_cramped.store(false, Ordering::Relaxed);
    }

    /// Whether a sealed table waits for a flush.
    pub(crate) fn is_sealed(&self) -> bool {
        self.tree().sealed_memtable_count() > 0
    }

    /// Writes all sealed tables to disk and syncs them. One thread at a time.
    pub(crate) fn flush(&self) -> lsm_tree::Result<()> {
        let tree = self.tree();
        let flushing = tree.get_flush_lock();
        tree.flush(&flushing, self.forgotten_before()).map(drop)
    }

    /// Makes what comes later be read with all changes of the tree so far. No batch may be applied at the same time.
    pub(crate) fn advance(&self) {
        self.readers().visible = self.numbers.get();
    }

    /// Gives back the memory and the disk space of what was flushed or merged, unless snapshots read it. The tree does that
    /// behind its next change only, and then for what was replaced before [`Index::advance`].
    pub(crate) fn forget_replaced(&self) -> lsm_tree::Result<()> {
        let tree = self.tree();
        if tree.version_free_list_len() == 0 {
            return Ok(());
        }
        tree.register_tables(&[], None, None, &[], self.forgotten_before())
    }

    /// Tables on disk.
    #[cfg(test)]
    pub(crate) fn tables(&self) -> usize {
        self.tree().table_count()
    }

    /// Tables on disk that were not merged.
    pub(crate) fn unmerged(&self) -> usize {
        self.tree().l0_run_count()
    }

    /// Merges some tables, if it is time to.
    pub(crate) fn merge(&self) -> lsm_tree::Result<()> {
        self.tree().compact(Arc::clone(&self.merging) as Arc<_>, self.forgotten_before())
    }

    /// Bytes of the tables on disk.
    pub(crate) fn disk_bytes(&self) -> u64 {
        self.tree().disk_space()
    }

    /// What a key holds, of all batches that were applied and the one that is being.
    pub(crate) fn get(&self, key: &[u8]) -> lsm_tree::Result<Option<lsm_tree::UserValue>> {
        self.tree().get(key, SeqNo::MAX)
    }

    /// The pairs of a range, likewise.
    pub(crate) fn range(&self, range: std::ops::Range<Vec<u8>>) -> impl DoubleEndedIterator<Item = Pair> {
        let tree = self.tree();
        let pairs = tree.range(range, SeqNo::MAX, None);
        // What is read must not be opened anew meanwhile.
        pairs.map(move |pair| {
            let _tree = &tree;
            pair.into_inner()
        })
    }

    /// Holds on to what is applied.
    pub(crate) fn hold(self: &Arc<Self>) -> Hold {
        let mut readers = self.readers();
        let number = readers.visible;
        *readers.open.entry(number).or_default() += 1;
        Hold { index: Arc::clone(self), number }
    }

    /// What was replaced before this number is read by nobody.
    fn forgotten_before(&self) -> SeqNo {
        let readers = self.readers();
        readers.open.keys().next().copied().unwrap_or(readers.visible)
    }

    fn readers(&self) -> MutexGuard<'_, Readers> {
        // Each step leaves it whole.
        self.readers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A key and its value as stored.
pub(crate) type Pair = lsm_tree::Result<lsm_tree::KvPair>;

/// All batches that were applied at one moment.
pub(crate) struct Hold {
    index: Arc<Index>,
    number: SeqNo,
}

impl Hold {
    /// The pairs of a range.
    pub(crate) fn range(&self, range: std::ops::Range<Vec<u8>>) -> impl Iterator<Item = Pair> {
        self.index.tree().range(range, self.number, None).map(Guard::into_inner)
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut readers = self.index.readers();
        if let Some(count) = readers.open.get_mut(&self.number) {
            *count -= 1;
            if *count == 0 {
                readers.open.remove(&self.number);
            }
        }
    }
}

/// The tree's settings: bounds from the store's, the rest as its author sets them for a database.
fn tree_config(path: &Path, config: MetaConfig, numbers: &SequenceNumberCounter) -> Config {
    let few_errors = FilterPolicyEntry::Bloom(BloomConstructionPolicy::FalsePositiveRate(0.0001));
    let some_errors = FilterPolicyEntry::Bloom(BloomConstructionPolicy::BitsPerKey(10.0));
    Config::new(path, numbers.clone(), SequenceNumberCounter::default())
        .use_cache(Arc::new(Cache::with_capacity_bytes(config.cache_bytes)))
        .use_descriptor_table(Some(Arc::new(DescriptorTable::new(TABLE_FILES_MAX))))
        .data_block_restart_interval_policy(RestartIntervalPolicy::new([10, 16]))
        .data_block_compression_policy(CompressionPolicy::new([
            CompressionType::None,
            CompressionType::None,
            CompressionType::Lz4,
        ]))
        .filter_policy(FilterPolicy::new([few_errors, some_errors]))
}

/// Makes empty tables where there are none. Whoever makes them in their place could be cut short there.
fn make(path: &Path, config: MetaConfig) -> Result<(), OpenError> {
    if path.exists() {
        return Ok(());
    }
    let fresh = path.with_extension("new");
    if fresh.exists() {
        std::fs::remove_dir_all(&fresh).map_err(OpenError::io("remove half-made", &fresh))?;
    }
    drop(tree_config(&fresh, config, &SequenceNumberCounter::default()).open()?);
    std::fs::rename(&fresh, path).map_err(OpenError::io("rename", &fresh))?;
    let Some(parent) = path.parent() else { return Ok(()) };
    SystemDisk.sync_directory(parent).map_err(OpenError::io("sync directory", parent))
}
