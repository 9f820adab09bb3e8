//! The chain record: which batches a store holds.
//!
//! It has the number of a batch, a checksum of the batch, and a checksum of all batches so far. One stands in each batch
//! of the log, in the head of each of its files, in the tables with what a checkpoint wrote, and in the marker of what is
//! durable: where any two of these part, history was cut, mixed or replaced.

use wayfs_types::Ticket;

/// Key of the chain record; no other key begins with this byte.
pub(crate) const CHAIN_KEY: [u8; 1] = [0];
/// First byte of all other keys.
pub(crate) const TABLE_PREFIX: u8 = 1;
/// First byte after all keys.
pub(crate) const END_PREFIX: u8 = 2;

const VERSION: u8 = 1;
/// Bytes of a chain record.
pub(crate) const LEN: usize = 21;

/// Where a chain of batches stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Chain {
    /// The last batch.
    pub(crate) ticket: Ticket,
    /// Checksum of the changes in the last batch.
    pub(crate) batch_sum: u32,
    /// Checksum of the whole chain up to the last batch.
    pub(crate) chain_sum: u32,
}

impl Chain {
    /// The chain with one more batch.
    pub(crate) fn next(self, batch_sum: u32) -> Self {
        let ticket = Ticket(self.ticket.0.checked_add(1).expect("nobody writes 2^64 batches"));
        Self { ticket, batch_sum, chain_sum: self.linked(ticket, batch_sum) }
    }

    /// Checksum of the chain with one more batch.
    fn linked(self, ticket: Ticket, batch_sum: u32) -> u32 {
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&self.chain_sum.to_le_bytes());
        hasher.update(&ticket.0.to_le_bytes());
        hasher.update(&batch_sum.to_le_bytes());
        hasher.finalize()
    }

    /// Whether a chain that was read is this one with one more batch. Behind the last number of all there is none, whatever a file says.
    pub(crate) fn is_followed_by(self, read: Self) -> bool {
        self.ticket.0 < u64::MAX && self.next(read.batch_sum) == read
    }

    /// `version, ticket, batch_sum, chain_sum, crc of these`.
    pub(crate) fn encode(self) -> [u8; LEN] {
        let mut bytes = [0; LEN];
        bytes[0] = VERSION;
        bytes[1..9].copy_from_slice(&self.ticket.0.to_le_bytes());
        bytes[9..13].copy_from_slice(&self.batch_sum.to_le_bytes());
        bytes[13..17].copy_from_slice(&self.chain_sum.to_le_bytes());
        let sum = crc32fast::hash(&bytes[..17]);
        bytes[17..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Reads a chain record; `None` if it is damaged or of another version.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; LEN] = bytes.try_into().ok()?;
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        if bytes[0] != VERSION || word(17) != crc32fast::hash(&bytes[..17]) {
            return None;
        }
        let ticket = u64::from(word(1)) | u64::from(word(5)) << 32;
        Some(Self { ticket: Ticket(ticket), batch_sum: word(9), chain_sum: word(13) })
    }
}

/// The checksum of the changes of a batch, in their order.
#[derive(Default)]
pub(crate) struct BatchSum(crc32fast::Hasher);

impl BatchSum {
    /// Adds a change; `None` is a removal. Keys and values are as stored.
    pub(crate) fn add(&mut self, key: &[u8], value: Option<&[u8]>) {
        self.0.update(&(key.len() as u64).to_le_bytes());
        self.0.update(key);
        let len = value.map_or(u64::MAX, |value| value.len() as u64);
        self.0.update(&len.to_le_bytes());
        self.0.update(value.unwrap_or_default());
    }

    pub(crate) fn finish(self) -> u32 {
        self.0.finalize()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_record_is_as_drawn_and_any_change_shows() {
        let mut sum = BatchSum::default();
        sum.add(b"\x01key", Some(b"value"));
        sum.add(b"\x01old", None);
        let chain = Chain::default().next(sum.finish());
        let bytes = chain.encode();
        assert_eq!(bytes, GOLDEN);
        assert_eq!(Chain::decode(&bytes), Some(chain));
        for at in 0..bytes.len() {
            let mut changed = bytes;
            changed[at] ^= 4;
            assert_eq!(Chain::decode(&changed), None, "byte {at}");
        }
        assert_eq!(Chain::decode(&bytes[1..]), None);
    }

    /// The fuzzer found it: a file that says so had a store add one to the highest number.
    #[test]
    fn nothing_follows_the_last_number_of_all() {
        let last = Chain { ticket: Ticket(u64::MAX), batch_sum: 1, chain_sum: 2 };
        let chain_sum = last.linked(Ticket(0), 3);
        assert!(!last.is_followed_by(Chain { ticket: Ticket(0), batch_sum: 3, chain_sum }));
        let before = Chain { ticket: Ticket(u64::MAX - 1), ..last };
        assert!(before.is_followed_by(before.next(3)));
    }

    const GOLDEN: [u8; LEN] = [1, 1, 0, 0, 0, 0, 0, 0, 0, 233, 38, 133, 217, 164, 53, 82, 89, 111, 126, 216, 96];
}
