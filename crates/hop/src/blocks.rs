//! `fec:n,k` on real traffic: packets go as they are, and behind every `k` of them `n - k` sums from which lost ones are computed.
//!
//! Packets of a block have different lengths, so each is taken with its length before it and zeros behind it. A block that does not
//! fill in time is closed with what there is; its sums say how many packets that were.

use crate::code::{Code, CodeError, Shape};
use crate::ip::IpPacket;
use bytes::{Buf, BufMut, Bytes};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use wayfs_types::Time;

/// A block is closed after so long.
const CLOSE_AFTER: Duration = Duration::from_millis(50);
/// Blocks that are kept for what may still come.
const BLOCKS_MAX: usize = 16;
/// Bytes before a packet or a sum: block u32, row u8, packets of the block u8 (zero in a packet).
pub(crate) const PIECE_HEADER_LEN: usize = 6;

/// A packet or a sum on the air.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Piece {
    block: u32,
    row: u8,
    /// In a sum: packets that the block has.
    count: u8,
    body: Bytes,
}

/// What it did.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct BlockStatistics {
    /// Packets sent.
    pub sent: u64,
    /// Sums sent.
    pub sums: u64,
    /// Packets that were lost and computed.
    pub computed: u64,
    /// Packets that were lost and could not be computed.
    pub lost: u64,
}

/// Both directions of one end.
#[derive(Debug)]
pub struct Blocks {
    code: Code,
    n: u8,
    k: u8,
    block: u32,
    open: Vec<Vec<u8>>,
    open_since: Option<Time>,
    out: VecDeque<Piece>,
    arrived: BTreeMap<u32, Arrived>,
    packets: VecDeque<IpPacket>,
    statistics: BlockStatistics,
}

/// What came of a block.
#[derive(Debug, Default)]
struct Arrived {
    rows: BTreeMap<u8, Bytes>,
    count: Option<u8>,
    is_done: bool,
}

impl Blocks {
    /// Nothing is in it.
    ///
    /// # Errors
    /// [`CodeError::Shape`] unless 0 < k < n.
    pub fn new(shape: Shape) -> Result<Self, CodeError> {
        Ok(Self {
            code: Code::new(shape)?,
            n: shape.n,
            k: shape.k,
            block: 0,
            open: Vec::new(),
            open_since: None,
            out: VecDeque::new(),
            arrived: BTreeMap::new(),
            packets: VecDeque::new(),
            statistics: BlockStatistics::default(),
        })
    }

    /// What it did so far.
    pub const fn statistics(&self) -> BlockStatistics {
        self.statistics
    }

    /// A packet is to be sent.
    pub fn send(&mut self, now: Time, packet: &IpPacket) {
        let row = self.open.len() as u8;
        self.out.push_back(Piece { block: self.block, row, count: 0, body: packet.bytes().clone() });
        self.statistics.sent += 1;
        self.open.push(with_length(packet.bytes()));
        self.open_since.get_or_insert(now);
        if self.open.len() == usize::from(self.k) {
            self.close();
        }
    }

    /// Sends the sums of what there is.
    fn close(&mut self) {
        let count = self.open.len() as u8;
        let len = self.open.iter().map(Vec::len).max().unwrap_or(0);
        self.open.resize(usize::from(self.k), Vec::new());
        for packet in &mut self.open {
            packet.resize(len, 0);
        }
        // A block of k packets of one length has sums.
        for (row, sum) in (self.k..self.n).zip(self.code.encode(&self.open).unwrap_or_default()) {
            self.out.push_back(Piece { block: self.block, row, count, body: sum.into() });
            self.statistics.sums += 1;
        }
        self.open.clear();
        self.open_since = None;
        self.block = self.block.wrapping_add(1);
    }

    /// What goes over the air, as bytes behind those in `to`; call until false.
    pub fn poll_piece(&mut self, to: &mut Vec<u8>) -> bool {
        let Some(piece) = self.out.pop_front() else { return false };
        to.put_u32_le(piece.block);
        to.put_u8(piece.row);
        to.put_u8(piece.count);
        to.put_slice(&piece.body);
        true
    }

