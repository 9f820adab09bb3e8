//! What each host has to show of each open file, and what shows.
//!
//! A view is what programs of a machine were told: bytes that were acknowledged are in it at once. While anything of it is uncommitted
//! the table shows exactly that; else it shows a version that the engine has.

use crate::world::World;
use std::collections::{BTreeSet, VecDeque};
use wayfs_content::ContentReader;
use wayfs_openfiles::Store;
use wayfs_openfiles::contents::OldBase;
use wayfs_types::{Content, Digest, FileId, RecordId};

use super::AT_ONCE;

/// Most commits of one file whose records a kill may take.
const STORED_MAX: usize = 16;
/// Most of what a file was that is kept for comparison with the pages of a kernel.
const PAST_MAX: usize = 12;
/// Longer than any file.
pub(super) const ALL: std::ops::Range<u64> = 0..1 << 40;

/// A file as programs of one machine know it.
#[derive(Debug, Clone, Default)]
pub(super) struct View {
    pub(super) bytes: Vec<u8>,
    /// What it becomes if the step that is under way is done.
    pub(super) next: Option<Vec<u8>>,
    /// What it was before, since the kernel had no page of it; the oldest first.
    past: VecDeque<Vec<u8>>,
    /// That is not all of it.
    is_past_cut: bool,
    /// Something of it is in no record.
    pub(super) is_dirty: bool,
    /// Programs were told of bytes that no commit has stored yet, whatever the table says of it.
    pub(super) is_owed: bool,
    /// What an open emptied: a kill may bring it back.
    pub(super) emptied: Option<Vec<u8>>,
    /// Since when all that was written was appended: the length then.
    pub(super) appended_at: Option<usize>,
    /// The same of what was written since a commit took the rest.
    pub(super) taken_at: Option<usize>,
    /// What it was when nothing was uncommitted last.
    pub(super) clean: Option<Vec<u8>>,
    /// The record that made it what it is, if it is of this machine.
    pub(super) record: Option<RecordId>,
    /// What the last commits of this machine stored.
    pub(super) stored: VecDeque<Made>,
    /// The disk was full: a kill may take what is uncommitted.
    pub(super) is_unsure: bool,
    /// The disk was full at some time since the process began: the journal may lack what records held.
    pub(super) was_full: bool,
    /// Some of it lies elsewhere: what it is shows later.
    pub(super) is_unknown: bool,
    /// So it was when a commit took it: how much of it was there then is not known either.
    pub(super) was_unknown_when_taken: bool,
    /// What is uncommitted since such a commit may be all appended, and go behind another machine's version.
    pub(super) may_move: bool,
}

/// What a commit stored.
#[derive(Debug, Clone)]
pub(super) struct Made {
    pub(super) record: RecordId,
    /// The version that it was written upon.
    pub(super) base: RecordId,
    pub(super) bytes: Vec<u8>,
    /// As of the view.
    appended_at: Option<usize>,
    /// As of the view: while its record is not on the disk, no journal stands for it.
    pub(super) is_unsure: bool,
}

impl View {
    /// A commit stored what it had taken, which is what was written upon from now on.
    pub(super) fn note_made(&mut self, record: RecordId, base: RecordId, bytes: Vec<u8>) {
        if self.stored.len() == STORED_MAX {
            self.stored.pop_front();
        }
        self.stored.push_back(Made {
            record,
            base,
            bytes: bytes.clone(),
            appended_at: self.appended_at,
            is_unsure: self.is_unsure,
        });
        self.record = (self.bytes == bytes).then_some(record);
        self.is_owed &= self.bytes != bytes;
        self.clean = Some(bytes);
        self.appended_at = self.taken_at;
        self.may_move |= self.was_unknown_when_taken;
    }

    /// A close returned, and waited for no disk: whatever it stored survives a kill.
    pub(super) fn closed(&mut self) {
        self.stored.iter_mut().for_each(|made| made.is_unsure = false);
    }

    /// What commits stored that nothing of this machine was written upon, and that a kill took.
    pub(super) fn ends_lost(&self, is_lost: impl Fn(RecordId) -> bool) -> impl Iterator<Item = &Made> {
        let is_gone_on_from = |made: &Made| self.stored.iter().any(|later| later.base == made.record);
        let is_shown = |made: &Made| self.record == Some(made.record) || self.clean.as_ref() == Some(&made.bytes);
        self.stored.iter().filter(move |made| is_lost(made.record) && !is_gone_on_from(made) && !is_shown(made))
    }

