//! Contents that the driver announced before any record named them: a push may overtake its record.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use wayfs_types::{Content, Time, Top};

/// Most of them.
const ANNOUNCED_MAX: usize = 16_384;

/// Tops, in the order in which they came, and when each came last.
#[derive(Debug, Default)]
pub(crate) struct Announced {
    queue: VecDeque<(Time, Top)>,
    times: BTreeMap<Top, Time>,
}

impl Announced {
    /// The driver has contents that no record named.
    pub(crate) fn add(&mut self, top: Top, now: Time) {
        self.times.insert(top, now);
        self.queue.push_back((now, top));
        if self.queue.len() > ANNOUNCED_MAX {
            self.forget_oldest();
        }
    }

    /// Takes the oldest announcement out, unless it was made anew since.
    fn forget_oldest(&mut self) {
        if let Some((at, top)) = self.queue.pop_front()
            && self.times.get(&top) == Some(&at)
        {
            self.times.remove(&top);
        }
    }

    pub(crate) fn tops(&self) -> impl Iterator<Item = &Top> {
        self.times.keys()
    }

    /// Forgets what was announced so long ago that its record will not come.
    pub(crate) fn forget_old(&mut self, now: Time, grace: Duration) {
        while self.queue.front().is_some_and(|(at, _)| now >= *at + grace) {
            self.forget_oldest();
        }
    }

    /// Whether the driver announced these contents before any record named them. Now one does: from here on they are
    /// kept for as long as the view or a duty names them.
    pub(crate) fn take(&mut self, content: &Content) -> bool {
        content.top().is_some_and(|top| self.times.remove(&top).is_some())
    }

    /// Whether the driver announced these contents, and no record of ours or of a child named them so far.
    pub(crate) fn has(&self, content: &Content) -> bool {
        content.top().is_some_and(|top| self.times.contains_key(&top))
    }
}
