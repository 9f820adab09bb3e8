//! What is done about losses towards one peer: the pure code of crate `hop` behind one face.
//!
//! A packet of the device goes in by [`End::send`]; what goes over the hop comes out of [`End::poll`], as long as the pace allows;
//! what came over the hop goes in by [`End::receive`], and packets for the device come out of [`End::poll_packet`].

use crate::config::Settings;
use crate::keys::Role;
use crate::seal::Kind;
use bytes::Bytes;
use std::collections::VecDeque;
use std::time::Duration;
use wayfs_hop::{
    ArqStatistics, BlockStatistics, Blocks, FRAME_HEADER_LEN, IpPacket, PACKET_HEADER_LEN, Paced, Packet, QueueLimit,
    Scheme, Shape, Signal, Snoop, SnoopStatistics, decode_frame, encode_frame,
};
use wayfs_types::Time;

/// Packets that wait without a scheme; the socket takes them at once unless its buffer is full.
const PLAIN_MAX: usize = 256;
/// Bytes of a report that a frame leaves room for, beyond the longest packet.
const REPORT_ROOM: usize = 33;

/// One end of the hop, towards one peer.
#[derive(Debug)]
pub(crate) enum End {
    /// Nothing is done, or somebody else does it.
    Plain(VecDeque<IpPacket>, VecDeque<IpPacket>),
    /// Frames at both ends.
    Frames(Box<Frames>),
    /// The base station reads TCP.
    Snoop(Box<Snoop<IpPacket>>),
    /// Sums of packets.
    Blocks(Box<Blocks>),
}

/// Frames, and their length at most.
#[derive(Debug)]
pub(crate) struct Frames {
    paced: Paced<IpPacket>,
    len_max: usize,
}

/// What an end counted.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Counted {
    Nothing,
    Frames(ArqStatistics),
    Snoop(SnoopStatistics),
    Blocks(BlockStatistics),
}

impl End {
    /// Knows nothing of the hop yet.
    pub(crate) fn new(role: Role, scheme: Scheme, settings: &Settings, window: u32, mtu: u16) -> Self {
        let plain = || Self::Plain(VecDeque::new(), VecDeque::new());
        match scheme {
            Scheme::Arq(config) => {
                let config = settings.arq(config, window, mtu);
                let limit = if settings.queue_len_max.is_some() { QueueLimit::Fixed } else { QueueLimit::ByRate };
                let len_max = FRAME_HEADER_LEN + PACKET_HEADER_LEN + usize::from(mtu) + REPORT_ROOM;
                Self::Frames(Box::new(Frames { paced: Paced::new(config, limit), len_max }))
            }
            Scheme::Snoop(config) if role == Role::Base => Self::Snoop(Box::new(Snoop::new(settings.snoop(config)))),
            Scheme::Fec { n, k } => {
                Blocks::new(Shape { n, k }).map_or_else(|_| plain(), |blocks| Self::Blocks(Box::new(blocks)))
            }
            Scheme::None | Scheme::Snoop(_) | Scheme::Split { .. } => plain(),
        }
    }

    /// A packet of the device. False: the queue is full, and it is dropped.
    pub(crate) fn send(&mut self, now: Time, packet: IpPacket) -> bool {
        match self {
            Self::Plain(out, _) => {
                let fits = out.len() < PLAIN_MAX;
                if fits {
                    out.push_back(packet);
                }
                fits
            }
            Self::Frames(frames) => frames.paced.send(now, packet),
            Self::Snoop(snoop) => {
                let dropped = snoop.statistics().dropped;
                snoop.handle_wire(now, packet);
                snoop.statistics().dropped == dropped
            }
            Self::Blocks(blocks) => {
                blocks.send(now, &packet);
                true
            }
        }
    }

    /// Writes what goes over the hop now, if anything does.
    pub(crate) fn poll(&mut self, now: Time, to: &mut Vec<u8>) -> Option<Kind> {
        match self {
            Self::Plain(out, _) => out.pop_front().map(|packet| plain(&packet, to)),
            Self::Frames(frames) => frames.poll(now, to),
            Self::Snoop(snoop) => snoop.poll_air(now).map(|packet| plain(&packet, to)),
            Self::Blocks(blocks) => blocks.poll_piece(to).then_some(Kind::Piece),
        }
    }

