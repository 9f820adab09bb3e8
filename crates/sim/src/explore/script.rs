//! What two clients do, each at a station of its own: scripts with names.

use crate::host::{Expectation, name_of};
use crate::policies::ON_DEMAND;
use crate::world::{Event, World};
use std::collections::VecDeque;
use std::time::Duration;
use wayfs_policy::{Mechanism, Setting};
use wayfs_types::request::{Change, Level, RenameTarget, Request, RequestId};
use wayfs_types::{Content, FileId, Kind};

/// A program that waits for its machine looks again.
const AGAIN: Duration = Duration::from_millis(20);

/// One operation, with names in the root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Op {
    /// Makes a file.
    Create(&'static str),
    /// Writes bytes that travel with their record.
    Write(&'static str),
    /// Writes bytes that travel apart from it.
    WriteBig(&'static str),
    /// Takes a name away.
    Remove(&'static str),
    /// Renames, over whatever has the other name.
    Rename(&'static str, &'static str),
    /// Reads a file, wherever its bytes are.
    Read(&'static str),
    /// Waits until all that it did is safe.
    Safe,
    /// Its user chooses a server: the home is 0, the stations 1 and 2.
    Choose(usize),
    /// Waits until its session is with the server that was chosen.
    Attached,
    /// Its user goes offline.
    GoOffline,
    /// Its user goes online.
    GoOnline,
}

/// Who does what.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Script {
    /// By which it is asked for.
    pub(crate) name: &'static str,
    /// What the first client did before, and everybody has seen.
    pub(crate) before: &'static [Op],
    /// What the clients do.
    pub(crate) clients: [&'static [Op]; 2],
    /// Which contents each station sends ahead.
    pub(crate) policies: [Setting; 2],
}

use Op::{Attached, Choose, Create, GoOffline, GoOnline, Read, Remove, Rename, Safe, Write, WriteBig};

/// Nobody sends ahead.
const KEPT: [Setting; 2] = [ON_DEMAND; 2];

const fn with(mechanism: Mechanism) -> Setting {
    Setting { mechanism, within: None }
}

/// A script in which nobody sends contents ahead.
const fn kept(name: &'static str, before: &'static [Op], clients: [&'static [Op]; 2]) -> Script {
    Script { name, before, clients, policies: KEPT }
}

/// All scripts.
pub(crate) const SCRIPTS: [Script; 15] = [
    kept("same-name", &[], [&[Create("x"), Safe], &[Create("x"), Safe]]),
    kept("write-write", &[Create("x")], [&[Write("x"), Safe], &[Write("x"), Safe]]),
    kept("write-remove", &[Create("x"), Write("x")], [&[Write("x"), Safe], &[Remove("x")]]),
    kept("rename-over", &[Create("x"), Create("y")], [&[Rename("x", "y")], &[Write("y"), Safe]]),
    kept("rename-rename", &[Create("x"), Create("y")], [&[Rename("x", "y")], &[Rename("y", "x")]]),
    kept("big-write", &[Create("x")], [&[WriteBig("x"), Safe], &[Write("x"), Safe]]),
    kept("one-writer", &[], [&[Create("x"), WriteBig("x"), Safe], &[]]),
    // What the first station has of it follows its writer, or does not.
    kept("move-unsafe", &[Create("x")], [&[Write("x"), Choose(2), Safe], &[]]),
    kept("move-between", &[Create("x")], [&[Write("x"), Choose(2), Attached, Write("x"), Safe], &[Write("x")]]),
    kept("move-back", &[Create("x")], [&[Choose(2), Write("x"), Attached, Choose(1), Attached, Safe], &[Remove("x")]]),
    kept("move-big", &[Create("x")], [&[WriteBig("x"), Choose(2), Attached, Read("x"), Safe], &[]]),
    kept("away", &[Create("x")], [&[GoOffline, Write("x"), GoOnline, Safe], &[Rename("x", "y"), Safe]]),
    Script {
        name: "sent-at-once",
        before: &[Create("x")],
        clients: [&[WriteBig("x"), WriteBig("x"), Safe], &[Read("x")]],
        policies: [with(Mechanism::WriteThrough), ON_DEMAND],
    },
    Script {
        name: "sent-by-period",
        before: &[Create("x")],
        clients: [&[WriteBig("x"), Safe, Remove("x")], &[Read("x"), WriteBig("x")]],
        policies: [with(Mechanism::Periodic(Duration::from_millis(50))); 2],
    },
    Script {
        name: "sent-and-moved",
        before: &[Create("x")],
        clients: [&[WriteBig("x"), Choose(2), Attached, WriteBig("x"), Safe], &[]],
        policies: [with(Mechanism::WriteThrough); 2],
    },
];

/// What a client has still to do.
#[derive(Debug, Default)]
pub(crate) struct Program {
    left: VecDeque<Op>,
    asked: Option<RequestId>,
}

/// What came of an operation.
enum Begun {
    /// Its machine was asked, and answers later.
    Asked(RequestId),
    /// It is done, or there is nothing to do.
    Done,
    /// It is to be tried again.
    NotYet,
}

impl Program {
    pub(crate) fn new(ops: &[Op]) -> Self {
        Self { left: ops.iter().copied().collect(), asked: None }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.left.is_empty() && self.asked.is_none()
    }

    /// Whether its last request has just been answered, or its machine was gone before it was, and something is left to do.
    pub(crate) fn becomes_free(&mut self, is_waiting: impl Fn(&RequestId) -> bool) -> bool {
        let is_answered = self.asked.is_some_and(|asked| !is_waiting(&asked));
        self.asked = self.asked.filter(|_| !is_answered);
        is_answered && !self.left.is_empty()
    }
}

impl World {
    /// A client does the next thing of its program.
    pub(crate) fn go_on(&mut self, index: usize, mut program: Program) -> Program {
        // What there is nothing to do for is passed over.
        while program.asked.is_none() {
            let Some(op) = program.left.pop_front() else { break };
            match self.operate_by_script(index, op) {
                Begun::Asked(asked) => program.asked = Some(asked),
                Begun::Done => {}
                Begun::NotYet => {
                    program.left.push_front(op);
                    self.after(AGAIN, Event::Work { host: index });
                    break;
                }
            }
        }
        program
    }

    fn operate_by_script(&mut self, index: usize, op: Op) -> Begun {
        match op {
            Op::Choose(server) => {
                self.wish(index, |host| host.pinned = Some(server));
                Begun::Done
            }
            Op::Attached if self.parent_believed_in(index) == self.hosts[index].pinned => Begun::Done,
            Op::Attached => Begun::NotYet,
            Op::GoOffline | Op::GoOnline => {
                self.wish(index, |host| host.is_online = op == Op::GoOnline);
                Begun::Done
            }
            Op::Read(name) => {
                if let Some(file) = self.named_by_script(index, name) {
                    self.read_file(index, file);
                }
                Begun::Done
            }
            Op::Create(name) => {
                let (parent, name) = (FileId::ROOT, name_of(name));
                let kind = Kind::File;
                let change = Change::Create { parent, name, kind, mode: 0o644, uid: 1000, gid: 1000 };
                self.change_by_script(index, change, Expectation::Created)
            }
            Op::Write(name) => {
                let content = self.fresh_inline();
                self.write_by_script(index, name, content)
            }
            Op::WriteBig(name) => match self.fresh_tree_at(index) {
                Some(content) => self.write_by_script(index, name, content),
                None => Begun::Done,
            },
            Op::Remove(name) => {
                let change = Change::Unlink { parent: FileId::ROOT, name: name_of(name) };
                self.change_by_script(index, change, Expectation::NameTaken)
            }
            Op::Rename(from, to) => {
                let (from_parent, to_parent) = (FileId::ROOT, FileId::ROOT);
                let (from_name, to_name, target) = (name_of(from), name_of(to), RenameTarget::Replace);
                let change = Change::Rename { from_parent, from_name, to_parent, to_name, target };
                self.change_by_script(index, change, Expectation::NameTaken)
            }
            Op::Safe => self.wait_by_script(index).map_or(Begun::Done, Begun::Asked),
        }
    }

    fn wait_by_script(&mut self, index: usize) -> Option<RequestId> {
        let (record, session) = (self.hosts[index].last_record?, self.hosts[index].parent_session?);
        let station = self.parent_believed_in(index)?;
        let expectation = Expectation::Level { record, level: Level::Safe, station, session };
        Some(self.ask(index, Request::Wait { record: Some(record), until: Level::Safe }, expectation))
    }

    fn change_by_script(&mut self, index: usize, change: Change, expectation: Expectation) -> Begun {
        Begun::Asked(self.ask(index, Request::Change { user: 1000, change }, expectation))
    }

    /// Writes what the client sees under a name, if it sees anything there.
    fn write_by_script(&mut self, index: usize, name: &str, content: Content) -> Begun {
        let Some(file) = self.named_by_script(index, name) else { return Begun::Done };
        let Some(base) = self.inode(index, file).map(|inode| inode.version) else { return Begun::Done };
        let mtime = self.hosts[index].wall(self.now);
        let expectation = Expectation::Stored { base, content: content.clone() };
        let change = Change::Store { file, base, content, mtime };
        self.change_by_script(index, change, expectation)
    }

    fn named_by_script(&self, index: usize, name: &str) -> Option<FileId> {
        let entry = self.hosts[index].replica.as_ref()?.entry(FileId::ROOT, &name_of(name)).ok()??;
        Some(entry.file)
    }
}
