//! The writing end of the log: one file takes appends, older ones wait for a checkpoint.
//!
//! Zeros are written ahead of the batches, so that a sync has only bytes to write: an append makes the file system write
//! down as well which blocks it gave, which is about half of what a small sync takes (append 140 to 200 us, overwrite 85
//! to 105), and two stores on one file system wait for each other there.

use super::FileNumber;
use super::format::{HEADER_LEN, encode_header};
use crate::chain::Chain;
use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use wayfs_disk::{Disk, DiskFile};
use wayfs_types::Ticket;

/// Zeros written at a time: 200 small commits.
pub(crate) const ROOM_LEN: u64 = 1 << 20;
/// With less left, more is written.
const LEFT_MIN: u64 = 128 << 10;
/// Who writes more between two looks syncs so much at a time that room ahead saves nothing.
const BULK_MIN: u64 = 256 << 10;
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// A file that takes appends.
pub(crate) struct OpenFile {
    pub(crate) number: FileNumber,
    pub(crate) file: Arc<dyn DiskFile>,
    /// Where the next batch goes.
    pub(crate) at: u64,
    /// Where the file ends.
    pub(crate) len: u64,
}

/// A file that waits for a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OlderFile {
    pub(crate) number: FileNumber,
    /// The last batch in it or before it.
    pub(crate) last: Ticket,
    pub(crate) len: u64,
}

/// The writing end of a log.
pub(crate) struct LogWriter {
    directory: PathBuf,
    disk: Arc<dyn Disk>,
    current: OpenFile,
    older: VecDeque<OlderFile>,
    /// Where the file stood at the last look at its room.
    looked_at: u64,
}

impl LogWriter {
    /// Goes on with a file.
    pub(crate) fn new(disk: Arc<dyn Disk>, directory: PathBuf, current: OpenFile, older: Vec<OlderFile>) -> Self {
        let looked_at = current.at;
        Self { directory, disk, current, older: older.into(), looked_at }
    }

    /// The file that takes appends. Syncing it makes all batches of the log durable.
    pub(crate) fn file(&self) -> Arc<dyn DiskFile> {
        Arc::clone(&self.current.file)
    }

    /// The file after the current one, empty, with room, and its name durable.
    pub(crate) fn prepare(&self) -> Prepare {
        let (number, directory) = (self.current.number.next(), self.directory.clone());
        Prepare { number, directory, disk: Arc::clone(&self.disk) }
    }

    /// The disk that they are on.
    pub(crate) fn disk(&self) -> &dyn Disk {
        &*self.disk
    }

    /// Where the files are.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Bytes of all files.
    pub(crate) fn disk_bytes(&self) -> u64 {
        self.current.len + self.older_bytes()
    }

    /// Bytes of the files that wait for a checkpoint.
    pub(crate) fn older_bytes(&self) -> u64 {
        self.older.iter().map(|older| older.len).sum()
    }

    /// Appends a batch. One that fails is written over by the next.
    pub(crate) fn append(&mut self, batch: &[u8]) -> io::Result<()> {
        self.current.file.write_at(batch, self.current.at)?;
        self.current.at += batch.len() as u64;
        self.current.len = self.current.len.max(self.current.at);
        Ok(())
    }

    /// Goes on in the next file, whose first batch follows `last`. All batches so far must be durable. Says how many bytes
    /// the file has that waits for a checkpoint now.
    pub(crate) fn turn(&mut self, next: OpenFile, last: Chain) -> io::Result<u64> {
        next.file.write_at(&encode_header(next.number, last), 0)?;
        let left = std::mem::replace(&mut self.current, next);
        self.older.push_back(OlderFile { number: left.number, last: last.ticket, len: left.len });
        self.looked_at = self.current.at;
        Ok(left.len)
    }

    /// Removes the files that hold nothing after a batch, which the index holds, synced, with all before it.
    ///
    /// What a power cut brings back of them is known by the file that follows it.
    pub(crate) fn release(&mut self, through: Ticket) -> io::Result<()> {
        while self.older.front().is_some_and(|oldest| oldest.last <= through) {
            let Some(oldest) = self.older.front() else { break };
            match self.disk.remove(&oldest.number.path(&self.directory)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                Ok(()) | Err(_) => drop(self.older.pop_front()),
            }
        }
        Ok(())
    }

