//! What each host has to show of each open file, and what shows.
//!
//! A view is what programs of a machine were told: bytes that were acknowledged are in it at once. While anything of it is uncommitted
//! the table shows exactly that; else it shows a version that the engine has.

use super::side::AT_ONCE;
use super::view::{ALL, View};
use crate::world::World;
use std::collections::BTreeSet;
use wayfs_content::ContentReader;
use wayfs_openfiles::Store;
use wayfs_openfiles::contents::OldBase;
use wayfs_types::{Content, Digest, FileId};

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
        let is_full = self.hosts[index].disk.0.borrow().is_full();
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
            view.was_out_of_sight();
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
