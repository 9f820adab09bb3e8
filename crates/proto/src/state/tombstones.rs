//! Tombstones: kept until every child has passed them.

use crate::replica::Replica;
use crate::state::tables::{change_key, table};
use wayfs_types::{CommitNumber, MetaStore, StorageError};

/// Changes for which they are kept at most, for the sake of a station that is away.
const TOMBSTONES_MAX: u64 = 1_000_000;
/// Traces removed with one input.
const PURGE_STEP: usize = 16;

impl<S: MetaStore> Replica<S> {
    /// Forgets tombstones that every child has passed, oldest first, a few at a time.
    ///
    /// They are kept for as many changes as the settings say; for a station that is away, and a client that was welcomed and has
    /// not caught up, for up to 1,000,000. A child further behind gets the whole state (a station) or verifies its cache
    /// (a client).
    pub(crate) fn purge(&mut self) -> Result<(), StorageError> {
        let change = self.core.state.counters.change;
        let kept = self.core.config.tombstones_kept;
        if !self.core.serves() || change.0 <= kept {
            return Ok(());
        }
        let slowest = self.children.need_tombstones_from();
        let until =
            CommitNumber(change.0 - kept).min(slowest.max(CommitNumber(change.0.saturating_sub(TOMBSTONES_MAX))));
        let from = self.core.state.tombstones_from;
        if from >= until {
            return Ok(());
        }
        let tombstones = self.core.state.store.scan(
            &change_key(table::TOMBSTONE, from),
            &change_key(table::TOMBSTONE, until),
            PURGE_STEP,
        )?;
        if tombstones.len() < PURGE_STEP {
            self.core.state.tombstones_from = until;
        }
        for (key, value) in tombstones {
            let number = CommitNumber(crate::state::tables::parse_number_key(&key)?);
            let mut view_key = vec![table::VIEW];
            view_key.extend(&value);
            let parsed = crate::state::tables::parse_image_key(&view_key)?;
            self.core.state.overlay.delete_raw(key);
            self.core.state.counters.purged = number;
            self.core.state.tombstones_from = self.core.state.tombstones_from.max(number.next());
            if self.core.state.row_of(&parsed)?.is_some() {
                // A marker: only the home decides that no late record can name it any more.
                if self.core.orders() {
                    self.core.state.put_image(parsed, None)?;
                }
            } else {
                let mut gone_key = vec![table::GONE];
                gone_key.extend(&value);
                self.core.state.overlay.delete_raw(gone_key);
                self.core.state.overlay.delete_raw(change_key(table::CHANGE, number));
            }
        }
        Ok(())
    }
}
