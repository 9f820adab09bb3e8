//! Reads the files of a log from where the index is, batch by batch, and says where history ends and why. Changes nothing.
//!
//! Each batch has a sum over its bytes and the chain with it, so that it follows the one before it or does not. After the
//! last batch there are zeros. What else is there, in the newest file, is a tail that was torn, or damage of batches that
//! were durable: whoever knows how far they were can tell. In an older file it is damage.

use super::FileNumber;
use super::format::{BatchHead, HEAD_LEN, HEADER_LEN, ItemRef, decode_header};
use super::reader::Reader;
use crate::chain::Chain;
use crate::error::OpenError;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use wayfs_disk::Disk;
use wayfs_types::Ticket;

/// What the files hold after what the index has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Inspection {
    /// The chain at the last batch that follows from the index without a gap.
    pub(crate) last: Chain,
    /// The last batch that is whole, be it after a gap.
    pub(crate) seen: Ticket,
    /// The files of that history, oldest first. The newest of them may take appends.
    pub(crate) files: Vec<FoundFile>,
    /// Files that hold nothing that the index does not, and new ones that were not begun.
    pub(crate) idle: Vec<PathBuf>,
    /// The number of the next file.
    pub(crate) next: FileNumber,
    /// Where history ends, if that is not where the written part of the files ends.
    pub(crate) gap: Option<Gap>,
    /// Why the gap is no torn tail.
    pub(crate) damage: Option<String>,
}

/// A file of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FoundFile {
    pub(crate) number: FileNumber,
    /// The chain at its last batch, or at the one before it.
    pub(crate) last: Chain,
    /// Where that batch ends.
    pub(crate) end: u64,
    pub(crate) len: u64,
}

/// Where the batches end to follow each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Gap {
    /// The file.
    pub(crate) path: PathBuf,
    /// Its first byte that does not belong to what went before.
    pub(crate) at: u64,
    /// First byte after the last that is not zero.
    pub(crate) written_until: u64,
    /// The files after it.
    pub(crate) later: Vec<PathBuf>,
}

/// What an inspection meets in the history after the index.
pub(crate) enum Met<'b> {
    /// A batch.
    Batch(&'b [ItemRef<'b>]),
    /// The end of a file that is followed by another, and the chain there.
    Turn(Chain),
}

/// Reads the log of a directory from a chain on; `meet` gets what follows it, in order.
///
/// # Errors
/// [`OpenError::Io`], and [`OpenError::Damaged`] for a file that has no business there.
pub(crate) fn inspect(
    (disk, directory): (&dyn Disk, &Path),
    from: Chain,
    meet: &mut dyn FnMut(Met<'_>),
) -> Result<Inspection, OpenError> {
    let mut files = open_all(disk, directory)?;
    let next = files.last().map_or(FileNumber::FIRST, |newest| newest.number.next());
    let begun = files.iter().rposition(|file| !file.is_blank).map_or(0, |newest| newest + 1);
    let not_begun: Vec<PathBuf> = files.drain(begun..).map(|file| file.path).collect();
    // A file is idle if the one after it begins with what the index has.
    let is_idle = |file: &LogFile| file.before.is_some_and(|before| before.ticket <= from.ticket);
    let first = files.iter().rposition(is_idle).unwrap_or(0);
    let idle = files.drain(..first).map(|file| file.path).chain(not_begun).collect();
    let found = Inspection { last: from, seen: from.ticket, files: vec![], idle, next, gap: None, damage: None };
    let mut walk = Walk { found, at: None, from, meet };
    let paths: Vec<PathBuf> = files.iter().map(|file| file.path.clone()).collect();
    for (index, file) in files.iter_mut().enumerate() {
        let later = &paths[index + 1..];
        let path = file.path.clone();
        walk.file(file, later).map_err(OpenError::io("read log", &path))?;
    }
    Ok(walk.found)
}

fn open_all(disk: &dyn Disk, directory: &Path) -> Result<Vec<LogFile>, OpenError> {
    let mut files = Vec::new();
    let paths = match disk.list(directory) {
        Ok(paths) => paths,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(files),
        Err(error) => return Err(OpenError::io("list", directory)(error)),
    };
    let foreign = |path: &Path| OpenError::Damaged(format!("{} has no business in the log", path.display()));
    for path in paths {
        let number = path.file_name().and_then(|name| name.to_str()).and_then(FileNumber::parse);
        let number = number.ok_or_else(|| foreign(&path))?;
        files.push(match LogFile::open(disk, number, &path) {
            Err(error) if error.kind() == std::io::ErrorKind::IsADirectory => return Err(foreign(&path)),
            opened => opened.map_err(OpenError::io("open log", &path))?,
        });
    }
    files.sort_by_key(|file| file.number);
    Ok(files)
}

/// Goes from file to file.
struct Walk<'w> {
    found: Inspection,
    /// The chain at the last batch that was read. None before the first file, and after a gap.
    at: Option<Chain>,
    from: Chain,
    meet: &'w mut dyn FnMut(Met<'_>),
}

