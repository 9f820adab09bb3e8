//! The tree as this replica knows it: what the parent confirmed, the log of records that it has not, what one input
//! changes (the overlay), and how that becomes one batch of the store.

pub(crate) mod believable;
pub(crate) mod cancel;
pub(crate) mod committing;
pub(crate) mod confirm;
pub(crate) mod empty_change;
pub(crate) mod happenings;
pub(crate) mod log;
pub(crate) mod marks;
pub(crate) mod names;
pub(crate) mod overlay;
pub(crate) mod tables;
pub(crate) mod tombstones;
pub(crate) mod totals;
pub(crate) mod view_cache;
