//! The tree as this replica knows it: what the parent confirmed, the log of records that it has not, what one input
//! changes (the overlay), and how that becomes one batch of the store.

mod access;
pub(crate) mod believable;
pub(crate) mod cancel;
pub(crate) mod committing;
pub(crate) mod confirm;
mod counters;
mod durable;
pub(crate) mod empty_change;
pub(crate) mod happenings;
pub(crate) mod log;
pub(crate) mod log_entry;
pub(crate) mod log_item;
mod logging;
pub(crate) mod marks;
pub(crate) mod names;
mod naming;
pub(crate) mod of_record;
pub(crate) mod overlay;
pub(crate) mod position;
mod reading;
pub(crate) mod staged;
mod summing;
pub(crate) mod tables;
pub(crate) mod tombstones;
pub(crate) mod totals;
pub(crate) mod view_cache;

pub(crate) use counters::COUNTERS;

use crate::Config;
use crate::replica::composition::{Composition, Tree};
use crate::replica::errors::OpenError;
use crate::state::counters::Counters;
use crate::state::durable::Durable;
use crate::state::log::Log;
use crate::state::overlay::{Indexing, Overlay};
use crate::state::staged::Staged;
use crate::state::totals::Totals;
use crate::state::view_cache::ViewCache;
use wayfs_types::{CommitNumber, MetaStore};

/// The store, and what this input did to it so far. No other part sees into it.
#[derive(Debug)]
pub(crate) struct State<S> {
    store: S,
    /// How much of the volume is in it.
    tree: Tree,
    /// What a batch notes beside the images.
    indexing: Indexing,
    counters: Counters,
    /// As they are in the store.
    saved: Counters,
    overlay: Overlay,
    /// What becomes of it in memory.
    staged: Staged,
    views: ViewCache,
    /// Running sums over the tables.
    totals: Totals,
    /// Records that the parent has not confirmed.
    log: Log,
    durable: Durable,
    /// How often the log was replayed.
    replays: u64,
    /// There are no tombstones below this change. A look at those that went (or whose keys came back) costs
    /// a sorted store as much as a look at as many that are there.
    tombstones_from: CommitNumber,
}

impl<S: MetaStore> State<S> {
    /// That of a store, whose tables are read later.
    pub(crate) fn of(store: S, config: &Config, composition: Composition) -> Result<Self, OpenError> {
        let counters = match store.get(COUNTERS)? {
            Some(bytes) => tables::unpack(&bytes)?,
            None => Counters::of_new(composition.position),
        };
        Ok(Self {
            store,
            tree: composition.tree,
            indexing: Indexing::of(composition.below),
            counters,
            saved: counters,
            overlay: Overlay::default(),
            staged: Staged::default(),
            views: ViewCache::of(config.view_rows_kept),
            totals: Totals::default(),
            log: Log::default(),
            durable: Durable::default(),
            replays: 0,
            tombstones_from: CommitNumber::ZERO,
        })
    }
}
