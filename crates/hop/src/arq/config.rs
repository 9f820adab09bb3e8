//! Settings of an end, and what it counts.

use std::time::Duration;

/// Bytes of a frame that small packets share.
pub(super) const SHARED_LEN_MAX: usize = 1400;

/// In which order packets are handed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// As they were given, except for those that were given up.
    Kept,
    /// As they come; each once.
    AsTheyCome,
}

/// How losses are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Losses {
    /// By reports that repeat, and by the timer.
    Duplicates,
    /// By reports of what arrived later.
    Selective,
}

/// Settings of an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArqConfig {
    /// Default: kept.
    pub order: Order,
    /// Default: selective.
    pub losses: Losses,
    /// Frames on their way, at most. Default 128.
    pub window: u32,
    /// Bytes that wait to be sent, at most; what comes then is refused. Default 256 KiB.
    pub queue_len_max: usize,
    /// Bytes received and not taken, at most. Default 256 KiB.
    pub receive_len_max: usize,
    /// Transmissions of a frame, at most. Default 64.
    pub tries_max: u32,
    /// Longest time from a packet's arrival until it is given up. Default 5 s.
    pub delay_max: Duration,
    /// Shortest time of silence after which something goes again. Default 10 ms; published: 200 ms.
    pub timeout_min: Duration,
    /// The same before any round trip was measured. Default 30 ms: right where the air is given frame by frame.
    pub timeout_initial: Duration,
    /// How long small packets and reports may wait while the other end has a backlog. Default 50 ms; zero: never.
    pub hold: Duration,
    /// Frames after which a report goes by itself. Default 32.
    pub report_every: u32,
    /// Whether room is asked for before something is sent. Default: no.
    pub reservation: bool,
    /// Bytes of a frame that small packets share. Default 1400.
    pub shared_len_max: usize,
}

impl Default for ArqConfig {
    fn default() -> Self {
        Self {
            order: Order::Kept,
            losses: Losses::Selective,
            window: 128,
            queue_len_max: 256 * 1024,
            receive_len_max: 256 * 1024,
            tries_max: 64,
            delay_max: Duration::from_secs(5),
            timeout_min: Duration::from_millis(10),
            timeout_initial: Duration::from_millis(30),
            hold: Duration::from_millis(50),
            report_every: 32,
            reservation: false,
            shared_len_max: SHARED_LEN_MAX,
        }
    }
}

/// What an end did.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct ArqStatistics {
    /// Frames with packets sent for the first time.
    pub sent: u64,
    /// Frames sent again.
    pub retransmitted: u64,
    /// Frames without packets.
    pub bare: u64,
    /// Times that silence made a frame go again.
    pub polls: u64,
    /// Packets given up.
    pub given_up: u64,
    /// Packets refused by the full queue.
    pub refused: u64,
    /// Frames that arrived again.
    pub duplicates: u64,
    /// Frames that the full receive buffer did not take.
    pub overflowed: u64,
}
