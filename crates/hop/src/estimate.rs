//! Round trips over the hop, and the timeout that follows from them.

use std::time::Duration;

/// Mean and deviation of round trips, as TCP's.
#[derive(Debug, Default, Clone)]
pub(crate) struct RoundTrip {
    measured: Option<(Duration, Duration)>,
}

impl RoundTrip {
    pub(crate) fn sample(&mut self, rtt: Duration) {
        let (mean, deviation) = self.measured.get_or_insert((rtt, rtt / 2));
        *deviation = *deviation * 3 / 4 + mean.abs_diff(rtt) / 4;
        *mean = *mean * 7 / 8 + rtt / 8;
    }

    /// How long silence lasts before it means something; `initial` before anything is measured.
    pub(crate) fn timeout(&self, initial: Duration) -> Duration {
        // On a shared channel an answer may have to wait for somebody else's frame, however steady it was so far.
        self.measured.map_or(initial, |(mean, deviation)| mean + (deviation * 4).max(mean))
    }
}