    /// Something authentic came over the hop. False: it makes no sense, or belongs to another scheme.
    pub(crate) fn receive(&mut self, now: Time, kind: Kind, body: Bytes) -> bool {
        match (self, kind) {
            (Self::Frames(frames), Kind::Frame) => frames.receive(now, body),
            (Self::Plain(_, arrived), Kind::Packet) => IpPacket::new(body).is_ok_and(|packet| {
                arrived.push_back(packet);
                true
            }),
            (Self::Snoop(snoop), Kind::Packet) => IpPacket::new(body).is_ok_and(|packet| {
                snoop.handle_air(now, packet);
                true
            }),
            (Self::Blocks(blocks), Kind::Piece) => {
                blocks.handle_piece(body);
                true
            }
            (Self::Plain(..) | Self::Frames(_) | Self::Snoop(_) | Self::Blocks(_), _) => false,
        }
    }

    /// A packet for the device; call until `None`.
    pub(crate) fn poll_packet(&mut self, now: Time) -> Option<IpPacket> {
        match self {
            Self::Plain(_, arrived) => arrived.pop_front(),
            Self::Frames(frames) => frames.paced.poll_packet(now),
            Self::Snoop(snoop) => snoop.poll_wire(),
            Self::Blocks(blocks) => blocks.poll_packet(),
        }
    }

    /// News; call until `None`.
    pub(crate) fn poll_signal(&mut self) -> Option<Signal> {
        match self {
            Self::Frames(frames) => frames.paced.poll_signal(),
            Self::Plain(..) | Self::Snoop(_) | Self::Blocks(_) => None,
        }
    }

    /// When to be woken.
    pub(crate) fn poll_timeout(&self, now: Time) -> Option<Time> {
        match self {
            Self::Plain(..) => None,
            Self::Frames(frames) => frames.paced.poll_timeout(now),
            Self::Snoop(snoop) => snoop.poll_timeout(),
            Self::Blocks(blocks) => blocks.poll_timeout(),
        }
    }

    /// Lets timers end whose time has come.
    pub(crate) fn handle_timeout(&mut self, now: Time) {
        match self {
            Self::Plain(..) => {}
            Self::Frames(frames) => frames.paced.handle_timeout(now),
            Self::Snoop(snoop) => {
                if snoop.poll_timeout().is_some_and(|at| at <= now) {
                    snoop.handle_timeout(now);
                }
            }
            Self::Blocks(blocks) => blocks.handle_timeout(now),
        }
    }

    /// The peer is, or is about to be, reached another way.
    pub(crate) fn hand_off(&mut self, now: Time) {
        if let Self::Frames(frames) = self {
            frames.paced.hand_off(now);
        }
    }

    /// What was counted.
    pub(crate) const fn counted(&self) -> Counted {
        match self {
            Self::Plain(..) => Counted::Nothing,
            Self::Frames(frames) => Counted::Frames(frames.paced.statistics()),
            Self::Snoop(snoop) => Counted::Snoop(snoop.statistics()),
            Self::Blocks(blocks) => Counted::Blocks(blocks.statistics()),
        }
    }

    /// Bytes that wait to be sent.
    pub(crate) fn queue_len(&self) -> usize {
        match self {
            Self::Plain(out, _) => out.iter().map(Packet::packet_len).sum(),
            Self::Frames(frames) => frames.paced.arq().queue_len(),
            Self::Snoop(snoop) => snoop.queue_len(),
            Self::Blocks(_) => 0,
        }
    }

    /// Bytes of packets that are kept here.
    pub(crate) fn state_len(&self) -> usize {
        match self {
            Self::Frames(frames) => frames.paced.arq().state_len(),
            Self::Snoop(snoop) => snoop.kept_len() + snoop.queue_len(),
            Self::Plain(..) | Self::Blocks(_) => self.queue_len(),
        }
    }

    /// What the hop carries (bytes per second; zero: not known), and its shortest round trip.
    pub(crate) fn measured(&self) -> (u64, Option<Duration>) {
        match self {
            Self::Frames(frames) => (frames.paced.pace().rate(), frames.paced.pace().round_trip()),
            Self::Plain(..) | Self::Snoop(_) | Self::Blocks(_) => (0, None),
        }
    }

    /// Whether the channel is silent though something is to be answered.
    pub(crate) const fn is_silent(&self) -> bool {
        match self {
            Self::Frames(frames) => frames.paced.arq().is_silent(),
            Self::Plain(..) | Self::Snoop(_) | Self::Blocks(_) => false,
        }
    }
}

fn plain(packet: &IpPacket, to: &mut Vec<u8>) -> Kind {
    to.extend_from_slice(packet.bytes());
    Kind::Packet
}

impl Frames {
    fn poll(&mut self, now: Time, to: &mut Vec<u8>) -> Option<Kind> {
        let frame = self.paced.poll_frame(now)?;
        encode_frame(&frame, self.len_max, to);
        Some(Kind::Frame)
    }

    fn receive(&mut self, now: Time, body: Bytes) -> bool {
        decode_frame(body).is_ok_and(|frame| {
            self.paced.handle_frame(now, frame);
            true
        })
    }
}
