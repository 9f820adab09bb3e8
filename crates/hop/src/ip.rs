//! Packets of real traffic: what the schemes must know is read out of IPv4, IPv6, TCP and its options.
//!
//! Nothing is believed that does not fit its bytes: what cannot be read whole (fragments, encrypted payload, headers that
//! say more than is there) is a packet like any other, only not one of TCP.

use crate::packet::{Flow, Packet, Sacks, Span, TcpHeader};
use bytes::Bytes;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::Range;

/// Longest packet that the hop carries, in bytes: what the lengths of IP can say.
pub const PACKET_LEN_MAX: usize = 65_535;
/// Extension headers of IPv6 that are looked through.
const EXTENSIONS_MAX: usize = 8;
/// Options of TCP that are looked at; 40 bytes hold no more.
const OPTIONS_MAX: usize = 40;
/// The third reserved bit of TCP, which says that a loss was one of the hop.
const LOSS_NOTICE: u8 = 0b0000_0010;

const TCP: u8 = 6;
const ICMP: u8 = 1;
const ICMP6: u8 = 58;
const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;

/// A packet of IPv4 or IPv6, checked to be as long as it says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IpPacket {
    bytes: Bytes,
}

/// Why bytes are no packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum IpError {
    /// Neither version 4 nor 6, or no header.
    #[error("the bytes do not begin with a header of IPv4 or IPv6")]
    Version,
    /// The header tells another length than there is.
    #[error("the packet tells another length than it has")]
    Length,
}

/// Where the payload of IP begins, and what it is.
#[derive(Debug, Clone, Copy)]
struct Payload {
    protocol: u8,
    at: usize,
    end: usize,
}

/// Where a header of each version has an address.
struct AddressAt {
    v4: usize,
    v6: usize,
}

/// Where a packet has its TCP segment.
struct TcpPlace {
    at: usize,
    header_end: usize,
    end: usize,
}

impl IpPacket {
    /// A packet out of bytes.
    ///
    /// # Errors
    /// [`IpError`] if they are none, or more or less than one.
    pub fn new(bytes: Bytes) -> Result<Self, IpError> {
        if len_told(&bytes)? == bytes.len() { Ok(Self { bytes }) } else { Err(IpError::Length) }
    }

    /// Its bytes.
    pub const fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Who sent it.
    pub fn source(&self) -> IpAddr {
        self.address(AddressAt { v4: 12, v6: 8 })
    }

    /// For whom it is.
    pub fn destination(&self) -> IpAddr {
        self.address(AddressAt { v4: 16, v6: 24 })
    }

    /// Whether it belongs to a connection of TCP: a segment or a piece of one, or an error of the way about one.
    pub fn concerns_tcp(&self) -> bool {
        let is_v4 = version(&self.bytes) == 4;
        if is_v4 && self.bytes.get(9) == Some(&TCP) {
            return true;
        }
        let Some(payload) = payload(&self.bytes) else { return false };
        let at = |offset: usize| self.bytes.get(payload.at + offset).copied();
        // Behind eight bytes an error quotes the packet that it is about.
        match payload.protocol {
            TCP => true,
            ICMP if is_v4 => matches!(at(0), Some(3 | 11 | 12)) && at(8 + 9) == Some(TCP),
            ICMP6 if !is_v4 => matches!(at(0), Some(1..=4)) && at(8 + 6) == Some(TCP),
            _ => false,
        }
    }

    /// Who asks whom, if it is the first segment of a connection.
    pub fn opening(&self) -> Option<(SocketAddr, SocketAddr)> {
        self.tcp().filter(|header| header.syn && !header.rst && header.ack.is_none())?;
        let TcpPlace { at, .. } = self.tcp_place()?;
        let (from, to) = (u16_at(&self.bytes, at)?, u16_at(&self.bytes, at + 2)?);
        Some((SocketAddr::new(self.source(), from), SocketAddr::new(self.destination(), to)))
    }

    fn address(&self, AddressAt { v4, v6 }: AddressAt) -> IpAddr {
        let v4_bytes = self.bytes.get(v4..v4 + 4).and_then(|bytes| <[u8; 4]>::try_from(bytes).ok());
        let v6_bytes = self.bytes.get(v6..v6 + 16).and_then(|bytes| <[u8; 16]>::try_from(bytes).ok());
        match (version(&self.bytes), v4_bytes, v6_bytes) {
            (6, _, Some(bytes)) => Ipv6Addr::from(bytes).into(),
            (_, Some(bytes), _) => Ipv4Addr::from(bytes).into(),
            (_, None, _) => Ipv4Addr::UNSPECIFIED.into(),
        }
    }

    fn tcp_place(&self) -> Option<TcpPlace> {
        let payload = payload(&self.bytes)?;
        if payload.protocol != TCP {
            return None;
        }
        let header_len = usize::from(*self.bytes.get(payload.at + 12)? >> 4) * 4;
        let place = TcpPlace { at: payload.at, header_end: payload.at + header_len, end: payload.end };
        (header_len >= 20 && place.header_end <= place.end).then_some(place)
    }
}

impl Packet for IpPacket {
    fn packet_len(&self) -> usize {
        self.bytes.len()
    }

    fn tcp(&self) -> Option<TcpHeader> {
        let TcpPlace { at, header_end, end } = self.tcp_place()?;
        let header = self.bytes.get(at..header_end)?;
        let flags = header[13];
        let syn = flags & SYN != 0;
        let payload = u32::try_from(end - header_end).ok()?;
        Some(TcpHeader {
            flow: self.flow(&header[..4]),
            seq: u32_at(header, 4)?,
            len: payload + u32::from(syn) + u32::from(flags & FIN != 0),
            ack: if flags & ACK == 0 { None } else { u32_at(header, 8) },
            window: u32::from(u16_at(header, 14)?),
            syn,
            rst: flags & RST != 0,
            echo: None,
            sacks: sacks(&header[20..]),
        })
    }

