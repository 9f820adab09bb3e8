//! The kernels of clients, as far as they keep names and attributes: in half of the seeds.
//!
//! A kernel keeps where a name leads, or that it leads nowhere, and attributes, as long as its client's file system allows: while somebody
//! would tell what changes (`Replica::keeping`), and nothing was shown meanwhile without the parent's word. What the engine says is old
//! is told up to 50 ms later; a name only when no request in its directory is under way, whose lock the kernel holds, and attributes bar
//! answers to what was asked before. That all names are to be asked for again is told at once, and before a right is given back.
//! Its own changes move and drop dentries without a question, as `d_move` does.
//!
//! Programs look through it, and changes that it can refuse by itself do not reach the engine. What it answers is judged as
//! answers of the engine are (`sharing`); beyond that a kernel that has nothing more to be told shows what its engine does.
//! Not in it: kernels that cannot be told at once to ask for all names again, and numbers of files that were merged with their twins.

pub(crate) mod cache;

use crate::coverage::Branch;
use crate::host::Expectation;
use crate::planted::Bug;
use crate::world::{Event, KernelEvent, World};
use cache::{Key, Learned, NameCache, Notice, directories_of, names_of};
use rand::Rng;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use wayfs_proto::Keeping;
use wayfs_types::request::{Answer, Change, Outcome, RenameTarget, Request, RequestId};
use wayfs_types::{FileId, FsError, Inode, Name, Op, RecordId};

/// Twins of twins that are followed.
const TWINS_MAX: usize = 64;
/// A program's patience with what is answered at once.
const AT_ONCE: Duration = Duration::from_secs(1);

impl World {
    fn names(&mut self, index: usize) -> Option<&mut NameCache> {
        self.hosts[index].names.as_deref_mut()
    }

    /// A kernel that keeps names, for a client whose process starts.
    pub(crate) fn start_names(&mut self, index: usize) {
        let has_kernel = self.plan.kernel_names && self.hosts[index].is_client();
        self.hosts[index].names = has_kernel.then(Box::default);
    }

    /// A program asks its kernel for something, which asks the engine.
    pub(crate) fn ask_kernel(&mut self, index: usize, request: Request, expectation: Expectation) {
        let locked = self.directories_locked_for(index, &request);
        if self.names(index).is_some_and(|names| names.keeps_waiting(&request, &locked)) {
            let span = self.millis(5..=50);
            // What a program put on its disk for a file with contents is kept for requests only: it gives up.
            let has_contents = matches!(expectation, Expectation::Published { .. });
            if !has_contents {
                self.kernel_event_after(index, span, KernelEvent::Tried(Box::new((request, expectation))));
            }
            return;
        }
        let is_answered = match &request {
            Request::Lookup { parent, name } => self.walk_in_kernel(index, *parent, name),
            Request::Attributes { file } => self.stat_in_kernel(index, *file),
            Request::Change { change, .. } => self.is_refused_by_kernel(index, change),
            _ => false,
        };
        if !is_answered {
            self.ask(index, request, expectation);
        }
    }

    fn directories_locked_for(&self, index: usize, request: &Request) -> Vec<FileId> {
        directories_of(request).into_iter().map(|directory| self.meant(index, directory)).collect()
    }

    /// The kernel asks the engine for something.
    pub(crate) fn note_asked_by_kernel(&mut self, index: usize, id: RequestId, request: &Request) {
        let is_of_names = matches!(
            request,
            Request::Lookup { .. } | Request::Attributes { .. } | Request::List { .. } | Request::Change { .. }
        );
        let unvouched = self.hosts[index].replica.as_ref().map_or(0, wayfs_proto::Replica::unvouched);
        let locked = self.directories_locked_for(index, request);
        if let Some(names) = self.names(index).filter(|_| is_of_names) {
            names.ask(id, (request.clone(), locked), unvouched);
        }
    }

