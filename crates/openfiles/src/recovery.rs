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

use super::body::{Body, BodyFile, BodyFiles, Look, MEMORY_MAX, zero_body};
use super::closing::Note;
use super::contents::WaitPolicy;
use super::journal::{self, Entry, Held, Image, Left};
use super::life::{Changes, Origin};
use super::loading::Base;
use super::open_file::{OpenFile, SIZE_MAX};
use super::ranges::RangeSet;
use super::staging::{StagingDisk, StagingFile};
use super::state::State;
use super::table::FileTable;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use wayfs_types::{FileId, Inode, RecordId, WallTime};

/// Bytes of a body that are copied at a time.
const COPY_LEN: u64 = 1 << 20;
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

/// The uncommitted state of a file.
#[derive(Debug, Clone)]
struct Sketch {
    base: Base,
    base_limit: u64,
    size: u64,
    changes: Changes,
    mtime: WallTime,
    user: u32,
    bytes: Bytes,
    /// Something was uncommitted already when its body was begun.
    follows_changes: bool,
    /// It was no more than left when the journal was written.
    is_beside: bool,
}

/// Where the changed bytes of a sketch are.
#[derive(Debug, Clone)]
enum Bytes {
    Nowhere,
    /// Here, each in its place.
    Memory(Vec<u8>),
    Body(u64),
    WholeBody(u64),
}

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

impl Bytes {
    fn body(&self) -> Option<u64> {
        match self {
            Self::Body(number) | Self::WholeBody(number) => Some(*number),
            Self::Nowhere | Self::Memory(_) => None,
        }
    }
}

impl Sketch {
    /// What an image says; nothing if it cannot be.
    fn of(image: Image, bytes: &[u8]) -> Option<Self> {
        let Image { base, base_limit, size, low_water, is_appended, mtime, user, held, is_beside, .. } = image;
        let mut ranges = RangeSet::new();
        for (start, end) in &image.ranges {
            ranges.insert(*start..(*end).min(size));
        }
        let held = match held {
            Held::Nowhere => Bytes::Nowhere,
            Held::Body(number) => Bytes::Body(number),
            Held::WholeBody(number) => Bytes::WholeBody(number),
            Held::Here if size > MEMORY_MAX as u64 => return None,
            Held::Here => Bytes::Memory(placed(&image.ranges, bytes, size as usize)?),
        };
        let changes = Changes { ranges, low_water, is_any: true, is_appended };
        (size <= SIZE_MAX).then_some(Self {
            base,
            base_limit,
            size,
            changes,
            mtime,
            user,
            bytes: held,
            follows_changes: false,
            is_beside,
        })
    }

    /// Goes on with a step; whether that can be.
    fn step(&mut self, step: &Entry, bytes: &[u8]) -> bool {
        match *step {
            Entry::Write { offset, len, mtime, user, is_appended, .. } => {
                let Some(end) = offset.checked_add(len).filter(|end| *end <= SIZE_MAX) else { return false };
                if end > self.size && !self.resize(end) {
                    return false;
                }
                if let Bytes::Memory(all) = &mut self.bytes {
                    let place = all.get_mut(offset as usize..end as usize);
                    let Some(place) = place.filter(|place| place.len() == bytes.len()) else { return false };
                    place.copy_from_slice(bytes);
                }
                self.changes.ranges.insert(offset..end);
                (self.mtime, self.user, self.changes.is_appended) = (mtime, user, is_appended);
                true
            }
            Entry::Resize { size, mtime, user, .. } => {
                (self.mtime, self.user, self.changes.is_appended) = (mtime, user, false);
                self.resize(size)
            }
            Entry::Image(_) | Entry::End { .. } | Entry::Settled { .. } => false,
        }
    }

    /// Cuts it off, or extends it by a hole; whether that can be.
    fn resize(&mut self, size: u64) -> bool {
        if let Bytes::Memory(bytes) = &mut self.bytes {
            if size > MEMORY_MAX as u64 {
                return false;
            }
            bytes.resize(size as usize, 0);
        }
        self.resize_changes(size);
        size <= SIZE_MAX
    }

    /// A hole hides what the base has there.
    fn resize_changes(&mut self, size: u64) {
        if size < self.size {
            self.changes.ranges.remove(size..u64::MAX);
            self.changes.low_water = Some(self.changes.low_water.map_or(size, |low| low.min(size)));
            self.base_limit = self.base_limit.min(size);
        } else {
            self.changes.ranges.insert(self.size..size.min(self.base.content.size()));
        }
        self.size = size;
    }