    /// Since when all was appended that is uncommitted after a kill. What a commit had stored is uncommitted again, if the kill took its
    /// record, or came before the journal heard that the record is with the host.
    pub(super) fn appended_at_after(&self, shown: Option<&[u8]>, is_lost: impl Fn(RecordId) -> bool) -> Option<usize> {
        let is_back = |made: &Made| is_lost(made.record) || shown == Some(&made.bytes[..]);
        match self.stored.iter().position(is_back) {
            Some(first) => {
                let is_all = self.stored.iter().skip(first).all(|made| made.appended_at.is_some());
                let is_same_since = self.appended_at.is_some() || !self.is_dirty;
                self.stored[first].appended_at.filter(|_| is_all && is_same_since)
            }
            // A step that nobody was answered may have been the first.
            None => self.appended_at.or((!self.is_dirty).then_some(self.bytes.len())),
        }
    }

    /// What programs appended, in the bytes that a host shows: behind another machine's version, if a commit moved it there.
    pub(super) fn appended_in(&self, bytes: &[u8]) -> Option<usize> {
        let appended = self.bytes.get(self.appended_at?..).filter(|appended| !appended.is_empty())?;
        bytes.ends_with(appended).then(|| bytes.len() - appended.len())
    }

    /// A program is about to change it. If a step before was not answered, the process ended in it, and there is no other.
    pub(super) fn begin(&mut self, next: Vec<u8>) {
        self.next.get_or_insert(next);
    }

    /// Whether a kill may leave these bytes. A step that nobody was answered may have been done in part.
    pub(super) fn may_be(&self, bytes: &[u8]) -> bool {
        let is_part = |next: &Vec<u8>| {
            let is_known = |(at, byte): (usize, &u8)| [&self.bytes, next].iter().any(|view| view.get(at) == Some(byte));
            [self.bytes.len(), next.len()].contains(&bytes.len()) && bytes.iter().enumerate().all(is_known)
        };
        self.bytes == bytes || self.emptied.as_deref() == Some(bytes) || self.next.as_ref().is_some_and(is_part)
    }

    fn become_other(&mut self, bytes: Vec<u8>) -> Vec<u8> {
        let before = std::mem::replace(&mut self.bytes, bytes);
        if self.past.len() == PAST_MAX {
            self.past.pop_front();
            self.is_past_cut = true;
        }
        self.past.push_back(before.clone());
        before
    }

    /// The kernel has no page of it any more.
    pub(super) fn forget_past(&mut self) {
        self.past.clear();
        self.is_past_cut = false;
    }

    /// Whether a page may be one of what the file is, or was.
    pub(super) fn may_have_been(&self, shows: impl Fn(&[u8]) -> bool) -> bool {
        self.is_past_cut || self.is_unknown || shows(&self.bytes) || self.past.iter().any(|past| shows(past))
    }

    /// It is told that it did.
    pub(super) fn acknowledge(&mut self) {
        if let Some(next) = self.next.take() {
            self.become_other(next);
            (self.is_dirty, self.is_owed) = (true, true);
            self.record = None;
        }
    }
}

impl World {
    pub(super) fn view(&mut self, index: usize, file: FileId) -> Option<&mut View> {
        Some(self.hosts[index].open.as_mut()?.views.entry(file).or_default())
    }

    /// The bytes of a content, wherever they are; nothing if it was not made of an open file.
    pub(super) fn content_bytes(&self, content: &Content) -> Option<Vec<u8>> {
        if let Content::Inline(bytes) = content {
            return Some(bytes.to_vec());
        }
        let all = self.open_files.bytes.lock().ok()?;
        let find = |digest: &Digest| all.get(digest).cloned();
        let reader = ContentReader::new(content, &find).ok()?;
        let mut bytes = Vec::new();
        for span in reader.spans(0..content.size()) {
            let span = span.ok()?;
            bytes.extend_from_slice(find(&span.digest)?.get(span.within.clone())?);
        }
        Some(bytes)
    }

