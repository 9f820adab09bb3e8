//! What clients do, and what they learn by it.

use crate::coverage::Branch;
use crate::history::{Removal, Update};
use crate::host::{Expectation, name};
use crate::plan::Operation;
use crate::violation::Violation;
use crate::world::{Event, World};
use bytes::Bytes;
use rand::Rng;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use wayfs_types::request::{Answer, Change, Level, Outcome, Removed, RenameTarget, Request};
use wayfs_types::{AttrChange, Conflict, Content, FileId, FsError, Inode, Kind, Name, Op, RecordId};

impl World {
    /// One operation of a client, and the next one scheduled.
    pub(crate) fn work(&mut self, index: usize) {
        if self.healed || self.hosts[index].destroyed {
            return;
        }
        let think = self.plan.think.as_micros() as u64;
        let next = Duration::from_micros(self.random.random_range(think / 4..think * 2));
        self.after(next, Event::Work { host: index });
        if self.hosts[index].replica.is_none() {
            return;
        }
        self.step(index + 1, |world| {
            world.operate(index);
            world.use_lock(index);
        });
    }

    fn operate(&mut self, index: usize) {
        match self.operation() {
            Operation::Create => self.create(index),
            Operation::MakeDirectory => self.make_directory(index),
            Operation::Store => self.store(index),
            Operation::Unlink => self.unlink(index),
            Operation::RemoveDirectory => self.remove_directory(index),
            Operation::Rename => self.rename(index),
            Operation::Link => self.link(index),
            Operation::SetMode => self.set_mode(index),
            Operation::WaitSafe => self.wait_safe(index),
            Operation::Look => self.look(index),
            Operation::Read => self.read(index),
            Operation::List => self.list(index),
        }
    }

    fn operation(&mut self) -> Operation {
        let total: u32 = self.plan.operations.iter().map(|(_, weight)| weight).sum();
        let mut drawn = self.random.random_range(0..total.max(1));
        for (operation, weight) in &self.plan.operations {
            if drawn < *weight {
                return *operation;
            }
            drawn -= weight;
        }
        Operation::List
    }

    fn directory(&mut self, index: usize) -> FileId {
        let directories = &self.hosts[index].directories;
        // The root is drawn as often as all others together, so that paths stay short and clients meet.
        if self.random.random_bool(0.5) {
            FileId::ROOT
        } else {
            directories[self.random.random_range(0..directories.len())]
        }
    }

    fn name(&mut self) -> wayfs_types::Name {
        name(self.random.random_range(0..self.plan.names))
    }

    fn file(&mut self, index: usize) -> Option<FileId> {
        // Only who has the lock writes to that one.
        let counter = self.counter_file();
        let open = self.open_files().to_vec();
        let files = &self.hosts[index].files;
        let drawn = (!files.is_empty()).then(|| files[self.random.random_range(0..files.len())]);
        // Nor does anybody else write to what programs have open, or to a copy of it, which may be the file itself when the home has
        // ordered all: such contents have no bytes.
        let is_of_open_file = |file: FileId| {
            let inode = self.inode(index, file);
            inode.is_some_and(|inode| inode.places.iter().any(|place| place.name.as_bytes().starts_with(b"open")))
        };
        drawn.filter(|file| counter != Some(*file) && !open.contains(file) && !is_of_open_file(*file))
    }

    fn change(&mut self, index: usize, change: Change, expectation: Expectation) {
        self.ask_kernel(index, Request::Change { user: 1000, change }, expectation);
    }

    fn create(&mut self, index: usize) {
        let (parent, name) = (self.directory(index), self.name());
        let (kind, expectation) = match self.random.random_range(0..8) {
            0 => (Kind::Symlink(Bytes::from_static(b"../target")), Expectation::Nothing),
            1 => (Kind::Fifo, Expectation::Nothing),
            2 => return self.publish(index, parent, name),
            _ => (Kind::File, Expectation::Created),
        };
        let change = Change::Create { parent, name, kind, mode: 0o644, uid: 1000, gid: 1000 };
        self.change(index, change, expectation);
    }

