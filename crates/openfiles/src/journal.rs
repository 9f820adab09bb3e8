//! The journal of what is in no record: what programs wrote survives a kill of the daemon.
//!
//! A write that returned is a promise of the file system: it ends with the machine, not with the daemon. So before a
//! write is answered, a **frame** about it is in a plain file, whose pages the host keeps when this process is killed.
//! Frames of a file belong to a **generation**: it begins with an **image**, all that is uncommitted of the file at one
//! moment, and goes on with the steps since. Bytes of files that are in memory stand in the frames; bytes of bodies
//! stand in the body, which is a plain file itself, and frames only say which of them are the program's.
//!
//! A generation **ends** when a record holds what it holds, and not before the host has that record: what is committed
//! stays in the memory of this process for a moment. The next generation of the file may begin meanwhile, upon that record: who
//! has not got the record needs both, in their order. It may begin upon another machine's version as well: who has not got the
//! record needs each by itself. So the journal says which record it is. The next daemon makes of every generation that did not end
//! what the file was ([`super::recovery`]).
//!
//! Segments follow each other; one goes when no generation in it or before it lives. Nothing is synced: after a crash of
//! the machine the journal says nothing, as the host promises nothing of it, and segments name the boot for that.

use super::base::Base;
use super::body::BodyFile;
use super::staging::{StagingDisk, StagingFile};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{Error, Result};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use wayfs_types::{RecordId, WallTime};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// A segment that is longer is followed by another one.
const SEGMENT_LEN: u64 = 16 << 20;
/// Bytes between two looks at the room on the disk.
const ROOM_STEP: u64 = 1 << 20;
/// What segments are called, before their number.
const PREFIX: &str = "journal-";
/// First bytes of a segment: what it is, and the version of its form.
const MAGIC: &[u8; 8] = b"WFSJRNL2";
/// Bytes before the head of a frame: two lengths, a sum, and whether it counts.
const FRAME_LEN: usize = 17;
/// Where in a frame it says that it does not count.
const VOID_AT: u64 = 16;

/// One thing that the journal says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Entry {
    /// A generation begins.
    Image(Box<Image>),
    /// Bytes were written: those that follow, or those of the body.
    Write {
        generation: u64,
        offset: u64,
        len: u64,
        mtime: WallTime,
        user: u32,
        /// All that is uncommitted was written through handles that append.
        is_appended: bool,
    },
    /// The file got another length.
    Resize { generation: u64, size: u64, mtime: WallTime, user: u32 },
    /// What a generation holds is in a record, or nobody wants it.
    End { generation: u64 },
    /// A record holds what a generation holds, and may not be with the host yet.
    Settled { generation: u64, record: RecordId },
}

/// All that is uncommitted of a file at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Image {
    pub(super) generation: u64,
    /// The generation of which it says all, and more.
    pub(super) replaces: Option<u64>,
    pub(super) base: Base,
    /// Bytes of the base at and above this are gone.
    pub(super) base_limit: u64,
    pub(super) size: u64,
    pub(super) low_water: Option<u64>,
    pub(super) is_appended: bool,
    pub(super) mtime: WallTime,
    pub(super) user: u32,
    pub(super) held: Held,
    /// What was written: start and end, in order.
    pub(super) ranges: Vec<(u64, u64)>,
    /// An earlier daemon left it upon another version than the one that programs went on from.
    pub(super) is_beside: bool,
}

/// Where the bytes of an image are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Held {
    /// There are none.
    Nowhere,
    /// Behind the image, those of all ranges, and later behind each write.
    Here,
    /// In the body of this number.
    Body(u64),
    /// All of that body, whatever the ranges say: programs write it by passthrough.
    WholeBody(u64),
}

impl Held {
    /// The number of the body.
    pub(super) fn body(self) -> Option<u64> {
        match self {
            Self::Body(number) | Self::WholeBody(number) => Some(number),
            Self::Nowhere | Self::Here => None,
        }
    }
}

/// A place in the journal where an image stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    segment: u64,
    offset: u64,
}

