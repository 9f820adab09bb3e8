//! Logs that are whole, torn and damaged, and an index that is somewhere in them.

use super::*;
use crate::log::format::{Item, encode_batch};
use crate::log::writer::{LogWriter, Prepare};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use wayfs_disk::{Disk, SystemDisk};

/// Three files, each with three batches of a key, and where each batch begins.
struct Log {
    scratch: tempfile::TempDir,
    /// Of batch `n`, at `n - 1`.
    chains: Vec<Chain>,
    begins: Vec<u64>,
}

impl Log {
    fn new() -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let (directory, disk): (_, Arc<dyn Disk>) = (scratch.path().to_path_buf(), Arc::new(SystemDisk));
        let first = Prepare::of(FileNumber::FIRST, directory.clone(), Arc::clone(&disk)).create().unwrap();
        first.file.write_at(&crate::log::format::encode_header(first.number, Chain::default()), 0).unwrap();
        let mut log = LogWriter::new(disk, directory, first, Vec::new());
        let (mut chains, mut begins, mut at) = (vec![], vec![], HEADER_LEN as u64);
        for n in 1..=9_u8 {
            let last = chains.last().copied().unwrap_or_default();
            let (batch, chain) = encode_batch(&items(n), last);
            log.append(&batch).unwrap();
            chains.push(chain);
            begins.push(at);
            at += batch.len() as u64;
            if n % 3 == 0 {
                log.turn(log.prepare().create().unwrap(), chain).unwrap();
                at = HEADER_LEN as u64;
            }
        }
        std::fs::remove_file(FileNumber(4).path(scratch.path())).unwrap();
        Self { scratch, chains, begins }
    }

    fn path(&self, number: u64) -> PathBuf {
        FileNumber(number).path(self.scratch.path())
    }

    fn flip(&self, number: u64, at: u64) {
        let file = std::fs::OpenOptions::new().read(true).write(true).open(self.path(number)).unwrap();
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ 1], at).unwrap();
    }

    fn after(&self, ticket: u64) -> Chain {
        ticket.checked_sub(1).map_or_else(Chain::default, |at| self.chains[at as usize])
    }

    /// What an inspection finds from a batch on, and the batches that it hands over.
    fn inspect(&self, from: Chain) -> (Inspection, Vec<u8>) {
        let mut met = Vec::new();
        let mut meet = |it: Met<'_>| match it {
            Met::Batch(items) => met.extend(items.iter().filter_map(|(_, value)| value.map(|value| value[0]))),
            Met::Turn(_) => met.push(0),
        };
        let found = inspect((&SystemDisk, self.scratch.path()), from, &mut meet).unwrap();
        (found, met)
    }
}

fn items(n: u8) -> Vec<Item> {
    vec![(vec![1, n], Some(vec![n])), (vec![2], None)]
}

#[test]
fn history_is_read_from_where_the_index_is() {
    let log = Log::new();
    let (found, met) = log.inspect(Chain::default());
    assert_eq!(met, [1, 2, 3, 0, 4, 5, 6, 0, 7, 8, 9]);
    assert_eq!((found.last, found.gap, found.files.len(), found.idle.len()), (log.after(9), None, 3, 0));
    let (found, met) = log.inspect(log.after(4));
    assert_eq!(met, [5, 6, 0, 7, 8, 9]);
    assert_eq!(found.idle, [log.path(1)], "the index has all of it");
    let (found, met) = log.inspect(log.after(6));
    assert_eq!((met, found.idle.len()), (vec![7, 8, 9], 2));
    let (found, met) = log.inspect(log.after(9));
    assert_eq!((met, found.last, found.gap), (vec![], log.after(9), None));
}

/// A power cut brings back files that were removed: all of them, or some.
#[test]
fn files_that_come_back_do_no_harm() {
    let log = Log::new();
    std::fs::remove_file(log.path(2)).unwrap();
    let (found, met) = log.inspect(log.after(7));
    assert_eq!((met, found.idle, found.gap), (vec![8, 9], vec![log.path(1)], None));
}

