//! Zeros ahead of the engine's journal, so that a sync has only bytes to write.
//!
//! The engine makes its journals 64 MiB long and writes them from the front, into a hole. Each sync then also makes the file
//! system write down which blocks it gave: about half of what a small sync takes (append 140 to 200 us, overwrite 85 to
//! 105), and two stores on one file system wait for each other there. Zeros read like a hole, so nothing that
//! reads a journal sees a difference.
//!
//! Only holes within the length of a journal are filled. One that was opened again has none: the engine cuts it behind the
//! last batch and appends.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Zeros written at a time: 200 small commits.
const FILL_LEN: u64 = 1 << 20;
/// With less left, more is written.
const LEFT_MIN: u64 = 128 << 10;
/// Who writes more between two looks syncs so much at a time that this saves nothing.
const BULK_MIN: u64 = 256 << 10;
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// How far a journal was filled.
#[derive(Debug, Default)]
pub(crate) struct JournalRoom {
    journal_id: Option<u64>,
    /// Up to here; beyond may be data.
    filled_until: u64,
    /// Bytes that had been committed when it was filled, and at the last look.
    filled_at: u64,
    looked_at: u64,
}

impl JournalRoom {
    /// Whether to fill now, with so many bytes committed in all.
    pub(crate) fn is_wanted(&mut self, journal_id: u64, committed: u64) -> bool {
        let since_look = committed - self.looked_at;
        self.looked_at = committed;
        let is_short = self.journal_id != Some(journal_id) || committed - self.filled_at > FILL_LEN - LEFT_MIN;
        is_short && since_look < BULK_MIN
    }

    /// Fills what comes next in a journal. The caller sees to it that nobody writes to it meanwhile.
    pub(crate) fn fill(&mut self, path: &Path, journal_id: u64, committed: u64) -> io::Result<File> {
        if self.journal_id != Some(journal_id) {
            *self = Self { journal_id: Some(journal_id), looked_at: self.looked_at, ..Self::default() };
        }
        self.filled_at = committed;
        let journal = OpenOptions::new().write(true).open(path)?;
        let len = journal.metadata()?.len();
        // What lies before is zeros or data, and never a hole again.
        let mut at = hole_from(&journal, self.filled_until, len)?;
        let until = len.min(at + FILL_LEN);
        while at < until {
            let piece = (until - at).min(ZEROS.len() as u64);
            journal.write_all_at(&ZEROS[..piece as usize], at)?;
            at += piece;
        }
        self.filled_until = at;
        Ok(journal)
    }
}

/// Where the first hole begins; the end of the file if there is none, or the file system does not say.
fn hole_from(file: &File, from: u64, len: u64) -> io::Result<u64> {
    if from >= len {
        return Ok(len);
    }
    match rustix::fs::seek(file, rustix::fs::SeekFrom::Hole(from)) {
        Ok(hole) => Ok(hole.min(len)),
        Err(rustix::io::Errno::INVAL) => Ok(len),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOURNAL_LEN: u64 = 64 << 20;

    fn journal(directory: &Path) -> std::path::PathBuf {
        let path = directory.join("0.jnl");
        File::create(&path).unwrap().set_len(JOURNAL_LEN).unwrap();
        path
    }

    #[test]
    fn what_was_written_stays_and_what_follows_is_zeros() {
        let directory = tempfile::tempdir().unwrap();
        let path = journal(directory.path());
        let (mut room, mut written) = (JournalRoom::default(), 0);
        let writer = OpenOptions::new().write(true).open(&path).unwrap();
        // Pieces of odd lengths, some past what is filled.
        for (number, len) in [5000, 300_000, 7, 2_000_000, 1, 900_000, 40_000].into_iter().enumerate() {
            writer.write_all_at(&vec![number as u8 + 1; len], written).unwrap();
            written += len as u64;
            room.fill(&path, 0, written).unwrap();
        }
        let bytes = std::fs::read(&path).unwrap();
        let mut at = 0;
        for (number, len) in [5000, 300_000, 7, 2_000_000, 1, 900_000, 40_000].into_iter().enumerate() {
            assert!(bytes[at..at + len].iter().all(|byte| *byte == number as u8 + 1), "piece {number}");
            at += len;
        }
        assert!(bytes[at..].iter().all(|byte| *byte == 0));
        assert_eq!(bytes.len() as u64, JOURNAL_LEN);
    }

    #[test]
    fn a_journal_without_holes_stays_as_it_is() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("0.jnl");
        std::fs::write(&path, [7; 12_345]).unwrap();
        JournalRoom::default().fill(&path, 0, 0).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), [7; 12_345]);
    }

    #[test]
    fn it_is_wanted_before_it_runs_out_and_not_by_bulk() {
        let directory = tempfile::tempdir().unwrap();
        let path = journal(directory.path());
        let mut room = JournalRoom::default();
        assert!(room.is_wanted(0, 0), "at first");
        room.fill(&path, 0, 0).unwrap();
        assert!(!room.is_wanted(0, 5000));
        let nearly = FILL_LEN - LEFT_MIN + 1;
        assert!(!room.is_wanted(0, nearly), "all of it at once: bulk");
        assert!(room.is_wanted(0, nearly + 5000), "calm again");
        room.fill(&path, 0, nearly + 5000).unwrap();
        assert!(room.is_wanted(1, nearly + 6000), "another journal");
    }
}
