//! Places in the log of records.

use crate::state::tables::{number_key, table};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A place in a replica's own log. The first record has 1; places are given in order, and none twice.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LogPosition(pub u64);

impl LogPosition {
    /// Before all records.
    pub const START: Self = Self(0);

    /// The place after this.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Display for LogPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The row of a record in the log.
pub(crate) fn log_key(position: LogPosition) -> Vec<u8> {
    number_key(table::LOG, position.0)
}
