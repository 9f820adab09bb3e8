//! A segment: the header of TCP, and how long the payload is.

use crate::Seq;

/// Bytes of the headers of IP and TCP without options.
const HEADERS_LEN: usize = 40;

/// Control bits.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Flags {
    /// Opens a connection.
    pub syn: bool,
    /// Nothing follows.
    pub fin: bool,
    /// The connection is gone.
    pub rst: bool,
}

/// A segment on its way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// Which connection, among those that share a path.
    pub flow: u32,
    /// Place of the first byte of the payload, or of SYN or FIN.
    pub seq: Seq,
    /// Bytes of payload.
    pub len: u32,
    /// Everything before this has arrived; `None` in the first SYN.
    pub ack: Option<Seq>,
    /// Bytes that may be sent from `ack` on.
    pub window: u32,
    /// Control bits.
    pub flags: Flags,
    /// Blocks that arrived out of order, the latest first, at most three (RFC 2018).
    pub sack: Vec<(Seq, Seq)>,
    /// The segment that caused this acknowledgement (SMART).
    pub echo: Option<Seq>,
    /// What the acknowledgement asks for was lost to errors, not to a full queue (explicit loss notification).
    pub loss_notice: bool,
}

impl Segment {
    /// Bytes of the packet, headers and options included.
    pub fn packet_len(&self) -> usize {
        let sack = if self.sack.is_empty() { 0 } else { (2 + 8 * self.sack.len()).next_multiple_of(4) };
        HEADERS_LEN + sack + if self.echo.is_some() { 8 } else { 0 } + self.len as usize
    }

    /// Sequence numbers that it occupies: payload, SYN and FIN.
    pub fn seq_len(&self) -> u32 {
        self.len + u32::from(self.flags.syn) + u32::from(self.flags.fin)
    }

    /// The place after its last byte.
    pub fn end(&self) -> Seq {
        self.seq + self.seq_len()
    }
}