    /// The engine answers; its driver decides what the kernel may keep, as `FileSystem::ttl` does.
    pub(crate) fn note_answer_to_kernel(&mut self, index: usize, id: RequestId, outcome: &Outcome) {
        let Some((request, unvouched)) = self.names(index).and_then(|names| names.asked(id)) else { return };
        let (request, unvouched) = (request.clone(), unvouched);
        let is_vouched = self.hosts[index].replica.as_ref().is_some_and(|replica| replica.unvouched() == unvouched);
        let learned = match (&request, outcome) {
            (Request::Change { change, .. }, Ok(Answer::Changed { record, file, inode, .. })) => {
                let mut learned = self.learned_by_change(index, change, (*file, inode));
                let op = self.op(index, *record);
                learned.extend(op.as_ref().and_then(replaced_by).map(Learned::Changed));
                // The record names the directories that were meant; its client may know them by other ids no more (seed 178088707).
                let (asked, meant) = (names_of(change), op.as_ref().map(changed_directories).unwrap_or_default());
                let meant: BTreeMap<FileId, FileId> = asked.into_iter().map(|(parent, _)| parent).zip(meant).collect();
                let real = |directory| meant.get(&directory).copied().unwrap_or(directory);
                learned.into_iter().map(|learned| learned.under(real)).collect()
            }
            (request, outcome) => self.learned_by_look(index, request, outcome),
        };
        let learned =
            learned.into_iter().map(|learned| learned.under(|directory| self.meant(index, directory))).collect();
        let learned: Vec<Learned> =
            if is_vouched { learned } else { learned.into_iter().map(Learned::unvouched).collect() };
        for key in learned.iter().flat_map(Learned::moved) {
            self.tell_kernel_of_moved(index, key);
        }
        if let Some(names) = self.names(index) {
            names.answer(id, learned);
        }
        let span = self.millis(0..=2);
        self.kernel_event_after(index, span, KernelEvent::Answered(id));
    }

    /// What a record of a client's log does.
    fn op(&self, index: usize, record: RecordId) -> Option<Op> {
        Some(self.hosts[index].replica.as_ref()?.logged(record).ok()??.op)
    }

    fn learned_by_look(&self, index: usize, request: &Request, outcome: &Outcome) -> Vec<Learned> {
        match (request, outcome) {
            (Request::Lookup { parent, name }, Ok(Answer::File(file, inode))) => {
                self.learned_name(index, (*parent, name.clone()), Some((*file, inode)))
            }
            (Request::Lookup { parent, name }, Err(FsError::NotFound)) => {
                self.learned_name(index, (*parent, name.clone()), None)
            }
            (Request::List { directory, .. }, Ok(Answer::List { entries, .. })) => {
                let entry = |(name, file, inode): &(Name, FileId, Arc<Inode>)| {
                    self.learned_name(index, (*directory, name.clone()), Some((*file, inode)))
                };
                entries.iter().flat_map(entry).collect()
            }
            (Request::Attributes { .. }, Ok(Answer::File(file, inode))) if self.keeps_file(index, *file, inode) => {
                vec![Learned::Attributes(*file, Arc::clone(inode))]
            }
            _ => Vec::new(),
        }
    }

    fn learned_name(&self, index: usize, key: Key, file: Option<(FileId, &Arc<Inode>)>) -> Vec<Learned> {
        if !self.keeps(index, key.0) {
            return vec![Learned::Removed(key)];
        }
        let attributes = file.map(|(file, inode)| Learned::Attributes(file, Arc::clone(inode)));
        attributes.into_iter().chain([Learned::Name(key, file.map(|(file, _)| file))]).collect()
    }

    fn learned_by_change(&self, index: usize, change: &Change, (file, inode): (FileId, &Arc<Inode>)) -> Vec<Learned> {
        let mut learned: Vec<Learned> = vec![Learned::Changed(file)];
        learned.extend(names_of(change).into_iter().map(|(parent, _)| Learned::Changed(parent)));
        match change {
            Change::Create { .. } | Change::Publish { .. } | Change::Mkdir { .. } | Change::Link { .. } => {
                let names = names_of(change).into_iter();
                match self.keeps_file(index, file, inode) {
                    true => learned.extend(names.map(|key| Learned::Name(key, Some(file)))),
                    false => learned.extend(names.map(Learned::Removed)),
                }
            }
            Change::Unlink { .. } | Change::Rmdir { .. } => {
                learned.extend(names_of(change).into_iter().map(Learned::Removed));
            }
            Change::Rename { from_parent, from_name, to_parent, to_name, target } => {
                let (from, to) = ((*from_parent, from_name.clone()), (*to_parent, to_name.clone()));
                learned.push(match target {
                    _ if from == to => return learned,
                    RenameTarget::Exchange => Learned::Exchanged(from, to),
                    RenameTarget::Replace | RenameTarget::MustBeFree => Learned::Moved { from, to },
                });
            }
            Change::Store { .. }
            | Change::Append { .. }
            | Change::SetAttr { .. }
            | Change::SetXattr { .. }
            | Change::Resolve { .. } => {}
        }
        learned
    }

    /// Whether a kernel may keep what is told of a directory (`FileSystem::ttl`).
    fn keeps(&self, index: usize, directory: FileId) -> bool {
        self.hosts[index].replica.as_ref().is_some_and(|replica| replica.keeping(directory) != Keeping::No)
    }

