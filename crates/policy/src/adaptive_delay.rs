//! Adaptive time delay: every file finds out how long its updates should wait.
//!
//! The delay is infinite at first. The first back-fetch sets it to just under
//! the time that passed since the update, so that the same pattern would have
//! found the contents at the home. An update that is overwritten while it waits
//! begins to wait anew. One that was sent and overwritten unread came too
//! early: the delay doubles. One that was fetched before it was sent came too
//! late: the delay halves.
//!
//! A live station is not told of reads at the home. But if the next notice
//! invalidates a copy elsewhere, then somebody did read the version before, and
//! the doubling for it is taken back.

use crate::file_memory::{FILES_MAX, FileMemory};
use crate::{Decision, Fate, PropagationPolicy};
use std::time::Duration;
use wayfs_types::{FileId, Time};

/// Shortest delay: less than a reconciliation period makes no difference to any reader.
const DELAY_MIN: Duration = Duration::from_millis(10);
/// Longest delay; what doubles beyond it is as good as never, and learns anew.
const DELAY_MAX: Duration = Duration::from_secs(7 * 24 * 3600);

/// The delays of the files of one station.
#[derive(Debug, Clone)]
pub struct AdaptiveDelay {
    files: FileMemory<Delay>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Delay {
    /// `None`: infinite.
    delay: Option<Duration>,
    /// Whether the newest update doubled it.
    has_doubled: bool,
}

impl AdaptiveDelay {
    /// Knows no file yet.
    pub fn new() -> Self {
        Self { files: FileMemory::new(FILES_MAX) }
    }
}

impl Default for AdaptiveDelay {
    fn default() -> Self {
        Self::new()
    }
}

impl PropagationPolicy for AdaptiveDelay {
    fn on_update(&mut self, now: Time, file: FileId) -> Decision {
        match self.files.get(file).and_then(|file| file.delay) {
            Some(delay) => Decision::At(now + delay),
            None => Decision::Keep,
        }
    }

    fn on_overwritten(&mut self, _now: Time, file: FileId, fate: Fate) {
        let Some(file) = self.files.get(file) else { return };
        file.has_doubled = fate == Fate::SentUnread;
        if file.has_doubled {
            file.delay = file.delay.map(|delay| delay.saturating_mul(2)).filter(|delay| *delay <= DELAY_MAX);
        }
    }

    fn on_shared(&mut self, _now: Time, file: FileId) -> Decision {
        if let Some(file) = self.files.get(file)
            && std::mem::take(&mut file.has_doubled)
        {
            file.delay = file.delay.map(|delay| (delay / 2).max(DELAY_MIN));
        }
        Decision::Keep
    }

    fn on_back_fetch(&mut self, _now: Time, file: FileId, age: Duration) {
        let file = self.files.entry(file);
        file.delay = Some(match file.delay {
            // An eighth earlier: the next reader may come a little sooner, and sending takes time.
            None => (age / 8 * 7).clamp(DELAY_MIN, DELAY_MAX),
            Some(delay) => (delay / 2).max(DELAY_MIN),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::propagator::tests::{at, file};

    fn learned() -> AdaptiveDelay {
        let mut policy = AdaptiveDelay::new();
        assert_eq!(policy.on_update(at(0), file(1)), Decision::Keep);
        policy.on_back_fetch(at(80), file(1), Duration::from_secs(80));
        policy
    }

    #[test]
    fn the_first_back_fetch_sets_the_delay_to_just_under_the_time_since_the_update() {
        assert_eq!(learned().on_update(at(100), file(1)), Decision::At(at(170)));
    }

    #[test]
    fn an_update_that_is_overwritten_while_it_waits_begins_to_wait_anew() {
        let mut policy = learned();
        policy.on_update(at(100), file(1));
        policy.on_overwritten(at(110), file(1), Fate::Unsent);
        assert_eq!(policy.on_update(at(110), file(1)), Decision::At(at(180)));
    }

    #[test]
    fn too_early_doubles_and_too_late_halves() {
        let mut policy = learned();
        policy.on_overwritten(at(200), file(1), Fate::SentUnread);
        assert_eq!(policy.on_update(at(200), file(1)), Decision::At(at(340)));
        policy.on_back_fetch(at(210), file(1), Duration::from_secs(10));
        assert_eq!(policy.on_update(at(300), file(1)), Decision::At(at(370)));
    }

    #[test]
    fn an_invalidation_shows_that_the_version_before_was_read() {
        let mut policy = learned();
        policy.on_overwritten(at(200), file(1), Fate::SentUnread);
        policy.on_shared(at(201), file(1));
        policy.on_shared(at(202), file(1));
        assert_eq!(policy.on_update(at(300), file(1)), Decision::At(at(370)));
    }

    #[test]
    fn a_delay_beyond_all_bounds_is_infinite_again() {
        let mut policy = learned();
        (0..40).for_each(|_| policy.on_overwritten(at(200), file(1), Fate::SentUnread));
        assert_eq!(policy.on_update(at(300), file(1)), Decision::Keep);
    }
}
