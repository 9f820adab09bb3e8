//! The bytes of a log file: a header, then batches, then zeros. `docs/format/store.md` draws them.

use super::FileNumber;
use crate::chain::{self, BatchSum, Chain};
use xxhash_rust::xxh3::Xxh3;

/// Bytes of a header.
pub(crate) const HEADER_LEN: usize = 41 + 4;
/// Bytes in front of the changes of a batch.
pub(crate) const HEAD_LEN: usize = 8 + chain::LEN + 8;
/// Most bytes that a change takes beside its key and value.
pub(crate) const CHANGE_LEN: usize = 7;

const FILE_MAGIC: [u8; 8] = *b"WAYFSLOG";
const BATCH_MAGIC: [u8; 4] = *b"WBat";
const VERSION: u32 = 1;
const REMOVAL: u8 = 0;
const PUT: u8 = 1;

/// A key and its new value as the index stores them; no value for a removal.
pub(crate) type Item = (Vec<u8>, Option<Vec<u8>>);
/// The same, in the buffer of a batch that was read.
pub(crate) type ItemRef<'b> = (&'b [u8], Option<&'b [u8]>);

/// The header of a file: its number, and the chain at the last batch before it.
pub(crate) fn encode_header(number: FileNumber, before: Chain) -> [u8; HEADER_LEN] {
    let mut bytes = [0; HEADER_LEN];
    bytes[..8].copy_from_slice(&FILE_MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes[12..20].copy_from_slice(&number.0.to_le_bytes());
    bytes[20..41].copy_from_slice(&before.encode());
    let sum = crc32fast::hash(&bytes[..41]);
    bytes[41..].copy_from_slice(&sum.to_le_bytes());
    bytes
}

/// Reads a header; `None` if it is damaged, or of another file or version.
pub(crate) fn decode_header(number: FileNumber, bytes: &[u8; HEADER_LEN]) -> Option<Chain> {
    let before = Chain::decode(&bytes[20..41])?;
    (*bytes == encode_header(number, before)).then_some(before)
}

/// A batch as it is written, and the chain with it.
pub(crate) fn encode_batch(items: &[Item], last: Chain) -> (Vec<u8>, Chain) {
    let len = |(key, value): &Item| CHANGE_LEN + key.len() + value.as_ref().map_or(0, Vec::len);
    let mut bytes = Vec::with_capacity(HEAD_LEN + items.iter().map(len).sum::<usize>());
    bytes.resize(HEAD_LEN, 0);
    let mut sum = BatchSum::default();
    for (key, value) in items {
        sum.add(key, value.as_deref());
        encode_item(key, value.as_deref(), &mut bytes);
    }
    let next = last.next(sum.finish());
    let body_len = u32::try_from(bytes.len() - HEAD_LEN).expect("a batch is bounded to less than 4 GiB");
    bytes[..4].copy_from_slice(&BATCH_MAGIC);
    bytes[4..8].copy_from_slice(&body_len.to_le_bytes());
    bytes[8..HEAD_LEN - 8].copy_from_slice(&next.encode());
    let sum = batch_sum(&bytes[..HEAD_LEN - 8], &bytes[HEAD_LEN..]);
    bytes[HEAD_LEN - 8..HEAD_LEN].copy_from_slice(&sum);
    (bytes, next)
}

fn encode_item(key: &[u8], value: Option<&[u8]>, bytes: &mut Vec<u8>) {
    let key_len = u16::try_from(key.len()).expect("a key is bounded to less than 64 KiB");
    bytes.push(if value.is_some() { PUT } else { REMOVAL });
    bytes.extend_from_slice(&key_len.to_le_bytes());
    if let Some(value) = value {
        let len = u32::try_from(value.len()).expect("a value is bounded to less than 4 GiB");
        bytes.extend_from_slice(&len.to_le_bytes());
    }
    bytes.extend_from_slice(key);
    bytes.extend_from_slice(value.unwrap_or_default());
}

/// What stands in front of the changes of a batch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BatchHead {
    bytes: [u8; HEAD_LEN],
    /// Bytes of the changes. Nothing vouches for it before [`BatchHead::items`] did.
    pub(crate) body_len: u32,
    /// The chain with the batch.
    pub(crate) chain: Chain,
}

