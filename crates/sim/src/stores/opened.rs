//! The stores of a machine while it runs.

use super::StoresPlan;
use std::path::Path;
use std::sync::Arc;
use wayfs_disk::faulty::FaultyDisk;
use wayfs_store::{Checkpoints, ChunkConfig, ChunkStore, DataDir, DiskMetaStore, MetaConfig, OpenError, Step, Syncer};

/// Bytes of blocks that a store keeps in memory.
const CACHE: u64 = 1 << 20;

pub(super) struct Opened {
    pub(super) meta: DiskMetaStore,
    pub(super) syncer: Syncer,
    checkpoints: Checkpoints,
    pub(super) chunks: ChunkStore,
}

impl Opened {
    pub(super) fn open(disk: &FaultyDisk, path: &Path, plan: StoresPlan) -> Result<Self, OpenError> {
        std::fs::create_dir_all(path.join("meta")).map_err(|source| OpenError::Engine(source.into()))?;
        let directory = DataDir::on_disk(Arc::new(disk.clone()), path)?;
        let StoresPlan { memtable_bytes, gather_bytes, segment_bytes } = plan;
        let config = MetaConfig { cache_bytes: CACHE, memtable_bytes, gather_bytes, min_free: 1 };
        let (meta, checkpoints) = DiskMetaStore::open_by_hand(&directory, config)?;
        let (chunks, _) = ChunkStore::open(&directory, ChunkConfig { segment_bytes, min_free: 1 })?;
        let syncer = meta.syncer();
        Ok(Self { meta, syncer, checkpoints, chunks })
    }

    /// Does one step of what the store's own thread does.
    pub(super) fn checkpoint_once(&mut self) {
        self.checkpoints.step();
    }

    /// Does all of it.
    pub(super) fn checkpoint_all(&mut self) {
        while self.checkpoints.step() == Step::Done {}
    }
}
