//! A hop with packets in it, and the scheme at its ends.

use super::carried::Carried;
use super::errors::Stream;
use super::{Below, Errors, Hop, Repeats};
use std::collections::{BTreeMap, VecDeque};
use wayfs_hop::{Arq, ArqConfig, Code, Frame, Paced, Packet, QueueLimit, Scheme, Shape, Snoop};
use wayfs_link::{Duplex, LineId, Medium, Way};
use wayfs_tcp::Segment;
use wayfs_types::Time;

/// Blocks of the erasure code that are waited for.
const BLOCKS_MAX: usize = 8;

/// What is on the air.
#[derive(Debug, Clone)]
enum OnAir {
    Plain(Carried),
    Frame(Frame<Carried>),
    /// A packet of a block: number of the block, place in it, and its bytes in the code.
    Coded {
        block: u64,
        place: u8,
        len: usize,
        bytes: Vec<u8>,
    },
}

/// What the ends do.
#[derive(Debug)]
enum Ends {
    None {
        down: VecDeque<Carried>,
    },
    Snoop(Box<Snoop<Carried>>),
    /// At the base station, and at the mobile.
    Arq(Box<[Arq<Carried>; 2]>),
    /// The same over a network.
    Paced(Box<[Paced<Carried>; 2]>),
    Code(Box<Coded>),
}

/// Down to the mobile in blocks.
#[derive(Debug)]
struct Coded {
    code: Code,
    k: u8,
    /// Waiting to be sent.
    queue: VecDeque<OnAir>,
    block: u64,
    /// Of the present block.
    filled: Vec<(usize, Vec<u8>)>,
    /// What arrived of blocks that are not complete.
    arrived: BTreeMap<u64, Vec<(u8, Vec<u8>)>>,
}

/// A hop.
#[derive(Debug)]
pub(super) struct Stage {
    medium: Medium<OnAir>,
    /// A wire has a queue of its own; over the air packets wait at the ends, where schemes choose among them.
    waits_at_ends: bool,
    header_len: usize,
    errors: [Errors; 2],
    ends: Ends,
    /// From the mobile, where no scheme has a queue of its own.
    up: VecDeque<Carried>,
    out: VecDeque<(Way, Segment)>,
    /// Payload that was put on the hop towards the mobile.
    pub(super) payload_sent: u64,
}

const LINE: LineId = LineId(0);
/// Frames on their way over a network, and bytes that a receiver has room for: those of `wayfs link`.
const WINDOW: u32 = 512;
const RECEIVE_LEN_MAX: usize = 768 * 1024;
/// Packets that wait at the mobile, at most.
const UP_MAX: usize = 1000;

