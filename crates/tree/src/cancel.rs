//! Log cancellation: what was overwritten or removed before anyone was told
//! need not be told.
//!
//! Works on the unsent records of one origin. A record that is cancelled
//! becomes a [`Op::Touch`], which keeps its place in the sequence. What is
//! cancelled:
//!
//! * of two stores upon one another, the first;
//! * a create and its first store become a create with content (only if asked
//!   for: the version is then the create's);
//! * of two changes of attributes upon one another, the first, whose fields go
//!   into the second; of two settings of one extended attribute, the first;
//! * a file that was made and removed (by unlink or by a rename over it) in the
//!   log: all of its records. If it had itself replaced another file, its
//!   removal becomes the removal of that one: ten saves by an editor become one;
//! * a directory that was made and removed in the log and in which nothing was ever
//!   done (programs lock by making a directory): both records.
//!
//! Nothing is searched: per file there is the little that the next record may
//! cancel, so a record costs the logarithm of the number of files.
//!
//! Without records of others the tree comes out the same but for versions and
//! the times of directories, births and changes. With them, nothing is lost
//! that the writer still had at the end of the log.

use std::collections::{BTreeMap, BTreeSet};
use wayfs_types::AttrVersion;
use wayfs_types::{AttrChange, FileId, Name, Op, Record, RecordId, Replaced, UserId, WallTime, XattrName};

/// Files remembered at most. One more and all are forgotten: cancellation saves
/// work, so giving it up costs work only. 65,536 files take some 20 MiB.
const FILES_MAX: usize = 65_536;
/// Live records of one made file remembered at most; a file with more stays in the log.
const RECORDS_PER_FILE_MAX: usize = 64;

/// Whether a create takes in the content of the file's first store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CreateFolding {
    /// No: every content keeps the version that its writer knows it by.
    Keep,
    /// Yes: one record less, and the content's version is the create's id. Later records that name
    /// the store's id are understood.
    Fold,
}

/// The unsent records of one origin, as far as later ones may cancel them.
#[derive(Debug, Clone)]
pub struct Canceller {
    folding: CreateFolding,
    files: BTreeMap<FileId, FileLog>,
    /// Files by the last record that named them, to forget them when it is sent.
    by_last: BTreeSet<(RecordId, FileId)>,
    /// Directories made in the log in which nothing has happened.
    untouched: BTreeMap<FileId, MadeDirectory>,
    /// The newest record taken.
    newest: RecordId,
    /// The newest record that stays as it is.
    kept: RecordId,
}

/// Enough of a record to make a touch of it.
#[derive(Debug, Clone, Copy)]
struct Header {
    id: RecordId,
    time: WallTime,
    user: UserId,
}

impl Header {
    fn of(record: &Record) -> Self {
        Self { id: record.id, time: record.time, user: record.user }
    }

    fn touch(self) -> Record {
        Record { id: self.id, time: self.time, user: self.user, op: Op::Touch }
    }
}

#[derive(Debug, Clone)]
struct FileLog {
    last: RecordId,
    made: Option<Made>,
    store: Option<StoreMark>,
    attributes: Option<AttrMark>,
    xattr: Option<(Header, XattrName)>,
    /// Another origin's record named it.
    is_shared: bool,
}

/// A file whose life began in the log and that has one name.
#[derive(Debug, Clone)]
struct Made {
    create: Record,
    /// All its live records in order, the create first.
    records: Vec<Header>,
    place: (FileId, Name),
    /// The version of the content that is folded into the create.
    folded: RecordId,
    /// The version of the content that it has by now.
    current: RecordId,
    /// What stood at its place before, and the rename that replaced it.
    replaced: Option<(Replaced, RecordId)>,
}

/// A directory whose life began in the log.
#[derive(Debug, Clone)]
struct MadeDirectory {
    header: Header,
    place: (FileId, Name),
}

#[derive(Debug, Clone, Copy)]
struct StoreMark {
    header: Header,
    base: RecordId,
}

#[derive(Debug, Clone, Copy)]
struct AttrMark {
    header: Header,
    base: AttrVersion,
    change: AttrChange,
}

/// The directories in which an operation makes, moves or removes a name.
pub fn parents_of(op: &Op) -> impl Iterator<Item = FileId> {
    let (first, second) = match op {
        Op::Create { parent, .. }
        | Op::Mkdir { parent, .. }
        | Op::Link { parent, .. }
        | Op::Unlink { parent, .. }
        | Op::Rmdir { parent, .. } => (Some(*parent), None),
        Op::Rename { from_parent, to_parent, .. } | Op::Exchange { from_parent, to_parent, .. } => {
            (Some(*from_parent), Some(*to_parent))
        }
        Op::SetAttr { .. }
        | Op::SetXattr { .. }
        | Op::Store { .. }
        | Op::Resolve { .. }
        | Op::Touch
        | Op::Skip { .. }
        | Op::Lost { .. } => (None, None),
    };
    first.into_iter().chain(second)
}