    /// Whether it is more than an earlier image of the same body.
    fn has_changes_before(&self, later: &Self) -> bool {
        self.follows_changes || !self.is_whole_body() || self.bytes.body() != later.bytes.body()
    }

    fn is_whole_body(&self) -> bool {
        matches!(self.bytes, Bytes::WholeBody(_))
    }

    /// Looks how long the body is: a cut may have come to it and not to the journal. What is longer was not answered.
    fn fit(&mut self, body: &dyn StagingFile) -> Option<()> {
        let look = Look::at(body).ok()?;
        match self.bytes {
            Bytes::WholeBody(_) => {
                self.size = look.len;
                self.base_limit = 0;
                self.changes.ranges = RangeSet::of(0..look.len);
                self.changes.low_water = Some(0);
                self.changes.is_appended = false;
                self.mtime = look.mtime.unwrap_or(self.mtime);
            }
            _ if look.len < self.size => self.resize_changes(look.len),
            _ => body.set_len(self.size).ok()?,
        }
        Some(())
    }
}

/// Bytes of ranges, one behind the other, each in its place.
fn placed(ranges: &[(u64, u64)], bytes: &[u8], size: usize) -> Option<Vec<u8>> {
    let mut all = vec![0; size];
    let mut rest = bytes;
    for (start, end) in ranges {
        let place = all.get_mut(*start as usize..*end as usize)?;
        let (these, others) = rest.split_at_checked(place.len())?;
        place.copy_from_slice(these);
        rest = others;
    }
    Some(all)
}

/// Whether a body grew on after what a sketch says of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Goes {
    On,
    NoFurther,
}

/// What is put together of a file.
struct Merged {
    sketch: Sketch,
    /// That of the sketch, if it has one.
    body: Option<Box<dyn StagingFile>>,
}

impl Merged {
    fn of(disk: &dyn StagingDisk, mut sketch: Sketch, goes: Goes) -> Option<Self> {
        let body = open_body(disk, &sketch)?;
        if let Some(body) = body.as_ref().filter(|_| goes == Goes::NoFurther || sketch.is_whole_body()) {
            sketch.fit(&**body)?;
        }
        Some(Self { sketch, body })
    }

    /// Puts states together, the first last.
    fn all(disk: &dyn StagingDisk, mut chain: Vec<Sketch>) -> Option<Self> {
        let goes = |left: &Vec<Sketch>| if left.is_empty() { Goes::NoFurther } else { Goes::On };
        let first = chain.pop()?;
        let mut merged = Self::of(disk, first, goes(&chain))?;
        while let Some(later) = chain.pop() {
            merged = merged.then(disk, later, goes(&chain))?;
        }
        Some(merged)
    }

    /// Puts a later state over it, whose base is the record that it was to become.
    fn then(mut self, disk: &dyn StagingDisk, mut later: Sketch, goes: Goes) -> Option<Self> {
        let is_same_body = later.bytes.body().is_some() && later.bytes.body() == self.sketch.bytes.body();
        let later_body = if is_same_body { None } else { open_body(disk, &later)? };
        if let Some(body) = later_body.as_ref().or(self.body.as_ref().filter(|_| is_same_body))
            && (goes == Goes::NoFurther || later.is_whole_body())
        {
            later.fit(&**body)?;
        }
        let earlier = &mut self.sketch;
        earlier.resize_changes(later.changes.low_water.unwrap_or(u64::MAX).min(earlier.size));
        if let Bytes::Memory(bytes) = &mut earlier.bytes {
            bytes.truncate(earlier.size as usize);
        }
        earlier.resize_changes(later.size);
        match (&mut earlier.bytes, &later.bytes) {
            _ if is_same_body => {}
            (Bytes::Memory(bytes), Bytes::Memory(new)) => {
                bytes.resize(new.len(), 0);
                for range in later.changes.ranges.iter() {
                    let range = range.start as usize..range.end as usize;
                    bytes.get_mut(range.clone())?.copy_from_slice(new.get(range)?);
                }
            }
            (Bytes::Memory(_) | Bytes::Nowhere, Bytes::Body(_) | Bytes::WholeBody(_))
            | (Bytes::Body(_) | Bytes::WholeBody(_), Bytes::Body(_) | Bytes::WholeBody(_)) => {
                let body = later_body?;
                for range in earlier.changes.ranges.iter() {
                    for gap in later.changes.ranges.gaps(&range) {
                        copy(&earlier.bytes, self.body.as_deref(), &*body, gap)?;
                    }
                }
                self.body = Some(body);
            }
            (Bytes::Body(_) | Bytes::WholeBody(_), Bytes::Memory(_)) => {
                let body = self.body.as_ref()?;
                body.set_len(later.size).ok()?;
                for range in later.changes.ranges.iter() {
                    copy(&later.bytes, None, &**body, range)?;
                }
            }
            (Bytes::Nowhere, Bytes::Memory(_)) => {}
            (_, Bytes::Nowhere) => return None,
        }
        if later.bytes.body().is_some() || matches!(earlier.bytes, Bytes::Nowhere) {
            earlier.bytes = later.bytes;
        }
        earlier.changes = earlier.changes.followed_by(&later.changes, later.size);
        (earlier.mtime, earlier.user) = (later.mtime, later.user);
        Some(self)
    }

