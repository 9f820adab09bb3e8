//! What one kernel keeps of names and attributes, and what it is about to forget.

use std::collections::BTreeMap;
use std::sync::Arc;
use wayfs_types::request::{Change, Request, RequestId};
use wayfs_types::{FileId, Inode, Name};

/// A name in a directory.
pub(super) type Key = (FileId, Name);

/// The kernel of one client: its dentries, and the attributes of its inodes.
#[derive(Debug, Default)]
pub(crate) struct NameCache {
    /// Raised when all names are to be asked for again; a dentry counts only if it was asked for since.
    epoch: u64,
    /// Counts the invalidations of attributes.
    clock: u64,
    dentries: BTreeMap<Key, Dentry>,
    attributes: BTreeMap<FileId, Arc<Inode>>,
    /// When attributes were invalidated last. An answer to what was asked before brings none.
    invalidated: BTreeMap<FileId, u64>,
    /// Requests that its engine has, or whose answers are on their way.
    requests: BTreeMap<RequestId, Asked>,
    /// What it is told to forget, from the moment on at which its client knows.
    notices: Vec<Notice>,
}

/// A name that the kernel walked to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Dentry {
    /// `None`: it leads nowhere.
    file: Option<FileId>,
    /// When it was asked for.
    epoch: u64,
}

/// A request of the kernel.
#[derive(Debug)]
struct Asked {
    request: Request,
    /// The directories whose locks it has until it is answered.
    directories: Vec<FileId>,
    epoch: u64,
    clock: u64,
    /// What its client had shown by then without its parent's word.
    unvouched: u64,
    learned: Vec<Learned>,
}

/// What an answer has the kernel do.
#[derive(Debug, Clone)]
pub(super) enum Learned {
    /// It keeps a name.
    Name(Key, Option<FileId>),
    /// It keeps attributes.
    Attributes(FileId, Arc<Inode>),
    /// Its own change made attributes old.
    Changed(FileId),
    /// It removed a name.
    Removed(Key),
    /// It moved the dentry of a name, whatever that leads to, to another.
    Moved { from: Key, to: Key },
    /// It exchanged two dentries.
    Exchanged(Key, Key),
}

impl Learned {
    /// The same, by other ids of its directories.
    pub(super) fn under(self, id: impl Fn(FileId) -> FileId) -> Self {
        let key = |(directory, name): Key| (id(directory), name);
        match self {
            Self::Name(of, file) => Self::Name(key(of), file),
            Self::Removed(of) => Self::Removed(key(of)),
            Self::Moved { from, to } => Self::Moved { from: key(from), to: key(to) },
            Self::Exchanged(one, other) => Self::Exchanged(key(one), key(other)),
            Self::Changed(file) => Self::Changed(id(file)),
            Self::Attributes(..) => self,
        }
    }

    /// From which name to which it moves a dentry.
    pub(super) fn moved(&self) -> Vec<(Key, Key)> {
        match self {
            Self::Moved { from, to } => vec![(from.clone(), to.clone())],
            Self::Exchanged(one, other) => vec![(one.clone(), other.clone()), (other.clone(), one.clone())],
            Self::Name(..) | Self::Attributes(..) | Self::Changed(_) | Self::Removed(_) => Vec::new(),
        }
    }

    /// The same of an answer for which nobody vouches: it counts once, and takes the place of what was kept.
    pub(super) fn unvouched(self) -> Self {
        match self {
            Self::Name(key, _) => Self::Removed(key),
            Self::Attributes(file, _) => Self::Changed(file),
            other => other,
        }
    }
}

/// What a kernel is told to forget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Notice {
    /// Where a name leads.
    Name(FileId, Name),
    /// The attributes of a file.
    Attributes(FileId),
}

impl NameCache {
    /// A request goes to the engine.
    pub(super) fn ask(&mut self, id: RequestId, (request, directories): (Request, Vec<FileId>), unvouched: u64) {
        let (epoch, clock) = (self.epoch, self.clock);
        self.requests.insert(id, Asked { request, directories, epoch, clock, unvouched, learned: Vec::new() });
    }