impl Canceller {
    /// Knows nothing yet.
    pub const fn new(folding: CreateFolding) -> Self {
        Self {
            folding,
            files: BTreeMap::new(),
            by_last: BTreeSet::new(),
            untouched: BTreeMap::new(),
            newest: RecordId::GENESIS,
            kept: RecordId::GENESIS,
        }
    }

    /// Takes the log's newest record and answers the records, by their ids, that are to stand
    /// from here on in place of those in the log; the newest is among them if it changes itself.
    pub fn push(&mut self, record: &Record) -> Vec<Record> {
        self.make_room();
        self.newest = record.id;
        self.touch_directories(&record.op);
        match &record.op {
            Op::Create { parent, name, .. } => {
                self.create(record, (*parent, name.clone()));
                Vec::new()
            }
            Op::Store { file, .. } => self.store(record, *file),
            Op::SetAttr { file, base, change } => self.set_attr(record, *file, *base, *change),
            Op::SetXattr { file, name, .. } => self.set_xattr(record, *file, name),
            Op::Unlink { parent, name, file, version } => {
                self.unlink(record, (*file, *version), (*parent, name.clone()))
            }
            Op::Rename { .. } => self.rename(record),
            Op::Exchange { file, other, .. } => {
                // Which of the two is removed later under which name says nothing of what stood there first.
                for file in [*file, *other] {
                    self.file(file, record.id).made = None;
                }
                Vec::new()
            }
            Op::Link { file, .. } => {
                // With two names it depends on others which removal is the last: what was stored
                // before stays stored before.
                let log = self.file(*file, record.id);
                log.made = None;
                log.store = None;
                Vec::new()
            }
            Op::Mkdir { parent, name, .. } => {
                let made = MadeDirectory { header: Header::of(record), place: (*parent, name.clone()) };
                self.untouched.insert(FileId::made_by(record.id), made);
                Vec::new()
            }
            Op::Rmdir { parent, name, file } => self.rmdir(record, *file, (*parent, name.clone())),
            Op::Resolve { .. } | Op::Touch | Op::Skip { .. } | Op::Lost { .. } => Vec::new(),
        }
    }

    /// A record of another origin follows in the log: what it names can be cancelled no more.
    pub fn observe(&mut self, foreign: &Record) {
        self.make_room();
        self.touch_directories(&foreign.op);
        if let Op::Rmdir { file, .. } = &foreign.op {
            self.untouched.remove(file);
        }
        match &foreign.op {
            Op::Link { file, .. }
            | Op::Unlink { file, .. }
            | Op::SetAttr { file, .. }
            | Op::SetXattr { file, .. }
            | Op::Store { file, .. }
            | Op::Lost { file, .. } => self.share(*file),
            Op::Rename { file, replaced, .. } => {
                self.share(*file);
                if let Some(replaced) = replaced {
                    self.share(replaced.file);
                }
            }
            Op::Exchange { file, other, .. } => [*file, *other].into_iter().for_each(|file| self.share(file)),
            Op::Create { .. }
            | Op::Mkdir { .. }
            | Op::Rmdir { .. }
            | Op::Resolve { .. }
            | Op::Touch
            | Op::Skip { .. } => {}
        }
    }

    /// Records up to this one were sent (or promised to someone) and stay as they are.
    pub fn forget(&mut self, through: RecordId) {
        self.kept = self.kept.max(through);
        while let Some((last, file)) = self.by_last.first().copied().filter(|(last, _)| *last <= through) {
            self.by_last.remove(&(last, file));
            self.files.remove(&file);
        }
        self.untouched.retain(|_, made| made.header.id > through);
    }

    /// Something is done in directories, or to them: they are not to vanish without a trace.
    fn touch_directories(&mut self, op: &Op) {
        for directory in parents_of(op) {
            self.untouched.remove(&directory);
        }
        match op {
            Op::SetAttr { file, .. } | Op::SetXattr { file, .. } => {
                self.untouched.remove(file);
            }
            Op::Rename { file, replaced, .. } => {
                self.untouched.remove(file);
                if let Some(replaced) = replaced {
                    self.untouched.remove(&replaced.file);
                }
            }
            Op::Exchange { file, other, .. } => {
                self.untouched.remove(file);
                self.untouched.remove(other);
            }
            Op::Create { .. }
            | Op::Mkdir { .. }
            | Op::Link { .. }
            | Op::Unlink { .. }
            | Op::Rmdir { .. }
            | Op::Store { .. }
            | Op::Resolve { .. }
            | Op::Touch
            | Op::Skip { .. }
            | Op::Lost { .. } => {}
        }
    }

