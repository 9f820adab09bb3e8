//! What was changed and not synced, and what a cut leaves of it.

use super::FileId;
use std::collections::BTreeMap;
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
    Size(u64),
}

/// Bytes that were written.
#[derive(Debug, Clone)]
pub(super) struct Write {
    pub(super) at: u64,
    pub(super) bytes: Vec<u8>,
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
    pub(super) live: Vec<u8>,
    pub(super) durable: Vec<u8>,
    /// By the number of their step.
    unsynced: Vec<(u64, Change)>,
}

impl File {
    pub(super) fn change(&mut self, step: u64, change: Change) {
        apply(&mut self.live, &change);
        self.unsynced.push((step, change));
    }

    pub(super) fn read(&self, bytes: &mut [u8], at: u64) -> usize {
        let from = usize::try_from(at).unwrap_or(usize::MAX).min(self.live.len());
        let len = bytes.len().min(self.live.len() - from);
        bytes[..len].copy_from_slice(&self.live[from..from + len]);
        len
    }

    pub(super) fn sync(&mut self) {
        for (_, change) in std::mem::take(&mut self.unsynced) {
            apply(&mut self.durable, &change);
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
                Fate::Through(last) if step < *last => apply(&mut self.durable, &change),
                Fate::Through(last) if step == *last => apply_part(&mut self.durable, &change, &mut || below(2) == 0),
                Fate::Through(_) => {}
                Fate::Scattered => apply_part(&mut self.durable, &change, &mut || match part {
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
        let begins = |at: &usize| self.durable[*at] == *first && self.durable[*at..].starts_with(bytes);
        (0..self.durable.len()).filter(begins).map(|at| at as u64).collect()
    }

    pub(super) fn rot(&mut self, at: u64) -> bool {
        let Ok(at) = usize::try_from(at) else { return false };
        let Some(byte) = self.durable.get_mut(at) else { return false };
        let before = *byte;
        *byte ^= 0x10;
        // What was written over it and not synced is in memory still.
        if let Some(live) = self.live.get_mut(at).filter(|live| **live == before) {
            *live ^= 0x10;
        }
        true
    }
}

fn apply(bytes: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Write(write) => put(bytes, write.at, &write.bytes),
        Change::Size(size) => bytes.resize(*size as usize, 0),
    }
}

/// Applies the sectors that are kept.
fn apply_part(bytes: &mut Vec<u8>, change: &Change, is_kept: &mut dyn FnMut() -> bool) {
    match change {
        Change::Write(write) => {
            for (at, part) in write.sectors() {
                if is_kept() {
                    put(bytes, at, part);
                }
            }
        }
        Change::Size(size) if is_kept() => bytes.resize(*size as usize, 0),
        Change::Size(_) => {}
    }
}

fn put(bytes: &mut Vec<u8>, at: u64, written: &[u8]) {
    let (from, until) = (at as usize, at as usize + written.len());
    if bytes.len() < until {
        bytes.resize(until, 0);
    }
    bytes[from..until].copy_from_slice(written);
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
