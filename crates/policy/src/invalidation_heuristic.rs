//! The invalidation heuristic (IH), and with it the station's load (IHSL).
//!
//! An update whose notice made the home invalidate a copy elsewhere is of a
//! file that others read: it is sent. The file is then marked as shared, so that
//! the next updates are sent without waiting for another invalidation (there is
//! no copy left to invalidate while a burst of writes lasts). The mark holds
//! for the first `history` writes of a burst; a burst ends when another node
//! reads or writes the file.
//!
//! IHSL adds what one file's history cannot tell: if others fetched from this
//! station more often than its unsent writes were overwritten, by more than
//! `load`, then it is a producer whose new files are wanted, too: with a
//! back-fetch go all updates of the last 30 minutes.

use crate::file_memory::{FILES_MAX, FileMemory};
use crate::{Access, Decision, Fate, PropagationPolicy};
use std::time::Duration;
use wayfs_types::{FileId, Time};

/// How far back a producer's updates are sent: 30 minutes, as published.
pub(crate) const RECENT: Duration = Duration::from_secs(30 * 60);

/// IH, and IHSL if it has a load limit.
#[derive(Debug, Clone)]
pub struct InvalidationHeuristic {
    history: u32,
    load_max: Option<i64>,
    /// Back-fetches from this station less its writes that were overwritten unsent.
    load: i64,
    files: FileMemory<Burst>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Burst {
    is_shared: bool,
    /// Writes since another node touched the file.
    writes: u32,
}

impl InvalidationHeuristic {
    /// IH. `history` 1..=4 in the research, 2 and 3 best; 0 sends only what an invalidation asks for.
    pub fn new(history: u32) -> Self {
        Self { history, load_max: None, load: 0, files: FileMemory::new(FILES_MAX) }
    }

    /// IHSL: `load_max` is the balance of back-fetches over overwritten writes above which the station counts as a producer.
    pub(crate) fn with_station_load(history: u32, load_max: i64) -> Self {
        Self { load_max: Some(load_max), ..Self::new(history) }
    }
}

impl PropagationPolicy for InvalidationHeuristic {
    fn on_update(&mut self, _now: Time, file: FileId) -> Decision {
        let burst = self.files.entry(file);
        burst.writes = burst.writes.saturating_add(1);
        burst.is_shared &= burst.writes <= self.history;
        if burst.is_shared { Decision::Now } else { Decision::Keep }
    }

    fn on_overwritten(&mut self, _now: Time, _file: FileId, fate: Fate) {
        if fate == Fate::Unsent {
            self.load = self.load.saturating_sub(1);
        }
    }

    fn on_shared(&mut self, _now: Time, file: FileId) -> Decision {
        self.files.entry(file).is_shared = true;
        Decision::Now
    }

    fn on_back_fetch(&mut self, _now: Time, file: FileId, _age: Duration) {
        self.load = self.load.saturating_add(1);
        self.files.entry(file).writes = 0;
    }

    fn recent_to_send(&self) -> Option<Duration> {
        (self.load > self.load_max?).then_some(RECENT)
    }

    fn on_elsewhere(&mut self, _now: Time, file: FileId, _access: Access, _age: Option<Duration>) {
        self.files.entry(file).writes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::propagator::tests::{at, file};

    #[test]
    fn an_invalidation_sends_the_update_and_marks_the_file_for_its_history() {
        let mut policy = InvalidationHeuristic::new(2);
        assert_eq!(policy.on_update(at(1), file(1)), Decision::Keep);
        assert_eq!(policy.on_shared(at(2), file(1)), Decision::Now);
        assert_eq!(policy.on_update(at(3), file(1)), Decision::Now);
        assert_eq!(policy.on_update(at(4), file(1)), Decision::Keep);
    }

    #[test]
    fn another_nodes_access_begins_a_new_burst() {
        let mut policy = InvalidationHeuristic::new(1);
        policy.on_update(at(1), file(1));
        policy.on_shared(at(2), file(1));
        for second in [10, 20] {
            policy.on_elsewhere(at(second), file(1), Access::Read, None);
            assert_eq!(policy.on_update(at(second + 1), file(1)), Decision::Now);
        }
        assert_eq!(policy.on_update(at(30), file(1)), Decision::Keep);
        // The mark went with the burst that outlasted it.
        policy.on_elsewhere(at(31), file(1), Access::Write, None);
        assert_eq!(policy.on_update(at(32), file(1)), Decision::Keep);
    }

    #[test]
    fn a_station_that_is_fetched_from_more_than_it_overwrites_is_a_producer() {
        let mut policy = InvalidationHeuristic::with_station_load(2, 1);
        policy.on_back_fetch(at(1), file(1), Duration::ZERO);
        assert_eq!(policy.recent_to_send(), None);
        policy.on_back_fetch(at(2), file(2), Duration::ZERO);
        assert_eq!(policy.recent_to_send(), Some(RECENT));
        policy.on_overwritten(at(3), file(3), Fate::Unsent);
        assert_eq!(policy.recent_to_send(), None);
    }

    #[test]
    fn without_a_load_limit_only_the_file_counts() {
        let mut policy = InvalidationHeuristic::new(2);
        (0..100).for_each(|n| policy.on_back_fetch(at(n), file(1), Duration::ZERO));
        assert_eq!(policy.recent_to_send(), None);
    }
}
