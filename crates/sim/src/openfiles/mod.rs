//! Open files of simulated clients: the machine that ships (`wayfs_openfiles`), between programs and the engine.
//!
//! Seeds with `open-files` have it. Programs of each client open a few files that all clients have, write at places, append, cut, sync and
//! close, through several handles, while other clients do the same, news come in, commits are under way (their steps are events), disks
//! fill, processes are killed and machines lose power, also between two writes of one step of the staging disk.
//!
//! * `plan`: what a seed asks of them;
//! * `open_host`: what each host has of them, and all hosts together;
//! * `event`: what happens to them;
//! * `staging`: the disk of what no record holds;
//! * `side`: what the table sees of its host;
//! * `handle`: an open of a program;
//! * `programs`: what programs do;
//! * `kernel`: what the kernel keeps for them;
//! * `commits`: commits, step by step;
//! * `lives`: how a table begins and ends, and what comes back;
//! * `view`: a file as programs of one machine know it;
//! * `views`: what each host has to show, and what shows.

mod commits;
pub(crate) mod event;
mod handle;
mod kernel;
mod lives;
pub(crate) mod open_host;
pub(crate) mod plan;
mod programs;
mod side;
mod staging;
mod view;
mod views;

use crate::host::{Expectation, Host, name_of};
use crate::world::{Event, World};
use event::OpenEvent;
use open_host::{Kernel, OpenHost};
use side::Side;
use staging::MemoryDisk;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use wayfs_openfiles::FileTable;
use wayfs_openfiles::table::DirtyFile;
use wayfs_types::request::{Change, Request};
use wayfs_types::{Digest, FileId, Kind};

impl World {
    /// The files that all clients open.
    pub(crate) fn make_open_files(&mut self) {
        let count = self.plan.open_files.map_or(0, |plan| plan.files);
        for number in 0..count {
            let (parent, name) = (FileId::ROOT, name_of(&format!("open{number}")));
            let change = Change::Create { parent, name, kind: Kind::File, mode: 0o644, uid: 0, gid: 0 };
            self.ask(0, Request::Change { user: 0, change }, Expectation::Created);
        }
    }

    /// Which they are.
    pub(crate) fn open_files(&mut self) -> &[FileId] {
        let count = self.plan.open_files.map_or(0, |plan| plan.files);
        if self.open_files.files.len() < count
            && let Some(home) = self.hosts[0].replica.as_ref()
        {
            let entry = |number| home.entry(FileId::ROOT, &name_of(&format!("open{number}"))).ok().flatten();
            self.open_files.files = (0..count).filter_map(entry).map(|entry| entry.file).collect();
        }
        &self.open_files.files
    }

    /// A client's machine, before its first start.
    pub(crate) fn open_host(&self) -> Option<Box<OpenHost>> {
        self.plan.open_files?;
        Some(Box::new(OpenHost {
            side: Arc::new(Side::new(Arc::clone(&self.open_files.bytes))),
            disk: MemoryDisk::default(),
            table: None,
            handles: Vec::new(),
            handles_opened: 0,
            kernel: Kernel::default(),
            commits: BTreeMap::new(),
            requests: BTreeMap::new(),
            views: BTreeMap::new(),
            wanted: BTreeMap::new(),
            is_killed: false,
            is_ending: false,
        }))
    }

    pub(crate) fn open_event(&mut self, index: usize, life: u32, event: OpenEvent) {
        let has_ended = |open: &OpenHost| open.table.is_none() || open.disk.is_dead() && event != OpenEvent::Ended;
        if self.hosts[index].life != life || self.hosts[index].open.as_deref().is_none_or(has_ended) {
            self.is_ending(index);
            return;
        }
        match event {
            OpenEvent::Program => self.run_program(index),
            OpenEvent::Tick => self.tick_open_files(index),
            OpenEvent::Hash(file) => self.hash(index, file),
            OpenEvent::Commit(file) => self.begin_commit(index, file, None),
            OpenEvent::News(file) => {
                self.on_table(index, |table| table.changed_elsewhere(file));
                self.observe(index, file);
                self.tell_kernel(index, file);
                // The kernel asks again for what it was told to forget.
                self.ask(index, Request::Attributes { file }, Expectation::Nothing);
            }
            OpenEvent::Forget => self.forget_pages(index),
            OpenEvent::WriteBack(file) => self.write_back(index, file),
            OpenEvent::Durable { handle, through } => self.look_whether_durable(index, handle, through),
            OpenEvent::Ended => self.crash(index),
        }
    }

    fn open_event_after(&mut self, index: usize, span: Duration, event: OpenEvent) {
        let life = self.hosts[index].life;
        self.after(span, Event::OpenFiles { host: index, life, event });
    }

    /// The engine says that a file changed.
    pub(crate) fn tell_open_files(&mut self, index: usize, changed: Option<FileId>) {
        if self.hosts[index].open.is_none() {
            return;
        }
        let files: Vec<FileId> = self.open_files().to_vec();
        for file in files.into_iter().filter(|file| changed.is_none_or(|changed| changed == *file)) {
            let span = self.millis(0..=50);
            self.open_event_after(index, span, OpenEvent::News(file));
        }
    }

    /// Whether a host has nothing open and nothing uncommitted.
    pub(crate) fn is_all_closed(&self, index: usize) -> bool {
        let Some(open) = self.hosts[index].open.as_ref() else { return true };
        let is_in_vain = |file: &DirtyFile| self.needs_what_is_nowhere(index, file.file);
        let is_clean = |table: &Rc<FileTable>| {
            let dirty = table.dirty();
            (table.closing_len() == 0 || !dirty.is_empty()) && dirty.iter().all(is_in_vain)
        };
        open.handles.is_empty() && open.commits.is_empty() && open.table.as_ref().is_none_or(is_clean)
    }