#[test]
fn a_tail_is_torn_in_the_newest_file_and_damage_in_an_older_one() {
    for (number, batch) in [(3, 8), (2, 5)] {
        let log = Log::new();
        log.flip(number, log.begins[batch - 1] + 40);
        let (found, met) = log.inspect(Chain::default());
        assert_eq!(met.iter().copied().max(), Some(batch as u8 - 1), "nothing after it is handed over");
        assert_eq!(
            (found.last, found.seen),
            (log.after(batch as u64 - 1), if number == 3 { Ticket(7) } else { Ticket(9) })
        );
        let gap = found.gap.unwrap();
        assert_eq!((gap.path, gap.at), (log.path(number), log.begins[batch - 1]));
        assert_eq!((gap.later.len(), found.damage.is_some()), (3 - number as usize, number != 3));
        let last = found.files.last().unwrap();
        assert_eq!((last.number, last.end, last.len), (FileNumber(number), gap.at, gap.at));
    }
}

#[test]
fn a_new_file_may_lack_its_header_and_an_older_one_may_not() {
    let log = Log::new();
    log.flip(3, 20);
    let (found, _) = log.inspect(Chain::default());
    assert_eq!((found.last, found.damage), (log.after(6), None));
    assert_eq!(found.gap.map(|gap| gap.at), Some(0));
    assert_eq!(found.files.len(), 2);
    log.flip(2, 20);
    let (found, _) = log.inspect(Chain::default());
    assert!((found.last, found.damage.is_some()) == (log.after(3), true));
    std::fs::write(log.path(3), [0; 5000]).unwrap();
    let log = Log::new();
    std::fs::write(log.path(4), [0; 5000]).unwrap();
    let (found, _) = log.inspect(Chain::default());
    assert_eq!((found.idle, found.gap), (vec![log.path(4)], None), "it was not begun");
    // Two opens each removed one, and a power cut brought both back (the simulator found it).
    std::fs::write(log.path(5), [0; 5000]).unwrap();
    let (found, _) = log.inspect(Chain::default());
    assert_eq!((found.idle, found.gap), (vec![log.path(4), log.path(5)], None), "nor was either of two");
}

#[test]
fn what_is_missing_and_what_is_another_history_is_damage() {
    let log = Log::new();
    let other = Chain { chain_sum: 1, ..log.after(5) };
    let (found, met) = log.inspect(other);
    assert_eq!((met, found.last), (vec![], other));
    assert!(found.damage.unwrap().contains("not the one"));
    let other = Chain { chain_sum: 1, ..log.after(6) };
    assert!(log.inspect(other).0.damage.unwrap().contains("not the one"), "at the beginning of a file, too");
    std::fs::remove_file(log.path(2)).unwrap();
    let (found, _) = log.inspect(Chain::default());
    assert!((found.last, found.damage.is_some()) == (log.after(3), true), "the second file is missing");
    std::fs::remove_file(log.path(1)).unwrap();
    let (found, _) = log.inspect(log.after(2));
    assert!(found.damage.unwrap().contains("batches 3 to 6 are missing"));
    std::fs::write(log.scratch.path().join("notes"), "x").unwrap();
    assert!(matches!(
        inspect((&SystemDisk, log.scratch.path()), Chain::default(), &mut |_| ()),
        Err(OpenError::Damaged(_))
    ));
}

/// Bytes that are right, and in another place: what a disk serves of an old file, or of another.
#[test]
fn a_batch_counts_where_it_follows_and_nowhere_else() {
    let log = Log::new();
    let (eighth, ninth) = (log.begins[7], log.begins[8]);
    let mut bytes = std::fs::read(log.path(3)).unwrap();
    bytes.copy_within(ninth as usize..(2 * ninth - eighth) as usize, eighth as usize);
    std::fs::write(log.path(3), bytes).unwrap();
    let (found, met) = log.inspect(Chain::default());
    assert_eq!((found.last, met.last()), (log.after(7), Some(&7)));
    assert_eq!(found.gap.map(|gap| gap.at), Some(eighth));
}

/// An index that holds what the log lost is no loss.
#[test]
fn an_index_ahead_of_the_log_is_history_enough() {
    let log = Log::new();
    let later = log.after(9).next(5);
    let (found, met) = log.inspect(later);
    assert_eq!((met, found.last, found.gap), (vec![], later, None));
    assert_eq!(found.files.last().map(|file| file.last), Some(log.after(9)));
}
