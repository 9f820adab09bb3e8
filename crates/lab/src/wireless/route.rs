//! What a path is made of.

use std::time::Duration;
use wayfs_hop::Scheme;
use wayfs_link::{Capacity, DirectionConfig, Duplex, LineConfig};

/// One hop of a path, with what is done about its losses.
#[derive(Debug, Clone)]
pub(crate) struct Hop {
    pub(crate) line: LineConfig,
    /// Settings of the line from later times on, in order.
    pub(crate) schedule: Vec<(Duration, LineConfig)>,
    pub(crate) duplex: Duplex,
    /// Bytes that every packet has on the hop beyond its own, where errors can hit it.
    pub(crate) header_len: usize,
    /// Mean bytes between errors in each direction; zero: none.
    pub(crate) bytes_per_error: f64,
    /// Packets that an error takes.
    pub(crate) run: u32,
    pub(crate) scheme: Scheme,
    /// What the link layer at the hop's ends speaks to.
    pub(crate) below: Below,
    /// Where what a reader of TCP sends again joins the packets that wait for the air.
    pub(crate) repeats: Repeats,
}

/// What a link layer of our own speaks to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Below {
    /// The driver of a radio, which takes the next frame when the air is free.
    Radio,
    /// A socket: a network that has queues of its own. Then the ends keep their pace, as `wayfs link` has them.
    Network,
}

/// Where a packet that the base station sends again joins those that wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Repeats {
    /// Ahead of them.
    First,
    /// Behind what the interface has already: its queue is first in, first out, as in BSD.
    Last,
}

/// The hops from the fixed host to the mobile.
#[derive(Debug, Clone)]
pub(crate) struct Route {
    pub(crate) hops: Vec<Hop>,
}

/// Framing of the radio that errors can hit, and what a packet costs the channel beyond its bytes (preamble, gaps between frames, back-off).
/// The sum of both is such that 8 MB pass at the published 1.5 Mb/s where nothing is lost; their split such
/// that one error per 64 KB loses the published 2.3 % of packets.
const RADIO_HEADER_LEN: usize = 60;
const RADIO_OVERHEAD_LEN: u64 = 170;
/// Queues of the experiments; no path here fills them with windows of 32 KB.
const QUEUE_LEN: u64 = 256 * 1024;

impl Hop {
    /// A wire without losses.
    pub(crate) fn wire(bits_per_second: u64, delay: Duration) -> Self {
        let direction = DirectionConfig {
            capacity: Capacity::Rate(bits_per_second),
            delay,
            queue_len_max: QUEUE_LEN,
            ..DirectionConfig::default()
        };
        Self {
            line: LineConfig::symmetric(direction),
            schedule: Vec::new(),
            duplex: Duplex::Full,
            header_len: 18,
            bytes_per_error: 0.0,
            run: 1,
            scheme: Scheme::None,
            below: Below::Radio,
            repeats: Repeats::First,
        }
    }

    /// The 10 Mb/s Ethernet of 1996.
    pub(crate) fn ethernet() -> Self {
        Self::wire(10_000_000, Duration::from_micros(50))
    }

    /// Sixteen hops across a continent with a bottleneck of 1.5 Mb/s. Published: 1.35 Mb/s where nothing is lost, which is what the
    /// rate is set by, and 23 KB of bandwidth times delay. Queues of the way make packets come in bunches; without that the
    /// base station has hardly two packets at a time, and a plain link layer seems much better than it was. How uneven
    /// the way was is not published: 60 ms is what brings LL near to its published 0.82 Mb/s.
    pub(crate) fn wide_area() -> Self {
        let mut wire = Self::wire(1_430_000, Duration::from_millis(60));
        let jitter = Duration::from_millis(60);
        (wire.line.down.delay, wire.line.down.jitter) = (Duration::from_millis(60) - jitter / 2, jitter);
        wire
    }

    /// WaveLAN, 2 Mb/s shared by both directions.
    pub(crate) fn radio(bytes_per_error: f64, run: u32, scheme: Scheme) -> Self {
        let direction = DirectionConfig {
            capacity: Capacity::Rate(2_000_000),
            overhead_len: RADIO_OVERHEAD_LEN,
            queue_len_max: QUEUE_LEN,
            ..DirectionConfig::default()
        };
        Self {
            line: LineConfig::symmetric(direction),
            schedule: Vec::new(),
            duplex: Duplex::Half,
            header_len: RADIO_HEADER_LEN,
            bytes_per_error,
            run,
            scheme,
            below: Below::Radio,
            repeats: Repeats::Last,
        }
    }
}

impl Route {
    /// A wire and a hop over the air.
    pub(crate) fn through(wire: Hop, air: Hop) -> Self {
        Self { hops: vec![wire, air] }
    }
}
