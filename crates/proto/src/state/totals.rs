//! Running sums over the tables, so that a look at the status costs nothing.

use crate::contents::declared::LossNews;
use crate::contents::lent::Lent;
use crate::contents::vanished::Vanished;
use crate::contents::{Missing, Owed, size_of};
use crate::replica::Replica;
use crate::state::tables::{self, KeyKind, kind_range, table, unpack};
use wayfs_types::{Image, Key, MetaStore, StorageError};

/// Running totals for status.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) conflicts: i64,
    pub(crate) owed: i64,
    pub(crate) owed_bytes: i64,
    pub(crate) missing: i64,
    pub(crate) lent: i64,
    pub(crate) lent_bytes: i64,
    pub(crate) missing_bytes: i64,
    /// Client: versions of its own whose bytes are gone, and that the home has not declared lost.
    pub(crate) vanished: i64,
    pub(crate) vanished_bytes: i64,
    /// Open reports of contents that the home declared lost.
    pub(crate) lost: i64,
}

impl Totals {
    pub(crate) fn add(&mut self, other: Self) {
        self.conflicts += other.conflicts;
        self.owed += other.owed;
        self.owed_bytes += other.owed_bytes;
        self.missing += other.missing;
        self.lent += other.lent;
        self.lent_bytes += other.lent_bytes;
        self.missing_bytes += other.missing_bytes;
        self.vanished += other.vanished;
        self.vanished_bytes += other.vanished_bytes;
        self.lost += other.lost;
    }
}

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
