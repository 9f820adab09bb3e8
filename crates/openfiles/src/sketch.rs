//! What the journal says a file was, put together: its base, and what programs changed of it.
//!
//! Generations that follow each other are put one over the other, the first last, into one body. What is longer than the journal says was
//! not answered; where a body is written past the daemon, all of it counts.

use super::base::Base;
use super::body::{Body, BodyFile, Look, MEMORY_MAX, zero_body};
use super::body_files::BodyFiles;
use super::journal::{Entry, Held, Image};
use super::life::Changes;
use super::open_file::SIZE_MAX;
use super::ranges::RangeSet;
use super::staging::{StagingDisk, StagingFile};
use super::state::State;
use std::ops::Range;
use std::sync::Arc;
use wayfs_types::WallTime;

/// Bytes of a body that are copied at a time.
const COPY_LEN: u64 = 1 << 20;

/// The uncommitted state of a file.
#[derive(Debug, Clone)]
pub(super) struct Sketch {
    pub(super) base: Base,
    pub(super) base_limit: u64,
    pub(super) size: u64,
    pub(super) changes: Changes,
    pub(super) mtime: WallTime,
    pub(super) user: u32,
    pub(super) bytes: Bytes,
    /// Something was uncommitted already when its body was begun.
    pub(super) follows_changes: bool,
    /// It was no more than left when the journal was written.
    pub(super) is_beside: bool,
}

/// Where the changed bytes of a sketch are.
#[derive(Debug, Clone)]
pub(super) enum Bytes {
    Nowhere,
    /// Here, each in its place.
    Memory(Vec<u8>),
    Body(u64),
    WholeBody(u64),
}

impl Bytes {
    pub(super) fn body(&self) -> Option<u64> {
        match self {
            Self::Body(number) | Self::WholeBody(number) => Some(*number),
            Self::Nowhere | Self::Memory(_) => None,
        }
    }
}

impl Sketch {
    /// What an image says; nothing if it cannot be.
    pub(super) fn of(image: Image, bytes: &[u8]) -> Option<Self> {
        let Image { base, base_limit, size, low_water, is_appended, mtime, user, held, is_beside, .. } = image;
        // There is no more of it.
        let base_limit = base_limit.min(base.content.size());
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
    pub(super) fn step(&mut self, step: &Entry, bytes: &[u8]) -> bool {
        match *step {
            Entry::Write { offset, len, mtime, user, is_appended, .. } => {
                let Some(end) = offset.checked_add(len).filter(|end| *end <= SIZE_MAX) else { return false };
                if matches!(self.bytes, Bytes::Nowhere) {
                    return false;
                }
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
    pub(super) fn has_changes_before(&self, later: &Self) -> bool {
        self.follows_changes || !self.is_whole_body() || self.bytes.body() != later.bytes.body()
    }

    pub(super) fn is_whole_body(&self) -> bool {
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
pub(super) enum Goes {
    On,
    NoFurther,
}

/// What is put together of a file.
pub(super) struct Merged {
    pub(super) sketch: Sketch,
    /// That of the sketch, if it has one.
    pub(super) body: Option<Box<dyn StagingFile>>,
}

impl Merged {
    pub(super) fn of(disk: &dyn StagingDisk, mut sketch: Sketch, goes: Goes) -> Option<Self> {
        let body = open_body(disk, &sketch)?;
        if let Some(body) = body.as_ref().filter(|_| goes == Goes::NoFurther || sketch.is_whole_body()) {
            sketch.fit(&**body)?;
        }
        Some(Self { sketch, body })
    }

    /// Puts states together, the first last.
    pub(super) fn all(disk: &dyn StagingDisk, mut chain: Vec<Sketch>) -> Option<Self> {
        let goes = |left: &Vec<Sketch>| if left.is_empty() { Goes::NoFurther } else { Goes::On };
        let first = chain.pop()?;
        let mut merged = Self::of(disk, first, goes(&chain))?;
        while let Some(later) = chain.pop() {
            merged = merged.then(disk, later, goes(&chain))?;
        }
        Some(merged)
    }

    /// Takes away what a version that this machine made already holds of what was appended: a commit was asked for, and the kill came before
    /// the journal heard of its record. `None` if that version holds all. `read` is asked for bytes of it; what cannot be read counts as
    /// another machine's.
    pub(super) fn beyond(mut self, made: &Base, read: impl FnOnce(Range<u64>) -> Option<Vec<u8>>) -> Option<Self> {
        let Sketch { base, base_limit, size, changes, bytes, .. } = &self.sketch;
        let (start, end) = (base.content.size(), made.content.size());
        let is_appended = changes.is_appended && changes.low_water.is_none() && *base_limit == start;
        let is_all = changes.ranges == RangeSet::of(start..*size);
        let may_hold = made.version != base.version && start < end && end <= *size;
        if !(may_hold && is_appended && is_all) {
            return Some(self);
        }
        let len = (end - start) as usize;
        let appended = match bytes {
            Bytes::Memory(all) => all.get(start as usize..end as usize).map(<[u8]>::to_vec),
            Bytes::Body(_) | Bytes::WholeBody(_) => self.body.as_ref().and_then(|body| body.read_at(start, len).ok()),
            Bytes::Nowhere => None,
        };
        if appended.is_none() || appended != read(start..end) {
            return Some(self);
        }
        if end == *size {
            return None;
        }
        self.sketch.changes.ranges = RangeSet::of(end..self.sketch.size);
        (self.sketch.base, self.sketch.base_limit) = (made.clone(), end);
        Some(self)
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
    pub(super) fn put_into(self, state: &mut State, files: &BodyFiles) -> Option<()> {
        let Sketch { base, base_limit, size, mut changes, mtime, user, bytes, .. } = self.sketch;
        // What lies behind the base is written or a hole.
        let mut present = changes.ranges.clone();
        present.insert(base_limit.min(size)..size);
        let holes = changes.ranges.gaps(&(base_limit.min(size)..size));
        let disk = |file| Some(Body::Disk { file, present: present.clone() });
        let body = match bytes {
            Bytes::Nowhere if size <= base_limit => None,
            // It was made longer: a hole.
            Bytes::Nowhere => {
                let file = files.make().ok()?;
                file.file().set_len(size).ok()?;
                disk(file)
            }
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