impl BatchHead {
    /// Reads a head; `None` if there is none.
    pub(crate) fn decode(bytes: &[u8; HEAD_LEN]) -> Option<Self> {
        let body_len = u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
        let chain = Chain::decode(&bytes[8..HEAD_LEN - 8])?;
        (bytes[..4] == BATCH_MAGIC).then_some(Self { bytes: *bytes, body_len, chain })
    }

    /// The changes of the batch, if its bytes are as they were written.
    pub(crate) fn items<'b>(&self, body: &'b [u8]) -> Option<Vec<ItemRef<'b>>> {
        if batch_sum(&self.bytes[..HEAD_LEN - 8], body) != self.bytes[HEAD_LEN - 8..] {
            return None;
        }
        let (mut items, mut rest, mut sum) = (Vec::new(), body, BatchSum::default());
        while !rest.is_empty() {
            let (key, value) = decode_item(&mut rest)?;
            sum.add(key, value);
            items.push((key, value));
        }
        (sum.finish() == self.chain.batch_sum).then_some(items)
    }
}

fn decode_item<'b>(rest: &mut &'b [u8]) -> Option<ItemRef<'b>> {
    let [kind] = take(rest, 1)? else { return None };
    let key_len = usize::from(u16::from_le_bytes(take(rest, 2)?.try_into().ok()?));
    match *kind {
        REMOVAL => Some((take(rest, key_len)?, None)),
        PUT => {
            let len = u32::from_le_bytes(take(rest, 4)?.try_into().ok()?);
            let key = take(rest, key_len)?;
            Some((key, Some(take(rest, len as usize)?)))
        }
        _ => None,
    }
}

fn take<'b>(rest: &mut &'b [u8], len: usize) -> Option<&'b [u8]> {
    let (taken, left) = rest.split_at_checked(len)?;
    *rest = left;
    Some(taken)
}

fn batch_sum(head: &[u8], body: &[u8]) -> [u8; 8] {
    let mut sum = Xxh3::new();
    sum.update(head);
    sum.update(body);
    sum.digest().to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use wayfs_types::Ticket;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn items() -> Vec<Item> {
        vec![(b"\x01key".to_vec(), Some(b"value".to_vec())), (b"\x01old".to_vec(), None)]
    }

    /// The examples of `docs/format/store.md`.
    #[test]
    fn header_and_batch_are_as_drawn() {
        let page = include_str!("../../../../docs/format/store.md");
        let page: String = page.split_whitespace().collect();
        let header = encode_header(FileNumber(3), Chain::default());
        assert!(page.contains(&hex(&header)), "header {}", hex(&header));
        let (batch, _) = encode_batch(&items(), Chain::default());
        assert!(page.contains(&hex(&batch)), "batch {}", hex(&batch));
    }

    #[test]
    fn a_header_reads_back_and_any_change_shows() {
        let before = Chain { ticket: Ticket(7), batch_sum: 1, chain_sum: 2 };
        let bytes = encode_header(FileNumber(3), before);
        assert_eq!(decode_header(FileNumber(3), &bytes), Some(before));
        assert_eq!(decode_header(FileNumber(4), &bytes), None, "it is another file's");
        for at in 0..bytes.len() {
            let mut changed = bytes;
            changed[at] ^= 4;
            assert_eq!(decode_header(FileNumber(3), &changed), None, "byte {at}");
        }
    }

    #[test]
    fn a_batch_reads_back_and_any_change_shows() {
        let last = Chain { ticket: Ticket(7), batch_sum: 1, chain_sum: 2 };
        let (bytes, chain) = encode_batch(&items(), last);
        let read = |bytes: &[u8]| -> Option<(Chain, Vec<Item>)> {
            let (head, body) = bytes.split_first_chunk::<HEAD_LEN>()?;
            let head = BatchHead::decode(head).filter(|head| head.body_len as usize == body.len())?;
            let items = head.items(body)?;
            let owned = |(key, value): ItemRef<'_>| (key.to_vec(), value.map(<[u8]>::to_vec));
            Some((head.chain, items.into_iter().map(owned).collect()))
        };
        assert_eq!(read(&bytes), Some((chain, items())));
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 4;
            assert_eq!(read(&changed), None, "byte {at}");
        }
        assert_eq!(read(&bytes[..bytes.len() - 1]), None);
    }
}
