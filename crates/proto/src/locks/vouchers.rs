//! Who vouches for locks: the parent, for how long, and servers that were left.

use crate::locks::relays::Row;
use std::collections::{BTreeMap, BTreeSet};
use wayfs_types::request::LockFamily;
use wayfs_types::{OriginId, Time};

/// Which locks our parent vouches for: a client's own, or those that the home gave to a station's children.
#[derive(Debug, Default)]
pub(crate) struct Vouched {
    /// Given or confirmed in the present session, or in the last one.
    pub(super) lent: BTreeSet<Row>,
    pub(super) until: Time,
    /// Of former sessions: the parent is asked whether they are ours still.
    pub(super) doubtful: BTreeSet<Row>,
    doubtful_until: Time,
}

impl Vouched {
    pub(crate) fn add(&mut self, row: Row) {
        if row.1 != LockFamily::Claim {
            self.lent.insert(row);
        }
    }

    pub(crate) fn remove(&mut self, row: &Row) {
        self.lent.remove(row);
        self.doubtful.remove(row);
    }

    /// A session began that vouches for a while for what it gives, and not yet for what was given before.
    pub(super) fn begin(&mut self, until: Time) {
        self.doubtful_until = if self.doubtful.is_empty() { self.until } else { self.doubtful_until.min(self.until) };
        self.doubtful.append(&mut self.lent);
        self.until = until;
    }

    /// When something is lost next, if the parent says nothing.
    pub(super) fn next(&self) -> Option<Time> {
        let lent = (!self.lent.is_empty()).then_some(self.until);
        let doubtful = (!self.doubtful.is_empty()).then_some(self.doubtful_until);
        lent.into_iter().chain(doubtful).min()
    }

    /// What is lost by now.
    pub(super) fn take_lost(&mut self, now: Time) -> BTreeSet<Row> {
        let mut lost = BTreeSet::new();
        if now >= self.until {
            lost.append(&mut self.lent);
        }
        if now >= self.doubtful_until {
            lost.append(&mut self.doubtful);
        }
        lost
    }
}

/// By which servers that were left what is held was had. Bound: what is held, and the servers of the volume.
#[derive(Debug, Default)]
pub(crate) struct TakenAlong {
    pub(super) servers: BTreeMap<Row, BTreeSet<OriginId>>,
}

impl TakenAlong {
    pub(crate) fn remove(&mut self, row: &Row) {
        self.servers.remove(row);
    }

    pub(crate) fn clear(&mut self) {
        self.servers.clear();
    }
}