impl Walk<'_> {
    fn file(&mut self, file: &mut LogFile, later: &[PathBuf]) -> std::io::Result<()> {
        let Some(before) = file.before else {
            let what = "it does not begin as a file of the log";
            return self.gap(file, 0, later, (!later.is_empty()).then(|| what.to_owned()));
        };
        self.found.seen = self.found.seen.max(before.ticket);
        if let Err(what) = self.begins_right(before) {
            self.gap(file, 0, later, Some(what))?;
        }
        self.at = Some(before);
        let is_history = self.found.gap.is_none();
        let (end, last) = self.batches(file, later)?;
        if is_history {
            let len = if self.found.gap.is_some() { end } else { file.len };
            self.found.files.push(FoundFile { number: file.number, last, end, len });
        }
        if self.found.gap.is_none() && !later.is_empty() {
            (self.meet)(Met::Turn(last));
        }
        Ok(())
    }

    /// Whether a file follows the one before it, or the first one the index.
    fn begins_right(&self, before: Chain) -> Result<(), String> {
        match self.at {
            Some(last) if before != last => Err(format!(
                "it begins after batch {}, and the file before it ends with {}",
                before.ticket, last.ticket
            )),
            None if before.ticket > self.from.ticket => {
                Err(format!("batches {} to {} are missing", self.from.ticket.0.saturating_add(1), before.ticket))
            }
            Some(_) | None => self.agrees(before),
        }
    }

    /// Whether a chain is the index's where both are as far.
    fn agrees(&self, chain: Chain) -> Result<(), String> {
        if chain.ticket == self.from.ticket && chain != self.from {
            return Err(format!("batch {} is not the one in the tables", chain.ticket));
        }
        Ok(())
    }

    /// Reads batches as long as they are right; says where they end, and the chain there.
    fn batches(&mut self, file: &mut LogFile, later: &[PathBuf]) -> std::io::Result<(u64, Chain)> {
        let (mut end, mut last) = (HEADER_LEN as u64, self.at.unwrap_or_default());
        while let Some(head) = file.head(end)? {
            let Some(items) = head.items(&file.body) else { break };
            if !last.is_followed_by(head.chain) {
                break;
            }
            if let Err(what) = self.agrees(head.chain) {
                self.gap(file, end, later, Some(what))?;
                return Ok((end, last));
            }
            last = head.chain;
            end += HEAD_LEN as u64 + u64::from(head.body_len);
            self.take(&items, last);
        }
        self.at = Some(last);
        if file.written_until(end)? > end {
            let what = (!later.is_empty()).then(|| format!("it is damaged from byte {end} on"));
            self.gap(file, end, later, what)?;
        }
        Ok((end, last))
    }

    fn take(&mut self, items: &[ItemRef<'_>], chain: Chain) {
        self.found.seen = self.found.seen.max(chain.ticket);
        if self.found.gap.is_none() && chain.ticket > self.from.ticket {
            (self.meet)(Met::Batch(items));
            self.found.last = chain;
        }
    }

    /// Notes the first gap, with what makes it more than a torn tail. What is behind it belongs to no history.
    fn gap(&mut self, file: &mut LogFile, at: u64, later: &[PathBuf], what: Option<String>) -> std::io::Result<()> {
        self.at = None;
        if self.found.gap.is_none() {
            let written_until = file.written_until(at)?;
            self.found.damage = what.map(|what| format!("log file {}: {what}", file.number.0));
            self.found.gap = Some(Gap { path: file.path.clone(), at, written_until, later: later.to_vec() });
        }
        Ok(())
    }
}

