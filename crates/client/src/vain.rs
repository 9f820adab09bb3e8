//! Chunks that were fetched in vain a moment ago.
//!
//! The kernel reads a page again by itself when a read ahead of it has failed. Whoever waited half a minute for bytes that nobody gives would
//! wait for them twice.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use wayfs_types::{Digest, FsError, RecordId};

/// How long a failure answers for the next attempt, too. A person who tries again comes later.
const LASTS: Duration = Duration::from_secs(2);
/// Most chunks remembered; past it all are forgotten, which costs a wait.
const CHUNKS_MAX: usize = 4096;

/// What failed when. Another version that has the same chunk may have it from somebody else.
#[derive(Debug, Default)]
pub(crate) struct Vain(Mutex<BTreeMap<(RecordId, Digest), (Instant, FsError)>>);

impl Vain {
    /// None of these chunks of a version came.
    pub(crate) fn note(&self, version: RecordId, digests: impl Iterator<Item = Digest>, error: FsError, now: Instant) {
        let mut failed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        failed.retain(|_, (at, _)| now.saturating_duration_since(*at) < LASTS);
        for digest in digests {
            if failed.len() >= CHUNKS_MAX {
                failed.clear();
            }
            failed.insert((version, digest), (now, error));
        }
    }

    /// How fetching one of these ended a moment ago, if it failed.
    pub(crate) fn recent(&self, version: RecordId, digests: &[Digest], now: Instant) -> Option<FsError> {
        let failed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (_, error) = digests
            .iter()
            .filter_map(|digest| failed.get(&(version, *digest)))
            .find(|(at, _)| now.saturating_duration_since(*at) < LASTS)?;
        Some(*error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(number: usize) -> Digest {
        Digest::of(&number.to_le_bytes())
    }

    fn version(number: u64) -> RecordId {
        RecordId::try_from(number).unwrap()
    }

    #[test]
    fn what_failed_a_moment_ago_fails_at_once_and_what_failed_before_is_tried_again() {
        let (vain, now) = (Vain::default(), Instant::now());
        vain.note(version(1), [digest(1), digest(2)].into_iter(), FsError::Unreachable, now);
        assert_eq!(vain.recent(version(1), &[digest(3), digest(2)], now), Some(FsError::Unreachable));
        assert_eq!(vain.recent(version(1), &[digest(3)], now), None);
        assert_eq!(vain.recent(version(2), &[digest(2)], now), None);
        assert_eq!(vain.recent(version(1), &[digest(2)], now + LASTS), None);
    }

    #[test]
    fn so_many_are_remembered_and_no_more() {
        let (vain, now) = (Vain::default(), Instant::now());
        vain.note(version(1), (0..CHUNKS_MAX + 1).map(digest), FsError::Io, now);
        assert_eq!(vain.recent(version(1), &[digest(0)], now), None);
        assert_eq!(vain.recent(version(1), &[digest(CHUNKS_MAX)], now), Some(FsError::Io));
    }
}
