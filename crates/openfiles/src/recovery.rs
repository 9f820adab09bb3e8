//! What comes back of files that were open when the daemon was killed.
//!
//! Generations of the journal that did not end are put together again, one state per file: base, body, and which bytes
//! of it the programs wrote. It is uncommitted as it was, and committed at the start, upon the version that it was written
//! upon: the rules for conflicts decide as at a close. A commit that was made and not marked yet makes the same content
//! once more, which is no second version.
//!
//! A program that goes on after a commit goes on from its own record, or, where another machine's version won, upon that one. So what
//! did not end falls into **lines**: a generation follows the one whose record it was begun upon. Of each line is committed what no
//! record that is here holds: what became a copy before the kill, and whose record went with it, becomes one again.

use super::base::Base;
use super::body::Look;
use super::closing::Note;
use super::contents::WaitPolicy;
use super::journal::{self, Entry, Left};
use super::life::Origin;
use super::loading::{self, NodeCache};
use super::open_file::OpenFile;
use super::sketch::{Goes, Merged, Sketch};
use super::staging::{StagingDisk, StagingFile};
use super::table::FileTable;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use wayfs_types::{FileId, Inode, RecordId};

/// Files with so many uncommitted bytes at most are committed before the mount answers.
const AT_ONCE_MAX: u64 = 4 << 20;

/// Generations that did not end, by file.
#[derive(Debug)]
pub(super) struct Recovery {
    disk: Arc<dyn StagingDisk>,
    left: Left,
    files: BTreeMap<FileId, Vec<Generation>>,
}

#[derive(Debug)]
struct Generation {
    number: u64,
    sketch: Sketch,
    /// The record that held it all.
    settled: Option<RecordId>,
}

/// Generations of a file of which each was begun upon the record of the one before.
type Line = Vec<Generation>;

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

    fn bodies(&self) -> Vec<String> {
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

/// What a line is to programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stands {
    /// They see it, and go on with it.
    ForTheFile,
    /// They do not.
    Beside,
}