    /// The pieces of a content are known from now on, its root first.
    pub(super) fn note_pieces(&mut self, content: &Content) {
        let Some(root) = content.root() else { return };
        let Ok(all) = self.open_files.bytes.lock() else { return };
        let find = |digest: &Digest| all.get(digest).cloned();
        let Ok(reader) = ContentReader::new(content, &find) else { return };
        let lists = reader.list_nodes().unwrap_or_default();
        let chunks = reader.spans(0..content.size()).flatten().map(|span| span.digest);
        let mut known = BTreeSet::from([root]);
        let below: Vec<Digest> = lists.into_iter().chain(chunks).filter(|digest| known.insert(*digest)).collect();
        drop(all);
        self.trees.insert(root, std::iter::once(root).chain(below).collect());
    }

    /// What a host's engine has of a file.
    pub(super) fn engine_bytes(&self, index: usize, file: FileId) -> Option<Vec<u8>> {
        self.content_bytes(&self.inode(index, file)?.content)
    }

    /// Looks at a file as programs see it. What lies elsewhere is asked for, and not looked at.
    pub(super) fn observe(&mut self, index: usize, file: FileId) {
        let read = self.on_table(index, |table| {
            let open = table.find(file)?;
            Some((table.read(&open, ALL, AT_ONCE).ok(), open.is_dirty()))
        });
        match read {
            Some(Some((Some(bytes), is_dirty))) => self.compare(index, file, &bytes, is_dirty),
            Some(Some((None, is_dirty))) => self.note_unknown(index, file, is_dirty),
            Some(None) => self.check_not_forgotten(index, file),
            None => {}
        }
    }

    /// A file cannot be looked at: it is not whole here.
    fn note_unknown(&mut self, index: usize, file: FileId, is_dirty: bool) {
        let Some(open) = self.hosts[index].open.as_mut() else { return };
        let view = open.views.entry(file).or_default();
        (view.is_unknown, view.is_dirty, view.is_owed, view.clean) = (true, is_dirty, false, None);
        if let Some(running) = open.commits.get_mut(&file) {
            running.views.clear();
        }
    }

    fn check_not_forgotten(&mut self, index: usize, file: FileId) {
        if self.view(index, file).is_some_and(|view| view.is_dirty) {
            self.violate("what a program wrote is somewhere", format!("host {index} has nothing of {file}"));
        }
    }

    fn compare(&mut self, index: usize, file: FileId, bytes: &[u8], is_dirty: bool) {
        let engine = self.engine_bytes(index, file);
        let is_full = self.hosts[index].disk.0.borrow().is_full;
        // What came to the bytes of a version that somebody stored nobody owes: its commit has nothing to store.
        let is_unknown = self.view(index, file).is_some_and(|view| view.is_unknown);
        let is_of_a_version = is_unknown && self.is_version(bytes);
        let Some(view) = self.view(index, file) else { return };
        let was_dirty = std::mem::replace(&mut view.is_dirty, is_dirty);
        view.is_unsure = is_dirty && (view.is_unsure || is_full);
        view.was_full |= is_full;
        if !is_dirty {
            (view.appended_at, view.emptied, view.may_move) = (None, None, false);
            view.clean = Some(bytes.to_vec());
        }
        let moved = view.appended_at.filter(|_| was_dirty).and_then(|at| Some(view.bytes.get(at..)?.to_vec()));
        if std::mem::take(&mut view.is_unknown) {
            let appended = moved.as_ref().filter(|appended| bytes.ends_with(appended));
            view.appended_at = appended.map(|appended| bytes.len() - appended.len());
            view.become_other(bytes.to_vec());
            view.is_owed = is_dirty && !is_of_a_version;
        }
        let is_lost = !is_dirty && view.is_owed && engine.as_deref() != Some(&view.bytes[..]);
        view.is_owed &= is_dirty;
        if is_lost {
            let line = format!("host {index}, {file}: {}", difference(&view.bytes, bytes));
            return self.violate("what a program wrote is committed, or waits for that", line);
        }
        if view.bytes == bytes {
            return;
        }
        let before = view.become_other(bytes.to_vec());
        view.record = None;
        if let Some(appended) = moved.filter(|appended| bytes.ends_with(appended)) {
            let upon = &bytes[..bytes.len() - appended.len()];
            (view.appended_at, view.clean) = (Some(upon.len()), Some(upon.to_vec()));
            return self.check_known(index, file, upon);
        }
        if was_dirty && view.may_move {
            view.clean = None;
        } else if was_dirty {
            let line = format!("host {index}, {file}: {}", difference(&before, bytes));
            self.violate("a machine shows what its programs wrote", line);
        } else if engine.as_deref().is_some_and(|engine| engine != bytes) {
            let line = format!("host {index}, {file}: {}", difference(engine.as_deref().unwrap_or_default(), bytes));
            self.violate("what shows is a version", line);
        }
    }