/// A generation that ends when the host has the record.
#[derive(Debug)]
pub(super) struct Ending {
    pub(super) generation: u64,
    /// Everything up to here is to be with the host before.
    pub(super) recorded: u64,
    /// Its bytes stay as long.
    pub(super) body: Option<Arc<BodyFile>>,
}

#[derive(Debug)]
struct Segment {
    number: u64,
    file: Box<dyn StagingFile>,
    len: u64,
    /// Up to here the disk was seen to have room.
    checked: u64,
}

/// The journal of one mount. A leaf in the order of locks.
#[derive(Debug)]
pub(super) struct Journal {
    disk: Arc<dyn StagingDisk>,
    boot: String,
    inner: Mutex<Inner>,
    /// As if the disk were full.
    #[cfg(test)]
    is_refused: std::sync::atomic::AtomicBool,
}

#[derive(Debug)]
struct Inner {
    segment: Option<Segment>,
    /// Segments before it that were not removed yet.
    older: Vec<u64>,
    next_segment: u64,
    next_generation: u64,
    /// Generations that did not end, and the segments in which they begin.
    live: BTreeMap<u64, u64>,
    ending: VecDeque<Ending>,
    /// Generations of which it does not say yet which record holds them.
    settled: BTreeMap<u64, RecordId>,
}

impl Journal {
    /// One that goes on after what an earlier daemon left.
    pub(super) fn after(disk: Arc<dyn StagingDisk>, left: &Left) -> Self {
        let inner = Inner {
            segment: None,
            older: Vec::new(),
            next_segment: left.last_segment + 1,
            next_generation: left.last_generation + 1,
            live: BTreeMap::new(),
            ending: VecDeque::new(),
            settled: BTreeMap::new(),
        };
        let boot = disk.boot();
        Self {
            disk,
            boot,
            inner: Mutex::new(inner),
            #[cfg(test)]
            is_refused: std::sync::atomic::AtomicBool::new(false),
        }
    }

