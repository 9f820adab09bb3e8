//! Contents never delay knowledge: the part of that promise that priorities cannot keep.
//!
//! QUIC sends the stream of highest priority first, but what a stream may hand over is
//! limited by windows that all streams of a connection share. If bodies filled those, a
//! frame would wait for an acknowledgement across the wide area before it could even be
//! queued. So the shared windows are made larger than all that bodies may occupy together,
//! and this gate keeps the bodies to their share:
//!
//! ```text
//! shared window = 4 x path capacity (large bodies) + 8 MiB (small) + 4 MiB (tiny)
//!               + 1 x path capacity (the control stream, never more: its own window)
//! ```
//!
//! A body occupies at most the window of its stream, so that is what it is charged, from
//! before its first byte until its last is acknowledged. Small bodies have a budget of their
//! own and never queue behind large ones. Tiny ones are not charged: as many as there may be
//! streams fit the share kept for them.

use crate::NetConfig;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Up to here a body, with its header, is not charged.
const TINY_LEN_MAX: u64 = 16 << 10;
/// Up to here a body is small.
const SMALL_LEN_MAX: u64 = 256 << 10;
/// Budget of all small bodies of a connection, each way.
const SMALL_BUDGET: u64 = 8 << 20;
/// Large bodies that may fill their stream's window at the same time.
const LARGE_COUNT: u64 = 4;
/// Permits are counted in units of this many bytes, to fit the counter.
const UNIT: u64 = 1 << 10;

/// What a connection's bodies may occupy, in one direction.
#[derive(Debug, Clone)]
pub(crate) struct Gate {
    stream_window: u64,
    small: Arc<Semaphore>,
    large: Arc<Semaphore>,
}

/// A body's share, given back when dropped.
#[derive(Debug)]
pub(crate) struct GatePermit {
    _permit: Option<OwnedSemaphorePermit>,
}

impl GatePermit {
    /// No share at all, for a body that still waits for its turn or needs none.
    pub(crate) const fn none() -> Self {
        Self { _permit: None }
    }
}

impl Gate {
    pub(crate) fn new(stream_window: u32) -> Self {
        let stream_window = u64::from(stream_window);
        let permits = |bytes: u64| Arc::new(Semaphore::new((bytes / UNIT) as usize));
        Self { stream_window, small: permits(SMALL_BUDGET), large: permits(LARGE_COUNT * stream_window) }
    }

    /// The window that a connection's streams share: each may have the path's capacity for its own, and so many requests are
    /// open at once.
    pub(crate) fn shared_window(config: &NetConfig) -> u64 {
        let (streams, requests) = (u64::from(config.path_capacity), u64::from(config.requests_max));
        (LARGE_COUNT + 1) * streams + SMALL_BUDGET + TINY_LEN_MAX * requests
    }

    /// Waits for room for a header and body of `len` bytes together.
    pub(crate) async fn enter(&self, len: u64) -> GatePermit {
        let budget = match len {
            0..=TINY_LEN_MAX => return GatePermit::none(),
            len if len <= SMALL_LEN_MAX => &self.small,
            _ => &self.large,
        };
        let permit = Arc::clone(budget).acquire_many_owned(self.charge(len)).await;
        GatePermit { _permit: Some(permit.expect("the semaphores of a gate are never closed")) }
    }

    /// The same without waiting.
    pub(crate) fn try_enter(&self, len: u64) -> Option<GatePermit> {
        let budget = match len {
            0..=TINY_LEN_MAX => return Some(GatePermit::none()),
            len if len <= SMALL_LEN_MAX => &self.small,
            _ => &self.large,
        };
        let permit = Arc::clone(budget).try_acquire_many_owned(self.charge(len)).ok()?;
        Some(GatePermit { _permit: Some(permit) })
    }

    fn charge(&self, len: u64) -> u32 {
        // Both budgets hold at least one such charge, so nobody waits for what never comes.
        let units = len.min(self.stream_window) / UNIT;
        u32::try_from(units).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_bodies_take_turns_and_small_ones_pass() {
        let gate = Gate::new(1 << 20);
        let permits: Vec<_> = (0..4).map(|_| gate.try_enter(1 << 40).unwrap()).collect();
        assert!(gate.try_enter(1 << 20).is_none());
        assert!(gate.try_enter(SMALL_LEN_MAX).is_some());
        assert!(gate.try_enter(1).is_some());
        drop(permits);
        assert!(gate.try_enter(1 << 20).is_some());
    }

    #[test]
    fn the_shared_window_holds_all_bodies_and_the_control_stream() {
        let config = NetConfig { path_capacity: 1 << 20, requests_max: 16, ..NetConfig::default() };
        assert!(Gate::shared_window(&config) >= (5 << 20) + SMALL_BUDGET + 16 * TINY_LEN_MAX);
    }
}
