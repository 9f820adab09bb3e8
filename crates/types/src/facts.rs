//! What is known of a version: whether it is safe, visible and stable, and since when.
//!
//! These are three facts, not steps of a ladder. The home may know a record (*visible*) while the contents that it names
//! are still on the writer's disk only (not *safe*). Only *stable* says something of the others: who has record and
//! contents at the home has both at a server.

use crate::WallTime;
use crate::request::Level;
use serde::{Deserialize, Serialize};

/// What a replica knows of one fact about a version.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fact {
    /// This replica cannot tell.
    #[default]
    Unknown,
    /// It does not hold, as far as this replica was told; it is this replica that would be told.
    No,
    /// It holds. The time is when the replica that says so learnt of it, by that replica's wall clock; `None`: that is
    /// forgotten.
    Holds(Option<WallTime>),
}

impl Fact {
    /// Whether it is known to hold.
    pub const fn holds(self) -> bool {
        matches!(self, Self::Holds(_))
    }

    /// Since when it holds, if it does and that is known.
    pub const fn since(self) -> Option<WallTime> {
        match self {
            Self::Holds(since) => since,
            Self::No | Self::Unknown => None,
        }
    }

    /// What two replicas know together. That it holds outweighs all else, since no fact ends; a time that is known
    /// outweighs one that is forgotten.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Holds(None), Self::Holds(since)) => Self::Holds(since),
            (Self::Holds(_), _) => self,
            (_, Self::Holds(_)) | (Self::Unknown, _) => other,
            (Self::No, Self::No | Self::Unknown) => self,
        }
    }
}

/// The three facts about one version.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// Record and all contents are durable at a server.
    pub safe: Fact,
    /// The home knows the record.
    pub visible: Fact,
    /// The home has record and contents.
    pub stable: Fact,
}

impl Facts {
    /// Of what was there from the beginning: everybody has it.
    pub const GENESIS: Self = Self { safe: Fact::Holds(None), visible: Fact::Holds(None), stable: Fact::Holds(None) };

    /// Adds what follows from what is known: what is stable is visible and safe, and what is not visible is not stable.
    #[must_use]
    pub fn completed(self) -> Self {
        if let Fact::Holds(since) = self.stable {
            return Self {
                safe: self.safe.or(Fact::Holds(since)),
                visible: self.visible.or(Fact::Holds(since)),
                ..self
            };
        }
        match self.visible {
            Fact::No => Self { stable: Fact::No, ..self },
            Fact::Unknown | Fact::Holds(_) => self,
        }
    }

    /// What two replicas know together.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        let both = Self {
            safe: self.safe.or(other.safe),
            visible: self.visible.or(other.visible),
            stable: self.stable.or(other.stable),
        };
        both.completed()
    }

    /// Whether nothing is left to be asked.
    pub fn is_known(self) -> bool {
        ![self.safe, self.visible, self.stable].contains(&Fact::Unknown)
    }

    /// Whether every fact holds that a level implies: a wait for it is over.
    pub fn reached(self, level: Level) -> bool {
        match level {
            Level::Modified => true,
            Level::Safe => self.safe.holds(),
            Level::Visible => self.safe.holds() && self.visible.holds(),
            Level::Stable => self.safe.holds() && self.visible.holds() && self.stable.holds(),
        }
    }

    /// The furthest level of which every fact is known to hold.
    pub fn level(self) -> Level {
        let levels = [Level::Stable, Level::Visible, Level::Safe];
        levels.into_iter().find(|level| self.reached(*level)).unwrap_or(Level::Modified)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOLDS: Fact = Fact::Holds(None);

    #[test]
    fn what_is_visible_alone_is_neither_safe_nor_at_the_level_visible() {
        let facts = Facts { safe: Fact::No, visible: HOLDS, stable: Fact::No };
        assert_eq!(facts.level(), Level::Modified);
        assert!(!facts.reached(Level::Safe) && !facts.reached(Level::Visible) && facts.reached(Level::Modified));
    }

    #[test]
    fn a_level_needs_all_facts_that_it_implies() {
        let facts = Facts { safe: HOLDS, visible: HOLDS, stable: Fact::Unknown };
        assert_eq!(facts.level(), Level::Visible);
        assert!(facts.reached(Level::Safe) && !facts.reached(Level::Stable));
        assert_eq!(Facts::GENESIS.level(), Level::Stable);
    }

    #[test]
    fn what_is_stable_is_all_and_what_is_not_visible_is_not_stable() {
        let at = Some(WallTime::from_nanos(7));
        let facts = Facts { stable: Fact::Holds(at), ..Facts::default() }.completed();
        assert_eq!(facts, Facts { safe: Fact::Holds(at), visible: Fact::Holds(at), stable: Fact::Holds(at) });
        let facts = Facts { safe: HOLDS, visible: Fact::No, stable: Fact::Unknown }.completed();
        assert_eq!(facts.stable, Fact::No);
    }

    #[test]
    fn two_replicas_know_more_than_one() {
        let at = Some(WallTime::from_nanos(7));
        let near = Facts { safe: Fact::Holds(at), visible: Fact::No, stable: Fact::Unknown };
        let far = Facts { safe: Fact::Unknown, visible: Fact::Holds(None), stable: Fact::No };
        let both = near.or(far);
        assert_eq!(both, Facts { safe: Fact::Holds(at), visible: Fact::Holds(None), stable: Fact::No });
        assert!(both.is_known() && !near.is_known());
    }
}
