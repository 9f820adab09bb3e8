//! How much of the contents under way the parent has by now, for whoever asks.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use wayfs_types::RecordId;

/// Time between two words about one push.
const TELL_PERIOD: Duration = Duration::from_secs(1);

/// Versions being pushed. A leaf in the order of locks; as many as there are pushes at once.
#[derive(Debug, Default)]
pub(crate) struct Sent {
    bytes: Mutex<BTreeMap<RecordId, Count>>,
}

/// Of one push.
#[derive(Debug)]
struct Count {
    bytes: u64,
    told: Instant,
}

impl Sent {
    /// A push begins, or looks anew at what lacks; forgotten when the result is dropped.
    pub(crate) fn begin(&self, version: RecordId) -> Sending<'_> {
        self.lock().insert(version, Count { bytes: 0, told: Instant::now() });
        Sending { sent: self, version }
    }

    /// Bytes of a version that the parent has, as far as its push found out. Zero if none is under way.
    pub(crate) fn of(&self, version: RecordId) -> u64 {
        self.lock().get(&version).map_or(0, |count| count.bytes)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<RecordId, Count>> {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One push.
pub(crate) struct Sending<'a> {
    sent: &'a Sent,
    version: RecordId,
}

impl Sending<'_> {
    /// The parent has so many bytes more. Answers how many in all, when it is time to tell those who look.
    pub(crate) fn add(&self, bytes: u64) -> Option<u64> {
        let mut counts = self.sent.lock();
        let count = counts.get_mut(&self.version)?;
        count.bytes += bytes;
        if count.told.elapsed() < TELL_PERIOD {
            return None;
        }
        count.told = Instant::now();
        Some(count.bytes)
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
        sending.add(7);
        sending.add(3);
        assert_eq!(sent.of(version), 10);
        drop(sending);
        assert_eq!(sent.of(version), 0);
    }
}