    fn mark_loss(&mut self) {
        let Some(TcpPlace { at, .. }) = self.tcp_place() else { return };
        self.change(at, |header| header[12] |= LOSS_NOTICE);
    }

    fn hide_ranges(&mut self) {
        let Some(TcpPlace { at, header_end, .. }) = self.tcp_place() else { return };
        // Nobody sends the option twice, but who does must not get the second one through.
        while let Some(place) = self.bytes.get(at + 20..header_end).and_then(sack_option) {
            // Options that do nothing take their place, so that nothing moves.
            self.change(at, |header| header[20 + place.start..20 + place.end].fill(1));
        }
    }
}

impl IpPacket {
    /// Changes the TCP header at a place; its checksum follows without being computed anew (RFC 1624).
    fn change(&mut self, at: usize, change: impl FnOnce(&mut [u8])) {
        let mut bytes = self.bytes.to_vec();
        let header = &mut bytes[at..];
        let header_len = (usize::from(header[12] >> 4) * 4).min(header.len());
        let header = &mut header[..header_len];
        let old = sum_of(header);
        change(header);
        let mut total = u32::from(!u16_at(header, 16).unwrap_or(0)) + u32::from(!old) + u32::from(sum_of(header));
        while total > 0xffff {
            total = (total & 0xffff) + (total >> 16);
        }
        header[16..18].copy_from_slice(&(!(total as u16)).to_be_bytes());
        self.bytes = bytes.into();
    }
}

/// The sum of a TCP header as its checksum counts it, without the checksum.
fn sum_of(header: &[u8]) -> u16 {
    let mut total: u32 = header
        .chunks_exact(2)
        .enumerate()
        .filter(|(n, _)| *n != 8)
        .map(|(_, two)| u32::from(u16::from_be_bytes([two[0], two[1]])))
        .sum();
    while total > 0xffff {
        total = (total & 0xffff) + (total >> 16);
    }
    total as u16
}

impl IpPacket {
    /// The same for both directions. What two connections could mix up by it is soft state only.
    fn flow(&self, ports: &[u8]) -> Flow {
        let end = |address: IpAddr, port: &[u8]| {
            let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
            let mut add = |byte: u8| hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
            match address {
                IpAddr::V4(v4) => v4.octets().into_iter().for_each(&mut add),
                IpAddr::V6(v6) => v6.octets().into_iter().for_each(&mut add),
            }
            port.iter().copied().for_each(&mut add);
            hash
        };
        let (one, two) = (end(self.source(), &ports[..2]), end(self.destination(), &ports[2..4]));
        Flow(one.min(two).rotate_left(23).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ one.max(two))
    }
}

fn version(bytes: &[u8]) -> u8 {
    bytes.first().map_or(0, |first| first >> 4)
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// The length that a header tells.
fn len_told(bytes: &[u8]) -> Result<usize, IpError> {
    match version(bytes) {
        4 => {
            let header_len = usize::from(bytes[0] & 15) * 4;
            let told = usize::from(u16_at(bytes, 2).ok_or(IpError::Length)?);
            if header_len < 20 || told < header_len { Err(IpError::Length) } else { Ok(told) }
        }
        6 => Ok(40 + usize::from(u16_at(bytes, 4).ok_or(IpError::Length)?)),
        _ => Err(IpError::Version),
    }
}

/// What is inside, if it can be read: the first of several fragments is not read either.
fn payload(bytes: &[u8]) -> Option<Payload> {
    let end = len_told(bytes).ok().filter(|told| *told <= bytes.len())?;
    if version(bytes) == 4 {
        let is_fragment = u16_at(bytes, 6)? & 0x3fff != 0;
        return (!is_fragment).then_some(Payload { protocol: *bytes.get(9)?, at: usize::from(bytes[0] & 15) * 4, end });
    }
    let (mut protocol, mut at) = (*bytes.get(6)?, 40);
    for _ in 0..EXTENSIONS_MAX {
        match protocol {
            // Options for each hop, routing, options for the destination.
            0 | 43 | 60 => {
                protocol = *bytes.get(at)?;
                at += 8 + 8 * usize::from(*bytes.get(at + 1)?);
            }
            _ => return (at <= end).then_some(Payload { protocol, at, end }),
        }
    }
    None
}

/// The ranges that a selective acknowledgement (RFC 2018) names.
fn sacks(options: &[u8]) -> Sacks {
    let mut found = Sacks::default();
    let body = sack_option(options).and_then(|place| options.get(place.start + 2..place.end)).unwrap_or_default();
    for range in body.chunks_exact(8) {
        if let (Some(from), Some(to)) = (u32_at(range, 0), u32_at(range, 4)) {
            found.push(Span { from, to });
        }
    }
    found
}

/// Where the option with those ranges is. Options that make no sense end the search.
fn sack_option(options: &[u8]) -> Option<Range<usize>> {
    let mut at = 0;
    for _ in 0..OPTIONS_MAX {
        match *options.get(at)? {
            0 => return None,
            1 => at += 1,
            kind => {
                let len = usize::from(*options.get(at + 1)?);
                if len < 2 || at + len > options.len() {
                    return None;
                }
                if kind == 5 {
                    return Some(at..at + len);
                }
                at += len;
            }
        }
    }
    None
}

#[cfg(test)]
mod tests;
