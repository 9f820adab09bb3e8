//! What can be set, each with its default and the reason for it.

use crate::{Congestion, FramePacking, Probing, Resolver};
use std::time::Duration;

/// Default of [`NetConfig::handshakes_a_second`].
const HANDSHAKES_A_SECOND: u32 = 200;

/// Settings of an [`Endpoint`](crate::Endpoint); `NetConfig::default()` is right for most.
#[derive(Debug, Clone)]
pub struct NetConfig {
    /// Longest time to spend on all addresses of one dial. Default 5 s: less than people
    /// wait, more than a handshake with two lost packets on a slow path.
    pub connect_timeout: Duration,
    /// Head start of each address over the next in a dial. Default 150 ms: a live near
    /// address answers before the second is tried.
    pub connect_stagger: Duration,
    /// Silence after which a connection is over. Default 15 s: outlives a lift or a tunnel,
    /// and is below what a user takes for a hang.
    pub idle_timeout: Duration,
    /// Pause between keep-alives on an idle connection. Default 5 s: two may be lost
    /// within the idle timeout, and it keeps doors in address translators open.
    pub keep_alive: Duration,
    /// While something of the peer's is waited for and nothing is heard: pause between questions to it. Default 250 ms,
    /// about 1 kb/s each way.
    pub waiting_probe: Duration,
    /// When the end of an outage is looked for. Default [`Probing::BySilence`].
    pub probing: Probing,
    /// Longest time that a request or a body may go without a byte. Default 10 s. While the
    /// connection is busy with other streams, up to twelve times that.
    pub request_idle_timeout: Duration,
    /// Bytes that fit on the longest fast path served: bandwidth times delay.
    /// Default 12,500,000 (1 Gb/s times 100 ms). One stream never has more than this
    /// unread or unacknowledged; a connection has at most six times as much.
    pub path_capacity: u32,
    /// How the sending rate is found. Default [`Congestion::Steady`].
    pub congestion: Congestion,
    /// Requests that a peer may have open at once. Default 256.
    pub requests_max: u32,
    /// Longest body that a peer may declare, in bytes. Default 1 TiB.
    pub body_len_max: u64,
    /// Handshakes under way at once; past it, newcomers are refused. Default 256.
    pub handshakes_max: usize,
    /// Handshakes that may begin in a second from networks of which somebody was admitted, and as many from all others; what comes
    /// beyond is not heard, and comes again. Default 200, a second's worth of them at once: both together less than half of a core.
    pub handshakes_a_second: u32,
    /// Connections open at once; past it, newcomers are refused. Default 4096.
    pub connections_max: usize,
    /// Frames waiting to be sent before [`FrameSender`](crate::FrameSender) is full. Default 1024.
    pub frame_queue_len_max: usize,
    /// Bytes of frames waiting to be sent before the sender is full. Default 16 MiB; at
    /// least [`FRAME_LEN_MAX`](crate::FRAME_LEN_MAX).
    pub frame_queue_bytes_max: u32,
    /// Which frames are packed. Default [`FramePacking::ByPath`]: packing a frame costs as much time as a fast path
    /// takes to carry it.
    pub frame_packing: FramePacking,
    /// Kernel buffer asked for in each direction of the socket, in bytes. Default 4 MiB;
    /// the kernel grants what its own limit allows.
    pub socket_buffer: usize,
    /// Finds the addresses of names. Default: the system's.
    pub resolver: Resolver,
}

impl Default for NetConfig {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(5),
            connect_stagger: Duration::from_millis(150),
            idle_timeout: Duration::from_secs(15),
            keep_alive: Duration::from_secs(5),
            waiting_probe: Duration::from_millis(250),
            probing: Probing::default(),
            request_idle_timeout: Duration::from_secs(10),
            path_capacity: 12_500_000,
            congestion: Congestion::default(),
            requests_max: 256,
            body_len_max: 1 << 40,
            handshakes_max: 256,
            handshakes_a_second: HANDSHAKES_A_SECOND,
            connections_max: 4096,
            frame_queue_len_max: 1024,
            frame_queue_bytes_max: 16 << 20,
            frame_packing: FramePacking::default(),
            socket_buffer: 4 << 20,
            resolver: Resolver::default(),
        }
    }
}

/// Settings that contradict each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The named setting must not be zero.
    #[error("{0} must be more than zero")]
    Zero(&'static str),
    /// A connection would end before its first keep-alive.
    #[error("keep_alive must be less than half of idle_timeout")]
    KeepAliveTooRare,
    /// The idle timeout does not fit QUIC's range.
    #[error("idle_timeout is too long")]
    IdleTooLong,
    /// The longest frame would never fit the queue.
    #[error("frame_queue_bytes_max must be at least {} bytes", crate::FRAME_LEN_MAX)]
    FrameQueueTooSmall,
    /// The window of a stream is too small for a piece of a body, or too large to be counted.
    #[error("path_capacity must lie between 262144 and 500000000 bytes")]
    PathCapacity,
    /// A peer may have between 1 and 65535 requests open.
    #[error("requests_max must lie between 1 and 65535")]
    RequestsMax,
}

impl NetConfig {
    /// Checks that the settings fit together; [`Endpoint::bind`](crate::Endpoint::bind) does it too.
    ///
    /// # Errors
    /// The first [`ConfigError`] found.
    pub fn check(&self) -> Result<(), ConfigError> {
        let times = [
            (self.connect_timeout, "connect_timeout"),
            (self.idle_timeout, "idle_timeout"),
            (self.keep_alive, "keep_alive"),
            (self.waiting_probe, "waiting_probe"),
            (self.request_idle_timeout, "request_idle_timeout"),
        ];
        if let Some((_, name)) = times.iter().find(|(time, _)| time.is_zero()) {
            return Err(ConfigError::Zero(name));
        }
        let counts = [
            (self.handshakes_max, "handshakes_max"),
            (self.handshakes_a_second as usize, "handshakes_a_second"),
            (self.connections_max, "connections_max"),
            (self.frame_queue_len_max, "frame_queue_len_max"),
        ];
        if let Some((_, name)) = counts.iter().find(|(count, _)| *count == 0) {
            return Err(ConfigError::Zero(name));
        }
        if self.keep_alive.saturating_mul(2) >= self.idle_timeout {
            return Err(ConfigError::KeepAliveTooRare);
        }
        if quinn::IdleTimeout::try_from(self.idle_timeout).is_err() {
            return Err(ConfigError::IdleTooLong);
        }
        if (self.frame_queue_bytes_max as usize) < crate::FRAME_LEN_MAX {
            return Err(ConfigError::FrameQueueTooSmall);
        }
        if !(256 << 10..=500_000_000).contains(&self.path_capacity) {
            return Err(ConfigError::PathCapacity);
        }
        if !(1..=65_535).contains(&self.requests_max) {
            return Err(ConfigError::RequestsMax);
        }
        Ok(())
    }
}