    fn rmdir(&mut self, record: &Record, file: FileId, place: (FileId, Name)) -> Vec<Record> {
        let kept = self.kept;
        let made = self.untouched.remove(&file).filter(|made| made.place == place && made.header.id > kept);
        made.map(|made| vec![made.header.touch(), Header::of(record).touch()]).unwrap_or_default()
    }

    fn make_room(&mut self) {
        if self.files.len() + self.untouched.len() >= FILES_MAX {
            self.files.clear();
            self.untouched.clear();
            self.by_last.clear();
        }
    }

    fn share(&mut self, file: FileId) {
        let newest = self.newest;
        let log = self.file(file, newest);
        *log = FileLog { is_shared: true, ..FileLog::new(log.last) };
    }

    /// What is known of a file, noting that a record names it.
    fn file(&mut self, file: FileId, named_by: RecordId) -> &mut FileLog {
        let kept = self.kept;
        self.by_last.insert((named_by, file));
        let log = self.files.entry(file).or_insert_with(|| FileLog::new(named_by));
        if log.last != named_by {
            self.by_last.remove(&(log.last, file));
            log.last = named_by;
        }
        log.keep(kept);
        log
    }

    fn drop_file(&mut self, file: FileId) {
        if let Some(log) = self.files.remove(&file) {
            self.by_last.remove(&(log.last, file));
        }
    }

    fn create(&mut self, record: &Record, place: (FileId, Name)) {
        let records = vec![Header::of(record)];
        let made =
            Made { create: record.clone(), records, place, folded: record.id, current: record.id, replaced: None };
        self.file(FileId::made_by(record.id), record.id).made = Some(made);
    }

    fn store(&mut self, record: &Record, file: FileId) -> Vec<Record> {
        let Op::Store { base, content, mtime, .. } = &record.op else { return Vec::new() };
        let folding = self.folding;
        let log = self.file(file, record.id);
        log.attributes.take_if(|mark| mark.change.mtime.is_some());
        // A store upon anything but the version that the log itself left there is a conflict: it goes to
        // a copy, which outlives this file.
        log.made.take_if(|made| made.current != *base);
        if let Some(made) = log.made.as_mut() {
            made.current = record.id;
        }
        if folding == CreateFolding::Fold
            && let Some(made) = log.made.as_mut()
            && made.records.len() == 1
            && *base == made.folded
            && (made.create.time..=record.time).contains(mtime)
            && let Op::Create { content: initial, .. } = &mut made.create.op
        {
            *initial = content.clone();
            made.folded = record.id;
            made.create.time = *mtime;
            made.records[0].time = *mtime;
            return vec![made.create.clone(), Header::of(record).touch()];
        }
        let earlier = log.store.take_if(|mark| mark.header.id == *base);
        let base = earlier.map_or(*base, |mark| mark.base);
        log.store = Some(StoreMark { header: Header::of(record), base });
        log.note(record, earlier.map(|mark| mark.header));
        let Some(earlier) = earlier else { return Vec::new() };
        let op = Op::Store { file, base, content: content.clone(), mtime: *mtime };
        vec![earlier.header.touch(), Record { op, ..record.clone() }]
    }

    fn set_attr(&mut self, record: &Record, file: FileId, base: AttrVersion, change: AttrChange) -> Vec<Record> {
        let log = self.file(file, record.id);
        let earlier = log.attributes.take_if(|mark| AttrVersion(mark.header.id) == base);
        let (base, change) = match earlier {
            Some(mark) => (mark.base, merged(mark.change, change)),
            None => (base, change),
        };
        log.attributes = Some(AttrMark { header: Header::of(record), base, change });
        log.note(record, earlier.map(|mark| mark.header));
        let Some(earlier) = earlier else { return Vec::new() };
        vec![earlier.header.touch(), Record { op: Op::SetAttr { file, base, change }, ..record.clone() }]
    }

    fn set_xattr(&mut self, record: &Record, file: FileId, name: &XattrName) -> Vec<Record> {
        let log = self.file(file, record.id);
        let earlier = log.xattr.take_if(|(_, last)| last == name).map(|(header, _)| header);
        log.xattr = Some((Header::of(record), name.clone()));
        log.note(record, earlier);
        earlier.map(|header| vec![header.touch()]).unwrap_or_default()
    }

