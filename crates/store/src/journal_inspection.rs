//! A look at the engine's journals before the engine sees them.
//!
//! The engine below (fjall 3.1) ends its journal silently at the first entry that does not
//! decode, refuses to start at all for some torn tails that a power cut leaves, and believes
//! lengths that it reads. Neither loss nor refusal may come unannounced, so this pass
//! reads each journal batch by batch, checks each batch against the chain record in it,
//! and then
//! * cuts a torn tail off the newest journal, after keeping a copy of it, and
//! * names damage anywhere else.
//!
//! A person who accepts a loss has everything from the damage on set aside: what is left is the store as it once was,
//! never one with a hole in its history.
//!
//! The layout read here is the engine's: `1 count:u32 seqno:u64`, then `count` items
//! `2 type:u8 compression:u8 keyspace:u64 key_len:u16 len:u32 stored_len:u32 key value`,
//! then `3 checksum:u64 "FJL" 3`, all little-endian; zeros after the last batch. The checksum is XXH3 over the items.

use crate::chain::{BatchSum, CHAIN_KEY, Chain};
use crate::error::OpenError;
use std::fs::{File, OpenOptions};
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use wayfs_types::Ticket;
use xxhash_rust::xxh3::Xxh3;

/// Longest value that is believed, in bytes; nothing longer is ever written.
pub(crate) const VALUE_MAX: usize = 64 << 20;
/// Most of a torn tail that is kept for the curious, in bytes.
const TAIL_KEPT_MAX: u64 = 64 << 20;
/// Most files kept as evidence; past it the newest are not kept.
const EVIDENCE_MAX: usize = 16;

/// What the journals hold.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Inspection {
    /// The chain at the last whole batch in any journal, if there is one.
    pub(crate) last: Option<Chain>,
    /// The chain where the first damage is; as `last` if there is none.
    pub(crate) whole: Option<Chain>,
    /// Where the last whole batch of the newest journal begins.
    pub(crate) last_begins: Option<(PathBuf, u64)>,
    /// Bytes cut off the newest journal.
    pub(crate) torn_bytes: u64,
    /// Damage that cutting a tail does not explain.
    pub(crate) damage: Option<String>,
    /// Where the first damage is, a torn tail included.
    pub(crate) gap: Option<Gap>,
}

/// Where the batches of the journals end to follow each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Gap {
    /// The journal.
    pub(crate) journal: PathBuf,
    /// Its first byte that does not belong to what went before.
    pub(crate) at: u64,
    /// First byte after the last that is not zero.
    pub(crate) written_until: u64,
    /// The journals after it.
    pub(crate) later: Vec<PathBuf>,
}

/// What an inspection does with a torn tail of the newest journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tails {
    /// It stays: nothing on the disk changes.
    Leave,
    /// It is cut off, after a copy was kept.
    Cut,
}

/// Inspects the journals of the engine's directory.
///
/// Gaps up to `accepted` were seen and accepted before.
pub(crate) fn inspect(engine: &Path, damaged: &Path, accepted: Ticket, tails: Tails) -> Result<Inspection, OpenError> {
    let mut inspection = Inspection::default();
    let journals = journals(engine)?;
    for (index, (id, path)) in journals.iter().enumerate() {
        let later = || journals[index + 1..].iter().map(|(_, path)| path.clone()).collect::<Vec<_>>();
        let mut journal = Journal::open(path)?;
        loop {
            match journal.step().map_err(OpenError::io("read journal", path))? {
                Step::Batch { begins, chain } => {
                    if inspection.note(begins, chain, path, accepted) == Follows::No {
                        let written_until =
                            journal.written_until(begins).map_err(OpenError::io("read journal", path))?;
                        inspection.note_gap(Gap { journal: path.clone(), at: begins, written_until, later: later() });
                        journal.resume().map_err(OpenError::io("read journal", path))?;
                    }
                }
                Step::End => break,
                Step::Bad { begins, written_until } => {
                    inspection.note_gap(Gap { journal: path.clone(), at: begins, written_until, later: later() });
                    if later().is_empty() {
                        inspection.torn_bytes = written_until - begins;
                        if tails == Tails::Cut {
                            keep_evidence(path, damaged, begins, written_until)?;
                            cut(path, begins)?;
                        }
                    } else if accepted == Ticket(0) || inspection.last.is_some_and(|last| last.ticket >= accepted) {
                        let damage = format!("journal {id} is damaged at byte {begins}");
                        inspection.damage.get_or_insert(damage);
                    }
                    break;
                }
            }
        }
    }
    Ok(inspection)
}

