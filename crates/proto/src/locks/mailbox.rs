//! What is to be said to the parent about locks, and waits for records to be sent.

use crate::state::position::LogPosition;
use std::collections::VecDeque;
use wayfs_types::request::LockRequest;
use wayfs_wire::Up;

/// All that waits.
#[derive(Debug, Default)]
pub(crate) struct LockMail {
    pub(super) waiting: VecDeque<LockMessage>,
}

#[derive(Debug)]
pub(super) struct LockMessage {
    /// The record of our own that must be on its way before.
    pub(super) after: u64,
    /// Station: the place in the log up to which all must be on its way before.
    pub(super) position: LogPosition,
    pub(super) up: Up,
    /// What a release lets go of; empty for anything else.
    pub(super) held: Vec<LockRequest>,
}

impl LockMail {
    /// Whether something about locks waits for records to be sent.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }
}