/// Puts generations of a file into lines, the one that programs went on with last.
fn lines_of(generations: Vec<Generation>, last: Option<RecordId>) -> Vec<Line> {
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
fn without_records(line: &mut Line, last: Option<RecordId>) {
    let done = line.iter().rposition(|generation| generation.is_in_a_record(last));
    line.drain(..done.map_or(0, |done| done + 1));
}

/// What is uncommitted since a version, the first last. What was committed a moment before the kill may be gone: then it begins
/// earlier.
fn since(generations: Vec<Generation>, version: RecordId) -> Vec<Sketch> {
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

impl FileTable {
    /// Takes over what was uncommitted of open files.
    pub(super) fn recover(&self, open: Recovery) {
        let bodies = open.bodies();
        let Recovery { disk, left, files } = open;
        for (id, generations) in files {
            self.recover_file(&*disk, id, generations);
        }
        // All of it stands in the new journal.
        let taken: Vec<String> = self.files_here().iter().filter_map(|file| file.state().body_name()).collect();
        for name in left.segments.into_iter().chain(bodies).filter(|name| !taken.contains(name)) {
            if let Err(error) = disk.remove(&name)
                && error.kind() != std::io::ErrorKind::NotFound
            {
                tracing::warn!(%error, "remove what a journal of open files needed");
            }
        }
    }

    fn recover_file(&self, disk: &dyn StagingDisk, id: FileId, generations: Vec<Generation>) {
        let Some(inode) = self.contents.inode(id) else { return };
        // The home may have ordered it before the kill, and the answer did not come: a line would be there twice. What was written
        // under a lock is nothing to be written once more after that was lost.
        if self.contents.is_ordered_by_home(id) {
            tracing::warn!(file = %id, "what was written to an open file of an exclusive directory, and not synced, ended with the daemon");
            return;
        }
        let last = self.contents.last_record();
        let mut lines = lines_of(generations, last);
        // Its close may have been noted last: that stands for all of its line.
        let noted = self.find(id).map(|noted| noted.state().base.version);
        if let Some(upon) = noted {
            let is_noted = |one: &Generation| one.sketch.base.version == upon || one.settled == Some(upon);
            lines.retain(|line| !line.iter().any(is_noted));
        }
        lines.iter_mut().for_each(|line| without_records(line, last));
        let is_newest = |line: &mut Line| noted.is_none() && line.last().is_some_and(|end| !end.sketch.is_beside);
        let newest = lines.pop_if(is_newest);
        if let Some(file) = newest.and_then(|line| self.recover_line(disk, id, &inode, line, Stands::ForTheFile)) {
            tracing::info!(file = %id, "what was written and not committed is taken over");
            self.insert_left(id, file);
        }
        for line in lines {
            if let Some(file) = self.recover_line(disk, id, &inode, line, Stands::Beside) {
                tracing::info!(file = %id, "what was written upon an older version is taken over: its record went with the daemon");
                self.insert_line(file);
            }
        }
    }

    fn recover_line(
        &self,
        disk: &dyn StagingDisk,
        id: FileId,
        inode: &Inode,
        line: Line,
        stands: Stands,
    ) -> Option<OpenFile> {
        let chain = since(line, inode.version);
        let newest = chain.first().cloned()?;
        // An open that empties a file that nobody writes then says nothing, but what was written before it is no less gone.
        let follows_changes = chain.iter().any(|sketch| sketch.follows_changes);
        // Where a body went for want of room, what was written since counts by itself.
        let merged = Merged::all(disk, chain).or_else(|| Merged::of(disk, newest, Goes::NoFurther))?;
        let is_untouched = |body: &dyn StagingFile| Look::at(body).is_ok_and(|look| look.is_marked && look.len == 0);
        if !follows_changes && merged.sketch.is_whole_body() && merged.body.as_deref().is_some_and(is_untouched) {
            return None;
        }
        let merged = match self.newest_of_our_own(id, inode) {
            Some(made) => merged.beyond(&made, |range| self.bytes_here(&made, range))?,
            None => merged,
        };
        let file = OpenFile::new(id, inode, self.contents.host());
        let mut state = file.state();
        state.is_beside = stands == Stands::Beside;
        merged.put_into(&mut state, &self.files)?;
        state.journal_image(&*self.contents, &self.files);
        drop(state);
        Some(file)
    }

    /// The newest version of a file, if it is of this machine: what was appended may be in it.
    fn newest_of_our_own(&self, id: FileId, inode: &Inode) -> Option<Base> {
        let is_own = self.contents.last_record().is_some_and(|last| last.origin() == inode.version.origin());
        let made = Base { file: id, version: inode.version, content: inode.content.clone(), lender: None };
        (is_own && !inode.is_removed()).then_some(made)
    }

    /// Bytes of a version, if they are on this machine.
    fn bytes_here(&self, base: &Base, range: Range<u64>) -> Option<Vec<u8>> {
        let nodes = NodeCache::default();
        let pieces = loading::load(&*self.contents, &nodes, base, range.clone(), WaitPolicy::None).ok()?;
        let mut bytes = Vec::with_capacity((range.end - range.start) as usize);
        for piece in pieces {
            let within = range.start.max(piece.offset)..range.end.min(piece.range().end);
            let at = |offset: u64| offset.saturating_sub(piece.offset) as usize;
            bytes.extend_from_slice(piece.bytes.get(at(within.start)..at(within.end))?);
        }
        Some(bytes)
    }

    /// Files of which an earlier daemon left little.
    pub fn left(&self) -> Vec<Arc<OpenFile>> {
        let is_little = |file: &Arc<OpenFile>| {
            let state = file.state();
            state.life.origin() == Origin::Left && state.life.changes().ranges.len() <= AT_ONCE_MAX
        };
        self.files_here().into_iter().filter(is_little).collect()
    }

    /// Commits what an earlier daemon left and what is little, before anybody else hears of this mount: what comes from
    /// elsewhere later meets no changes that were committed already.
    pub fn commit_left(&self) {
        for file in self.left() {
            if let Err(error) = self.commit(&file, WaitPolicy::None) {
                tracing::debug!(file = %file.id(), %error, "what was left of an open file is committed later");
                file.state().life.retry_at_once();
            }
        }
    }
}
