//! Somebody's wait for a chunk, live.

use crate::clock;
use std::time::Duration;
use wayfs_transfer::Patience;

/// A wait for a chunk, and who else is to know that it moves.
pub(crate) struct Wait<'a> {
    pub(crate) patience: Patience,
    told: &'a (dyn Fn() + Sync),
    has_moved: bool,
}

impl<'a> Wait<'a> {
    /// A wait that bears so much silence; `told` is called whenever something came.
    pub(crate) fn new(silence_max: Duration, told: &'a (dyn Fn() + Sync)) -> Self {
        Self { patience: Patience::new(silence_max, clock::awake()), told, has_moved: false }
    }

    /// A wait on the same behalf that bears half of the silence that is left.
    pub(crate) fn of_half(&self) -> Self {
        Self::new(self.left() / 2, self.told)
    }

    /// Whether something came since it began.
    pub(crate) fn has_moved(&self) -> bool {
        self.has_moved
    }

    /// Something came.
    pub(crate) fn moved(&mut self) {
        self.has_moved = true;
        self.patience.moved(clock::awake());
        (self.told)();
    }

    /// How long it goes on if nothing comes.
    pub(crate) fn left(&self) -> Duration {
        self.patience.left(clock::awake())
    }
}