    /// The same of a file, in whatever directories it stands (`FileSystem::file_ttl`).
    fn keeps_file(&self, index: usize, file: FileId, inode: &Inode) -> bool {
        let listed = !inode.places.is_empty() && inode.places.iter().all(|place| self.keeps(index, place.parent));
        let Some(replica) = self.hosts[index].replica.as_ref() else { return false };
        match inode.is_crowded() {
            true if replica.is_the_homes(file).unwrap_or(true) => false,
            true => listed || self.keeps(index, file),
            false => listed,
        }
    }

    /// Something that a kernel may keep is old.
    pub(crate) fn tell_kernel_names(&mut self, index: usize, notice: Notice) {
        if self.hosts[index].names.is_none() || self.bug == Some(Bug::KernelNotTold) && self.random.random_bool(0.3) {
            return;
        }
        if let Some(names) = self.names(index) {
            names.note(notice.clone());
        }
        let span = self.millis(0..=50);
        self.kernel_event_after(index, span, KernelEvent::Told(notice));
    }

    /// A dentry that is about to be called old moves to another name: so is that one (`FileSystem::rename`).
    fn tell_kernel_of_moved(&mut self, index: usize, (from, to): (Key, Key)) {
        let is_old = |names: &mut NameCache| names.is_noted(&Notice::Name(from.0, from.1));
        if self.names(index).is_some_and(is_old) {
            self.tell_kernel_names(index, Notice::Name(to.0, to.1));
            self.cover(Branch::OldNameMoved);
        }
    }

    /// All names are to be asked for again. Attributes of what is open are reached without one.
    pub(crate) fn expire_kernel_names(&mut self, index: usize) {
        let Some(names) = self.names(index) else { return };
        names.expire_all();
        for file in names.files() {
            self.tell_kernel_names(index, Notice::Attributes(file));
        }
    }

    fn kernel_event_after(&mut self, index: usize, span: Duration, event: KernelEvent) {
        let life = self.hosts[index].life;
        self.after(span, Event::Kernel { host: index, life, event });
    }

    pub(crate) fn kernel_event(&mut self, index: usize, life: u32, event: KernelEvent) {
        if self.hosts[index].life != life {
            return;
        }
        let is_healed = self.healed;
        let Some(names) = self.names(index) else { return };
        match event {
            KernelEvent::Answered(id) => names.deliver(id),
            // Programs end with what breaks.
            KernelEvent::Tried(_) if is_healed => {}
            KernelEvent::Tried(request) => {
                let (request, expectation) = *request;
                self.ask_kernel(index, request, expectation);
            }
            KernelEvent::Told(notice) => {
                if names.tell(&notice) {
                    self.cover(Branch::NameForgotten);
                } else {
                    // A request in its directory is under way.
                    let span = self.millis(1..=20);
                    self.kernel_event_after(index, span, KernelEvent::Told(notice));
                }
            }
        }
    }

    /// A program walks to a name. Answers whether the kernel knew where it leads.
    fn walk_in_kernel(&mut self, index: usize, parent: FileId, name: &Name) -> bool {
        let key = (self.meant(index, parent), name.clone());
        let Some(found) = self.names(index).and_then(|names| names.name(&key)) else { return false };
        self.cover(Branch::NameFromKernel);
        self.check_kept_name(index, &key, found);
        let inode = found.and_then(|file| Some((file, self.hosts[index].replica.as_ref()?.inode(file).ok()??)));
        let outcome = match (found, inode) {
            (None, _) => Err(FsError::NotFound),
            (Some(_), Some((file, inode))) => Ok(Answer::File(file, inode)),
            (Some(_), None) => return true,
        };
        self.note(|| format!("host {index} knows {parent} {name:?}: {found:?}"));
        self.answer_from_kernel(
            index,
            &Request::Lookup { parent, name: name.clone() },
            &Expectation::Nothing,
            &outcome,
        );
        true
    }

    /// A program asks for attributes. Answers whether the kernel had them.
    fn stat_in_kernel(&mut self, index: usize, file: FileId) -> bool {
        let Some(inode) = self.names(index).and_then(|names| names.attributes(file)).cloned() else { return false };
        // While something is to be told of it, it shows what it was: promised is what follows a name.
        if self.names(index).is_some_and(|names| names.is_noted(&Notice::Attributes(file))) {
            return false;
        }
        self.cover(Branch::AttributesFromKernel);
        self.check_kept_attributes(index, file, &inode);
        let outcome = Ok(Answer::File(file, inode));
        self.answer_from_kernel(index, &Request::Attributes { file }, &Expectation::Read, &outcome);
        true
    }

    fn answer_from_kernel(&mut self, index: usize, request: &Request, expectation: &Expectation, outcome: &Outcome) {
        let deadline = self.now + AT_ONCE;
        if let Some(asked) = self.note_asked(index, request, deadline) {
            self.check_sharing(index, &asked, outcome);
        }
        self.learned(index, expectation, outcome);
    }

