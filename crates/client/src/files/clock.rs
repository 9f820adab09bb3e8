//! The clock by which commits become due.

use std::sync::Arc;
use wayfs_types::Time;

/// A clock that counts time asleep. The live one is the host's; a test turns its own.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Time + Send + Sync>);

impl Clock {
    /// One that asks for the time where that is known.
    pub fn new(now: impl Fn() -> Time + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// The host's.
    pub fn of_host() -> Self {
        Self::new(wayfs_node::clock::now)
    }

    /// The time now.
    pub fn now(&self) -> Time {
        (self.0)()
    }
}

impl std::fmt::Debug for Clock {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("Clock").field(&self.now()).finish()
    }
}