    fn publish(&mut self, index: usize, parent: FileId, name: Name) {
        let Some(content) = self.fresh_content(index) else { return self.cover(Branch::DiskFull) };
        let expectation = Expectation::Published { content: content.clone() };
        self.change(index, Change::Publish { parent, name, mode: 0o644, uid: 1000, gid: 1000, content }, expectation);
    }

    fn make_directory(&mut self, index: usize) {
        let (parent, name) = (self.directory(index), self.name());
        self.change(index, Change::Mkdir { parent, name, mode: 0o755, uid: 1000, gid: 1000 }, Expectation::Nothing);
    }

    fn store(&mut self, index: usize) {
        let Some(file) = self.file(index) else { return self.create(index) };
        let Some(inode) = self.inode(index, file) else { return };
        if inode.kind != Kind::File {
            return;
        }
        let Some(content) = self.fresh_content(index) else { return self.cover(Branch::DiskFull) };
        let mtime = self.hosts[index].wall(self.now);
        let base = inode.version;
        let expectation = Expectation::Stored { base, content: content.clone() };
        self.change(index, Change::Store { file, base, content, mtime }, expectation);
    }

    /// Bytes that no one ever wrote before; big ones go into the chunk store first. `None`: it is full.
    fn fresh_content(&mut self, index: usize) -> Option<Content> {
        if self.random.random_bool(self.plan.big) { self.fresh_tree_at(index) } else { Some(self.fresh_inline()) }
    }

    /// A content that is in a host's chunk store. `None`: that is full.
    pub(crate) fn fresh_tree_at(&mut self, index: usize) -> Option<Content> {
        let content = self.fresh_tree();
        let pieces = content.root().map(|root| self.pieces(root));
        let has_room = pieces.is_none_or(|pieces| pieces.iter().all(|piece| self.put_piece(index, *piece)));
        has_room.then_some(content)
    }

    pub(crate) fn fresh_inline(&mut self) -> Content {
        // Long enough to be left out when it comes back.
        let unique: u64 = self.random.random();
        Content::Inline(Bytes::from(unique.to_le_bytes().repeat(16)))
    }

    fn unlink(&mut self, index: usize) {
        let (parent, name) = (self.directory(index), self.name());
        self.change(index, Change::Unlink { parent, name }, Expectation::NameTaken);
    }

    fn remove_directory(&mut self, index: usize) {
        let (parent, name) = (self.directory(index), self.name());
        self.change(index, Change::Rmdir { parent, name }, Expectation::Nothing);
    }

    fn rename(&mut self, index: usize) {
        let (from_parent, from_name) = (self.directory(index), self.name());
        let (to_parent, to_name) = (self.directory(index), self.name());
        let target = match self.random.random_range(0..10) {
            0..7 => RenameTarget::Replace,
            7 => RenameTarget::MustBeFree,
            _ => RenameTarget::Exchange,
        };
        let change = Change::Rename { from_parent, from_name, to_parent, to_name, target };
        self.change(index, change, Expectation::NameTaken);
    }

    fn link(&mut self, index: usize) {
        let Some(file) = self.file(index) else { return };
        // Now and then as many as an inode does not list.
        let links = if self.random.random_bool(0.3) { 3 * Inode::LISTED_MAX } else { 1 };
        for _ in 0..links {
            let (parent, name) = (self.directory(index), self.name());
            self.change(index, Change::Link { file, parent, name }, Expectation::Nothing);
        }
    }

    fn set_mode(&mut self, index: usize) {
        let Some(file) = self.file(index) else { return };
        let change = AttrChange { mode: Some(self.random.random_range(0..0o777)), ..AttrChange::default() };
        self.change(index, Change::SetAttr { file, change }, Expectation::Nothing);
    }

    fn wait_safe(&mut self, index: usize) {
        let host = &self.hosts[index];
        let (Some(record), Some(session)) = (host.last_record, host.parent_session) else { return };
        let Some(station) = self.parent_believed_in(index) else { return };
        let expectation = Expectation::Level { record, level: Level::Safe, station, session };
        self.ask(index, Request::Wait { record: Some(record), until: Level::Safe }, expectation);
    }