    /// Something came over the air. What makes no sense is dropped.
    pub fn handle_piece(&mut self, mut bytes: Bytes) {
        if bytes.len() < PIECE_HEADER_LEN {
            return;
        }
        let (block, row, count) = (bytes.get_u32_le(), bytes.get_u8(), bytes.get_u8());
        let is_sum = row >= self.k;
        if row >= self.n || count > self.k || is_sum == (count == 0) {
            return;
        }
        if !is_sum {
            let Ok(packet) = IpPacket::new(bytes.clone()) else { return };
            self.packets.push_back(packet);
        }
        let arrived = self.arrived.entry(block).or_default();
        if is_sum {
            arrived.count = Some(arrived.count.unwrap_or(count));
        }
        arrived.rows.entry(row).or_insert(bytes);
        self.compute(block);
        while self.arrived.len() > BLOCKS_MAX {
            // Numbers wrap around after four billion blocks; then a few are dropped early, which costs what is lost in them.
            if let Some((_, old)) = self.arrived.pop_first() {
                self.statistics.lost += missing(&old).count() as u64;
            }
        }
    }

    /// Computes what is missing of a block, if enough came.
    fn compute(&mut self, block: u32) {
        let k = usize::from(self.k);
        let Some(arrived) = self.arrived.get_mut(&block).filter(|arrived| !arrived.is_done) else { return };
        let Some(count) = arrived.count else { return };
        let absent = k - usize::from(count);
        if arrived.rows.len() + absent < k {
            return;
        }
        arrived.is_done = true;
        let gone: Vec<u8> = missing(arrived).collect();
        let len = arrived.rows.range(self.k..).next().map_or(0, |(_, sum)| sum.len());
        let mut rows: Vec<(u8, Vec<u8>)> = Vec::with_capacity(k);
        for (row, bytes) in &arrived.rows {
            let mut bytes = if *row < self.k { with_length(bytes) } else { bytes.to_vec() };
            bytes.resize(len, 0);
            rows.push((*row, bytes));
        }
        // Rows of a block that was closed early are zeros, and known.
        rows.extend((count..self.k).filter(|row| !arrived.rows.contains_key(row)).map(|row| (row, vec![0; len])));
        rows.truncate(k);
        for bytes in arrived.rows.values_mut() {
            *bytes = Bytes::new();
        }
        let Ok(all) = self.code.decode(&rows) else { return };
        for row in gone {
            let computed = all.get(usize::from(row)).and_then(|bytes| without_length(bytes));
            if let Some(packet) = computed {
                self.packets.push_back(packet);
                self.statistics.computed += 1;
            }
        }
    }

    /// A packet that arrived or was computed; call until `None`.
    pub fn poll_packet(&mut self) -> Option<IpPacket> {
        self.packets.pop_front()
    }

    /// When the open block is closed.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.open_since.map(|since| since + CLOSE_AFTER)
    }

    /// Closes the open block if its time has come.
    pub fn handle_timeout(&mut self, now: Time) {
        if self.poll_timeout().is_some_and(|at| at <= now) {
            self.close();
        }
    }
}

/// Packets of a block that did not come, as far as is known.
fn missing(arrived: &Arrived) -> impl Iterator<Item = u8> + '_ {
    (0..arrived.count.unwrap_or(0)).filter(|row| !arrived.rows.contains_key(row))
}

fn with_length(packet: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(2 + packet.len());
    bytes.put_u16_le(u16::try_from(packet.len()).unwrap_or(u16::MAX));
    bytes.put_slice(packet);
    bytes
}

fn without_length(bytes: &[u8]) -> Option<IpPacket> {
    let len = usize::from(u16::from_le_bytes(bytes.get(..2)?.try_into().ok()?));
    IpPacket::new(Bytes::copy_from_slice(bytes.get(2..2 + len)?)).ok()
}

#[cfg(test)]
mod tests;