    /// Whether bytes are those that somebody stored.
    fn is_version(&self, bytes: &[u8]) -> bool {
        let contents = self.history.updates.values().map(|update| &update.content);
        let mut fit = contents.filter(|content| content.size() == bytes.len() as u64);
        fit.any(|content| self.content_bytes(content).as_deref() == Some(bytes))
    }

    /// Bytes are those of a version of a file, by whoever.
    pub(super) fn check_known(&mut self, index: usize, file: FileId, bytes: &[u8]) {
        if !bytes.is_empty() && !self.is_version(bytes) {
            let view = self.view(index, file).cloned().unwrap_or_default();
            let at = (view.appended_at, view.taken_at, view.bytes.len());
            let line = format!("host {index}, {file}, {} bytes, appended, taken and shown: {at:?}", bytes.len());
            self.violate("what is appended to is a version", line);
        }
    }

    /// What a commit is about to store is what was written: of what changed since it began, each byte is old or new. Its base is what
    /// the programs saw.
    pub(super) fn check_store(&mut self, index: usize, store: &Store, views: &[Vec<u8>]) {
        if views.is_empty() {
            return;
        }
        let Some(bytes) = self.content_bytes(&store.content) else {
            let line = format!("host {index} commits {} of which not all was made", store.file);
            return self.violate("a commit has all its bytes", line);
        };
        let is_known = |(at, byte): (usize, &u8)| views.iter().any(|view| view.get(at) == Some(byte));
        let taken = views.first().map_or(&[][..], Vec::as_slice);
        if bytes.len() != taken.len() || !bytes.iter().enumerate().all(is_known) {
            let line = format!("host {index}, {}: {}", store.file, difference(taken, &bytes));
            return self.violate("a commit stores what was written", line);
        }
        let base = self.history.updates.get(&self.history.first(store.base)).map(|update| update.content.clone());
        let base = base.and_then(|content| self.content_bytes(&content));
        let clean = self.view(index, store.file).and_then(|view| view.clean.clone());
        if let (Some(base), Some(clean), OldBase::Conflicts) = (base, clean, store.old_base)
            && base != clean
        {
            let line = format!("host {index}, {} upon {}: {}", store.file, store.base, difference(&clean, &base));
            self.violate("a commit names the version that was written upon", line);
        }
    }

    /// In the end all machines read the same of each file.
    pub(crate) fn check_open_files_agree(&mut self) {
        for file in self.open_files().to_vec() {
            let Some(inode) = self.inode(0, file) else { continue };
            let Some(wanted) = self.content_bytes(&inode.content) else { continue };
            for index in self.running() {
                if self.needs_what_is_nowhere(index, file) {
                    continue;
                }
                if let Some(root) = inode.content.root() {
                    self.can_read(index, file, inode.version, root);
                }
                let read = self.on_table(index, |table| {
                    let open = table.open_file(file, &inode, wayfs_openfiles::Access::Read);
                    let read = table.read(&open, ALL, AT_ONCE);
                    table.close_file(&open, wayfs_openfiles::Access::Read);
                    read
                });
                let Some(Ok(bytes)) = read else { continue };
                if bytes != wanted {
                    let line = format!("host {index}, {file}: {}", difference(&wanted, &bytes));
                    self.violate("in the end all machines read the same", line);
                }
                self.check_kernel(index, file, &inode, &wanted);
            }
        }
    }
}

/// Where two byte strings part, in words.
pub(super) fn difference(wanted: &[u8], found: &[u8]) -> String {
    let at = wanted.iter().zip(found).position(|(one, other)| one != other);
    let at = at.unwrap_or(wanted.len().min(found.len()));
    format!("{} bytes for {}, other ones from {at} on", found.len(), wanted.len())
}
