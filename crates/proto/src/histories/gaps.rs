//! Numbers of our own that this store never gave.
//!
//! The first record of a life but the first lies behind a gap (`ahead`). The numbers right behind the last one before it may have been
//! sent ahead and lost in a crash: contents that travel by themselves are never sent so. Whoever else names a number
//! of the gap speaks of another copy of this store, and what the marks of our origin say of it is not about what is here.

use crate::histories::Histories;
use crate::histories::skipped::{Gap, Gaps};
use crate::replica::Replica;
use crate::replica::core::Core;
use crate::state::tables::{origin_key, pack, parse_number_key, table, unpack};
use crate::upstream::ahead::AHEAD_MAX;
use wayfs_types::{MetaStore, OriginId, RecordId, StorageError};

/// Rows of gaps: this prefix, the origin, the last number before it. The value is the first number after it.
const GAP: u8 = b'g';
/// Gaps that are remembered. Of numbers in older ones nothing is known.
const GAPS_MAX: usize = 1024;

fn gap_key(origin: OriginId, after: u64) -> Vec<u8> {
    let mut key = vec![table::META, GAP];
    key.extend(&origin_key(GAP, origin)[1..]);
    key.extend(after.to_be_bytes());
    key
}

impl<S: MetaStore> Replica<S> {
    /// Whether a number of our own is none that this store gave, be it in a life of which a crash took the end.
    pub(crate) fn is_of_another_copy(&self, sequence: u64) -> bool {
        let lost = |after: u64| sequence <= after.saturating_add(AHEAD_MAX);
        sequence > self.own_limit() || self.histories.gaps.around(sequence).is_some_and(|(after, _)| !lost(after))
    }
}

impl Histories {
    /// A life begins behind this gap.
    pub(crate) fn note_gap<S: MetaStore>(&mut self, core: &mut Core<S>, gap: Gap) {
        let origin = core.config.origin;
        core.state.put_row(gap_key(origin, gap.0), pack(&gap.1));
        let excess = (self.gaps.0.len() + 1).saturating_sub(GAPS_MAX);
        let oldest: Vec<u64> = self.gaps.0.keys().take(excess).copied().collect();
        for after in oldest {
            core.state.delete_row(gap_key(origin, after));
        }
        core.state.stage_gap(gap);
    }

    pub(crate) fn read_gaps<S: MetaStore>(&mut self, core: &Core<S>) -> Result<(), StorageError> {
        let mut gaps = Gaps::default();
        let (start, end) = (gap_key(core.config.origin, 0), gap_key(core.config.origin, u64::MAX));
        core.state.each(&start, &end, |key, value| {
            let after = key.len().checked_sub(8).map(|at| parse_number_key(&key[at - 1..])).transpose()?;
            gaps.insert((after.unwrap_or_default(), unpack(value)?));
            Ok(())
        })?;
        self.gaps = gaps;
        Ok(())
    }

    /// Whether this store has a record, or had it until it was confirmed: what it lost in a crash, or another copy of it
    /// gave, it has not.
    pub(crate) fn is_our_own<S: MetaStore>(&self, core: &Core<S>, record: RecordId) -> bool {
        core.writes()
            && record.origin() == core.config.origin
            && record.sequence() <= core.state.sequence()
            && self.gaps.around(record.sequence()).is_none()
    }
}
