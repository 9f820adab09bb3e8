//! Settings of an end point.

use std::time::Duration;

/// How a sender finds out what is lost, and what it does about its window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scheme {
    /// Fast retransmit and fast recovery, ended by the first new acknowledgement.
    Reno,
    /// Fast recovery lasts until everything is acknowledged that was sent when it began.
    NewReno,
    /// Each acknowledgement names the segment that caused it; what was sent before and is not acknowledged is lost.
    Smart,
    /// Selective acknowledgements in blocks (RFC 2018, 6675).
    Sack,
    /// NewReno that keeps its window if told that the loss was no congestion.
    Eln,
    /// The same, and retransmits on the first duplicate acknowledgement with that notice.
    ElnFirst,
    /// Window grows by a cubic function of time since the last loss (RFC 9438), selective acknowledgements.
    Cubic,
    /// Rate and window from measured bandwidth and round trip; losses are repaired and otherwise ignored.
    Bbr,
}

impl Scheme {
    /// All of them.
    pub const ALL: [Self; 8] =
        [Self::Reno, Self::NewReno, Self::Smart, Self::Sack, Self::Eln, Self::ElnFirst, Self::Cubic, Self::Bbr];

    /// As tables show it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reno => "reno",
            Self::NewReno => "newreno",
            Self::Smart => "smart",
            Self::Sack => "sack",
            Self::Eln => "eln",
            Self::ElnFirst => "eln-first",
            Self::Cubic => "cubic",
            Self::Bbr => "bbr",
        }
    }
}

/// How an end point measures time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timers {
    /// BSD: retransmission by ticks of 500 ms (at least two), delayed acknowledgements by ticks of 200 ms.
    Coarse {
        /// When the first tick of the host comes, 0 to 500 ms: hosts tick out of step.
        phase: Duration,
    },
    /// Linux: to the microsecond, retransmission after at least this, delayed acknowledgements after 40 ms.
    Fine {
        /// Shortest retransmission timeout. Linux: 200 ms.
        rto_min: Duration,
    },
}

/// Settings of an end point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Most bytes of payload in a segment. Default 1400.
    pub mss: u32,
    /// Bytes of the socket buffers, for sending and for receiving. Default 32 KiB.
    pub buffer: u32,
    /// Segments that may be sent at once at the start. Default 1, as in 1996; Linux: 10.
    pub initial_window: u32,
    /// How losses are found. Default Reno.
    pub scheme: Scheme,
    /// Default: coarse, in phase zero.
    pub timers: Timers,
    /// Timeouts in a row after which the connection is given up. Default 12, as in BSD.
    pub retries_max: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            mss: 1400,
            buffer: 32 * 1024,
            initial_window: 1,
            scheme: Scheme::Reno,
            timers: Timers::Coarse { phase: Duration::ZERO },
            retries_max: 12,
        }
    }
}

impl Config {
    /// An end point of today: fine timers, ten segments at the start, a buffer that no path here fills.
    pub fn modern(scheme: Scheme) -> Self {
        Self {
            buffer: 1 << 20,
            initial_window: 10,
            scheme,
            timers: Timers::Fine { rto_min: Duration::from_millis(200) },
            ..Self::default()
        }
    }
}
