//! The other files of a store, for the fuzzer: files of the log, the line that says the format, the marker of what is durable.

use crate::chain::Chain;
use crate::log::FileNumber;
use crate::log::format::{Item, encode_batch, encode_header};
use crate::log::inspection::{Met, inspect};
use crate::log::repair::{keep_evidence, set_aside};
use crate::{Role, directory};
use std::path::Path;
use wayfs_disk::SystemDisk;
use wayfs_types::Ticket;

/// Longest key that is forged, in bytes: the format has no longer ones.
const KEY_MAX: usize = u16::MAX as usize;

/// What somebody may have put into a log.
#[derive(Debug, Clone)]
pub enum Forged {
    /// A batch whose sums are right: keys, and values or removals. With this ticket, or the next one.
    Batch(Vec<(Vec<u8>, Option<Vec<u8>>)>, Option<u64>),
    /// Bytes.
    Noise(Vec<u8>),
}

/// Inspects a log of these parts, cut by so many bytes at its end, in an empty directory: twice, since what is cut off the first
/// time is gone the second.
///
/// # Panics
/// If a torn tail is found again after it was cut off, or other batches than before: a fault of the inspection.
pub fn inspect_journal(scratch: &Path, parts: &[Forged], cut: usize) {
    let (log, damaged) = (scratch.join("log"), scratch.join("damaged"));
    for path in [&log, &damaged] {
        std::fs::create_dir_all(path).expect("memory has room");
    }
    let mut bytes = encode_header(FileNumber::FIRST, Chain::default()).to_vec();
    let mut chain = Chain::default();
    for part in parts {
        forge(part, &mut chain, &mut bytes);
    }
    bytes.truncate(bytes.len().saturating_sub(cut));
    std::fs::write(FileNumber::FIRST.path(&log), bytes).expect("memory has room");
    let (found, batches) = look(&log);
    if let Some(gap) = &found.gap {
        keep_evidence(&SystemDisk, gap, &damaged).expect("memory has room");
        set_aside(&SystemDisk, gap, &damaged).expect("memory has room");
    }
    let (again, same) = look(&log);
    assert_eq!(again.gap, None, "what is cut off is gone");
    assert_eq!((again.last, same), (found.last, batches), "and the rest stays");
    for path in [log, damaged] {
        let _ = std::fs::remove_dir_all(path);
    }
}

fn look(log: &Path) -> (crate::log::inspection::Inspection, usize) {
    let mut batches = 0;
    let found =
        inspect((&SystemDisk, log), Chain::default(), &mut |met| batches += usize::from(matches!(met, Met::Batch(_))));
    (found.expect("what is there can be read"), batches)
}

fn forge(part: &Forged, chain: &mut Chain, bytes: &mut Vec<u8>) {
    match part {
        Forged::Noise(noise) => bytes.extend(noise),
        Forged::Batch(items, ticket) => {
            let short = |(key, value): &Item| (key[..key.len().min(KEY_MAX)].to_vec(), value.clone());
            let items: Vec<Item> = items.iter().map(short).collect();
            // Behind the last number of all a batch cannot be made: what such a file would say is in the tests of the chain.
            let ticket = ticket.map_or(chain.ticket.0, |ticket| ticket.saturating_sub(1)).min(u64::MAX - 1);
            let ticket = Ticket(ticket);
            let (batch, next) = encode_batch(&items, Chain { ticket, ..*chain });
            bytes.extend(batch);
            *chain = next;
        }
    }
}

/// Reads bytes as the line that says the format, as the marker of what is durable, as a chain record, and as `/proc/PID/status`.
pub fn read_files(scratch: &Path, bytes: &[u8]) {
    for role in [Role::Server, Role::Client] {
        let _ = directory::parse_format(scratch, bytes, role);
    }
    let _ = Chain::decode(bytes);
    let marker = scratch.join("durable");
    std::fs::write(&marker, bytes).expect("memory has room");
    let _ = crate::durable_marker::DurableMarker::read(&SystemDisk, &marker);
    let _ = directory::says_alive(&String::from_utf8_lossy(bytes));
}
