//! Marks of our own records and the rows of their contents: where both speak, the row counts.
//!
//! A mark says that all up to a record is safe, or stable. It passes contents that were declared lost, or that their writer gave up.
//! If they turn up at their writer after all, its row says that it answers for them, and no mark tells when somebody else has them.
//! So nothing is called safe that a row says is here only, and nothing stable that a row says is not at the home.

use crate::contents::Contents;
use crate::contents::owed::Lent;
use crate::replica::Replica;
use crate::replica::core::Core;
use crate::state::tables::{origin_range, parse_record_key, record_key, table};
use crate::upstream::Uplink;
use wayfs_types::{Fact, Facts, MetaStore, RecordId, StorageError};
use wayfs_wire::{HeldVersion, LentVersion};

impl<S: MetaStore> Replica<S> {
    /// The parent has contents of ours on its disk that we kept behind the mark, since they were looked for: they are safe, and not
    /// at the home yet. What nobody looks for the mark itself tells.
    pub(crate) fn lend_what_was_sought(&mut self, record: RecordId) -> Result<(), StorageError> {
        let is_ours = self.contents.author().is_some() && record.origin() == self.core.config.origin;
        if !is_ours || !self.contents.is_sought(&record) || !self.contents.pushed.contains(&record) {
            return Ok(());
        }
        if record.sequence() <= self.core.state.marks(record.origin())?.safe {
            let to = self.core.parent_stamp();
            self.contents.lend(&mut self.core, record, to)?;
            self.requests.note_levels_moved();
            Contents::offer_sought(&mut self.core, &self.uplink, record)?;
        }
        Ok(())
    }
}

impl Contents {
    /// The mark of whoever looked for it may be past it by now: it was found meanwhile. So its word is asked for.
    fn offer_sought<S: MetaStore>(core: &mut Core<S>, uplink: &Uplink, version: RecordId) -> Result<(), StorageError> {
        if let Some(Lent { file, content, to }) = Self::lent(core, version)? {
            let held = HeldVersion { version, file, content };
            Self::offer_lent(core, uplink, LentVersion { held, to: to.map(|stamp| stamp.origin) });
        }
        Ok(())
    }

    /// How far a mark of our own counts: no further than to the first contents of which a row in one of these tables says otherwise.
    pub(crate) fn up_to_rows<S: MetaStore>(&self, core: &Core<S>, of: &[u8], through: u64) -> u64 {
        of.iter().fold(through, |through, of| match self.first_own_row(core, *of, through) {
            Ok(None) => through,
            Ok(Some(first)) => first - 1,
            Err(_) => 0,
        })
    }

    /// The first row of our own present origin in a table of contents, up to a sequence.
    fn first_own_row<S: MetaStore>(&self, core: &Core<S>, of: u8, through: u64) -> Result<Option<u64>, StorageError> {
        let origin = core.config.origin;
        let floor = self.floor_of(of, origin);
        let rows = if of == table::OWED { core.state.totals().owed } else { core.state.totals().lent };
        // Nearly always all rows are beyond the mark, and their floor says so.
        if floor > through || rows == 0 {
            return Ok(None);
        }
        let (from, _) = origin_range(of, origin, floor);
        let (until, _) = origin_range(of, origin, through.saturating_add(1));
        let first = core.state.store().scan(&from, &until, 1)?;
        first.first().map(|(key, _)| parse_record_key(key).map(RecordId::sequence)).transpose()
    }

    /// What marks say of a record of ours, without what its own row says otherwise.
    pub(crate) fn as_rows_say<S: MetaStore>(
        core: &Core<S>,
        record: RecordId,
        facts: Facts,
    ) -> Result<Facts, StorageError> {
        let has = |of: u8, count: i64| {
            Ok::<_, StorageError>(count > 0 && core.state.store().get(&record_key(of, record))?.is_some())
        };
        if !facts.safe.holds() && !facts.stable.holds() {
            return Ok(facts);
        }
        Ok(if has(table::OWED, core.state.totals().owed)? {
            Facts { safe: Fact::No, stable: Fact::No, ..facts }
        } else if facts.stable.holds() && has(table::LENT, core.state.totals().lent)? {
            Facts { stable: Fact::No, ..facts }
        } else {
            facts
        })
    }
}
