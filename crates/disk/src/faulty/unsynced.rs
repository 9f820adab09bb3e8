//! What was changed and not synced, and what a cut leaves of it.

use super::FileId;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// What a cut leaves or takes as a whole, in bytes.
const SECTOR: u64 = 512;

/// What of unsynced changes a cut leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// None.
    Nothing,
    /// All: the system wrote everything down by itself in time.
    Everything,
    /// All up to some moment; the last write may be torn.
    Ordered,
    /// Any of them: of each file, none, all, or some sectors of some.
    Scattered,
}

/// The same, with what was drawn for this cut.
pub(super) enum Fate {
    Nothing,
    /// Changes up to this step.
    Through(u64),
    Scattered,
}

impl Fate {
    pub(super) fn draw(cut: Cut, steps: u64, below: &mut dyn FnMut(u64) -> u64) -> Self {
        match cut {
            Cut::Nothing => Self::Nothing,
            Cut::Everything => Self::Through(steps + 1),
            // Often all, or nearly all: what comes last is what is in the middle of something.
            Cut::Ordered if below(3) == 0 => Self::Through(below(steps + 1)),
            Cut::Ordered => Self::Through(steps.saturating_sub(below(6))),
            Cut::Scattered => Self::Scattered,
        }
    }
}

/// A change to a file.
#[derive(Debug, Clone)]
pub(super) enum Change {
    Write(Write),
    /// So many zeros from a place on.
    Zeros(Range<u64>),
    Size(u64),
}

impl Change {
    pub(super) fn write(bytes: &[u8], at: u64) -> Self {
        if bytes.iter().all(|byte| *byte == 0) {
            return Self::Zeros(at..at + bytes.len() as u64);
        }
        Self::Write(Write { at, bytes: bytes.to_vec() })
    }
}

/// Bytes that were written.
#[derive(Debug, Clone)]
pub(super) struct Write {
    at: u64,
    bytes: Vec<u8>,
}

impl Write {
    /// The parts of it in different sectors.
    fn sectors(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let mut from = self.at;
        let end = self.at + self.bytes.len() as u64;
        std::iter::from_fn(move || {
            let until = ((from / SECTOR + 1) * SECTOR).min(end);
            let part = (from < end).then(|| (from, &self.bytes[(from - self.at) as usize..(until - self.at) as usize]));
            from = until;
            part
        })
    }
}

/// A file: as it is read, as it is on the disk, and what lies between.
#[derive(Debug, Clone, Default)]
pub(super) struct File {
    pub(super) live: Bytes,
    pub(super) durable: Bytes,
    /// By the number of their step.
    unsynced: Vec<(u64, Change)>,
}

impl File {
    pub(super) fn change(&mut self, step: u64, change: Change) {
        self.live.apply(&change);
        self.unsynced.push((step, change));
    }

    pub(super) fn read(&self, bytes: &mut [u8], at: u64) -> usize {
        self.live.read(bytes, at)
    }

    pub(super) fn sync(&mut self) {
        for (_, change) in std::mem::take(&mut self.unsynced) {
            self.durable.apply(&change);
        }
    }

    /// Leaves what the fate says.
    pub(super) fn cut(&mut self, fate: &Fate, below: &mut dyn FnMut(u64) -> u64) {
        let unsynced = std::mem::take(&mut self.unsynced);
        // Of a file that is scattered: none, all, a half or a third.
        let part = below(4);
        for (step, change) in unsynced {
            match fate {
                Fate::Nothing => {}
                Fate::Through(last) if step < *last => self.durable.apply(&change),
                Fate::Through(last) if step == *last => self.durable.apply_part(&change, &mut || below(2) == 0),
                Fate::Through(_) => {}
                Fate::Scattered => self.durable.apply_part(&change, &mut || match part {
                    0 => false,
                    1 => true,
                    _ => below(part) == 0,
                }),
            }
        }
        self.live.clone_from(&self.durable);
    }

    /// Where bytes begin.
    pub(super) fn find(&self, bytes: &[u8]) -> Vec<u64> {
        let Some(first) = bytes.first() else { return Vec::new() };
        let written = &self.durable.written;
        let begins = |at: &usize| written[*at] == *first && written[*at..].starts_with(bytes);
        (0..written.len()).filter(begins).map(|at| at as u64).collect()
    }

    pub(super) fn rot(&mut self, at: u64) -> bool {
        let mut durable = [0];
        if self.durable.read(&mut durable, at) == 0 {
            return false;
        }
        let rotten = [durable[0] ^ 0x10];
        self.durable.put(at, &rotten);
        // What was written over it and not synced is in memory still.
        let mut live = [0];
        if self.live.read(&mut live, at) == 1 && live == durable {
            self.live.put(at, &rotten);
        }
        true
    }
}