impl Stage {
    pub(super) fn new(hop: &Hop, Stream { seed, number: index }: Stream) -> Self {
        let ends = match hop.scheme {
            Scheme::None | Scheme::Split { .. } => Ends::None { down: VecDeque::new() },
            Scheme::Snoop(config) => Ends::Snoop(Box::new(Snoop::new(config))),
            Scheme::Arq(config) if hop.below == Below::Network => {
                let config = ArqConfig { window: WINDOW, receive_len_max: RECEIVE_LEN_MAX, ..config };
                Ends::Paced(Box::new([(); 2].map(|()| Paced::new(config, QueueLimit::ByRate))))
            }
            Scheme::Arq(config) => Ends::Arq(Box::new([Arq::new(config), Arq::new(config)])),
            Scheme::Fec { n, k } => Ends::Code(Box::new(Coded {
                code: Code::new(Shape { n, k }).expect("the name of a scheme was checked"),
                k,
                queue: VecDeque::new(),
                block: 0,
                filled: Vec::new(),
                arrived: BTreeMap::new(),
            })),
        };
        let errors =
            [0, 1].map(|way| Errors::new(hop.bytes_per_error, hop.run, Stream { seed, number: 16 * index + way }));
        // Every stage draws its own numbers.
        let seed = seed.wrapping_add(index.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let mut medium = Medium::new(vec![hop.line.clone()], hop.duplex, seed, Time::ZERO);
        medium.schedule(LINE, hop.schedule.iter().map(|(at, line)| (Time::ZERO + *at, line.clone())).collect());
        let waits_at_ends = match hop.scheme {
            Scheme::Snoop(_) => hop.repeats == Repeats::First,
            Scheme::None | Scheme::Split { .. } => hop.duplex == Duplex::Half,
            Scheme::Arq(_) => hop.below == Below::Radio,
            Scheme::Fec { .. } => true,
        };
        Self {
            medium,
            waits_at_ends,
            header_len: hop.header_len,
            errors,
            ends,
            up: VecDeque::new(),
            out: VecDeque::new(),
            payload_sent: 0,
        }
    }

    /// A segment at one end. [`Way::Down`] is towards the mobile.
    pub(super) fn offer(&mut self, now: Time, way: Way, segment: Segment) {
        let carried = Carried(segment);
        match (&mut self.ends, way) {
            (Ends::None { down }, Way::Down) if down.len() < UP_MAX => down.push_back(carried),
            (Ends::None { .. }, Way::Down) => {}
            (Ends::Snoop(snoop), Way::Down) => snoop.handle_wire(now, carried),
            (Ends::Code(coded), Way::Down) => coded.offer(&carried),
            (Ends::Arq(ends), Way::Down) => drop(ends[0].send(now, carried)),
            (Ends::Arq(ends), Way::Up) => drop(ends[1].send(now, carried)),
            // What the full queue refuses is dropped.
            (Ends::Paced(ends), way) => drop(ends[usize::from(way == Way::Up)].send(now, carried)),
            (Ends::None { .. } | Ends::Snoop(_) | Ends::Code(_), Way::Up) if self.up.len() < UP_MAX => {
                self.up.push_back(carried)
            }
            (Ends::None { .. } | Ends::Snoop(_) | Ends::Code(_), Way::Up) => {}
        }
    }

    /// Puts on the hop what may go now, and takes from it what has arrived.
    pub(super) fn turn(&mut self, now: Time) {
        if let Ends::Arq(ends) = &mut self.ends {
            ends.iter_mut().for_each(|end| end.handle_timeout(now));
        }
        if let Ends::Paced(ends) = &mut self.ends {
            ends.iter_mut().for_each(|end| end.handle_timeout(now));
        }
        if let Ends::Snoop(snoop) = &mut self.ends
            && snoop.poll_timeout().is_some_and(|at| at <= now)
        {
            snoop.handle_timeout(now);
        }
        while let Some(delivery) = self.medium.poll(now) {
            self.arrive(now, delivery.way, delivery.packet);
        }
        for way in Way::BOTH {
            while (!self.waits_at_ends || self.medium.queue_len(LINE, way) == 0)
                && let Some(packet) = self.next(now, way)
            {
                let len = packet.len() + self.header_len;
                if way == Way::Down {
                    self.payload_sent += packet.payload();
                }
                self.medium.send(now, LINE, way, len, packet);
            }
        }
    }

    fn next(&mut self, now: Time, way: Way) -> Option<OnAir> {
        match (&mut self.ends, way) {
            (Ends::Arq(ends), way) => ends[usize::from(way == Way::Up)].poll_frame(now).map(OnAir::Frame),
            (Ends::Paced(ends), way) => ends[usize::from(way == Way::Up)].poll_frame(now).map(OnAir::Frame),
            (Ends::None { down }, Way::Down) => down.pop_front().map(OnAir::Plain),
            (Ends::Snoop(snoop), Way::Down) => snoop.poll_air(now).map(OnAir::Plain),
            (Ends::Code(coded), Way::Down) => coded.queue.pop_front(),
            (Ends::None { .. } | Ends::Snoop(_) | Ends::Code(_), Way::Up) => self.up.pop_front().map(OnAir::Plain),
        }
    }

    fn arrive(&mut self, now: Time, way: Way, packet: OnAir) {
        if self.errors[usize::from(way == Way::Up)].lose(packet.len() + self.header_len) {
            return;
        }
        match (&mut self.ends, packet) {
            (Ends::Snoop(snoop), OnAir::Plain(carried)) if way == Way::Up => {
                snoop.handle_air(now, carried);
                self.out.extend(std::iter::from_fn(|| snoop.poll_wire()).map(|carried| (Way::Up, carried.0)));
            }
            (Ends::Arq(ends), OnAir::Frame(frame)) => {
                let end = &mut ends[usize::from(way == Way::Down)];
                end.handle_frame(now, frame);
                while end.poll_signal().is_some() {}
            }
            (Ends::Paced(ends), OnAir::Frame(frame)) => {
                let end = &mut ends[usize::from(way == Way::Down)];
                end.handle_frame(now, frame);
                while end.poll_signal().is_some() {}
            }
            (Ends::Code(coded), OnAir::Coded { block, place, bytes, .. }) => {
                let news = coded.arrive(block, place, bytes);
                self.out.extend(news.into_iter().map(|carried| (Way::Down, carried.0)));
            }
            (
                Ends::None { .. } | Ends::Snoop(_) | Ends::Arq(_) | Ends::Paced(_) | Ends::Code(_),
                OnAir::Plain(carried),
            ) => {
                self.out.push_back((way, carried.0));
            }
            (Ends::None { .. } | Ends::Snoop(_) | Ends::Code(_), OnAir::Frame(_))
            | (Ends::None { .. } | Ends::Snoop(_) | Ends::Arq(_) | Ends::Paced(_), OnAir::Coded { .. }) => {}
        }
    }

    /// A segment that reached the other end, and which end that is.
    pub(super) fn poll(&mut self, now: Time) -> Option<(Way, Segment)> {
        if let Ends::Arq(ends) = &mut self.ends {
            for (end, way) in [(1, Way::Down), (0, Way::Up)] {
                let packets = std::iter::from_fn(|| ends[end].poll_packet(now));
                self.out.extend(packets.map(|carried| (way, carried.0)));
            }
        }
        if let Ends::Paced(ends) = &mut self.ends {
            for (end, way) in [(1, Way::Down), (0, Way::Up)] {
                let packets = std::iter::from_fn(|| ends[end].poll_packet(now));
                self.out.extend(packets.map(|carried| (way, carried.0)));
            }
        }
        self.out.pop_front()
    }

    /// When something happens next by itself.
    pub(super) fn timeout(&self, now: Time) -> Option<Time> {
        let ends = match &self.ends {
            Ends::None { .. } | Ends::Code(_) => None,
            Ends::Snoop(snoop) => snoop.poll_timeout(),
            Ends::Arq(ends) => ends.iter().filter_map(|end| end.poll_timeout(now)).min(),
            Ends::Paced(ends) => ends.iter().filter_map(|end| end.poll_timeout(now)).min(),
        };
        ends.into_iter().chain(self.medium.poll_timeout()).min()
    }
}

impl OnAir {
    fn len(&self) -> usize {
        match self {
            Self::Plain(carried) => carried.packet_len(),
            Self::Frame(frame) => frame.frame_len(),
            // Number of the block and place.
            Self::Coded { len, .. } => len + 6,
        }
    }

