//! The first record of an origin whose contents a child has to push, or are missing.

use crate::contents::Contents;
use crate::replica::core::Core;
use crate::state::tables::table::AWAITED;
use crate::state::tables::{origin_range, parse_record_key, record_key, table};
use wayfs_types::{MetaStore, OriginId, RecordId, StorageError};

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
