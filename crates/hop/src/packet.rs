//! What the hop has to know of a packet.

use std::fmt::Debug;

/// Who is reached over the hop, from the base station: a mobile host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Destination(pub u32);

/// A connection, the same for both of its directions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Flow(pub u64);

/// A packet of any traffic. The live driver reads it out of bytes, experiments make it up.
pub trait Packet: Clone + Debug {
    /// Bytes on the hop, without the hop's own frame.
    fn packet_len(&self) -> usize;

    /// The header, if it is TCP and can be read (not encrypted, no fragment).
    fn tcp(&self) -> Option<TcpHeader>;

    /// Says in an acknowledgement that what it asks for was lost to errors on the hop.
    fn mark_loss(&mut self);

    /// Takes the ranges of a selective acknowledgement out: what they show to be missing is sent again here. By default there are none.
    fn hide_ranges(&mut self) {}
}

/// What matters of a TCP header. Places are 32 bits that wrap around.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpHeader {
    /// Its connection.
    pub flow: Flow,
    /// Place of the first byte.
    pub seq: u32,
    /// Places that it takes: payload, SYN and FIN.
    pub len: u32,
    /// Everything before this has arrived at who sends this.
    pub ack: Option<u32>,
    /// Bytes that may follow.
    pub window: u32,
    /// Opens the connection.
    pub syn: bool,
    /// Ends it at once.
    pub rst: bool,
    /// The segment that caused this acknowledgement (SMART), if it says.
    pub echo: Option<u32>,
    /// Ranges beyond it that have arrived, too (RFC 2018).
    pub sacks: Sacks,
}

/// Places of a connection's bytes: from one up to another, which is not in it. They count on from zero behind the last.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// The first.
    pub from: u32,
    /// The place after the last.
    pub to: u32,
}

/// Most ranges that the options of one header hold.
const SACKS_MAX: usize = 4;

/// Ranges of a selective acknowledgement.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Sacks {
    ranges: [Span; SACKS_MAX],
    len: u8,
}

impl Sacks {
    /// None.
    pub const fn new() -> Self {
        Self { ranges: [Span { from: 0, to: 0 }; SACKS_MAX], len: 0 }
    }

    /// Adds one. An empty one, one that runs backwards and a fifth are left out.
    pub const fn push(&mut self, span: Span) {
        if before(span.from, span.to) && (self.len as usize) < SACKS_MAX {
            self.ranges[self.len as usize] = span;
            self.len += 1;
        }
    }

    /// All of them, in the order of the option.
    pub fn ranges(&self) -> &[Span] {
        &self.ranges[..usize::from(self.len)]
    }

    /// Whether one of them holds all of this.
    pub fn hold(&self, span: Span) -> bool {
        self.ranges().iter().any(|held| !before(span.from, held.from) && !before(held.to, span.to))
    }
}

impl TcpHeader {
    /// The places of its bytes.
    pub const fn span(&self) -> Span {
        Span { from: self.seq, to: self.end() }
    }

    /// The place after its last byte.
    pub const fn end(&self) -> u32 {
        self.seq.wrapping_add(self.len)
    }
}

/// Whether a place lies before another (they are less than 2^31 apart).
pub(crate) const fn before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}
