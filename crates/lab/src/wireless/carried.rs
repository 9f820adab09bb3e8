//! A segment as the hop sees it, and as bytes.

use wayfs_hop::{Flow, Packet, Sacks, TcpHeader};
use wayfs_tcp::{Flags, Segment, Seq};

/// Bytes of a segment in a block of the erasure code: its header, since payload is counted and not carried.
const CODED_LEN: usize = 64;

/// A segment on the hop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Carried(pub(crate) Segment);

impl Packet for Carried {
    fn packet_len(&self) -> usize {
        self.0.packet_len()
    }

    fn tcp(&self) -> Option<TcpHeader> {
        let segment = &self.0;
        Some(TcpHeader {
            flow: Flow(u64::from(segment.flow)),
            seq: segment.seq.number(),
            len: segment.seq_len(),
            ack: segment.ack.map(Seq::number),
            window: segment.window,
            syn: segment.flags.syn,
            rst: segment.flags.rst,
            echo: segment.echo.map(Seq::number),
            sacks: Sacks::default(),
        })
    }

    fn mark_loss(&mut self) {
        self.0.loss_notice = true;
    }
}

impl Carried {
    /// As bytes of one length.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let segment = &self.0;
        let bits = [
            segment.flags.syn,
            segment.flags.fin,
            segment.flags.rst,
            segment.ack.is_some(),
            segment.echo.is_some(),
            segment.loss_notice,
        ];
        let bits = bits.iter().enumerate().fold(0_u32, |sum, (n, bit)| sum | u32::from(*bit) << n);
        let number = |seq: Option<Seq>| seq.map_or(0, Seq::number);
        let mut numbers = vec![
            bits,
            segment.flow,
            segment.seq.number(),
            segment.len,
            number(segment.ack),
            segment.window,
            number(segment.echo),
        ];
        numbers.push(segment.sack.len() as u32);
        numbers.extend(segment.sack.iter().flat_map(|(from, to)| [from.number(), to.number()]));
        let mut bytes: Vec<u8> = numbers.into_iter().flat_map(u32::to_le_bytes).collect();
        bytes.resize(CODED_LEN, 0);
        bytes
    }

    /// Back from them; `None` if they are no segment (the filling of a block).
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let number = |n: usize| Some(u32::from_le_bytes(bytes.get(4 * n..4 * n + 4)?.try_into().ok()?));
        let bits = number(0)?;
        let bit = |n: u32| bits >> n & 1 == 1;
        let place = |n: usize| Some(Seq::new(number(n)?));
        let blocks = number(7)?.min(3) as usize;
        let sack = (0..blocks).map(|n| Some((place(8 + 2 * n)?, place(9 + 2 * n)?))).collect::<Option<Vec<_>>>()?;
        let segment = Segment {
            flow: number(1)?,
            seq: place(2)?,
            len: number(3)?,
            ack: if bit(3) { place(4) } else { None },
            window: number(5)?,
            flags: Flags { syn: bit(0), fin: bit(1), rst: bit(2) },
            sack,
            echo: if bit(4) { place(6) } else { None },
            loss_notice: bit(5),
        };
        (bytes.iter().any(|byte| *byte != 0)).then_some(Self(segment))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_survives_being_bytes_and_filling_is_none() {
        let segment = Segment {
            flow: 3,
            seq: Seq::new(u32::MAX),
            len: 1400,
            ack: Some(Seq::new(7)),
            window: 32_768,
            flags: Flags { fin: true, ..Flags::default() },
            sack: vec![(Seq::new(1), Seq::new(2)), (Seq::new(3), Seq::new(4)), (Seq::new(5), Seq::new(6))],
            echo: None,
            loss_notice: true,
        };
        let carried = Carried(segment);
        assert_eq!(Carried::from_bytes(&carried.to_bytes()), Some(carried));
        assert_eq!(Carried::from_bytes(&[0; CODED_LEN]), None);
    }
}