    /// Takes nothing from now on, or does again.
    #[cfg(test)]
    pub(super) fn refuse(&self, is_refused: bool) {
        self.is_refused.store(is_refused, std::sync::atomic::Ordering::Relaxed);
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of the next generation.
    pub(super) fn next_generation(&self) -> u64 {
        let mut inner = self.inner();
        inner.next_generation += 1;
        inner.next_generation - 1
    }

    /// The number that the next generation will have.
    pub(super) fn coming_generation(&self) -> u64 {
        self.inner().next_generation
    }

    /// Begins a generation. Everything recorded up to `written` is with the host.
    ///
    /// # Errors
    /// What the host says; then the journal is as before.
    pub(super) fn begin(&self, written: u64, image: Image, bytes: &[u8]) -> Result<Place> {
        let (generation, replaces) = (image.generation, image.replaces);
        let mut inner = self.inner();
        let place = self.append(&mut inner, written, &Entry::Image(Box::new(image)), bytes)?;
        inner.live.insert(generation, place.segment);
        if let Some(other) = replaces {
            inner.live.remove(&other);
        }
        Ok(place)
    }

    /// Goes on with a generation.
    ///
    /// # Errors
    /// As for [`Journal::begin`].
    pub(super) fn go_on(&self, written: u64, step: &Entry, bytes: &[u8]) -> Result<()> {
        self.append(&mut self.inner(), written, step, bytes).map(|_| ())
    }

    /// A generation is about to end. The record that holds it is named with what is said next.
    pub(super) fn end(&self, ending: Ending, record: Option<RecordId>) {
        let mut inner = self.inner();
        inner.settled.extend(record.map(|record| (ending.generation, record)));
        inner.ending.push_back(ending);
    }

    /// A record holds what a generation says. It is named with what is said next.
    pub(super) fn settle(&self, generation: u64, record: RecordId) {
        self.inner().settled.insert(generation, record);
    }

    /// Names the records that were to be named with what is said next.
    pub(super) fn name_records(&self, written: u64) {
        let mut inner = self.inner();
        if inner.segment.is_some()
            && !inner.settled.is_empty()
            && let Err(error) = self.append_all(&mut inner, written, &[])
        {
            tracing::debug!(%error, "say in the journal which records hold what it says");
        }
    }

    /// Lets go of bodies that stayed until the host had everything recorded up to `written`; answers whether there were any.
    pub(super) fn let_bodies_go(&self, written: u64) -> bool {
        let mut inner = self.inner();
        let ended = inner.ending.iter_mut().take_while(|ending| ending.recorded <= written);
        let bodies: Vec<_> = ended.filter_map(|ending| ending.body.take()).collect();
        drop(inner);
        !bodies.is_empty()
    }

    /// Whether bodies stay for generations that end when the host has their records.
    pub(super) fn keeps_bodies(&self) -> bool {
        self.inner().ending.iter().any(|ending| ending.body.is_some())
    }

    /// What a generation says is wrong from now on, and there is no room to say so: its image is crossed out.
    pub(super) fn cross_out(&self, generation: u64, place: Place) {
        let mut inner = self.inner();
        inner.live.remove(&generation);
        let crossed = self.disk.open(&segment_name(place.segment));
        if let Err(error) = crossed.and_then(|file| file.write_at(place.offset + VOID_AT, [&[], &[1]])) {
            tracing::error!(%error, "the journal of open files says what is not so any more");
        }
    }

    /// Whether a generation begins in a segment that waits to be removed.
    pub(super) fn is_in_the_way(&self, generation: u64) -> bool {
        let inner = self.inner();
        let current = inner.segment.as_ref().map(|segment| segment.number);
        inner.live.get(&generation).is_some_and(|begun| current.is_some_and(|current| *begun < current))
    }

    /// Says what ended with what the host has, if anything did.
    pub(super) fn tell_ended(&self, written: u64) {
        let mut inner = self.inner();
        if inner.segment.is_some()
            && inner.ending.front().is_some_and(|first| first.recorded <= written)
            && let Err(error) = self.append_all(&mut inner, written, &[])
        {
            tracing::debug!(%error, "say in the journal what ended");
        }
    }

    /// Removes what nobody needs any more, and says what ended.
    pub(super) fn tidy(&self, written: u64) {
        let mut inner = self.inner();
        let Some(current) = inner.segment.as_ref().map(|segment| segment.number) else { return };
        if inner.is_over(written) {
            let ended = inner.take_ended(written);
            inner.empty(&*self.disk);
            drop(inner);
            drop(ended);
            return;
        }
        let has_ended = inner.ending.front().is_some_and(|first| first.recorded <= written);
        if has_ended && let Err(error) = self.append_all(&mut inner, written, &[]) {
            tracing::debug!(%error, "say in the journal what ended");
        }
        let oldest = inner.live.values().min().copied().unwrap_or(current);
        inner.remove_before(&*self.disk, oldest);
    }

    fn append(&self, inner: &mut Inner, written: u64, entry: &Entry, bytes: &[u8]) -> Result<Place> {
        let offset = self.append_all(inner, written, &[(entry, bytes)])?;
        let segment = inner.segment.as_ref().map_or(0, |segment| segment.number);
        Ok(Place { segment, offset })
    }

    /// Appends what ended, and then entries; answers where the first of these is.
    fn append_all(&self, inner: &mut Inner, written: u64, entries: &[(&Entry, &[u8])]) -> Result<u64> {
        #[cfg(test)]
        if self.is_refused.load(std::sync::atomic::Ordering::Relaxed) {
            return Err(Error::from_raw_os_error(libc::ENOSPC));
        }
        let mut head = Vec::with_capacity(512);
        let ended = inner.ending.iter().take_while(|ending| ending.recorded <= written);
        for ending in ended {
            frame(&mut head, &Entry::End { generation: ending.generation }, &[]);
        }
        for (generation, record) in &inner.settled {
            frame(&mut head, &Entry::Settled { generation: *generation, record: *record }, &[]);
        }
        let marks_len = head.len() as u64;
        let mut bytes: &[u8] = &[];
        for (entry, data) in entries {
            frame(&mut head, entry, data);
            bytes = data;
        }
        let at = self.segment(inner, (head.len() + bytes.len()) as u64)?.append(&head, bytes)?;
        drop(inner.take_ended(written));
        inner.settled.clear();
        Ok(at + marks_len)
    }

    /// The segment to append to.
    fn segment<'i>(&self, inner: &'i mut Inner, len: u64) -> Result<&'i mut Segment> {
        if let Some(full) = inner.segment.take_if(|segment| segment.len > SEGMENT_LEN) {
            inner.older.push(full.number);
        }
        if inner.segment.is_none() {
            self.check_room(ROOM_STEP)?;
            inner.segment = Some(self.make_segment(inner.next_segment)?);
            inner.next_segment += 1;
        }
        let segment = inner.segment.as_mut().expect("made above");
        if segment.len + len > segment.checked {
            self.check_room(len.max(ROOM_STEP))?;
            segment.checked = segment.len + len.max(ROOM_STEP);
        }
        Ok(segment)
    }

    fn make_segment(&self, number: u64) -> Result<Segment> {
        let file = self.disk.create(&segment_name(number))?;
        let mut segment = Segment { number, file, len: 0, checked: 0 };
        segment.append(&header(&self.boot), &[])?;
        Ok(segment)
    }

    /// Refuses to take the room that metadata and removals need.
    fn check_room(&self, len: u64) -> Result<()> {
        if self.disk.journal_room()? < len { Err(Error::from_raw_os_error(libc::ENOSPC)) } else { Ok(()) }
    }
}

