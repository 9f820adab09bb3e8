//! How what an input did becomes one batch of the store.

use crate::state::log_item::LogItem;
use crate::state::overlay::{self, Changed};
use crate::state::staged::Staged;
use crate::state::tables::pack;
use crate::state::{COUNTERS, State};
use wayfs_types::{Image, Key, MetaStore, StorageError, Ticket, Time};

/// What was committed: what follows from it for other parts, and the images that changed.
pub(crate) struct Committed {
    pub(crate) staged: Staged,
    pub(crate) changed: Vec<Changed>,
}

impl<S: MetaStore> State<S> {
    /// Makes the overlay one batch of the store, if it changed anything, and brings the log and the sums up to it.
    ///
    /// # Errors
    /// Those of the store. What this input did is dropped with the overlay then.
    pub(crate) fn commit(&mut self, now: Time) -> Result<Committed, StorageError> {
        let changed =
            if self.overlay.is_empty() && self.counters == self.saved { Vec::new() } else { self.write_batch(now)? };
        let mut staged = std::mem::take(&mut self.staged);
        self.carry_out(&mut staged);
        Ok(Committed { staged, changed })
    }

    fn write_batch(&mut self, now: Time) -> Result<Vec<Changed>, StorageError> {
        let overlay = std::mem::take(&mut self.overlay);
        let done = overlay::finish(&self.store, overlay, self.counters.change, self.indexing)?;
        self.counters.change = done.last;
        let mut batch = done.batch;
        batch.put(COUNTERS.to_vec(), pack(&self.counters));
        // A commit that fails may have come through all the same.
        let ticket = self.store.commit(batch).inspect_err(|_| self.views.forget_all())?;
        self.views.wrote(done.rows);
        self.durable.note_committed(ticket, now);
        self.note_applied(&done.changed);
        self.saved = self.counters;
        Ok(done.changed)
    }

    /// Which records the newest batch applies: what is said of them waits until that is durable.
    fn note_applied(&mut self, changed: &[Changed]) {
        let applied = |image: &Option<Image>| match image {
            Some(Image::Origin(origin)) => origin.applied,
            _ => 0,
        };
        for Changed { key, old, new, .. } in changed {
            let Key::Origin(origin) = *key else { continue };
            let before = applied(old);
            if applied(new) > before {
                self.durable.note_applied(origin, before);
            }
        }
    }

    fn carry_out(&mut self, staged: &mut Staged) {
        let ticket = self.durable.ticket;
        self.totals.add(std::mem::take(&mut staged.totals));
        for (position, item) in staged.appended.drain(..) {
            self.log.append(position, LogItem { ticket, ..item });
        }
        for (position, applied) in staged.replayed.drain(..) {
            self.log.replayed(position, &applied, ticket);
        }
        for record in staged.confirmed.drain(..) {
            self.log.confirm(record);
        }
        for position in staged.forgotten.drain(..) {
            self.log.forget(position);
        }
        for (position, weight) in staged.weighed.drain(..) {
            self.log.rewrite(position, weight, ticket);
        }
    }

    /// All up to this batch is durable.
    pub(crate) fn note_stored(&mut self, ticket: Ticket) {
        self.durable.note_stored(ticket);
    }

    /// The batch that the driver is to sync now.
    pub(crate) fn take_due_sync(&mut self) -> Option<Ticket> {
        self.durable.take_due()
    }

    /// A conflict was reported.
    pub(crate) fn note_conflict(&mut self) {
        self.totals.conflicts += 1;
    }

    /// One of them is of a loss.
    pub(crate) fn note_loss(&mut self) {
        self.totals.lost += 1;
    }

    /// A report is no more.
    pub(crate) fn note_conflict_over(&mut self) {
        self.totals.conflicts -= 1;
    }

    /// It was of a loss.
    pub(crate) fn note_loss_over(&mut self) {
        self.totals.lost -= 1;
    }
}
