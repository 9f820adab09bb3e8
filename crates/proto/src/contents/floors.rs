//! Sequences below which a table has no row of an origin: rows go in order, and a scan that began at zero would
//! pass the traces of all that ever were.

use crate::contents::{AWAITED, Contents};
use crate::replica::Core;
use crate::state::tables::{origin_range, parse_record_key, record_key, table};
use std::collections::BTreeMap;
use wayfs_types::{MetaStore, OriginId, RecordId, StorageError};

/// What is not noted here is zero.
#[derive(Debug, Default)]
pub(crate) struct Floors(BTreeMap<(u8, OriginId), u64>);

impl Floors {
    pub(crate) fn of(&self, table: u8, origin: OriginId) -> u64 {
        self.0.get(&(table, origin)).copied().unwrap_or(0)
    }

    /// A scan saw that there is nothing below.
    pub(crate) fn raise(&mut self, table: u8, origin: OriginId, floor: u64) {
        self.0.insert((table, origin), floor);
    }

    /// A row is put.
    pub(crate) fn note_row(&mut self, table: u8, record: RecordId) {
        if let Some(floor) = self.0.get_mut(&(table, record.origin())) {
            *floor = (*floor).min(record.sequence());
        }
    }
}

impl Contents {
    /// First sequence of an origin whose contents a client below us still has to push.
    pub(crate) fn first_awaited<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        origin: OriginId,
    ) -> Result<Option<u64>, StorageError> {
        self.first_of(core, AWAITED, origin)
    }

    /// First sequence of an origin whose contents are missing.
    pub(crate) fn first_missing<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        origin: OriginId,
    ) -> Result<Option<u64>, StorageError> {
        self.first_of(core, table::MISSING, origin)
    }

    fn first_of<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        of: u8,
        origin: OriginId,
    ) -> Result<Option<u64>, StorageError> {
        let floor = self.floor_of(of, origin);
        if floor > RecordId::SEQUENCE_MAX {
            return Ok(None);
        }
        // Mostly the first is the one that was it last time, and to look whether it is there is cheaper than to look for the first.
        if let Ok(last) = RecordId::new(origin, floor)
            && core.state.tx().get_raw(&record_key(of, last))?.is_some()
        {
            return Ok(Some(floor));
        }
        let (from, until) = origin_range(of, origin, floor);
        let pairs = core.state.tx().scan_raw(&from, &until, 1)?;
        let first = pairs.first().map(|(key, _)| parse_record_key(key).map(RecordId::sequence)).transpose()?;
        self.raise_floor(of, origin, first.unwrap_or(u64::MAX));
        Ok(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_floor_comes_down_for_a_row_below_it() {
        let record = |sequence| RecordId::new(OriginId::GENESIS, sequence).expect("a small number");
        let origin = OriginId::GENESIS;
        let mut floors = Floors::default();
        floors.note_row(AWAITED, record(5));
        assert_eq!(floors.of(AWAITED, origin), 0, "nothing was seen yet");
        floors.raise(AWAITED, origin, u64::MAX);
        floors.note_row(table::OWED, record(3));
        assert_eq!(floors.of(AWAITED, origin), u64::MAX, "another table");
        floors.note_row(AWAITED, record(7));
        floors.note_row(AWAITED, record(9));
        assert_eq!(floors.of(AWAITED, origin), 7);
    }
}