    /// What was asked, and what had been shown by then without the parent's word.
    pub(super) fn asked(&self, id: RequestId) -> Option<(&Request, u64)> {
        self.requests.get(&id).map(|asked| (&asked.request, asked.unvouched))
    }

    /// The engine answered; the kernel has that later.
    pub(super) fn answer(&mut self, id: RequestId, learned: Vec<Learned>) {
        if let Some(asked) = self.requests.get_mut(&id) {
            asked.learned = learned;
        }
    }

    /// The kernel has an answer.
    pub(super) fn deliver(&mut self, id: RequestId) {
        let Some(Asked { epoch, clock, learned, .. }) = self.requests.remove(&id) else { return };
        for learned in learned {
            match learned {
                Learned::Name(key, file) => {
                    self.dentries.insert(key, Dentry { file, epoch });
                }
                Learned::Attributes(file, inode) => {
                    if self.invalidated.get(&file).is_none_or(|at| *at <= clock) {
                        self.attributes.insert(file, inode);
                    }
                }
                Learned::Changed(file) => self.forget_attributes(file),
                Learned::Removed(key) => {
                    self.dentries.remove(&key);
                }
                Learned::Moved { from, to } => self.rename(&from, to),
                Learned::Exchanged(one, other) => {
                    let (first, second) = (self.dentries.remove(&one), self.dentries.remove(&other));
                    if let (Some(first), Some(second)) = (first, second) {
                        self.dentries.extend([(one, second), (other, first)]);
                    }
                }
            }
        }
    }

    fn rename(&mut self, from: &Key, to: Key) {
        match self.dentries.remove(from).filter(|dentry| dentry.file.is_some()) {
            Some(moved) => self.dentries.insert(to, moved),
            None => self.dentries.remove(&to),
        };
    }

    /// Where a name leads, if it keeps that.
    pub(super) fn name(&self, key: &Key) -> Option<Option<FileId>> {
        self.dentries.get(key).filter(|dentry| dentry.epoch == self.epoch).map(|dentry| dentry.file)
    }

    /// The attributes of a file, if it keeps them.
    pub(super) fn attributes(&self, file: FileId) -> Option<&Arc<Inode>> {
        self.attributes.get(&file)
    }

    /// All names that it keeps.
    pub(super) fn names(&self) -> impl Iterator<Item = (&Key, Option<FileId>)> {
        let kept = self.dentries.iter().filter(|(_, dentry)| dentry.epoch == self.epoch);
        kept.map(|(key, dentry)| (key, dentry.file))
    }

    /// All files of which it keeps attributes.
    pub(super) fn files(&self) -> Vec<FileId> {
        self.attributes.keys().copied().collect()
    }

    /// Its client knows that something is old.
    pub(super) fn note(&mut self, notice: Notice) {
        self.notices.push(notice);
    }

    /// It is told, and forgets; a name only when nobody walks its directory any more. Answers whether it did.
    pub(super) fn tell(&mut self, notice: &Notice) -> bool {
        match notice {
            Notice::Name(parent, _) if self.is_walked(*parent) => return false,
            Notice::Name(parent, name) => {
                self.dentries.remove(&(*parent, name.clone()));
            }
            Notice::Attributes(file) => self.forget_attributes(*file),
        }
        if let Some(at) = self.notices.iter().position(|one| one == notice) {
            self.notices.remove(at);
        }
        true
    }

    fn forget_attributes(&mut self, file: FileId) {
        self.clock += 1;
        self.attributes.remove(&file);
        self.invalidated.insert(file, self.clock);
    }

    /// All names are to be asked for again.
    pub(super) fn expire_all(&mut self) {
        self.epoch += 1;
    }

    /// Whether it is to be told something of a name, or of a file.
    pub(super) fn is_noted(&self, notice: &Notice) -> bool {
        self.notices.contains(notice)
    }

