//! How much of the contents under way the parent has by now, for whoever asks.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use wayfs_types::RecordId;

/// Versions being pushed, and their bytes that are there. A leaf in the order of locks; as many as there are pushes at once.
#[derive(Debug, Default)]
pub(crate) struct Sent {
    bytes: Mutex<BTreeMap<RecordId, u64>>,
}

impl Sent {
    /// A push begins; forgotten when the result is dropped.
    pub(crate) fn begin(&self, version: RecordId) -> Sending<'_> {
        self.lock().insert(version, 0);
        Sending { sent: self, version }
    }

    /// Bytes of a version that the parent has, as far as its push found out. Zero if none is under way.
    pub(crate) fn of(&self, version: RecordId) -> u64 {
        self.lock().get(&version).copied().unwrap_or(0)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<RecordId, u64>> {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One push.
pub(crate) struct Sending<'a> {
    sent: &'a Sent,
    version: RecordId,
}

impl Sending<'_> {
    /// The parent has so many bytes.
    pub(crate) fn note(&self, bytes: u64) {
        self.sent.lock().insert(self.version, bytes);
    }
}

impl Drop for Sending<'_> {
    fn drop(&mut self) {
        self.sent.lock().remove(&self.version);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_under_way_is_counted() {
        let sent = Sent::default();
        let version = RecordId::GENESIS;
        let sending = sent.begin(version);
        sending.note(7);
        sending.note(10);
        assert_eq!(sent.of(version), 10);
        drop(sending);
        assert_eq!(sent.of(version), 0);
    }
}
