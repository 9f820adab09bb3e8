//! How far the scrub is, across restarts.

use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::Duration;
use tracing::debug;
use wayfs_types::{FileId, WallTime};

/// The file, in the directory of the volume's store.
const NAME: &str = "scrub.json";

/// What a pass found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScrubCounts {
    /// Chunks read.
    pub chunks: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Chunks that were damaged, or gone although others rely on this machine for them.
    pub damaged: u64,
    /// Of those: fetched anew.
    pub renewed: u64,
    /// Of those: nobody who was reached has them, and others rely on this machine for them.
    pub lost: u64,
    /// Of those: they could not be had at the moment. Copies come back when they are read, the rest is tried again.
    pub waiting: u64,
}

/// How far the scrub is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScrubPosition {
    /// The pass has read the files up to this one; `None`: it begins.
    pub after: Option<FileId>,
    /// And so many chunks of the file that follows.
    pub into: u64,
    /// When the present pass began; `None`: it has not.
    pub began: Option<WallTime>,
    /// What the present pass found.
    pub found: ScrubCounts,
    /// When the last whole pass began.
    pub began_before: Option<WallTime>,
    /// When it ended.
    pub ended: Option<WallTime>,
    /// What that one found.
    pub found_before: ScrubCounts,
}

impl ScrubPosition {
    /// Reads it. What cannot be read begins anew: nothing but time is lost.
    pub(crate) fn load(directory: &Path) -> Self {
        let read = || serde_json::from_slice(&std::fs::read(directory.join(NAME)).ok()?).ok();
        read().unwrap_or_default()
    }

    /// Keeps it. A power cut may bring an older one back, which costs reading again what was read.
    pub(crate) fn save(&self, directory: &Path) {
        let (path, fresh) = (directory.join(NAME), directory.join("scrub.new"));
        let bytes = serde_json::to_vec(self).unwrap_or_default();
        if let Err(error) = std::fs::write(&fresh, bytes).and_then(|()| std::fs::rename(&fresh, path)) {
            debug!(%error, "keep how far the scrub is");
        }
    }

    /// A pass begins.
    pub(crate) fn begin(&mut self, now: WallTime) {
        (self.after, self.into, self.began, self.found) = (None, 0, Some(now), ScrubCounts::default());
    }

    /// The pass has read everything.
    pub(crate) fn end(&mut self, now: WallTime) {
        (self.began_before, self.ended, self.found_before) = (self.began, Some(now), self.found);
        (self.after, self.into, self.began, self.found) = (None, 0, None, ScrubCounts::default());
    }

    /// Whether it is time to read: a pass is under way, or the last one began a period ago. A clock that was set back counts as that.
    pub(crate) fn is_due(&self, now: WallTime, period: Duration) -> bool {
        let Some(began) = self.began_before.filter(|_| self.began.is_none()) else { return true };
        let since = now.as_nanos().saturating_sub(began.as_nanos());
        u64::try_from(since).map_or(true, |since| Duration::from_nanos(since) >= period)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_there_after_a_restart_and_begins_anew_where_it_is_damaged() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(ScrubPosition::load(directory.path()), ScrubPosition::default());
        let mut position = ScrubPosition::default();
        position.begin(WallTime::from_nanos(5));
        position.after = Some(FileId::ROOT);
        position.found.chunks = 7;
        position.save(directory.path());
        assert_eq!(ScrubPosition::load(directory.path()), position);
        std::fs::write(directory.path().join(NAME), "{").unwrap();
        assert_eq!(ScrubPosition::load(directory.path()), ScrubPosition::default());
    }

    #[test]
    fn what_the_last_whole_pass_found_stays_while_the_next_one_goes_on() {
        let mut position = ScrubPosition::default();
        position.begin(WallTime::from_nanos(5));
        position.found.damaged = 1;
        position.end(WallTime::from_nanos(9));
        position.begin(WallTime::from_nanos(10));
        assert_eq!((position.ended, position.found_before.damaged), (Some(WallTime::from_nanos(9)), 1));
        assert_eq!(position.found, ScrubCounts::default());
    }

    #[test]
    fn the_next_pass_begins_a_period_after_the_last_one_began() {
        let (period, at) = (Duration::from_nanos(100), WallTime::from_nanos);
        let mut position = ScrubPosition::default();
        assert!(position.is_due(at(0), period), "there was none");
        position.begin(at(1000));
        assert!(position.is_due(at(1001), period), "it is under way");
        position.end(at(1040));
        assert!(!position.is_due(at(1099), period));
        assert!(position.is_due(at(1100), period));
        assert!(position.is_due(at(10), period), "the clock was set back");
    }
}
