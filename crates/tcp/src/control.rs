//! The window of 4.4BSD: slow start, then one segment per round trip, and halving.

/// Largest window without scaling, in bytes.
const CWND_MAX: u32 = 65_535;

/// Congestion window and the threshold where slow start ends, in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Window {
    pub(crate) cwnd: u32,
    pub(crate) ssthresh: u32,
    pub(crate) mss: u32,
}

impl Window {
    pub(crate) const fn new(mss: u32, segments: u32) -> Self {
        Self { cwnd: mss * segments, ssthresh: CWND_MAX, mss }
    }

    /// Opens for an acknowledgement of something new.
    pub(crate) fn open(&mut self) {
        let step = if self.cwnd > self.ssthresh { self.mss * self.mss / self.cwnd } else { self.mss };
        self.cwnd = (self.cwnd + step).min(CWND_MAX);
    }

    /// The threshold after a loss: half of what could be sent, in whole segments, at least two.
    pub(crate) fn halve(&mut self, peer_window: u32) {
        let segments = self.cwnd.min(peer_window) / 2 / self.mss;
        self.ssthresh = segments.max(2) * self.mss;
    }

    /// Starts anew after a timeout.
    pub(crate) const fn collapse(&mut self) {
        self.cwnd = self.mss;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_doubles_per_round_trip_up_to_the_threshold_and_never_passes_its_bound() {
        let mut window = Window::new(1400, 1);
        window.ssthresh = 5600;
        for _ in 0..4 {
            window.open();
        }
        assert_eq!(window.cwnd, 7000);
        window.open();
        assert_eq!(window.cwnd, 7000 + 280);
        for _ in 0..3000 {
            window.open();
        }
        assert_eq!(window.cwnd, CWND_MAX);
        window.halve(32 * 1024);
        assert_eq!(window.ssthresh, 11 * 1400);
    }
}
