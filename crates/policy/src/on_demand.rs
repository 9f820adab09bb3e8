//! On demand: nothing is sent ahead. The lower bound of traffic; every shared
//! read waits for a back-fetch.

use crate::{Decision, PropagationPolicy};
use wayfs_types::{FileId, Time};

/// Sends nothing ahead.
#[derive(Debug, Clone, Copy, Default)]
pub struct OnDemand;

impl PropagationPolicy for OnDemand {
    fn on_update(&mut self, _now: Time, _file: FileId) -> Decision {
        Decision::Keep
    }
}
