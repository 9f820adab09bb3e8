//! How far the batches of the store are durable, and who waits for that.

use std::collections::VecDeque;
use std::time::Duration;
use wayfs_types::{OriginId, RecordId, Ticket, Time};

/// Batches that nobody waits for are synced after so long.
const SYNC_PERIOD: Duration = Duration::from_secs(1);

/// Which batches there are, and which of them are durable.
#[derive(Debug, Default)]
pub(super) struct Durable {
    /// Newest batch committed.
    pub(super) ticket: Ticket,
    /// Newest batch durable.
    pub(super) stored: Ticket,
    /// Newest batch for which a sync was asked.
    sync_asked: Ticket,
    /// Something waits for the newest batch.
    pub(super) sync_wanted: bool,
    /// When a batch that nobody waits for is to be synced after all.
    pub(super) sync_at: Option<Time>,
    /// Own records whose batch may not be durable: the batch, and the sequence.
    own_pending: VecDeque<(Ticket, u64)>,
    /// Batches that may not be durable, each with an origin and the last of its records that was applied before.
    applied_pending: VecDeque<(Ticket, OriginId, u64)>,
}

impl Durable {
    /// Newest batch holds a record of our own.
    pub(super) fn note_own(&mut self, sequence: u64) {
        self.own_pending.push_back((self.ticket, sequence));
    }

    /// Own records are numbered anew.
    pub(super) fn forget_own(&mut self) {
        self.own_pending.clear();
    }

    /// Forgets what is durable by now.
    pub(super) fn trim_own(&mut self) {
        while self.own_pending.front().is_some_and(|(ticket, _)| *ticket <= self.stored) {
            self.own_pending.pop_front();
        }
    }

    /// First own sequence that is not durable.
    pub(super) fn first_undurable(&self) -> Option<u64> {
        let at = self.own_pending.partition_point(|(ticket, _)| *ticket <= self.stored);
        self.own_pending.get(at).map(|(_, sequence)| *sequence)
    }

    /// The newest batch applies records of an origin, all of which up to this one were applied before.
    pub(super) fn note_applied(&mut self, origin: OriginId, before: u64) {
        self.applied_pending.push_back((self.ticket, origin, before));
    }

    /// Whether a power cut would take a record that was applied.
    pub(super) fn is_applied_undurable(&self, record: RecordId) -> bool {
        let mut pending = self.applied_pending.iter();
        pending.any(|(_, origin, before)| *origin == record.origin() && record.sequence() > *before)
    }

    /// A batch was committed.
    pub(super) fn note_committed(&mut self, ticket: Ticket, now: Time) {
        self.ticket = ticket;
        if self.sync_at.is_none() {
            self.sync_at = Some(now + SYNC_PERIOD);
        }
    }

    /// All up to this batch is durable.
    pub(super) fn note_stored(&mut self, ticket: Ticket) {
        self.stored = self.stored.max(ticket).min(self.ticket);
        self.sync_asked = self.sync_asked.max(self.stored);
        if self.stored == self.ticket {
            self.sync_at = None;
        }
        while self.applied_pending.front().is_some_and(|(ticket, ..)| *ticket <= self.stored) {
            self.applied_pending.pop_front();
        }
    }

    /// What is committed is to be durable within this time.
    pub(super) fn sync_within(&mut self, now: Time, gather: Duration) {
        let gathered = now + gather;
        self.sync_at = Some(self.sync_at.map_or(gathered, |at| at.min(gathered)));
    }

    pub(super) fn check(&mut self, now: Time) {
        if self.sync_at.is_some_and(|at| now >= at) {
            self.sync_at = None;
            self.sync_wanted = true;
        }
    }

    /// The batch to be synced, if somebody waits for one that is not durable and no sync is under way for it.
    pub(super) fn take_due(&mut self) -> Option<Ticket> {
        let wanted = std::mem::take(&mut self.sync_wanted);
        if !wanted || self.ticket <= self.stored || self.ticket <= self.sync_asked {
            return None;
        }
        self.sync_asked = self.ticket;
        self.sync_at = None;
        Some(self.ticket)
    }
}