    /// Whether to write room now.
    pub(crate) fn wants_room(&mut self) -> bool {
        let since_look = self.current.at - self.looked_at;
        self.looked_at = self.current.at;
        self.current.len - self.current.at < LEFT_MIN && since_look < BULK_MIN
    }

    /// Writes room behind the last batch.
    pub(crate) fn add_room(&mut self) -> io::Result<()> {
        self.current.len = write_room(&*self.current.file, self.current.len)?;
        Ok(())
    }
}

/// What it takes to make the next file, apart from the writer, which goes on meanwhile.
pub(crate) struct Prepare {
    number: FileNumber,
    directory: PathBuf,
    disk: Arc<dyn Disk>,
}

impl Prepare {
    /// The first file, or the one of a number.
    pub(crate) fn of(number: FileNumber, directory: PathBuf, disk: Arc<dyn Disk>) -> Self {
        Self { number, directory, disk }
    }

    /// Makes the file. Its header follows with the first use: until then a file of zeros is none.
    pub(crate) fn create(self) -> io::Result<OpenFile> {
        let path = self.number.path(&self.directory);
        let file = self.disk.create(&path)?;
        let made = write_room(&*file, 0).and_then(|len| file.sync().map(|()| len));
        let made = made.and_then(|len| self.disk.sync_directory(&self.directory).map(|()| len));
        // Half a file takes room that may be what is wanting.
        let len = made.inspect_err(|_| drop(self.disk.remove(&path)))?;
        Ok(OpenFile { number: self.number, file, at: HEADER_LEN as u64, len })
    }
}

/// Writes room from a place on, and says where it ends.
fn write_room(file: &dyn DiskFile, from: u64) -> io::Result<u64> {
    let (mut at, end) = (from, from + ROOM_LEN);
    while at < end {
        let piece = (end - at).min(ZEROS.len() as u64);
        file.write_at(&ZEROS[..piece as usize], at)?;
        at += piece;
    }
    Ok(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::format::encode_batch;
    use wayfs_disk::SystemDisk;

    fn writer(directory: &std::path::Path) -> LogWriter {
        let disk: Arc<dyn Disk> = Arc::new(SystemDisk);
        let file = Prepare::of(FileNumber::FIRST, directory.to_path_buf(), Arc::clone(&disk)).create().unwrap();
        LogWriter::new(disk, directory.to_path_buf(), file, Vec::new())
    }

    fn names(directory: &std::path::Path) -> Vec<String> {
        let entries = std::fs::read_dir(directory).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn room_is_written_behind_the_batches_and_leaves_them() {
        let scratch = tempfile::tempdir().unwrap();
        let mut log = writer(scratch.path());
        assert!(!log.wants_room(), "a new file has some");
        let batch = vec![7; (ROOM_LEN - LEFT_MIN) as usize];
        log.append(&batch).unwrap();
        assert!(!log.wants_room(), "whoever writes so much at a time has no use for it");
        assert!(log.wants_room());
        log.add_room().unwrap();
        assert!(!log.wants_room());
        let bytes = std::fs::read(FileNumber::FIRST.path(scratch.path())).unwrap();
        assert_eq!(bytes.len() as u64, 2 * ROOM_LEN);
        assert!(bytes[HEADER_LEN..][..batch.len()] == batch);
        assert!(bytes[HEADER_LEN + batch.len()..].iter().all(|byte| *byte == 0));
    }

    #[test]
    fn a_file_goes_when_a_checkpoint_holds_all_of_it() {
        let scratch = tempfile::tempdir().unwrap();
        let mut log = writer(scratch.path());
        let mut chain = Chain::default();
        for _ in 0..2 {
            let (batch, next) = encode_batch(&[], chain);
            log.append(&batch).unwrap();
            chain = next;
            let next = log.prepare().create().unwrap();
            log.turn(next, chain).unwrap();
        }
        log.release(Ticket(0)).unwrap();
        assert_eq!(names(scratch.path()), ["00000001.log", "00000002.log", "00000003.log"]);
        log.release(Ticket(1)).unwrap();
        assert_eq!(names(scratch.path()), ["00000002.log", "00000003.log"]);
        log.release(Ticket(9)).unwrap();
        assert_eq!(names(scratch.path()), ["00000003.log"], "the current one stays");
    }
}
