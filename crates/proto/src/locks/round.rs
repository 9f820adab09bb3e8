//! Questions about locks to those children who may know a client.

use std::collections::{BTreeMap, BTreeSet};
use wayfs_types::request::LockRequest;
use wayfs_types::{OriginId, Time};
use wayfs_wire::AskId;

/// Who wants to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asking {
    Ourselves(AskId),
    Station(OriginId, AskId),
    Home(AskId),
}

/// A question that is under way.
#[derive(Debug)]
pub(super) struct Round {
    pub(super) of: Asking,
    /// Who has not answered.
    pub(super) waiting: BTreeSet<OriginId>,
    pub(super) until: Time,
}

/// What is asked of our children about locks that clients took along.
#[derive(Debug, Default)]
pub(crate) struct LockRounds {
    pub(super) rounds: BTreeMap<AskId, Round>,
    pub(super) next: u64,
}

/// Whose lock others are to get, and what.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted<'a> {
    /// The server that gives it.
    pub(crate) from: OriginId,
    pub(crate) client: OriginId,
    pub(crate) locks: &'a [LockRequest],
}

impl LockRounds {
    pub(crate) fn next_end(&self) -> Option<Time> {
        self.rounds.values().map(|round| round.until).min()
    }
}
