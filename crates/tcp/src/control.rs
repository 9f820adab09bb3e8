//! The congestion window: slow start, then about one segment per round trip, and halving.

/// Largest window without scaling, in bytes: BSD's.
const BSD_MAX: u32 = 65_535;
/// Largest window with scaling, in bytes.
const LINUX_MAX: u32 = 1 << 30;

/// How a window opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Growth {
    /// 4.4BSD: by acknowledgements, however many segments each is for; beyond the threshold by a share of a segment, and by an
    /// eighth of one more (`incr * incr / cw + incr / 8` in its `tcp_input`, taken out of later systems as an error). With delayed
    /// acknowledgements that is half a segment per round trip by the one and a sixteenth of the window by the other.
    PerAcknowledgement,
    /// Linux: by the segments that were acknowledged.
    PerSegment,
}

/// Congestion window and the threshold where slow start ends, in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Window {
    pub(crate) cwnd: u32,
    pub(crate) ssthresh: u32,
    pub(crate) mss: u32,
    growth: Growth,
}

/// Congestion window of a connection that begins.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InitialWindow {
    /// Bytes of a segment.
    pub(crate) mss: u32,
    pub(crate) segments: u32,
}

impl Window {
    pub(crate) const fn new(initial: InitialWindow, growth: Growth) -> Self {
        let InitialWindow { mss, segments } = initial;
        Self { cwnd: mss * segments, ssthresh: Self::max(growth), mss, growth }
    }

    const fn max(growth: Growth) -> u32 {
        match growth {
            Growth::PerAcknowledgement => BSD_MAX,
            Growth::PerSegment => LINUX_MAX,
        }
    }

    /// Opens for an acknowledgement of so many bytes that are new.
    pub(crate) fn open(&mut self, acked: u32) {
        let step = match self.growth {
            Growth::PerAcknowledgement if self.cwnd <= self.ssthresh => self.mss,
            Growth::PerAcknowledgement => self.mss * self.mss / self.cwnd + self.mss / 8,
            // The threshold itself is no slow start: the acknowledgement that ends a recovery may be of a whole window.
            Growth::PerSegment if self.cwnd < self.ssthresh => acked.min(self.ssthresh - self.cwnd),
            Growth::PerSegment => (u64::from(self.mss) * u64::from(acked) / u64::from(self.cwnd.max(1))) as u32,
        };
        self.cwnd = (self.cwnd + step).min(Self::max(self.growth));
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
    fn a_window_of_bsd_opens_by_acknowledgements_and_an_eighth_and_never_passes_its_bound() {
        let mut window = Window::new(InitialWindow { mss: 1400, segments: 1 }, Growth::PerAcknowledgement);
        window.ssthresh = 5600;
        for _ in 0..4 {
            window.open(2800);
        }
        assert_eq!(window.cwnd, 7000);
        window.open(2800);
        assert_eq!(window.cwnd, 7000 + 280 + 175);
        for _ in 0..3000 {
            window.open(1400);
        }
        assert_eq!(window.cwnd, BSD_MAX);
        window.halve(32 * 1024);
        assert_eq!(window.ssthresh, 11 * 1400);
    }

    #[test]
    fn an_acknowledgement_of_a_whole_window_after_a_recovery_opens_by_one_segment_only() {
        let mut window = Window::new(InitialWindow { mss: 1000, segments: 20 }, Growth::PerSegment);
        window.halve(64_000);
        window.cwnd = window.ssthresh;
        window.open(20_000);
        assert_eq!(window.cwnd, 12_000);
        // Slow start ends at the threshold.
        window.ssthresh = 13_000;
        window.open(20_000);
        assert_eq!(window.cwnd, 13_000);
    }

    #[test]
    fn a_window_of_linux_opens_by_segments_and_by_one_in_a_round_trip() {
        let mut window = Window::new(InitialWindow { mss: 1000, segments: 2 }, Growth::PerSegment);
        window.ssthresh = 4000;
        // Slow start up to the threshold, then a segment for a window's worth of acknowledgements.
        window.open(2000);
        assert_eq!(window.cwnd, 4000);
        (0..2).for_each(|_| window.open(2000));
        assert!((4900..=5000).contains(&window.cwnd), "{}", window.cwnd);
    }
}