impl Inner {
    fn take_ended(&mut self, written: u64) -> Vec<Ending> {
        let mut ended = Vec::new();
        while self.ending.front().is_some_and(|first| first.recorded <= written) {
            let Some(ending) = self.ending.pop_front() else { break };
            self.live.remove(&ending.generation);
            self.settled.remove(&ending.generation);
            ended.push(ending);
        }
        ended
    }

    /// Whether every generation ended.
    fn is_over(&self, written: u64) -> bool {
        let ended = self.ending.iter().take_while(|ending| ending.recorded <= written);
        let ended: BTreeSet<u64> = ended.map(|ending| ending.generation).collect();
        self.live.keys().all(|generation| ended.contains(generation))
    }

    /// Nothing lives: what stands there says nothing.
    fn empty(&mut self, disk: &dyn StagingDisk) {
        if let Some(segment) = self.segment.take() {
            self.older.push(segment.number);
        }
        self.remove_before(disk, u64::MAX);
        self.settled.clear();
    }

    fn remove_before(&mut self, disk: &dyn StagingDisk, number: u64) {
        for gone in self.older.extract_if(.., |older| *older < number) {
            if let Err(error) = disk.remove(&segment_name(gone)) {
                tracing::debug!(%error, "remove a segment of the journal");
            }
        }
    }
}

impl Segment {
    /// Writes behind everything; answers where. What is written in part is cut off again.
    fn append(&mut self, head: &[u8], bytes: &[u8]) -> Result<u64> {
        let at = self.len;
        let written = self.file.write_at(at, [head, bytes]);
        if written.is_err() {
            self.file.set_len(at)?;
            return written.map(|()| at);
        }
        self.len += (head.len() + bytes.len()) as u64;
        Ok(at)
    }
}

/// Bytes of the name of a boot.
const BOOT_LEN: usize = 40;
/// Bytes before the first frame.
const HEADER_LEN: usize = MAGIC.len() + BOOT_LEN;

fn header(boot: &str) -> Vec<u8> {
    let mut header = MAGIC.to_vec();
    header.extend(boot.bytes().take(BOOT_LEN));
    header.resize(HEADER_LEN, 0);
    header
}

fn segment_name(number: u64) -> String {
    format!("{PREFIX}{number}")
}

