//! What a metadata store is told, and what it tells of its open.

use wayfs_types::Ticket;

/// How a metadata store uses memory and disk.
#[derive(Debug, Clone, Copy)]
pub struct MetaConfig {
    /// Bytes of blocks kept in memory. Default 64 MiB; less costs disk reads for cold keys.
    pub cache_bytes: u64,
    /// Bytes of recent writes kept in memory before they go to a table. Default 32 MiB;
    /// more makes fewer tables (most rows of the log die young and never reach one) and a longer open.
    pub memtable_bytes: u64,
    /// Bytes of commits gathered in memory, under one ticket, before they are written as one batch, unless they
    /// are synced or written ([`Syncer::write`]) before. Default 1 MiB. Zero: each commit is a batch of its own,
    /// and nothing that was committed is lost with the process.
    pub gather_bytes: usize,
    /// Bytes left free on the file system, so that no write fails in the middle. Default 64 MiB.
    pub min_free: u64,
}

impl Default for MetaConfig {
    fn default() -> Self {
        Self { cache_bytes: 64 << 20, memtable_bytes: 32 << 20, gather_bytes: 1 << 20, min_free: 64 << 20 }
    }
}

/// What an open found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MetaReport {
    /// The last batch in the store.
    pub committed: Ticket,
    /// Bytes of a batch that a crash left half written and that were cut off.
    pub torn_bytes: u64,
    /// Damage that was accepted, in words.
    pub accepted: Option<String>,
}
