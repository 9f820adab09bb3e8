//! Generations of the journal that did not end, and the lines into which those of a file fall.

use super::journal::{self, Entry, Left};
use super::note::Note;
use super::sketch::Sketch;
use super::staging::StagingDisk;
use std::collections::BTreeMap;
use std::sync::Arc;
use wayfs_types::{FileId, RecordId};

/// Generations that did not end, by file.
#[derive(Debug)]
pub(super) struct Recovery {
    pub(super) disk: Arc<dyn StagingDisk>,
    pub(super) left: Left,
    pub(super) files: BTreeMap<FileId, Vec<Generation>>,
}

/// All that was uncommitted of a file at one moment, and since.
#[derive(Debug)]
pub(super) struct Generation {
    number: u64,
    pub(super) sketch: Sketch,
    /// The record that held it all.
    pub(super) settled: Option<RecordId>,
}

/// Generations of a file of which each was begun upon the record of the one before.
pub(super) type Line = Vec<Generation>;

impl Recovery {
    /// Reads what an earlier daemon left on a disk.
    pub(super) fn read(disk: &Arc<dyn StagingDisk>) -> Self {
        let mut left = journal::read(&**disk);
        let mut open: BTreeMap<u64, Generation> = BTreeMap::new();
        for frame in std::mem::take(&mut left.frames) {
            let number = frame.entry.generation();
            match frame.entry {
                Entry::End { .. } => drop(open.remove(&number)),
                Entry::Image(image) => {
                    let before = image.replaces.and_then(|other| open.remove(&other));
                    if let Some(mut sketch) = Sketch::of(*image, &frame.bytes).filter(|_| !frame.is_void) {
                        sketch.follows_changes = before.is_some_and(|before| before.sketch.has_changes_before(&sketch));
                        open.insert(number, Generation { number, sketch, settled: None });
                    }
                }
                Entry::Settled { record, .. } => {
                    if let Some(generation) = open.get_mut(&number) {
                        generation.settled = Some(record);
                    }
                }
                step => {
                    let is_wrong = |generation: &mut Generation| !generation.sketch.step(&step, &frame.bytes);
                    if open.get_mut(&number).is_some_and(is_wrong) {
                        tracing::error!("the journal of open files holds what cannot be");
                        open.remove(&number);
                    }
                }
            }
        }
        let mut files: BTreeMap<FileId, Vec<Generation>> = BTreeMap::new();
        for generation in open.into_values() {
            files.entry(generation.sketch.base.file).or_default().push(generation);
        }
        files.values_mut().for_each(|all| all.sort_by_key(|one| one.number));
        Self { disk: Arc::clone(disk), left, files }
    }

    /// What is to be removed when all is taken over.
    pub(super) fn left(&self) -> &Left {
        &self.left
    }

    /// Bodies and segments that are needed.
    pub(super) fn names(&self) -> Vec<String> {
        self.bodies().into_iter().chain(self.left.segments.iter().cloned()).collect()
    }

    /// Bodies that are needed.
    pub(super) fn bodies(&self) -> Vec<String> {
        let bodies = self.files.values().flatten().filter_map(|generation| generation.sketch.bytes.body());
        bodies.map(|number| number.to_string()).collect()
    }

    /// Numbers generations from now on above those that notes name.
    pub(super) fn number_after(&mut self, notes: impl Iterator<Item = u64>) {
        self.left.last_generation = notes.fold(self.left.last_generation, u64::max);
    }

    /// Whether the journal says as much of a file as a note about its close, or more.
    pub(super) fn is_newer_than(&self, note: &Note) -> bool {
        let newest = self.files.get(&note.file).and_then(|all| all.last());
        newest.is_some_and(|newest| newest.sketch.is_whole_body() || newest.number >= note.generation)
    }
}

impl Generation {
    /// Whether another one was begun upon what this one became; `last` is the newest record of our own.
    fn is_followed_by(&self, next: &Self, last: Option<RecordId>) -> bool {
        let upon = next.sketch.base.version;
        if self.sketch.is_beside != next.sketch.is_beside {
            return false;
        }
        match self.settled {
            Some(record) => upon == record,
            // The disk may have been too full to name the record.
            None => upon == self.sketch.base.version || last.is_some_and(|last| upon.origin() == last.origin()),
        }
    }

    /// Whether a record that is here holds it all; a body that is written past the daemon may have grown since.
    fn is_in_a_record(&self, last: Option<RecordId>) -> bool {
        let is_here = |record: RecordId| {
            last.is_some_and(|last| record.origin() == last.origin() && record.sequence() <= last.sequence())
        };
        self.settled.is_some_and(is_here) && !self.sketch.is_whole_body()
    }
}

/// Puts generations of a file into lines, the one that programs went on with last.
pub(super) fn lines_of(generations: Vec<Generation>, last: Option<RecordId>) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for next in generations {
        match lines.iter().rposition(|line| line.last().is_some_and(|end| end.is_followed_by(&next, last))) {
            Some(at) => lines[at].push(next),
            None => lines.push(vec![next]),
        }
    }
    lines.sort_by_key(|line| line.last().map(|end| (!end.sketch.is_beside, end.number)));
    lines
}

/// Takes away what records that are here hold.
pub(super) fn without_records(line: &mut Line, last: Option<RecordId>) {
    let done = line.iter().rposition(|generation| generation.is_in_a_record(last));
    line.drain(..done.map_or(0, |done| done + 1));
}

/// What is uncommitted since a version, the first last. What was committed a moment before the kill may be gone: then it begins
/// earlier.
pub(super) fn since(generations: Vec<Generation>, version: RecordId) -> Vec<Sketch> {
    let mut sketches: Vec<Sketch> = generations.into_iter().map(|generation| generation.sketch).collect();
    let start = sketches.iter().rposition(|sketch| sketch.base.version == version).unwrap_or(0);
    // A copy, and what was emptied, holds nothing of what was before, and is written upon the same version.
    let is_on_its_own = |sketch: &Sketch| sketch.base.lender.is_some() || sketch.base_limit == 0;
    let alone = sketches.iter().rposition(is_on_its_own).filter(|alone| *alone > start);
    if let Some(alone) = alone {
        let before = sketches[start].base.clone();
        let Sketch { base, changes, size, .. } = &mut sketches[alone];
        base.version = before.version;
        match &mut base.lender {
            Some(lender) => lender.own = before.own_content().clone(),
            None => {
                base.content = before.own_content().clone();
                changes.ranges.insert(0..(*size).min(base.content.size()));
            }
        }
    }
    sketches.drain(..alone.unwrap_or(start));
    sketches.reverse();
    sketches
}
