//! The newest word of the home that is known.

use std::time::Duration;
use wayfs_types::{CommitNumber, Seal, Time, WallTime};

/// What the home signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HomeWord {
    /// Its newest change then.
    pub position: CommitNumber,
    /// When it signed, by its own clock.
    pub at: WallTime,
    /// When it came here.
    pub came: Time,
    pub(super) seal: Seal,
}

impl HomeWord {
    /// How old it is: by the home's clock, or since it came if that is longer ago, as it is where the home's clock was ahead.
    pub fn age(&self, now: Time, wall: WallTime) -> Duration {
        let by_clock = u64::try_from(wall.as_nanos().saturating_sub(self.at.as_nanos())).unwrap_or(0);
        Duration::from_nanos(by_clock).max(now.since(self.came))
    }
}

/// The newest word that is known.
#[derive(Debug, Default)]
pub(crate) struct Words {
    pub(super) known: Option<HomeWord>,
    /// Home: when it signed last.
    pub(super) signed: Option<Time>,
}
