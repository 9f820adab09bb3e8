//! Questions about facts under way to the parent, and what was told of the versions of others.

use std::collections::BTreeMap;
use wayfs_types::{Fact, Facts, OriginId, RecordId};
use wayfs_wire::{AskId, AskedVersion};

/// Most versions of others of which we remember what we were told.
const TOLD_MAX: usize = 16_384;

/// A question that is under way to the parent.
#[derive(Debug)]
pub(crate) struct FactAsk {
    pub(super) versions: Vec<AskedVersion>,
    /// What we know ourselves.
    pub(super) known: Vec<Facts>,
    /// The child that asked, and its name for the question; `None`: our own user.
    pub(super) asker: Option<(OriginId, AskId)>,
}

/// What we were told of the versions of others.
#[derive(Debug, Default)]
pub(crate) struct FactsTold(BTreeMap<RecordId, Facts>);

impl FactsTold {
    pub(super) fn note(&mut self, version: RecordId, facts: Facts) {
        self.0.insert(version, facts);
        if self.0.len() > TOLD_MAX {
            self.0.pop_first();
        }
    }

    /// What still is so of what was told, whenever that was.
    pub(crate) fn lasting(&self, version: RecordId) -> Facts {
        let lasting = |fact: Fact| if fact.holds() { fact } else { Fact::Unknown };
        self.0.get(&version).map_or(Facts::default(), |told| Facts {
            safe: lasting(told.safe),
            visible: lasting(told.visible),
            stable: lasting(told.stable),
        })
    }

    pub(super) fn latest(&self, version: RecordId) -> Facts {
        self.0.get(&version).copied().unwrap_or_default()
    }
}
