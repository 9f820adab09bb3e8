//! Files whose locks a client decides about.

use std::collections::BTreeMap;
use std::time::Duration;
use wayfs_types::request::LockFamily;
use wayfs_types::{FileId, Time};
use wayfs_wire::DelegationId;

/// Client: files whose locks it decides about.
#[derive(Debug, Default)]
pub(crate) struct LockDelegations {
    pub(super) rows: BTreeMap<(FileId, LockFamily), Row>,
    /// When it is looked at again which of them nobody uses.
    pub(super) look_at: Option<Time>,
    /// The last that was returned: answers that were given before are of then.
    returned: DelegationId,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Row {
    pub(super) serial: DelegationId,
    pub(super) used: Time,
}

impl LockDelegations {
    /// When unused ones are to be returned.
    pub(crate) fn timeout(&self) -> Option<Time> {
        self.look_at
    }

    pub(super) fn begin(&mut self, key: (FileId, LockFamily), serial: DelegationId, (now, unused): (Time, Duration)) {
        if serial > self.returned {
            self.rows.insert(key, Row { serial, used: now });
            self.look_at = self.look_at.or(Some(now + unused));
        }
    }

    pub(super) fn end(&mut self, key: (FileId, LockFamily)) -> Option<Row> {
        let row = self.rows.remove(&key)?;
        self.returned = self.returned.max(row.serial);
        Some(row)
    }
}