    fn unlink(&mut self, record: &Record, (file, seen): (FileId, RecordId), place: (FileId, Name)) -> Vec<Record> {
        let Some((made, before)) = self.take_whole_life(file, seen, &place) else {
            // The record names a version: what stored it must reach the home under that name.
            let log = self.file(file, record.id);
            log.store = None;
            log.made = None;
            return Vec::new();
        };
        let mut changed: Vec<Record> = made.records.iter().map(|header| header.touch()).collect();
        changed.push(match before {
            None => Header::of(record).touch(),
            Some(Replaced { file, version }) => {
                self.file(file, record.id).store = None;
                let (parent, name) = place;
                Record { op: Op::Unlink { parent, name, file, version }, ..record.clone() }
            }
        });
        changed
    }

    fn rename(&mut self, record: &Record) -> Vec<Record> {
        let Op::Rename { from_parent, from_name, file, to_parent, to_name, replaced } = &record.op else {
            return Vec::new();
        };
        let to = (*to_parent, to_name.clone());
        let mut changed = Vec::new();
        let mut before = *replaced;
        if let Some(seen) = replaced {
            match self.take_whole_life(seen.file, seen.version, &to) {
                Some((made, earlier)) => {
                    changed.extend(made.records.iter().map(|header| header.touch()));
                    before = earlier;
                    let mut rewritten = record.clone();
                    if let Op::Rename { replaced, .. } = &mut rewritten.op {
                        *replaced = earlier;
                    }
                    changed.push(rewritten);
                }
                None => self.file(seen.file, record.id).made = None,
            }
        }
        if let Some(before) = before {
            self.file(before.file, record.id).store = None;
        }
        let log = self.file(*file, record.id);
        let is_private =
            |made: &Made| made.replaced.is_none() && made.place.0 == *from_parent && made.place.1 == *from_name;
        match log.made.as_mut() {
            Some(made) if is_private(made) => {
                made.place = to;
                made.replaced = before.map(|before| (before, record.id));
            }
            _ => log.made = None,
        }
        log.note(record, None);
        changed
    }

    /// Forgets a file that was made in the log and loses its only name at `place`, and answers its
    /// life and what its place held before; nothing if some of it must stay.
    ///
    /// Who removes it must have seen the last of it: where a version of somebody else came between and is in the log no more,
    /// what the writer stored upon his own lives on as a copy.
    fn take_whole_life(
        &mut self,
        file: FileId,
        seen: RecordId,
        place: &(FileId, Name),
    ) -> Option<(Made, Option<Replaced>)> {
        let made = self.files.get(&file)?.made.as_ref();
        let made = made.filter(|made| made.current == seen && made.place == *place && made.create.id > self.kept)?;
        let before = match &made.replaced {
            None => None,
            // Nobody may have touched the replaced file under another of its names since.
            Some((replaced, by)) => {
                let is_untouched = self.files.get(&replaced.file).is_none_or(|log| log.last <= *by && !log.is_shared);
                Some(*is_untouched.then_some(replaced)?)
            }
        };
        let made = self.files.get_mut(&file)?.made.take()?;
        self.drop_file(file);
        Some((made, before))
    }
}

impl FileLog {
    const fn new(last: RecordId) -> Self {
        Self { last, made: None, store: None, attributes: None, xattr: None, is_shared: false }
    }

    /// Lets go of what can no longer be cancelled.
    fn keep(&mut self, kept: RecordId) {
        self.made.take_if(|made| made.create.id <= kept);
        self.store.take_if(|mark| mark.header.id <= kept);
        self.attributes.take_if(|mark| mark.header.id <= kept);
        self.xattr.take_if(|(header, _)| header.id <= kept);
    }

    /// Counts a record among the made file's own, in place of one that it cancelled.
    fn note(&mut self, record: &Record, cancelled: Option<Header>) {
        let Some(made) = self.made.as_mut() else { return };
        if let Some(cancelled) = cancelled {
            made.records.retain(|header| header.id != cancelled.id);
        }
        made.records.push(Header::of(record));
        if made.records.len() > RECORDS_PER_FILE_MAX {
            self.made = None;
        }
    }
}

fn merged(first: AttrChange, second: AttrChange) -> AttrChange {
    AttrChange {
        mode: second.mode.or(first.mode),
        uid: second.uid.or(first.uid),
        gid: second.gid.or(first.gid),
        mtime: second.mtime.or(first.mtime),
    }
}
