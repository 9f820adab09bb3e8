//! What two clients do, each at a station of its own: scripts with names.

use crate::host::{Expectation, name_of};
use crate::world::World;
use std::collections::VecDeque;
use wayfs_types::request::{Change, Level, RenameTarget, Request, RequestId};
use wayfs_types::{Content, FileId, Kind};

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
    /// Waits until all that it did is safe.
    Safe,
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
}

use Op::{Create, Remove, Rename, Safe, Write, WriteBig};

/// All scripts.
pub(crate) const SCRIPTS: [Script; 7] = [
    Script { name: "same-name", before: &[], clients: [&[Create("x"), Safe], &[Create("x"), Safe]] },
    Script { name: "write-write", before: &[Create("x")], clients: [&[Write("x"), Safe], &[Write("x"), Safe]] },
    Script { name: "write-remove", before: &[Create("x"), Write("x")], clients: [&[Write("x"), Safe], &[Remove("x")]] },
    Script {
        name: "rename-over",
        before: &[Create("x"), Create("y")],
        clients: [&[Rename("x", "y")], &[Write("y"), Safe]],
    },
    Script {
        name: "rename-rename",
        before: &[Create("x"), Create("y")],
        clients: [&[Rename("x", "y")], &[Rename("y", "x")]],
    },
    Script { name: "big-write", before: &[Create("x")], clients: [&[WriteBig("x"), Safe], &[Write("x"), Safe]] },
    Script { name: "one-writer", before: &[], clients: [&[Create("x"), WriteBig("x"), Safe], &[]] },
];

/// What a client has still to do.
#[derive(Debug, Default)]
pub(crate) struct Program {
    left: VecDeque<Op>,
    asked: Option<RequestId>,
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
        while let (None, Some(op)) = (program.asked, program.left.pop_front()) {
            program.asked = self.operate_by_script(index, op);
        }
        program
    }

    fn operate_by_script(&mut self, index: usize, op: Op) -> Option<RequestId> {
        match op {
            Op::Create(name) => {
                let (parent, name) = (FileId::ROOT, name_of(name));
                let kind = Kind::File;
                let change = Change::Create { parent, name, kind, mode: 0o644, uid: 1000, gid: 1000 };
                Some(self.ask(index, Request::Change { user: 1000, change }, Expectation::Created))
            }
            Op::Write(name) => {
                let content = self.fresh_inline();
                self.write_by_script(index, name, content)
            }
            Op::WriteBig(name) => {
                let content = self.fresh_tree_at(index)?;
                self.write_by_script(index, name, content)
            }
            Op::Remove(name) => {
                let change = Change::Unlink { parent: FileId::ROOT, name: name_of(name) };
                Some(self.ask(index, Request::Change { user: 1000, change }, Expectation::NameTaken))
            }
            Op::Rename(from, to) => {
                let (from_parent, to_parent) = (FileId::ROOT, FileId::ROOT);
                let (from_name, to_name, target) = (name_of(from), name_of(to), RenameTarget::Replace);
                let change = Change::Rename { from_parent, from_name, to_parent, to_name, target };
                Some(self.ask(index, Request::Change { user: 1000, change }, Expectation::NameTaken))
            }
            Op::Safe => {
                let (record, session) = (self.hosts[index].last_record?, self.hosts[index].parent_session?);
                let station = self.parent_believed_in(index)?;
                let expectation = Expectation::Level { record, level: Level::Safe, station, session };
                Some(self.ask(index, Request::Wait { record: Some(record), until: Level::Safe }, expectation))
            }
        }
    }

    /// Writes what the client sees under a name, if it sees anything there.
    fn write_by_script(&mut self, index: usize, name: &str, content: Content) -> Option<RequestId> {
        let entry = self.hosts[index].replica.as_ref()?.entry(FileId::ROOT, &name_of(name)).ok()??;
        let base = self.inode(index, entry.file)?.version;
        let mtime = self.hosts[index].wall(self.now);
        let expectation = Expectation::Stored { base, content: content.clone() };
        let change = Change::Store { file: entry.file, base, content, mtime };
        Some(self.ask(index, Request::Change { user: 1000, change }, expectation))
    }
}