/// Adds the begin of a frame; its bytes follow.
fn frame(buffer: &mut Vec<u8>, entry: &Entry, bytes: &[u8]) {
    let begin = buffer.len();
    buffer.resize(begin + FRAME_LEN, 0);
    let mut framed = postcard::to_extend(entry, std::mem::take(buffer)).expect("entries can be encoded");
    let head_len = framed.len() - begin - FRAME_LEN;
    let sum = sum(&framed[begin + FRAME_LEN..], bytes);
    framed[begin..begin + 4].copy_from_slice(&(head_len as u32).to_le_bytes());
    framed[begin + 4..begin + 8].copy_from_slice(&(bytes.len() as u32).to_le_bytes());
    framed[begin + 8..begin + 16].copy_from_slice(&sum.to_le_bytes());
    *buffer = framed;
}

/// A segment of these.
#[cfg(test)]
pub(super) fn segment_of(boot: &str, entries: &[(Entry, Vec<u8>)]) -> Vec<u8> {
    let mut segment = header(boot);
    for (entry, bytes) in entries {
        frame(&mut segment, entry, bytes);
        segment.extend(bytes);
    }
    segment
}

fn sum(head: &[u8], bytes: &[u8]) -> u64 {
    xxh3_64_with_seed(bytes, xxh3_64(head))
}

/// An entry and its bytes, as they were found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) entry: Entry,
    pub(super) bytes: Vec<u8>,
    /// It was crossed out.
    pub(super) is_void: bool,
}

/// What an earlier daemon left.
#[derive(Debug, Default)]
pub(super) struct Left {
    pub(super) frames: Vec<Frame>,
    /// Its segments.
    pub(super) segments: Vec<String>,
    pub(super) last_segment: u64,
    pub(super) last_generation: u64,
}

/// Reads the segments of a disk, as far as they are whole and of this boot.
pub(super) fn read(disk: &dyn StagingDisk) -> Left {
    let mut left = Left::default();
    let names = disk.list().unwrap_or_default();
    let mut segments: Vec<(u64, String)> =
        names.into_iter().filter_map(|name| Some((name.strip_prefix(PREFIX)?.parse().ok()?, name))).collect();
    segments.sort();
    let header = header(&disk.boot());
    for (number, name) in segments {
        left.last_segment = number;
        match disk.read(&name) {
            Ok(bytes) if is_known_boot(&header) && bytes.starts_with(&header) => {
                left.frames.extend(Frames(&bytes[HEADER_LEN..]));
            }
            Ok(_) => tracing::debug!("a journal of open files is of another boot"),
            Err(error) => tracing::warn!(%error, "read the journal of open files"),
        }
        left.segments.push(name);
    }
    let generations = left.frames.iter().map(|frame| frame.entry.generation());
    left.last_generation = generations.max().unwrap_or(0);
    left
}

/// Where the system has no name for its boots, every journal may be of another one.
fn is_known_boot(header: &[u8]) -> bool {
    header[MAGIC.len()] != 0
}

impl Entry {
    pub(super) fn generation(&self) -> u64 {
        match self {
            Self::Image(image) => image.generation,
            Self::Write { generation, .. }
            | Self::Resize { generation, .. }
            | Self::End { generation }
            | Self::Settled { generation, .. } => *generation,
        }
    }
}

/// The frames of a segment, up to the first that is not whole.
struct Frames<'b>(&'b [u8]);

impl Iterator for Frames<'_> {
    type Item = Frame;

    fn next(&mut self) -> Option<Frame> {
        let (begin, rest) = self.0.split_at_checked(FRAME_LEN)?;
        let len = |at: usize| Some(u32::from_le_bytes(begin.get(at..at + 4)?.try_into().ok()?) as usize);
        let (head, rest) = rest.split_at_checked(len(0)?)?;
        let (bytes, rest) = rest.split_at_checked(len(4)?)?;
        let wanted = u64::from_le_bytes(begin.get(8..16)?.try_into().ok()?);
        if sum(head, bytes) != wanted {
            return None;
        }
        let entry = postcard::from_bytes(head).ok()?;
        self.0 = rest;
        Some(Frame { entry, bytes: bytes.to_vec(), is_void: begin[VOID_AT as usize] != 0 })
    }
}