    /// Whether a change of its own is under way.
    pub(super) fn is_changing(&self) -> bool {
        self.requests.values().any(|asked| matches!(asked.request, Request::Change { .. }))
    }

    /// Whether nothing is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.requests.is_empty() && self.notices.is_empty()
    }

    /// The kernel holds a directory's lock from a request to its answer.
    fn is_walked(&self, directory: FileId) -> bool {
        self.requests.values().any(|asked| asked.directories.contains(&directory))
    }

    /// Whether a request waits for others that have a lock of its directories: changes have it alone, looks share it.
    pub(super) fn keeps_waiting(&self, request: &Request, directories: &[FileId]) -> bool {
        let is_alone = |request: &Request| matches!(request, Request::Change { .. });
        self.requests.values().any(|asked| {
            (is_alone(request) || is_alone(&asked.request))
                && asked.directories.iter().any(|locked| directories.contains(locked))
        })
    }
}

/// The directories that the kernel locks for a request.
pub(super) fn directories_of(request: &Request) -> Vec<FileId> {
    match request {
        Request::Lookup { parent, .. } => vec![*parent],
        Request::List { directory, .. } => vec![*directory],
        Request::Change { change, .. } => names_of(change).into_iter().map(|(parent, _)| parent).collect(),
        _ => Vec::new(),
    }
}

/// The names that a change is about.
pub(super) fn names_of(change: &Change) -> Vec<Key> {
    match change {
        Change::Create { parent, name, .. }
        | Change::Publish { parent, name, .. }
        | Change::Mkdir { parent, name, .. }
        | Change::Link { parent, name, .. }
        | Change::Unlink { parent, name }
        | Change::Rmdir { parent, name } => vec![(*parent, name.clone())],
        Change::Rename { from_parent, from_name, to_parent, to_name, .. } => {
            vec![(*from_parent, from_name.clone()), (*to_parent, to_name.clone())]
        }
        Change::Store { .. }
        | Change::Append { .. }
        | Change::SetAttr { .. }
        | Change::SetXattr { .. }
        | Change::Resolve { .. } => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::name_of;

    fn key(text: &str) -> Key {
        (FileId::ROOT, name_of(text))
    }

    fn walk(cache: &mut NameCache, id: u64, text: &str) {
        let (parent, name) = key(text);
        cache.ask(RequestId(id), (Request::Lookup { parent, name }, vec![parent]), 0);
        cache.answer(RequestId(id), vec![Learned::Name(key(text), Some(FileId::ROOT))]);
    }

    #[test]
    fn a_name_that_was_asked_for_before_all_expired_is_not_kept() {
        let mut cache = NameCache::default();
        walk(&mut cache, 1, "a");
        cache.expire_all();
        cache.deliver(RequestId(1));
        assert_eq!(cache.name(&key("a")), None);
        walk(&mut cache, 2, "a");
        cache.deliver(RequestId(2));
        assert_eq!(cache.name(&key("a")), Some(Some(FileId::ROOT)));
    }

    #[test]
    fn a_notice_of_a_name_waits_for_who_walks_its_directory() {
        let mut cache = NameCache::default();
        walk(&mut cache, 1, "a");
        let notice = Notice::Name(FileId::ROOT, name_of("a"));
        cache.note(notice.clone());
        assert!(!cache.tell(&notice));
        cache.deliver(RequestId(1));
        assert!(cache.name(&key("a")).is_some() && cache.is_noted(&notice));
        assert!(cache.tell(&notice));
        assert!(cache.name(&key("a")).is_none() && cache.is_idle());
    }

    #[test]
    fn a_dentry_moves_with_what_it_leads_to() {
        let mut cache = NameCache::default();
        walk(&mut cache, 1, "a");
        cache.deliver(RequestId(1));
        cache.rename(&key("a"), key("b"));
        assert_eq!((cache.name(&key("a")), cache.name(&key("b"))), (None, Some(Some(FileId::ROOT))));
    }
}
