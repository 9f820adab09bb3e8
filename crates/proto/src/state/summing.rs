//! The running sums over the tables, as they are on the disk.

use crate::contents::losses::{LossNews, Vanished};
use crate::contents::missing::Missing;
use crate::contents::owed::{Lent, Owed, size_of};
use crate::replica::Replica;
use crate::state::tables::{self, KeyKind, kind_range, table, unpack};
use crate::state::totals::Totals;
use wayfs_types::{Image, Key, MetaStore, StorageError};

impl<S: MetaStore> Replica<S> {
    /// The sums as they are on the disk, and whose loss was declared.
    pub(crate) fn read_totals(&mut self) -> Result<Totals, StorageError> {
        let (mut totals, mut lost) = (Totals::default(), Vec::new());
        let (from, until) = kind_range(table::VIEW, KeyKind::Conflict);
        self.core.state.each(&from, &until, |key, value| {
            totals.conflicts += 1;
            if let (Key::Conflict(id), Image::Conflict(report)) =
                (tables::parse_image_key(key)?, tables::unpack_view(value)?.image)
                && report.is_loss()
            {
                totals.lost += 1;
                lost.push(LossNews::of(id, &report));
            }
            Ok(())
        })?;
        self.contents.set_lost_news(lost);
        if self.core.writes() {
            self.core.state.each(&[table::VANISHED], &[table::VANISHED + 1], |_, value| {
                let vanished: Vanished = unpack(value)?;
                totals.vanished += 1;
                totals.vanished_bytes += size_of(&vanished.content);
                Ok(())
            })?;
        }
        self.core.state.each(&[table::OWED], &[table::OWED + 1], |_, value| {
            let owed: Owed = unpack(value)?;
            totals.owed += 1;
            totals.owed_bytes += size_of(&owed.content);
            Ok(())
        })?;
        self.core.state.each(&[table::LENT], &[table::LENT + 1], |_, value| {
            let lent: Lent = unpack(value)?;
            totals.lent += 1;
            totals.lent_bytes += size_of(&lent.content);
            Ok(())
        })?;
        self.core.state.each(&[table::MISSING], &[table::MISSING + 1], |_, value| {
            let missing: Missing = unpack(value)?;
            totals.missing += 1;
            totals.missing_bytes += size_of(&missing.content);
            Ok(())
        })?;
        Ok(totals)
    }
}