    fn payload(&self) -> u64 {
        match self {
            Self::Plain(carried) => u64::from(carried.0.len),
            Self::Frame(frame) => frame.packets.iter().map(|carried| u64::from(carried.0.len)).sum(),
            Self::Coded { len, .. } => len.saturating_sub(40) as u64,
        }
    }
}

impl Coded {
    fn offer(&mut self, carried: &Carried) {
        let (len, bytes) = (carried.packet_len(), carried.to_bytes());
        let place = self.filled.len() as u8;
        self.queue.push_back(OnAir::Coded { block: self.block, place, len, bytes: bytes.clone() });
        self.filled.push((len, bytes));
        if self.filled.len() == usize::from(self.k) {
            let block: Vec<Vec<u8>> = self.filled.iter().map(|(_, bytes)| bytes.clone()).collect();
            let longest = self.filled.iter().map(|(len, _)| *len).max().unwrap_or(0);
            let more = self.code.encode(&block).expect("a block has as many packets as its code, of one length");
            for (place, bytes) in (self.k..).zip(more) {
                self.queue.push_back(OnAir::Coded { block: self.block, place, len: longest, bytes });
            }
            self.filled.clear();
            self.block += 1;
        }
    }

    /// What a packet of a block brings: itself, or what can be computed with it.
    fn arrive(&mut self, block: u64, place: u8, bytes: Vec<u8>) -> Vec<Carried> {
        let arrived = self.arrived.entry(block).or_default();
        let before: Vec<u8> = arrived.iter().map(|(place, _)| *place).collect();
        arrived.push((place, bytes.clone()));
        let news = if arrived.len() == usize::from(self.k) {
            let all = self.code.decode(arrived).unwrap_or_default();
            (0..)
                .zip(all)
                .filter(|(place, _)| !before.contains(place))
                .filter_map(|(_, bytes)| Carried::from_bytes(&bytes))
                .collect()
        } else if arrived.len() < usize::from(self.k) && place < self.k {
            Carried::from_bytes(&bytes).into_iter().collect()
        } else {
            Vec::new()
        };
        while self.arrived.len() > BLOCKS_MAX {
            self.arrived.pop_first();
        }
        news
    }
}
