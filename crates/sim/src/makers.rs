//! Who was told that it made which name, and what is known of names while somebody asks to take them away.

use std::collections::{BTreeMap, BTreeSet};
use wayfs_types::request::Change;
use wayfs_types::{FileId, Name};

/// A directory and a name there.
pub(crate) type Place = (FileId, Name);

/// A change that may make a name.
#[derive(Debug)]
pub(crate) struct Making {
    pub(crate) change: Change,
    /// How many removals of the name had been asked for when it was asked for; `None` if one was under way.
    pub(crate) removals: Option<u64>,
}

/// Who was told what of names.
#[derive(Debug, Default)]
pub(crate) struct Makers {
    /// The host that was told that it made a name, and what it made.
    pub(crate) made: BTreeMap<Place, (usize, FileId)>,
    /// Removals that were asked for and not answered yet.
    pub(crate) asked: BTreeMap<Place, u32>,
    /// Removals that were asked for at any time.
    pub(crate) removals: BTreeMap<Place, u64>,
    /// Who waits to hear whether it made a name.
    pub(crate) waiting: BTreeMap<(usize, Place), Vec<Making>>,
    /// Names of which nothing is known.
    pub(crate) lost: BTreeSet<Place>,
}

impl Makers {
    pub(crate) fn is_known(&self, place: &Place) -> bool {
        !self.lost.contains(place) && self.asked.get(place).is_none_or(|asked| *asked == 0)
    }

    pub(crate) fn removals_of(&self, place: &Place) -> u64 {
        self.removals.get(place).copied().unwrap_or_default()
    }

    /// A host hears of what it made. Answers whether nobody asked to take that away meanwhile.
    pub(crate) fn heard(&mut self, index: usize, place: &Place, change: &Change) -> bool {
        let waiting = self.waiting.entry((index, place.clone())).or_default();
        // Of two that are the same the first counts.
        let at = waiting.iter().position(|making| making.change == *change);
        let removals = at.and_then(|at| waiting.remove(at).removals);
        removals == Some(self.removals_of(place))
    }

    /// What was made there is gone, or whoever asked for that does not know.
    pub(crate) fn taken_away(&mut self, place: &Place) {
        self.made.remove(place);
        if let Some(asked) = self.asked.get_mut(place) {
            *asked = asked.saturating_sub(1);
        }
    }
}
