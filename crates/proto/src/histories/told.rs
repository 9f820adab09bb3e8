//! What a child said in its session of the histories of origins.

use std::collections::BTreeMap;
use wayfs_types::{Chain, OriginId, Record};

/// What a child said in this session of the histories of origins.
#[derive(Debug, Default)]
pub(crate) struct Told {
    /// The last record of each origin in this session, and the running hash after it.
    pub(super) last: BTreeMap<OriginId, (u64, Chain)>,
    /// Upon what records to come were written.
    pub(super) stated: BTreeMap<(OriginId, u64), Chain>,
}

impl Told {
    /// The running hash before a record, as the child has it.
    pub(super) fn before(&mut self, record: &Record) -> Option<Chain> {
        let origin = record.id.origin();
        if record.follows() == 0 {
            return Some(Chain::START);
        }
        match self.last.get(&origin) {
            Some((sequence, chain)) if *sequence == record.follows() => Some(*chain),
            _ => self.stated.remove(&(origin, record.follows())),
        }
    }
}