    /// Makes a file of the table of it.
    fn put_into(self, state: &mut State, files: &BodyFiles) -> Option<()> {
        let Sketch { base, base_limit, size, mut changes, mtime, user, bytes, .. } = self.sketch;
        // What lies behind the base is written or a hole.
        let mut present = changes.ranges.clone();
        present.insert(base_limit.min(size)..size);
        let holes = changes.ranges.gaps(&(base_limit.min(size)..size));
        let disk = |file| Some(Body::Disk { file, present: present.clone() });
        let body = match bytes {
            Bytes::Nowhere => None,
            Bytes::Memory(bytes) if present.contains(&(0..size)) => Some(Body::Memory(bytes)),
            Bytes::Memory(bytes) => {
                let file = files.make().ok()?;
                file.file().set_len(size).ok()?;
                for range in changes.ranges.iter() {
                    let bytes = bytes.get(range.start as usize..range.end as usize)?;
                    file.file().write_at(range.start, [&[], bytes]).ok()?;
                }
                disk(file)
            }
            Bytes::Body(number) | Bytes::WholeBody(number) => {
                let mut body = disk(Arc::new(BodyFile::open(files.disk(), &number.to_string()).ok()?));
                for hole in holes {
                    // A write in whose middle the daemon was killed left bytes there that nobody was answered, and no commit would
                    // take. Where they cannot go they are taken.
                    if zero_body(body.as_mut()?, hole.clone()).is_err() {
                        changes.ranges.insert(hole);
                    }
                }
                body
            }
        };
        (state.base, state.base_limit, state.size) = (base, base_limit, size);
        (state.mtime, state.user) = (mtime, user);
        let now = state.time();
        state.life.recovered(body, changes, now);
        Some(())
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

/// The body in which a sketch has its bytes, if it has one; nothing if that is gone.
fn open_body(disk: &dyn StagingDisk, sketch: &Sketch) -> Option<Option<Box<dyn StagingFile>>> {
    let Some(number) = sketch.bytes.body() else { return Some(None) };
    disk.open(&number.to_string()).ok().map(Some)
}

/// Copies bytes to the same place of a body; what is not there is a hole.
fn copy(bytes: &Bytes, from: Option<&dyn StagingFile>, to: &dyn StagingFile, range: Range<u64>) -> Option<()> {
    let mut at = range.start;
    while at < range.end {
        let end = range.end.min(at + COPY_LEN);
        let piece = match bytes {
            Bytes::Memory(bytes) => {
                let there = bytes.get(at as usize..(end as usize).min(bytes.len())).unwrap_or_default();
                let mut piece = there.to_vec();
                piece.resize((end - at) as usize, 0);
                piece
            }
            Bytes::Nowhere => vec![0; (end - at) as usize],
            Bytes::Body(_) | Bytes::WholeBody(_) => from?.read_at(at, (end - at) as usize).ok()?,
        };
        to.write_at(at, [&[], &piece]).ok()?;
        at = end;
    }
    Some(())
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
        let file = OpenFile::new(id, inode, self.contents.host());
        let mut state = file.state();
        state.is_beside = stands == Stands::Beside;
        merged.put_into(&mut state, &self.files)?;
        state.journal_image(&*self.contents, &self.files);
        drop(state);
        Some(file)
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