/// The bytes of a file. Those that were never written are zeros and take no memory: logs have much room ahead.
#[derive(Debug, Clone, Default)]
pub(super) struct Bytes {
    written: Vec<u8>,
    /// Bytes of the file, zeros behind those among them.
    pub(super) size: u64,
}

impl Bytes {
    /// Where the last byte that is not zero ends.
    pub(super) fn written_len(&self) -> u64 {
        self.written.iter().rposition(|byte| *byte != 0).map_or(0, |last| last as u64 + 1)
    }

    fn read(&self, bytes: &mut [u8], at: u64) -> usize {
        let len = self.size.saturating_sub(at).min(bytes.len() as u64) as usize;
        let written = self.written.get(at as usize..).unwrap_or_default();
        let have = written.len().min(len);
        bytes[..have].copy_from_slice(&written[..have]);
        bytes[have..len].fill(0);
        len
    }

    fn apply(&mut self, change: &Change) {
        match change {
            Change::Write(write) => self.put(write.at, &write.bytes),
            Change::Zeros(range) => self.zero(range),
            Change::Size(size) => {
                self.written.truncate(*size as usize);
                self.size = *size;
            }
        }
    }

    /// Applies the sectors that are kept; zeros are kept as a whole or not.
    fn apply_part(&mut self, change: &Change, is_kept: &mut dyn FnMut() -> bool) {
        match change {
            Change::Write(write) => {
                for (at, part) in write.sectors() {
                    if is_kept() {
                        self.put(at, part);
                    }
                }
            }
            Change::Zeros(_) | Change::Size(_) if is_kept() => self.apply(change),
            Change::Zeros(_) | Change::Size(_) => {}
        }
    }

    fn put(&mut self, at: u64, written: &[u8]) {
        let (from, until) = (at as usize, at as usize + written.len());
        if self.written.len() < until {
            self.written.resize(until, 0);
        }
        self.written[from..until].copy_from_slice(written);
        self.size = self.size.max(until as u64);
    }

    fn zero(&mut self, range: &Range<u64>) {
        let len = self.written.len();
        let (from, until) = (len.min(range.start as usize), len.min(range.end as usize));
        self.written[from..until].fill(0);
        self.size = self.size.max(range.end);
    }
}

/// A change to names.
#[derive(Debug, Clone)]
pub(super) enum NameChange {
    Set(PathBuf, FileId),
    Rename(PathBuf, PathBuf),
    Remove(PathBuf),
}

impl NameChange {
    /// Whether it is a change to a directory.
    fn is_in(&self, directory: &Path) -> bool {
        let is_there = |path: &Path| path.parent() == Some(directory);
        match self {
            Self::Set(path, _) | Self::Remove(path) => is_there(path),
            Self::Rename(from, to) => is_there(from) || is_there(to),
        }
    }

    fn apply(&self, names: &mut BTreeMap<PathBuf, FileId>) {
        match self {
            Self::Set(path, file) => drop(names.insert(path.clone(), *file)),
            Self::Remove(path) => drop(names.remove(path)),
            Self::Rename(from, to) => {
                if let Some(file) = names.remove(from) {
                    names.insert(to.clone(), file);
                }
            }
        }
    }
}

/// Names of files: as they are, and as they are on the disk.
#[derive(Debug, Clone, Default)]
pub(super) struct Names {
    pub(super) live: BTreeMap<PathBuf, FileId>,
    pub(super) durable: BTreeMap<PathBuf, FileId>,
    /// By the number of their step.
    unsynced: Vec<(u64, NameChange)>,
}

impl Names {
    pub(super) fn change(&mut self, step: u64, change: NameChange) {
        change.apply(&mut self.live);
        self.unsynced.push((step, change));
    }

    pub(super) fn sync(&mut self, directory: &Path) {
        let durable = &mut self.durable;
        self.unsynced.retain(|(_, change)| {
            let is_here = change.is_in(directory);
            if is_here {
                change.apply(durable);
            }
            !is_here
        });
    }

    pub(super) fn cut(&mut self, fate: &Fate, below: &mut dyn FnMut(u64) -> u64) {
        for (step, change) in std::mem::take(&mut self.unsynced) {
            let is_kept = match fate {
                Fate::Nothing => false,
                Fate::Through(last) => step < *last || step == *last && below(2) == 0,
                Fate::Scattered => below(2) == 0,
            };
            if is_kept {
                change.apply(&mut self.durable);
            }
        }
        self.live.clone_from(&self.durable);
    }

    /// Whether a file has a name, or gets one back if the power is cut.
    pub(super) fn leads_to(&self, file: FileId) -> bool {
        let is_set = |(_, change): &(u64, NameChange)| matches!(change, NameChange::Set(_, set) if *set == file);
        self.live.values().chain(self.durable.values()).any(|named| *named == file) || self.unsynced.iter().any(is_set)
    }
}
