//! Counters of one connection.

use std::ops::AddAssign;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What went over the wire, summed over connections, since the endpoint was bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Traffic {
    /// Bytes of UDP payload sent, retransmissions and acknowledgements included.
    pub wire_bytes_sent: u64,
    /// Bytes of UDP payload received.
    pub wire_bytes_received: u64,
    /// Packets sent.
    pub packets_sent: u64,
    /// Packets sent and given up as lost.
    pub packets_lost: u64,
    /// Bytes of frames sent on control streams, as they were sent (plain or packed), without their headers.
    pub frame_bytes_sent: u64,
    /// The same frames before packing.
    pub frame_bytes_sent_unpacked: u64,
    /// Bytes of frames received on control streams, as they came, without their headers.
    pub frame_bytes_received: u64,
    /// The same frames after unpacking.
    pub frame_bytes_received_unpacked: u64,
    /// Bytes of request and answer bodies sent.
    pub body_bytes_sent: u64,
    /// Bytes of request and answer bodies received.
    pub body_bytes_received: u64,
    /// Requests made.
    pub requests_sent: u64,
    /// Requests that came in.
    pub requests_received: u64,
}

impl AddAssign for Traffic {
    fn add_assign(&mut self, other: Self) {
        self.wire_bytes_sent += other.wire_bytes_sent;
        self.wire_bytes_received += other.wire_bytes_received;
        self.packets_sent += other.packets_sent;
        self.packets_lost += other.packets_lost;
        self.frame_bytes_sent += other.frame_bytes_sent;
        self.frame_bytes_sent_unpacked += other.frame_bytes_sent_unpacked;
        self.frame_bytes_received += other.frame_bytes_received;
        self.frame_bytes_received_unpacked += other.frame_bytes_received_unpacked;
        self.body_bytes_sent += other.body_bytes_sent;
        self.body_bytes_received += other.body_bytes_received;
        self.requests_sent += other.requests_sent;
        self.requests_received += other.requests_received;
    }
}

/// One connection's counters and its view of the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ConnectionStats {
    /// What went over the wire.
    pub traffic: Traffic,
    /// Bytes given up as lost (and sent again if they mattered).
    pub bytes_lost: u64,
    /// Smoothed round-trip time.
    pub rtt: Duration,
    /// Shortest round trip seen on this path.
    pub rtt_min: Duration,
    /// Bytes that may be in flight.
    pub congestion_window: u64,
    /// Longest UDP payload that the path carries, in bytes.
    pub packet_len_max: u16,
}

/// What this crate counts itself; the rest comes from the transport.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) frame_bytes_sent: AtomicU64,
    pub(crate) frame_bytes_sent_unpacked: AtomicU64,
    pub(crate) frame_bytes_received: AtomicU64,
    pub(crate) frame_bytes_received_unpacked: AtomicU64,
    pub(crate) body_bytes_sent: AtomicU64,
    pub(crate) body_bytes_received: AtomicU64,
    pub(crate) requests_sent: AtomicU64,
    pub(crate) requests_received: AtomicU64,
}

/// Adds to a counter; the order among counters does not matter to anyone.
pub(crate) fn count(counter: &AtomicU64, by: usize) {
    counter.fetch_add(by as u64, Ordering::Relaxed);
}

pub(crate) fn connection_stats(quic: &quinn::Connection, counters: &Counters) -> ConnectionStats {
    let stats = quic.stats();
    let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    ConnectionStats {
        traffic: Traffic {
            wire_bytes_sent: stats.udp_tx.bytes,
            wire_bytes_received: stats.udp_rx.bytes,
            packets_sent: stats.path.sent_packets,
            packets_lost: stats.path.lost_packets,
            frame_bytes_sent: read(&counters.frame_bytes_sent),
            frame_bytes_sent_unpacked: read(&counters.frame_bytes_sent_unpacked),
            frame_bytes_received: read(&counters.frame_bytes_received),
            frame_bytes_received_unpacked: read(&counters.frame_bytes_received_unpacked),
            body_bytes_sent: read(&counters.body_bytes_sent),
            body_bytes_received: read(&counters.body_bytes_received),
            requests_sent: read(&counters.requests_sent),
            requests_received: read(&counters.requests_received),
        },
        bytes_lost: stats.path.lost_bytes,
        rtt: stats.path.rtt,
        rtt_min: stats.path.min_rtt,
        congestion_window: stats.path.cwnd,
        packet_len_max: stats.path.current_mtu,
    }
}
