//! What goes over the air between two ends that repair it.

use crate::Packet;

/// Bytes of a frame's own header: order, number, floor, backlog, flags.
const HEADER_LEN: usize = 16;
/// Bytes of a report without ranges, and of a range.
const REPORT_LEN: usize = 14;
const RANGE_LEN: usize = 4;
/// Bytes before each packet: its length.
const PACKET_HEADER_LEN: usize = 2;

/// A frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame<P> {
    /// Counts transmissions of this end, retransmissions included: which of two was sent later.
    pub order: u64,
    /// Number of a frame with packets; the same when it is sent again.
    pub number: u64,
    /// Frames below this are not sent any more: whoever waits for one waits in vain.
    pub floor: u64,
    /// Frames that wait behind this one.
    pub backlog: u32,
    /// Several small packets may share a frame. None: a report, or a request.
    pub packets: Vec<P>,
    /// What has arrived here.
    pub report: Option<Report>,
    /// The receiver is to report soon.
    pub wants_report: bool,
    /// Bytes that this end would like to send (RTS); the report that answers tells the room (CTS).
    pub request: Option<u32>,
}

/// What has arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Every frame below this.
    pub next: u64,
    /// The latest transmission that arrived.
    pub order: u64,
    /// Frames beyond, as ranges without their ends.
    pub have: Vec<(u64, u64)>,
    /// Of frames from this number on nothing is told, for there was no room; `u64::MAX`: everything is told.
    pub told: u64,
    /// Bytes that there is room for beyond what has arrived.
    pub room: u32,
}

impl<P: Packet> Frame<P> {
    /// Bytes on the air, without the radio's own framing.
    pub fn frame_len(&self) -> usize {
        let report = self.report.as_ref().map_or(0, |report| REPORT_LEN + RANGE_LEN * report.have.len());
        HEADER_LEN + report + self.packets.iter().map(|packet| PACKET_HEADER_LEN + packet.packet_len()).sum::<usize>()
    }
}