    /// What of its open files keeps a host from rest.
    pub(crate) fn open_files_left(&self, index: usize) -> String {
        let Some(open) = self.hosts[index].open.as_ref() else { return String::new() };
        let commits: Vec<&FileId> = open.commits.keys().collect();
        let dirty = open.table.as_ref().map(|table| table.dirty()).unwrap_or_default();
        let files = dirty.iter().map(|one| (one.file, self.needs_what_is_nowhere(index, one.file)));
        let files: Vec<(FileId, bool)> = files.collect();
        format!(", {} handles, commits {commits:?}, uncommitted (in vain) {files:?}", open.handles.len())
    }

    /// Whether the commit of what was written to a file needs bytes of its base that no disk has any more: whoever replaced that version
    /// let them go before they came here. The writes stay, are tried again, and are named ([S-commit-error]).
    pub(super) fn needs_what_is_nowhere(&self, index: usize, file: FileId) -> bool {
        let Some(open) = self.hosts[index].open.as_ref() else { return false };
        let is_dirty =
            open.table.as_ref().is_some_and(|table| table.to_commit(file).iter().any(|open| open.is_dirty()));
        let has = |host: &Host, digest| !host.destroyed && host.disk.0.borrow().has_sound(digest);
        let is_somewhere = |digest| self.hosts.iter().any(|host| has(host, digest));
        let is_wanted = |wanted: &Vec<Digest>| wanted.iter().any(|digest| !is_somewhere(*digest));
        is_dirty && open.wanted.get(&file).is_some_and(is_wanted)
    }

    /// Has the table of a host do something. `None`: the host's process is not there, or ended in the middle of it.
    fn on_table<T>(&mut self, index: usize, act: impl FnOnce(&FileTable) -> T) -> Option<T> {
        let table = self.hosts[index].open.as_ref()?.table.clone()?;
        if self.is_ending(index) {
            return None;
        }
        self.show_host(index);
        let result = act(&table);
        drop(table);
        self.carry_out_for_open_files(index);
        (!self.is_ending(index)).then_some(result)
    }

    /// Whether a process has ended in the middle of a step. What its engine had answered by then was told.
    fn is_ending(&mut self, index: usize) -> bool {
        let Some(open) = self.hosts[index].open.as_mut().filter(|open| open.disk.is_dead()) else { return false };
        if !std::mem::replace(&mut open.is_ending, true) {
            self.open_event_after(index, Duration::ZERO, OpenEvent::Ended);
        }
        true
    }

    /// Shows the table how its host is at this moment.
    fn show_host(&mut self, index: usize) {
        let files = self.open_files().to_vec();
        let host = &self.hosts[index];
        let (Some(open), Some(replica)) = (host.open.as_ref(), host.replica.as_ref()) else { return };
        let disk = host.disk.0.borrow();
        let mut seen = open.side.seen();
        (seen.now, seen.wall) = (self.now, host.wall(self.now));
        seen.chunks = disk.sound_chunk_names();
        seen.is_full = disk.is_full();
        seen.is_ordered_by_home = self.plan.exclusive;
        (seen.recorded, seen.written) = (disk.sync_point().ticket.0, disk.records_durable().0);
        seen.last_record = replica.progress().last_record;
        let inode = |file: FileId| replica.inode(file).ok().flatten().map(|inode| (file, inode));
        seen.inodes = files.into_iter().filter_map(inode).collect();
        open.disk.set_full(disk.is_full());
    }

    /// Does what the table asked for.
    fn carry_out_for_open_files(&mut self, index: usize) {
        let Some(open) = self.hosts[index].open.as_ref() else { return };
        let mut seen = open.side.seen();
        let (made, wanted) = (std::mem::take(&mut seen.made), std::mem::take(&mut seen.wanted));
        drop(seen);
        for piece in made {
            self.put_piece(index, piece);
        }
        for wanted in wanted {
            for digest in &wanted.digests {
                self.read_version(index, wanted.file, wanted.version, *digest);
            }
            if let Some(open) = self.hosts[index].open.as_mut() {
                open.wanted.insert(wanted.file, wanted.digests);
            }
        }
    }
}

impl Host {
    /// Pieces that programs wait for.
    pub(crate) fn wanted_by_open_files(&self) -> impl Iterator<Item = Digest> {
        self.open.iter().flat_map(|open| open.wanted.values().flatten().copied())
    }

    /// No process ends in the middle of a step any more.
    pub(crate) fn heal_open_files(&self) {
        if let Some(open) = self.open.as_ref() {
            open.disk.stay_alive();
        }
    }

    /// The machine goes down, or another store comes with it: nothing that was written and not synced counts.
    pub(crate) fn reboot_open_files(&mut self) {
        if let Some(open) = self.open.as_mut() {
            open.is_killed = false;
        }
    }

    /// The table of open files ends with its process.
    pub(crate) fn end_open_files(&mut self) {
        let Some(open) = self.open.as_mut() else { return };
        // First the disk: what a table does as it is dropped is not done by a process that ended.
        open.disk = open.disk.next_life();
        open.handles.clear();
        open.kernel = Kernel::default();
        open.commits.clear();
        open.requests.clear();
        open.wanted.clear();
        open.table = None;
        open.is_ending = false;
    }
}
