//! Frames as bytes (`docs/format/link.md`). Little-endian; numbers have 48 bits, which last for thousands of years.
//!
//! ```text
//! flags u8 (1 packets, 2 report, 4 wants a report, 8 request, 16 the report's ranges are cut)
//! | order 6 | number 6 | floor 6 | backlog u16
//! | request: bytes u32
//! | report: next 6, order 6, room u32, count u8, ranges of { begin u16 (from `next`), len u16 }
//! | packets, to the end: { len u16, bytes }
//! ```

use crate::frame::{Frame, Report};
use crate::ip::IpPacket;
use bytes::{Buf, BufMut, Bytes};

/// Bytes of a frame without report, request and packets.
pub const FRAME_HEADER_LEN: usize = 21;
/// Bytes before each packet.
pub const PACKET_HEADER_LEN: usize = 2;
/// Bytes of a report without ranges.
pub(crate) const REPORT_LEN: usize = 17;
const RANGE_LEN: usize = 4;
/// Most ranges that are read; an end of ours sends 16.
const RANGES_MAX: usize = 64;
/// Most packets that are read: small ones that share a frame.
const PACKETS_MAX: usize = 128;

const PACKETS: u8 = 1;
const REPORT: u8 = 2;
const WANTS_REPORT: u8 = 4;
const REQUEST: u8 = 8;
const CUT: u8 = 16;
const ALL: u8 = PACKETS | REPORT | WANTS_REPORT | REQUEST | CUT;

/// Why bytes are no frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// They end too early.
    #[error("the frame is cut short")]
    Short,
    /// A flag that this version does not know, or flags that contradict each other.
    #[error("the frame has flags ({0:#04x}) that make no sense")]
    Flags(u8),
    /// More ranges or packets than a frame may have.
    #[error("the frame says that it holds more than a frame can")]
    TooMany,
    /// Something in it is no packet of IP.
    #[error("the frame holds something that is no packet: {0}")]
    Packet(#[from] crate::ip::IpError),
}

/// Writes a frame behind what is in `to`. Ranges of its report that do not fit `len_max` bytes of frame are left out.
pub fn encode_frame(frame: &Frame<IpPacket>, len_max: usize, to: &mut Vec<u8>) {
    let packets: usize = frame.packets.iter().map(|packet| PACKET_HEADER_LEN + packet.bytes().len()).sum();
    let request = if frame.request.is_some() { 4 } else { 0 };
    let room = len_max.saturating_sub(FRAME_HEADER_LEN + REPORT_LEN + request + packets);
    let fits = |report: &Report| report.have.len().min(RANGES_MAX).min(room / RANGE_LEN);
    let cut = frame.report.as_ref().is_some_and(|report| report.told != u64::MAX || fits(report) < report.have.len());
    let flag = |set: bool, flag: u8| if set { flag } else { 0 };
    to.put_u8(
        flag(!frame.packets.is_empty(), PACKETS)
            | flag(frame.report.is_some(), REPORT)
            | flag(frame.wants_report, WANTS_REPORT)
            | flag(frame.request.is_some(), REQUEST)
            | flag(cut, CUT),
    );
    for number in [frame.order, frame.number, frame.floor] {
        to.put_uint_le(number & NUMBER_MAX, 6);
    }
    to.put_u16_le(u16::try_from(frame.backlog).unwrap_or(u16::MAX));
    if let Some(request) = frame.request {
        to.put_u32_le(request);
    }
    if let Some(report) = &frame.report {
        encode_report(report, fits(report), to);
    }
    for packet in &frame.packets {
        to.put_u16_le(u16::try_from(packet.bytes().len()).unwrap_or(u16::MAX));
        to.put_slice(packet.bytes());
    }
}

const NUMBER_MAX: u64 = (1 << 48) - 1;

fn encode_report(report: &Report, count: usize, to: &mut Vec<u8>) {
    to.put_uint_le(report.next & NUMBER_MAX, 6);
    to.put_uint_le(report.order & NUMBER_MAX, 6);
    to.put_u32_le(report.room);
    to.put_u8(count as u8);
    for (from, end) in report.have.iter().take(count) {
        // Windows are shorter than 65,536 frames, so both fit.
        to.put_u16_le(u16::try_from(from.saturating_sub(report.next)).unwrap_or(u16::MAX));
        to.put_u16_le(u16::try_from(end.saturating_sub(*from)).unwrap_or(u16::MAX));
    }
}

/// Reads a frame that fills its bytes.
///
/// # Errors
/// [`FrameError`].
pub fn decode_frame(mut bytes: Bytes) -> Result<Frame<IpPacket>, FrameError> {
    if bytes.len() < FRAME_HEADER_LEN {
        return Err(FrameError::Short);
    }
    let flags = bytes.get_u8();
    if flags & !ALL != 0 || flags & CUT != 0 && flags & REPORT == 0 {
        return Err(FrameError::Flags(flags));
    }
    let (order, number, floor) = (bytes.get_uint_le(6), bytes.get_uint_le(6), bytes.get_uint_le(6));
    let backlog = u32::from(bytes.get_u16_le());
    let request = if flags & REQUEST == 0 { None } else { Some(take_u32(&mut bytes)?) };
    let report = if flags & REPORT == 0 { None } else { Some(decode_report(&mut bytes, flags)?) };
    let mut packets = Vec::new();
    while bytes.has_remaining() {
        if packets.len() == PACKETS_MAX {
            return Err(FrameError::TooMany);
        }
        if bytes.remaining() < PACKET_HEADER_LEN {
            return Err(FrameError::Short);
        }
        let len = usize::from(bytes.get_u16_le());
        if bytes.remaining() < len {
            return Err(FrameError::Short);
        }
        packets.push(IpPacket::new(bytes.split_to(len))?);
    }
    if packets.is_empty() == (flags & PACKETS != 0) {
        return Err(FrameError::Flags(flags));
    }
    let wants_report = flags & WANTS_REPORT != 0;
    Ok(Frame { order, number, floor, backlog, packets, report, wants_report, request })
}

fn take_u32(bytes: &mut Bytes) -> Result<u32, FrameError> {
    if bytes.remaining() < 4 { Err(FrameError::Short) } else { Ok(bytes.get_u32_le()) }
}

fn decode_report(bytes: &mut Bytes, flags: u8) -> Result<Report, FrameError> {
    if bytes.remaining() < REPORT_LEN {
        return Err(FrameError::Short);
    }
    let (next, order) = (bytes.get_uint_le(6), bytes.get_uint_le(6));
    let room = bytes.get_u32_le();
    let count = usize::from(bytes.get_u8());
    if count > RANGES_MAX {
        return Err(FrameError::TooMany);
    }
    if bytes.remaining() < count * RANGE_LEN {
        return Err(FrameError::Short);
    }
    let have: Vec<(u64, u64)> = (0..count)
        .map(|_| {
            let from = next + u64::from(bytes.get_u16_le());
            (from, from + u64::from(bytes.get_u16_le()))
        })
        .collect();
    let told = if flags & CUT != 0 { have.last().map_or(next, |(_, end)| *end) } else { u64::MAX };
    Ok(Report { next, order, have, told, room })
}

#[cfg(test)]
mod tests;
