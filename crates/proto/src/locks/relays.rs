//! What a station asked its home about locks of its children, and what these have there.

use crate::locks::table::Holder;
use std::collections::{BTreeMap, BTreeSet};
use wayfs_types::request::{LockFamily, LockRequest};
use wayfs_types::{FileId, OriginId};
use wayfs_wire::AskId;

/// What was asked of the home for a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Relayed {
    pub(crate) child: OriginId,
    pub(crate) wish: Wish,
    /// As the child said it.
    pub(crate) request: LockRequest,
}

/// For which of a child's doings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wish {
    Take(AskId),
    Test(AskId),
    /// What it has is to stay in our new session with the home.
    Keep,
    /// What it had by a former life of ours is to stay.
    Regain(AskId),
    /// It waits for the answer no more.
    Nothing,
}

/// Whose lock on what.
pub(crate) type Row = (FileId, LockFamily, Holder);

/// What is the home's among the locks of our children.
#[derive(Debug, Default)]
pub(crate) struct Relays {
    /// What of the mirror the home has.
    pub(super) rows: BTreeSet<Row>,
    /// What children want to keep that we do not know of: the home is asked in our next session with it.
    pub(super) unasked: BTreeMap<OriginId, Vec<Relayed>>,
}

impl Relays {
    /// Whether the home has it.
    pub(crate) fn has(&self, row: &Row) -> bool {
        self.rows.contains(row)
    }
}

impl Relayed {
    pub(super) fn holder(&self) -> Holder {
        Holder { origin: self.child, owner: self.request.owner }
    }

    pub(super) fn row(&self) -> Row {
        (self.request.file, self.request.family, self.holder())
    }
}