    fn look(&mut self, index: usize) {
        if self.random.random_bool(0.5) {
            let (parent, name) = (self.directory(index), self.name());
            self.ask_kernel(index, Request::Lookup { parent, name }, Expectation::Nothing);
        } else if let Some(file) = self.file(index) {
            self.ask_kernel(index, Request::Attributes { file }, Expectation::Read);
            self.ask_facts(index, file);
        }
    }

    /// What became of the version that a file shows, as `info` asks: it is told of those of others by an answer only. What it is told
    /// it says from then on, and the claims' checker hears that.
    fn ask_facts(&mut self, index: usize, file: FileId) {
        if let Some(inode) = self.inode(index, file) {
            let versions = vec![(file, inode.version)];
            self.ask(index, Request::Facts { versions }, Expectation::Nothing);
        }
    }

    fn read(&mut self, index: usize) {
        if let Some(file) = self.file(index) {
            self.read_file(index, file);
        }
    }

    fn list(&mut self, index: usize) {
        let directory = self.directory(index);
        self.ask_kernel(index, Request::List { directory, after: None, limit: 16 }, Expectation::Nothing);
    }

    pub(crate) fn inode(&self, index: usize, file: FileId) -> Option<Arc<Inode>> {
        self.hosts[index].replica.as_ref()?.inode(file).ok()?.filter(|inode| !inode.is_removed())
    }

    /// Takes an answer into the history.
    pub(crate) fn learned(&mut self, index: usize, expectation: &Expectation, outcome: &Outcome) {
        match outcome {
            Ok(Answer::Changed { record, file, inode, removed }) => {
                self.hosts[index].last_record = Some(*record);
                if matches!(expectation, Expectation::NameTaken) {
                    self.name_taken(index, *record, removed.as_ref());
                }
                self.changed(index, expectation, *record, *file, inode);
            }
            Ok(Answer::File(file, inode)) => self.saw(index, expectation, *file, inode),
            Ok(Answer::List { entries, .. }) => {
                for (_, file, inode) in entries {
                    self.hosts[index].remember(*file, inode);
                }
            }
            Err(FsError::Quota) => self.cover(Branch::QuotaUsed),
            Ok(Answer::Lock(_) | Answer::Facts(_) | Answer::Reached | Answer::Done) | Err(_) => {}
        }
    }

    /// Notes what a record took a name from. The record tells which version its writer had seen; a directory asked
    /// for by a former id would not.
    fn name_taken(&mut self, index: usize, id: RecordId, removed: Option<&Removed>) {
        let replica = self.hosts[index].replica.as_ref();
        let record = replica.and_then(|replica| replica.logged(id).ok()).flatten();
        let seen = match record.map(|record| record.op) {
            Some(Op::Unlink { file, version, .. }) => Some((file, version)),
            Some(Op::Rename { replaced: Some(replaced), .. }) => Some((replaced.file, replaced.version)),
            _ => None,
        };
        if let Some((file, version)) = seen {
            self.history.removed(index, id, Removal { file, version, is_last: removed.is_some() });
        }
    }

    fn changed(&mut self, index: usize, expectation: &Expectation, record: RecordId, file: FileId, inode: &Inode) {
        match expectation {
            Expectation::Created => {
                let update = Update { file, base: None, content: Content::EMPTY };
                self.history.updated(index, record, update);
                self.hosts[index].seen.insert(file, record);
            }
            Expectation::Published { content } => {
                let update = Update { file, base: None, content: content.clone() };
                self.history.updated(index, record, update);
                self.hosts[index].seen.insert(file, record);
            }
            Expectation::Stored { base, content } => {
                // The file of the answer: an update upon what became a copy is one of the copy.
                let update = Update { file, base: Some(*base), content: content.clone() };
                self.history.updated(index, record, update);
                self.hosts[index].seen.insert(file, record);
            }
            _ => {}
        }
        self.hosts[index].remember(file, inode);
    }

