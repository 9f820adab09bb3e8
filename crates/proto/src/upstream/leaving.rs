//! When records leave: at once, or with others of their time.

use crate::state::position::LogPosition;
use std::collections::BTreeSet;
use wayfs_types::{FileId, Time};

/// Records that wait to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Gathering {
    /// When the first of them came.
    pub(super) since: Time,
    /// Position of the last, and when it came.
    pub(super) newest: LogPosition,
    pub(super) newest_at: Time,
    /// What they made and left empty so far.
    pub(super) empty: BTreeSet<FileId>,
}

impl Gathering {
    /// What waits when a session or a message begins: it has waited long enough.
    pub(crate) fn of_old(newest: LogPosition, now: Time) -> Self {
        Self { since: now, newest, newest_at: now, empty: BTreeSet::new() }
    }
}

/// When records leave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Leaving {
    AtOnce,
    /// With others of their time, so that what undoes itself stays here; `None`: none waits.
    Gathered(Option<Gathering>),
}
