//! Waits for our own records to come as far as a level says.
//!
//! A store that took a new origin is still asked for records by the names that they had before. What nobody had confirmed was
//! written again, folded and in another order, so such a wait is one for all of that. What had been confirmed is at the home by its
//! former name, and its contents may be here only: they are waited for by name.

use crate::histories::Histories;
use crate::replica::Replica;
use crate::replica::errors::StepError;
use crate::requests::{Attempt, On};
use crate::state::tables::{origin_range, table};
use wayfs_types::request::{Answer, Level};
use wayfs_types::{FsError, MetaStore, RecordId, StorageError};

impl<S: MetaStore> Replica<S> {
    pub(crate) fn attempt_wait(&mut self, record: Option<RecordId>, until: Level) -> Result<Attempt, StepError> {
        let own = self.core.config.origin;
        let newest = self.core.state.sequence();
        let sequence = match record {
            None => newest,
            Some(record) if record.origin() == own && record.sequence() <= newest => record.sequence(),
            Some(record) if record.origin() != own && Histories::is_former(&self.core, record.origin())? => {
                self.histories.written_again_through(self.core.config.origin, record.origin())
            }
            Some(_) => return Ok(Attempt::Done(Err(FsError::Invalid))),
        };
        self.core.state.trim_own();
        if self.own_through(until) >= sequence && !self.owes_of_former(until)? {
            return Ok(Attempt::Done(Ok(Answer::Reached)));
        }
        if self.core.state.own_durable() < sequence {
            self.core.state.want_sync();
        }
        if until == Level::Stable && !self.core.orders() {
            self.want_stable(own, sequence)?;
            self.contents.want_former(&mut self.core)?;
        }
        Ok(Attempt::Park(On::Level))
    }

    /// Whether contents that we wrote under a former origin, and that the home named by it, are not where a level says.
    fn owes_of_former(&mut self, until: Level) -> Result<bool, StorageError> {
        let tables: &[u8] = match until {
            Level::Modified => &[],
            Level::Safe | Level::Visible => &[table::OWED],
            Level::Stable => &[table::OWED, table::LENT],
        };
        // Every wait looks here each time that something moved: nearly no store ever had another origin.
        if !self.core.writes() || !self.histories.has_former() {
            return Ok(false);
        }
        for of in tables {
            let (own, beyond) = origin_range(*of, self.core.config.origin, 0);
            for (from, until) in [(vec![*of], own), (beyond, vec![*of + 1])] {
                if !self.core.state.tx().scan_raw(&from, &until, 1)?.is_empty() {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }
}