    /// Whether a kernel refuses a change by what it keeps: a name that is to be made is there, or one that is to be taken away is not.
    fn is_refused_by_kernel(&mut self, index: usize, change: &Change) -> bool {
        let names = names_of(change);
        let is_maker = matches!(
            change,
            Change::Create { .. } | Change::Publish { .. } | Change::Mkdir { .. } | Change::Link { .. }
        );
        let Some((parent, name)) = names.first() else { return false };
        let key = (self.meant(index, *parent), name.clone());
        let found = self.names(index).and_then(|names| names.name(&key));
        found.is_some_and(|found| found.is_some() == is_maker) && self.walk_in_kernel(index, key.0, &key.1)
    }

    /// A kernel that has nothing more to be told shows what its engine does.
    pub(crate) fn check_kernel_names(&mut self, index: usize) {
        let Some(names) = self.names(index) else { return };
        let kept: Vec<(Key, Option<FileId>)> = names.names().map(|(key, file)| (key.clone(), file)).collect();
        let files = names.files();
        for (key, file) in kept {
            self.check_kept_name(index, &key, file);
        }
        for file in files {
            if let Some(inode) = self.names(index).and_then(|names| names.attributes(file)).cloned() {
                self.check_kept_attributes(index, file, &inode);
            }
        }
    }

    /// The file that an id stands for in a client's engine: what was merged with its twin is the twin. Of twins that two stations merged
    /// the other way round a client that moved may know each as the other, until it asks (seed 175013258).
    fn meant(&self, index: usize, file: FileId) -> FileId {
        let Some(replica) = self.hosts[index].replica.as_ref() else { return file };
        let twin_of = |file| replica.inode(file).ok().flatten().and_then(|inode| inode.merged_into);
        let twins = std::iter::successors(Some(file), |file| twin_of(*file)).take(TWINS_MAX);
        twins.last().unwrap_or(file)
    }

    fn check_kept_name(&mut self, index: usize, key: &Key, kept: Option<FileId>) {
        // Nobody walks through a directory that is gone, and of one that was merged with its twin the names are the twin's.
        if self.inode(index, key.0).is_none() {
            return;
        }
        let notice = Notice::Name(key.0, key.1.clone());
        if self.names(index).is_none_or(|names| names.is_changing() || names.is_noted(&notice)) {
            return;
        }
        let Some(replica) = self.hosts[index].replica.as_ref() else { return };
        let shown = replica.entry(key.0, &key.1).ok().flatten().map(|entry| entry.file);
        // What two know as each other is what is shown (seed 179027345).
        if shown != kept && shown != kept.map(|file| self.meant(index, file)) {
            let line = format!("host {index}: {key:?} leads to {kept:?}, and in its engine to {shown:?}");
            self.violate("a kernel is told which names are old", line);
        }
    }

    fn check_kept_attributes(&mut self, index: usize, file: FileId, kept: &Inode) {
        if self.names(index).is_none_or(|names| names.is_changing() || names.is_noted(&Notice::Attributes(file))) {
            return;
        }
        let Some(replica) = self.hosts[index].replica.as_ref() else { return };
        let Some(shown) = replica.inode(file).ok().flatten() else { return };
        let of = |inode: &Inode| (inode.version, inode.mode, inode.links());
        if of(&shown) != of(kept) {
            let line = format!("host {index}: {file} is {:?}, and in its engine {:?}", of(kept), of(&shown));
            self.violate("a kernel is told which attributes are old", line);
        }
    }

    /// Whether a kernel has been told all, and has all answers.
    pub(crate) fn is_kernel_idle(&self, index: usize) -> bool {
        self.hosts[index].names.as_ref().is_none_or(|names| names.is_idle())
    }
}

/// The file that a rename took a name from: the kernel walked to it before.
fn replaced_by(op: &Op) -> Option<FileId> {
    match op {
        Op::Rename { replaced, .. } => Some(replaced.as_ref()?.file),
        _ => None,
    }
}

/// The directories in which an operation changes names, in the order of [`names_of`].
fn changed_directories(op: &Op) -> Vec<FileId> {
    match op {
        Op::Create { parent, .. }
        | Op::Mkdir { parent, .. }
        | Op::Link { parent, .. }
        | Op::Unlink { parent, .. }
        | Op::Rmdir { parent, .. } => vec![*parent],
        Op::Rename { from_parent, to_parent, .. } | Op::Exchange { from_parent, to_parent, .. } => {
            vec![*from_parent, *to_parent]
        }
        _ => Vec::new(),
    }
}
