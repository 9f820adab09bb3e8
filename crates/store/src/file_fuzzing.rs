//! The other files of a store, for the fuzzer: journals, the line that says the format, the marker of what is durable.

use crate::chain::{BatchSum, CHAIN_KEY, Chain};
use crate::journal_inspection::{Tails, inspect};
use crate::{Role, directory};
use std::path::Path;
use wayfs_types::Ticket;
use xxhash_rust::xxh3::xxh3_64;

/// What somebody may have put into a journal.
#[derive(Debug, Clone)]
pub enum Forged {
    /// A batch whose sums are right: keys, and values or removals. With a chain record of this ticket, or without.
    Batch(Vec<(Vec<u8>, Option<Vec<u8>>)>, Option<u64>),
    /// Bytes.
    Noise(Vec<u8>),
}

/// Inspects a journal of these parts, cut by so many bytes at its end, in an empty directory: twice, since what is cut off the first
/// time is gone the second.
///
/// # Panics
/// If a torn tail is found again after it was cut off: a fault of the inspection.
pub fn inspect_journal(scratch: &Path, parts: &[Forged], cut: usize) {
    let mut bytes = Vec::new();
    let mut chain = Chain::default();
    for (at, part) in parts.iter().enumerate() {
        forge(part, at as u64 + 1, &mut chain, &mut bytes);
    }
    bytes.truncate(bytes.len().saturating_sub(cut));
    std::fs::write(scratch.join("0.jnl"), bytes).expect("memory has room");
    let damaged = scratch.join("damaged");
    let Ok(_) = inspect(scratch, &damaged, Ticket(0), Tails::Cut) else { return };
    let again = inspect(scratch, &damaged, Ticket(0), Tails::Leave).expect("what was read can be read again");
    assert_eq!(again.torn_bytes, 0, "what is cut off is gone");
    let _ = std::fs::remove_dir_all(damaged);
}

fn forge(part: &Forged, seqno: u64, chain: &mut Chain, bytes: &mut Vec<u8>) {
    match part {
        Forged::Noise(noise) => bytes.extend(noise),
        Forged::Batch(items, ticket) => {
            let mut sum = BatchSum::default();
            let mut body = Vec::new();
            for (key, value) in items {
                sum.add(key, value.as_deref());
                item(key, value.as_deref(), &mut body);
            }
            if let Some(ticket) = ticket {
                *chain = Chain { ticket: Ticket(ticket.saturating_sub(1)), ..*chain }.next(sum.finish());
                item(&CHAIN_KEY, Some(&chain.encode()), &mut body);
            }
            let count = items.len() as u32 + u32::from(ticket.is_some());
            bytes.push(1);
            bytes.extend(count.to_le_bytes());
            bytes.extend(seqno.to_le_bytes());
            bytes.extend(&body);
            bytes.push(3);
            bytes.extend(xxh3_64(&body).to_le_bytes());
            bytes.extend(b"FJL\x03");
        }
    }
}

fn item(key: &[u8], value: Option<&[u8]>, body: &mut Vec<u8>) {
    let key = &key[..key.len().min(usize::from(u16::MAX))];
    body.extend([2, u8::from(value.is_none()), 0]);
    body.extend(0_u64.to_le_bytes());
    body.extend((key.len() as u16).to_le_bytes());
    let value = value.unwrap_or_default();
    body.extend((value.len() as u32).to_le_bytes());
    body.extend((value.len() as u32).to_le_bytes());
    body.extend(key);
    body.extend(value);
}

/// Reads bytes as the line that says the format, as the marker of what is durable, as a chain record, and as `/proc/PID/status`.
pub fn read_files(scratch: &Path, bytes: &[u8]) {
    for role in [Role::Server, Role::Client] {
        let _ = directory::parse_format(scratch, bytes, role);
    }
    let _ = Chain::decode(bytes);
    let marker = scratch.join("durable");
    std::fs::write(&marker, bytes).expect("memory has room");
    let _ = crate::durable_marker::DurableMarker::read(&marker);
    let _ = directory::says_alive(&String::from_utf8_lossy(bytes));
}
