//! Sequences below which a table has no row of an origin: rows go in order, and a scan that began at zero would
//! pass the traces of all that ever were.

use std::collections::BTreeMap;
use wayfs_types::{OriginId, RecordId};

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::tables::table::{self, AWAITED};

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
