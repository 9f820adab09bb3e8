//! Write-through: every update is sent at once. Nobody ever waits for a
//! back-fetch, and everything crosses the wide area: the upper bound of traffic.

use crate::{Decision, PropagationPolicy};
use wayfs_types::{FileId, Time};

/// Sends every update at once.
#[derive(Debug, Clone, Copy, Default)]
pub struct WriteThrough;

impl PropagationPolicy for WriteThrough {
    fn on_update(&mut self, _now: Time, _file: FileId) -> Decision {
        Decision::Now
    }
}