/// A file that is being read.
struct LogFile {
    number: FileNumber,
    path: PathBuf,
    reader: BufReader<Reader>,
    len: u64,
    /// What its header says.
    before: Option<Chain>,
    /// It has no header, and nothing else either.
    is_blank: bool,
    /// Changes of the batch that was read last.
    body: Vec<u8>,
}

impl LogFile {
    fn open(disk: &dyn Disk, number: FileNumber, path: &Path) -> std::io::Result<Self> {
        let file = disk.open(path)?;
        let len = file.size()?;
        let reader = BufReader::with_capacity(1 << 18, Reader::new(file));
        let mut file =
            Self { number, path: path.to_path_buf(), reader, len, before: None, is_blank: false, body: Vec::new() };
        let header = file.read_array(0)?;
        file.before = header.and_then(|header| decode_header(number, &header));
        file.is_blank = file.before.is_none() && file.written_until(0)? == 0;
        Ok(file)
    }

    /// The head of a batch, if there is one that fits the file. Its changes are in `body` then.
    fn head(&mut self, at: u64) -> std::io::Result<Option<BatchHead>> {
        let head = self.read_array(at)?.and_then(|head| BatchHead::decode(&head));
        let Some(head) = head else { return Ok(None) };
        let begins = at + HEAD_LEN as u64;
        // Memory is taken only for what the file has.
        if u64::from(head.body_len) > self.len - begins {
            return Ok(None);
        }
        self.body.resize(head.body_len as usize, 0);
        self.reader.read_exact(&mut self.body)?;
        Ok(Some(head))
    }

    fn read_array<const N: usize>(&mut self, at: u64) -> std::io::Result<Option<[u8; N]>> {
        if self.len.saturating_sub(at) < N as u64 {
            return Ok(None);
        }
        self.seek(at)?;
        let mut bytes = [0; N];
        self.reader.read_exact(&mut bytes)?;
        Ok(Some(bytes))
    }

    /// Within what is buffered, if it can be.
    fn seek(&mut self, at: u64) -> std::io::Result<()> {
        let now = self.reader.stream_position()?;
        match i64::try_from(at).ok().zip(i64::try_from(now).ok()) {
            Some((at, now)) => self.reader.seek_relative(at - now),
            None => self.reader.seek(SeekFrom::Start(at)).map(|_| ()),
        }
    }

    /// First byte after the last one from `from` on that is not zero.
    fn written_until(&mut self, from: u64) -> std::io::Result<u64> {
        self.seek(from)?;
        let (mut at, mut until) = (from, from);
        let (mut buffer, zeros) = (vec![0; 1 << 16], vec![0; 1 << 16]);
        loop {
            let len = self.reader.read(&mut buffer)?;
            if len == 0 {
                return Ok(until);
            }
            // Nearly all of it is unused room: comparing whole blocks is the quick way.
            let is_written = buffer[..len] != zeros[..len];
            if is_written && let Some(last) = buffer[..len].iter().rposition(|byte| *byte != 0) {
                until = at + last as u64 + 1;
            }
            at += len as u64;
        }
    }
}

#[cfg(test)]
mod tests;
