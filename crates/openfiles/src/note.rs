//! Notes about bodies that were closed and have no record yet: what one says, and those that an earlier daemon left.

use super::body::BodyFile;
use super::body_files::BodyFiles;
use super::staging::StagingDisk;
use super::state::State;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use wayfs_types::{FileId, RecordId, WallTime};

/// Version of the form of notes.
const FORMAT: u32 = 2;
/// What notes are called, beside the body they are about.
const EXTENSION: &str = ".closed";
/// What a note is called besides while it is written.
const HALF: &str = "-half";

/// What the next daemon must know about a body.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Note {
    format: u32,
    boot: String,
    /// Whose body it is.
    pub(super) file: FileId,
    /// The version that it replaces.
    pub(super) base: RecordId,
    /// Its length.
    pub(super) len: u64,
    pub(super) mtime: WallTime,
    pub(super) user: u32,
    /// The first generation of the journal that says as much, or more.
    pub(super) generation: u64,
}

/// A body that an earlier daemon left closed and without a record.
#[derive(Debug)]
pub(super) struct Orphan {
    pub(super) note: Note,
    pub(super) body: BodyFile,
}

impl Orphan {
    /// Whose it is.
    pub(super) fn file(&self) -> FileId {
        self.note.file
    }

    /// What body and note are called.
    pub(super) fn names(&self) -> [String; 2] {
        [self.body.name().to_owned(), note_name(&self.body)]
    }

    /// Nobody wants it any more.
    pub(super) fn discard(self, disk: &Arc<dyn StagingDisk>) {
        forget_note(disk, &note_name(&self.body));
    }
}

/// The bodies and notes that count on a disk, of this boot and whole, and that are `wanted`.
pub(super) fn find_orphans(disk: &Arc<dyn StagingDisk>, wanted: &dyn Fn(&Note) -> bool) -> Vec<Orphan> {
    let names = disk.list().unwrap_or_default();
    let bodies = names.iter().filter_map(|name| name.strip_suffix(EXTENSION));
    // Between the note of a body and the end of the note of the one before, a file has two: the newer body counts.
    let mut newest = BTreeMap::new();
    for left in bodies.filter_map(|body| left(disk, body, wanted)) {
        match newest.entry(left.file()) {
            Entry::Vacant(entry) => drop(entry.insert(left)),
            Entry::Occupied(mut entry) if entry.get().body.number() < left.body.number() => drop(entry.insert(left)),
            Entry::Occupied(_) => {}
        }
    }
    newest.into_values().collect()
}

fn left(disk: &Arc<dyn StagingDisk>, body: &str, wanted: &dyn Fn(&Note) -> bool) -> Option<Orphan> {
    let note: Note = serde_json::from_slice(&disk.read(&format!("{body}{EXTENSION}")).ok()?).ok()?;
    if note.format != FORMAT || note.boot != disk.boot() {
        tracing::warn!(file = %note.file, "what was closed last before the machine went down was not synced and is gone");
        return None;
    }
    if !wanted(&note) {
        return None;
    }
    let body = BodyFile::open(disk, body).ok()?;
    // What was cut off or appended since was neither closed nor synced.
    let len = body.file().look().ok()?.len.min(note.len);
    body.file().set_len(len).ok()?;
    Some(Orphan { note: Note { len, ..note }, body })
}

/// Puts a note where an earlier one may be: whoever is killed leaves the one or the other.
pub(super) fn write_note(disk: &Arc<dyn StagingDisk>, name: &str, note: &Note) -> std::io::Result<()> {
    let half = format!("{name}{HALF}");
    disk.write(&half, &serde_json::to_vec(note)?)?;
    disk.rename(&half, name)
}

/// What the note about a body is called.
pub(super) fn note_name(body: &BodyFile) -> String {
    format!("{}{EXTENSION}", body.name())
}

/// Removes the note of this name, if it is there.
pub(super) fn forget_note(disk: &Arc<dyn StagingDisk>, name: &str) {
    match disk.remove(name) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            tracing::warn!(%error, "take back the note of a closed file");
        }
        Ok(()) | Err(_) => {}
    }
}

impl State {
    /// The note about its close now.
    pub(super) fn note(&mut self, boot: String, files: &BodyFiles) -> Note {
        let generation = self.generation_of_note(files);
        Note {
            format: FORMAT,
            boot,
            file: self.base.file,
            base: self.base.version,
            len: self.size,
            mtime: self.mtime,
            user: self.user,
            generation,
        }
    }
}