    /// Checks a look at a file: nothing may be older than what this client saw or wrote,
    /// nor than what its station had acknowledged to someone else.
    fn saw(&mut self, index: usize, expectation: &Expectation, file: FileId, inode: &Inode) {
        self.hosts[index].remember(file, inode);
        // What is removed shows nothing: the version of its marker is what whoever removed it had seen ([S-unlinked]).
        if inode.kind != Kind::File || inode.is_removed() || !matches!(expectation, Expectation::Read) {
            return;
        }
        let version = self.history.held_by(inode.version);
        if let Some(seen) = self.hosts[index].seen.get(&file).copied()
            && self.history.descends(seen, version)
            && !self.is_reported(index, seen, version)
            // What a home that was put back lost nobody waits for, until somebody has written it again ([S-home-put-back]).
            && !self.history.is_lost_at_home(seen)
            // What a station that was put back lost its writer brings again; until the reader's server has it, it shows what was there before
            // (seeds 176019456 and 176027799).
            && (!self.history.is_lost_at_a_station(seen) || self.parent_knows(index, seen))
            // What is behind a fence is taken back, and with it what was built upon it ([S-fence]).
            && !self.history.line(seen).take_while(|upon| *upon != version).any(|upon| self.fences.shut_out(upon))
        {
            let line = format!("host {index} saw {version} of {file} after {seen}");
            self.violations.push(Violation::new("nobody sees the past undone", line));
        }
        self.check_open_after_close(index, file, version);
        self.hosts[index].seen.insert(file, version);
    }

    /// Whether the client was told that an update met another one, after which it shows an older version: the one
    /// that it saw last; or one which that was built upon down to the one shown, since later updates follow an earlier
    /// one to its copy; or a later one, of which only the last was sent.
    pub(crate) fn is_reported(&self, index: usize, seen: RecordId, shown: RecordId) -> bool {
        let replica = self.hosts[index].replica.as_ref();
        let reports = replica.and_then(|replica| replica.conflicts(None, usize::MAX).ok()).unwrap_or_default();
        let later = self.history.line(seen).take_while(|version| *version != shown);
        let undone: BTreeSet<RecordId> = later.chain([shown]).collect();
        reports
            .iter()
            .map(|report| self.history.first(report.conflict.record))
            .any(|met| undone.contains(&met) || self.history.descends(met, seen))
            || reports.iter().any(|report| self.goes_on_in_copy(index, &report.conflict, seen))
    }

    /// Whether a report names a copy in which the line of a version goes on, as this client knows. Then nothing of it is undone,
    /// whatever the file itself shows: a client that moved keeps showing what it saw at its former station, until its
    /// present one has heard of that, and what it wrote upon it follows to the copy.
    fn goes_on_in_copy(&self, index: usize, report: &Conflict, seen: RecordId) -> bool {
        let met = self.history.first(report.record);
        let is_of_line = self.history.line(seen).any(|version| version == met);
        let copy = report.copy.filter(|_| is_of_line).and_then(|copy| self.inode(index, copy));
        let shown = copy.map(|copy| self.history.first(copy.version));
        shown.is_some_and(|shown| shown == seen || self.history.descends(shown, seen))
    }

    fn check_open_after_close(&mut self, index: usize, file: FileId, version: RecordId) {
        let Some(session) = self.hosts[index].parent_session.and_then(|peer| self.sessions.get(&peer)) else { return };
        // While a client does not vouch for what it shows (it has just moved, or nobody answered in time), it is offline:
        // what it shows may be old, and the kernel keeps nothing of it.
        let host = &self.hosts[index];
        let connected = host.replica.as_ref().is_some_and(|replica| replica.progress().connected && !host.is_unvouched);
        let whole = session.alive == [true; 2] && self.links[&(session.child, session.parent)].cut_since.is_none();
        if !whole || !connected {
            return;
        }
        let station = session.parent;
        let missed = self.history.safe_at.iter().find(|report| {
            report.station == station
                && self.history.updates.get(&report.record).is_some_and(|update| update.file == file)
                && self.history.descends(report.record, version)
                && session.since < report.at
                && !self.fences.shut_out(report.record)
                // The home had it meet another update, and it lies beside this one now.
                && !self.is_reported(index, report.record, version)
        });
        if let Some(report) = missed {
            let line =
                format!("host {index} saw {version} of {file}; {} was acknowledged at host {station}", report.record);
            self.violations.push(Violation::new("open sees an acknowledged close", line));
        }
    }
}
