//! The state of a link, as it is told (`docs/format/link-signals.md`).

use serde::{Deserialize, Serialize};

/// A link at one end.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkReport {
    /// `base` or `mobile`.
    pub role: String,
    /// The device.
    pub tun: String,
    /// Its MTU now, in bytes.
    pub mtu: u16,
    /// Where datagrams arrive.
    pub listen: String,
    /// Datagrams that were of no session here, or of another program.
    pub foreign: u64,
    /// Datagrams that were changed on the way, or sealed with another key.
    pub forged: u64,
    /// Datagrams that came a second time, or far too late.
    pub replayed: u64,
    /// Authentic datagrams that made no sense.
    pub senseless: u64,
    /// Packets of the device for nobody known.
    pub unroutable: u64,
    /// The other ends.
    pub peers: Vec<PeerReport>,
}

/// One other end.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PeerReport {
    /// Its key.
    pub id: String,
    /// Its addresses over the link.
    pub addresses: Vec<String>,
    /// Where its datagrams came from last.
    pub at: String,
    /// What is done about losses.
    pub scheme: String,
    /// `good`, `silent` (something is unanswered), or `down`.
    pub channel: String,
    /// Milliseconds since anything was heard.
    pub heard_ms: u64,
    /// Packets from the device, to the device, and dropped because the queue was full or their addresses not theirs.
    pub packets_out: u64,
    /// Packets to the device.
    pub packets_in: u64,
    /// Packets dropped because the queue was full.
    pub dropped: u64,
    /// Packets dropped because their source is not the peer's.
    pub spoofed: u64,
    /// Datagrams that could not be sent.
    pub unsent: u64,
    /// Bytes of packets that wait for the hop.
    pub queue_bytes: u64,
    /// Bytes of packets kept for this peer.
    pub state_bytes: u64,
    /// What the hop carries, in bytes per second; zero: not known.
    pub rate: u64,
    /// Its shortest round trip of late, in microseconds; zero: not known.
    pub round_trip_us: u64,
    /// Frames or segments that went over the hop for the first time.
    pub sent: u64,
    /// Losses that were seen: frames and segments that went again, or were computed or given up.
    pub lost: u64,
    /// Of them hidden from who sends and receives.
    pub hidden: u64,
    /// Transmissions that were repetitions.
    pub retransmitted: u64,
    /// Packets given up after too many tries or too long a delay.
    pub given_up: u64,
    /// Acknowledgements that the sender did not see (snoop), or that were marked (eln).
    pub suppressed: u64,
    /// Acknowledgements marked with a notice of loss.
    pub noticed: u64,
    /// Frames that this end's full receive buffer did not take.
    #[serde(default)]
    pub overflowed: u64,
    /// Connections that are joined at the base, those included that are being opened or whose last bytes are on their way (split).
    #[serde(default)]
    pub connections: u64,
    /// Bytes acknowledged to the wire that the mobile has not acknowledged (split).
    #[serde(default)]
    pub owed_to_mobile: u64,
    /// Bytes acknowledged to the mobile that the wire has not acknowledged (split).
    #[serde(default)]
    pub owed_to_wire: u64,
    /// Openings of all mobiles that found no place among the joined connections (split).
    #[serde(default)]
    pub turned_away: u64,
}