/// Takes everything from a gap on out of the journals. It goes into `damaged`, as long as that has room.
pub(crate) fn set_aside(gap: &Gap, damaged: &Path) -> Result<(), OpenError> {
    keep_evidence(&gap.journal, damaged, gap.at, gap.written_until)?;
    // The newest goes first: a crash in between leaves the gap where it is, for the next try.
    for journal in gap.later.iter().rev() {
        let name = journal.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let aside = free_name(damaged, &format!("journal-{name}"));
        std::fs::rename(journal, &aside).map_err(OpenError::io("set aside", journal))?;
    }
    cut(&gap.journal, gap.at)
}

/// A path in a directory where nothing is.
pub(crate) fn free_name(directory: &Path, name: &str) -> PathBuf {
    let numbered = (1..).map(|number: u32| directory.join(format!("{name}.{number}")));
    let mut names = std::iter::once(directory.join(name)).chain(numbered);
    names.find(|path| !path.exists()).unwrap_or_else(|| directory.join(name))
}

/// Whether a batch follows the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Follows {
    Yes,
    No,
}

impl Inspection {
    fn note(&mut self, begins: u64, chain: Option<Chain>, path: &Path, accepted: Ticket) -> Follows {
        self.last_begins = Some((path.to_path_buf(), begins));
        let Some(chain) = chain else { return Follows::Yes };
        let follows = self.last.is_none_or(|last| last.ticket.0.checked_add(1) == Some(chain.ticket.0));
        let before = self.last.unwrap_or_default().ticket;
        self.last = Some(chain);
        if follows || chain.ticket <= accepted {
            if self.gap.is_none() {
                self.whole = self.last;
            }
            return Follows::Yes;
        }
        self.damage.get_or_insert_with(|| format!("batch {} follows batch {before} in the journals", chain.ticket));
        Follows::No
    }

    fn note_gap(&mut self, gap: Gap) {
        self.gap.get_or_insert(gap);
    }
}

/// Cuts a journal and makes the cut durable.
pub(crate) fn cut(path: &Path, at: u64) -> Result<(), OpenError> {
    let cut = || {
        let file = OpenOptions::new().write(true).open(path)?;
        file.set_len(at)?;
        file.sync_all()
    };
    cut().map_err(OpenError::io("cut journal", path))
}

/// The journals in order; also refuses names that would stop the engine without a message.
fn journals(engine: &Path) -> Result<Vec<(u64, PathBuf)>, OpenError> {
    let mut journals = Vec::new();
    for (name, path) in names(engine)? {
        let Some(stem) = name.strip_suffix(".jnl") else { continue };
        let id = stem.parse().map_err(|_| OpenError::Damaged(format!("there is a stray file {name}")))?;
        if !path.is_file() {
            return Err(OpenError::Damaged(format!("journal {name} is not a file")));
        }
        journals.push((id, path));
    }
    for (name, path) in names(&engine.join("keyspaces"))? {
        if path.is_dir() && name.parse::<u64>().is_err() {
            return Err(OpenError::Damaged(format!("there is a stray directory keyspaces/{name}")));
        }
    }
    journals.sort();
    Ok(journals)
}

fn names(directory: &Path) -> Result<Vec<(String, PathBuf)>, OpenError> {
    let mut names = Vec::new();
    let entries = match std::fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(names),
        Err(error) => return Err(OpenError::io("list", directory)(error)),
    };
    for entry in entries {
        let entry = entry.map_err(OpenError::io("list", directory))?;
        let name = entry.file_name().into_string();
        let name = name.map_err(|name| OpenError::Damaged(format!("there is a stray file {}", name.display())))?;
        names.push((name, entry.path()));
    }
    Ok(names)
}

fn keep_evidence(journal: &Path, damaged: &Path, from: u64, until: u64) -> Result<(), OpenError> {
    let stem = journal.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let path = damaged.join(format!("journal-{stem}-{from}.tail"));
    if names(damaged)?.len() >= EVIDENCE_MAX {
        return Ok(());
    }
    let copy = || {
        let mut source = File::open(journal)?;
        source.seek(SeekFrom::Start(from))?;
        let mut tail = source.take((until - from).min(TAIL_KEPT_MAX));
        std::io::copy(&mut tail, &mut File::create(&path)?)
    };
    // A full disk must not stop the store from opening for the sake of a copy nobody may need.
    if let Err(error) = copy() {
        tracing::warn!(%error, "no copy kept of a torn journal tail");
    }
    Ok(())
}

/// What comes next in a journal.
enum Step {
    Batch {
        begins: u64,
        /// None for a batch that the engine wrote for itself.
        chain: Option<Chain>,
    },
    End,
    Bad {
        begins: u64,
        /// First byte after the last that is not zero.
        written_until: u64,
    },
}

struct Journal {
    reader: BufReader<File>,
    len: u64,
    at: u64,
    seqno_last: Option<u64>,
    /// Over the items of the batch that is being read.
    sum: Xxh3,
}

