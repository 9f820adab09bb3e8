//! Clients that left with locks, and what they are asked and told.

use crate::api::PeerId;
use crate::locks::table::LockTable;
use crate::mirror::Mirror;
use std::collections::BTreeMap;
use wayfs_types::request::LockRequest;
use wayfs_types::{OriginId, Time};
use wayfs_wire::AskId;

/// Clients that left with locks.
#[derive(Debug, Default)]
pub(crate) struct LeftLocks {
    pub(super) clients: BTreeMap<OriginId, Left>,
    pub(super) asked: BTreeMap<AskId, Question>,
    pub(super) next: u64,
    /// What was given of whom, and he was not told; nothing named: all.
    pub(super) given: Mirror<BTreeMap<OriginId, Vec<LockRequest>>>,
    /// Station: the session with the home in which it was said what is on record.
    pub(super) session: Option<PeerId>,
}

/// One of them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Left {
    /// What it may think to have is in the table. If not, we were restarted since.
    pub(super) is_known: bool,
    /// It was not reached. If it comes anywhere with locks we hear of it.
    pub(super) is_nowhere: bool,
}

/// What a client is asked for, or told.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) client: OriginId,
    pub(super) wanted: Vec<LockRequest>,
    pub(super) until: Time,
    pub(super) about: About,
}

/// Why a client is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum About {
    /// Others want what it has.
    Wanted,
    /// That was given to others already.
    Given,
}

impl LeftLocks {
    /// What was noted with this input is in the store.
    pub(crate) fn committed(&mut self) {
        self.given.committed();
    }

    /// It came to nothing.
    pub(crate) fn abandon(&mut self) {
        self.given.abandon();
    }

    /// Whether a client left that may think to have locks of ours.
    pub(crate) fn has_left(&self, client: OriginId) -> bool {
        self.clients.contains_key(&client)
    }

    /// Whether a client is waited for, or is to be told something.
    #[cfg(test)]
    pub(crate) fn keeps_anything_of(&self, client: OriginId) -> bool {
        self.has_left(client) || self.given.contains_key(&client)
    }

    /// Whether others may have had what a client wants to keep.
    pub(crate) fn was_given(&self, client: OriginId, request: &LockRequest) -> bool {
        let is_it = |given: &Vec<LockRequest>| {
            given.is_empty() || given.iter().any(|given| LockTable::conflict(given, request))
        };
        self.given.get(&client).is_some_and(is_it)
    }

    /// When a question has waited long enough.
    pub(crate) fn next_end(&self) -> Option<Time> {
        self.asked.values().map(|question| question.until).min()
    }

    pub(super) fn is_asked(&self, client: OriginId, wanted: &LockRequest) -> bool {
        self.asked.values().any(|question| {
            question.client == client && question.about == About::Wanted && question.wanted == [*wanted]
        })
    }
}