impl Journal {
    fn open(path: &Path) -> Result<Self, OpenError> {
        let open = || {
            let file = File::open(path)?;
            let len = file.metadata()?.len();
            Ok(Self { reader: BufReader::with_capacity(1 << 20, file), len, at: 0, seqno_last: None, sum: Xxh3::new() })
        };
        open().map_err(OpenError::io("open journal", path))
    }

    fn step(&mut self) -> std::io::Result<Step> {
        let begins = self.at;
        if let Some(chain) = self.batch()? {
            return Ok(Step::Batch { begins, chain });
        }
        let written_until = self.written_until(begins)?;
        Ok(if written_until > begins { Step::Bad { begins, written_until } } else { Step::End })
    }

    /// A whole and right batch, or `None`.
    fn batch(&mut self) -> std::io::Result<Option<Option<Chain>>> {
        let Some([1, head @ ..]) = self.take::<13>()? else { return Ok(None) };
        let count = u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
        let mut seqno = [0; 8];
        seqno.copy_from_slice(&head[4..]);
        let seqno = u64::from_le_bytes(seqno);
        if self.seqno_last.is_some_and(|last| seqno <= last) {
            return Ok(None);
        }
        self.sum.reset();
        let mut sum = BatchSum::default();
        let mut chain = None;
        for _ in 0..count {
            let Some(item) = self.item()? else { return Ok(None) };
            if chain.is_some() {
                return Ok(None);
            }
            if item.key == CHAIN_KEY {
                chain = item.value.as_deref().and_then(Chain::decode);
                if chain.is_none() {
                    return Ok(None);
                }
            } else {
                sum.add(&item.key, item.value.as_deref());
            }
        }
        let items_sum = self.sum.digest().to_le_bytes();
        let Some([3, stated @ .., b'F', b'J', b'L', 3]) = self.take::<13>()? else { return Ok(None) };
        if stated != items_sum {
            return Ok(None);
        }
        if chain.is_some_and(|chain| chain.batch_sum != sum.finish()) {
            return Ok(None);
        }
        self.seqno_last = Some(seqno);
        Ok(Some(chain))
    }

    fn item(&mut self) -> std::io::Result<Option<Item>> {
        let Some([2, kind, compression, head @ ..]) = self.take::<21>()? else { return Ok(None) };
        let key_len = usize::from(u16::from_le_bytes([head[8], head[9]]));
        let len = u32::from_le_bytes([head[10], head[11], head[12], head[13]]);
        let stored = u32::from_le_bytes([head[14], head[15], head[16], head[17]]) as usize;
        // Journals are written uncompressed; anything else is damage.
        if compression != 0 || len as usize != stored || kind > 1 {
            return Ok(None);
        }
        let Some(key) = self.bytes(key_len)? else { return Ok(None) };
        let Some(value) = self.bytes(stored)? else { return Ok(None) };
        Ok(Some(Item { key, value: (kind == 0).then_some(value) }))
    }

    fn take<const N: usize>(&mut self) -> std::io::Result<Option<[u8; N]>> {
        let mut bytes = [0; N];
        if self.len - self.at < N as u64 {
            return Ok(None);
        }
        self.reader.read_exact(&mut bytes)?;
        self.sum.update(&bytes);
        self.at += N as u64;
        Ok(Some(bytes))
    }

    fn bytes(&mut self, len: usize) -> std::io::Result<Option<Vec<u8>>> {
        if len > VALUE_MAX + 64 || self.len - self.at < len as u64 {
            return Ok(None);
        }
        let mut bytes = vec![0; len];
        self.reader.read_exact(&mut bytes)?;
        self.sum.update(&bytes);
        self.at += len as u64;
        Ok(Some(bytes))
    }

    /// Reads on where the last batch ended, after a look elsewhere.
    fn resume(&mut self) -> std::io::Result<()> {
        self.reader.seek(SeekFrom::Start(self.at)).map(|_| ())
    }

    /// First byte after the last one from `from` on that is not zero.
    fn written_until(&mut self, from: u64) -> std::io::Result<u64> {
        self.reader.seek(SeekFrom::Start(from))?;
        let mut at = from;
        let mut until = from;
        let mut buffer = vec![0; 1 << 16];
        let zeros = vec![0; 1 << 16];
        loop {
            let len = self.reader.read(&mut buffer)?;
            if len == 0 {
                return Ok(until);
            }
            // Nearly all of it is the unused rest of the file: comparing whole blocks is the quick way.
            let is_written = buffer[..len] != zeros[..len];
            if is_written && let Some(last) = buffer[..len].iter().rposition(|byte| *byte != 0) {
                until = at + last as u64 + 1;
            }
            at += len as u64;
        }
    }
}

struct Item {
    key: Vec<u8>,
    /// None for a removal.
    value: Option<Vec<u8>>,
}
