//! A server of version 3 in memory, for tests: messages in, answers out; no sockets, no clocks.
//!
//! It can restart (what is not committed is gone, answers are forgotten), forget its answers only, ask for patience, give files other
//! handles, and do without exclusive creation. It serves the port mapper and the mount protocol as well.

mod contents;
mod names;
mod request;
mod tree;

use crate::Kind;
use crate::xdr::{DecodeError, Reader, Writer};
use request::Request;
use std::collections::{BTreeMap, VecDeque};
use tree::Node;

/// Answers that are remembered.
const REMEMBERED_MAX: usize = 256;

/// The server.
#[derive(Debug)]
pub struct Toy {
    nodes: BTreeMap<u64, Node>,
    next: u64,
    /// Counts what was changed: the server's time.
    clock: u64,
    /// Changes with each restart.
    life: u64,
    /// Goes into handles; one of another value is stale.
    pub handle_generation: u8,
    /// Takes old generations of handles, too.
    pub takes_old_handles: bool,
    remembered: VecDeque<(u32, Vec<u8>)>,
    /// So many calls are answered with the wish for patience.
    pub jukebox: u32,
    /// Refuses exclusive creations.
    pub without_exclusive: bool,
    /// Refuses listings with attributes.
    pub without_plus: bool,
    /// Does not keep times that are given at a creation.
    pub without_marks: bool,
    /// Bytes that may be stored; more is no room.
    pub room: u64,
    /// Most bytes that a read gives and a write takes, less than was asked for included.
    pub transfer_max: u32,
    /// The port that the port mapper names.
    pub port: u16,
    /// Calls that were done, by kind; those answered from memory are not counted.
    pub done: BTreeMap<Kind, u64>,
}

impl Default for Toy {
    fn default() -> Self {
        Self {
            nodes: BTreeMap::from([(1, Node::directory(0o755))]),
            next: 2,
            clock: 1_000_000_000_000,
            life: 1,
            handle_generation: 0,
            takes_old_handles: false,
            remembered: VecDeque::new(),
            jukebox: 0,
            without_exclusive: false,
            without_plus: false,
            without_marks: false,
            room: u64::MAX,
            transfer_max: 65_536,
            port: 2049,
            done: BTreeMap::new(),
        }
    }
}

impl Toy {
    /// The answer to a message; `None` to what is no call.
    pub fn handle(&mut self, message: &[u8]) -> Option<Vec<u8>> {
        let request = Request::decode(message)?;
        if let Some((_, answer)) = self.remembered.iter().find(|(xid, _)| *xid == request.xid) {
            return Some(answer.clone());
        }
        let mut answer = request.accepted();
        match self.carry_out(&request) {
            Ok(results) => answer.u32(0).fixed(&results.into_bytes()),
            // Garbage.
            Err(_) => answer.u32(4),
        };
        let answer = answer.into_bytes();
        if !request.kind.is_idempotent() {
            self.remembered.push_back((request.xid, answer.clone()));
            if self.remembered.len() > REMEMBERED_MAX {
                self.remembered.pop_front();
            }
        }
        Some(answer)
    }

    /// Forgets what it answered.
    pub fn forget_answers(&mut self) {
        self.remembered.clear();
    }

    /// Loses what was not committed, and all that is in memory.
    pub fn restart(&mut self) {
        self.life += 1;
        self.forget_answers();
        for node in self.nodes.values_mut() {
            node.restart();
        }
    }

    /// Contents of a file as clients see them, by its path.
    pub fn contents(&self, path: &str) -> Option<Vec<u8>> {
        Some(self.nodes.get(&self.at(path)?)?.bytes.clone())
    }

    /// What would be left of them after a restart.
    pub fn durable(&self, path: &str) -> Option<Vec<u8>> {
        self.nodes.get(&self.at(path)?)?.durable.clone()
    }

    /// The handle of a path.
    pub fn handle_at(&self, path: &str) -> Option<Vec<u8>> {
        self.at(path).map(|id| self.handle_of(id))
    }

    /// Names in a directory.
    pub fn names(&self, path: &str) -> Vec<String> {
        let found = self.at(path).and_then(|id| self.nodes.get(&id));
        found
            .map(|node| node.names.keys().map(|name| String::from_utf8_lossy(name).into_owned()).collect())
            .unwrap_or_default()
    }

    /// Another client writes a whole file.
    pub fn put(&mut self, path: &str, bytes: &[u8]) {
        let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
        let Some(parent) = self.at(directory) else { return };
        let time = self.tick();
        let id = match self.at(path) {
            Some(id) => id,
            None => self.insert(parent, name.as_bytes(), Node::file(0o644)),
        };
        if let Some(node) = self.nodes.get_mut(&id) {
            (node.bytes, node.durable) = (bytes.to_vec(), Some(bytes.to_vec()));
            (node.mtime, node.ctime) = (time, time);
        }
    }

    /// Another client removes a name.
    pub fn take_away(&mut self, path: &str) {
        let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
        if let Some(parent) = self.at(directory) {
            self.detach(parent, name.as_bytes());
        }
    }

    fn at(&self, path: &str) -> Option<u64> {
        let mut id = 1;
        for part in path.split('/').filter(|part| !part.is_empty()) {
            id = *self.nodes.get(&id)?.names.get(part.as_bytes())?;
        }
        Some(id)
    }

    fn carry_out(&mut self, request: &Request<'_>) -> Result<Writer, DecodeError> {
        let mut arguments = request.arguments;
        if self.jukebox > 0 && !matches!(request.kind, Kind::Null | Kind::Mount | Kind::Port | Kind::Exports) {
            self.jukebox -= 1;
            return Ok(failed(request.kind, crate::Status::JUKEBOX));
        }
        *self.done.entry(request.kind).or_default() += 1;
        let arguments = &mut arguments;
        match request.kind {
            Kind::Null => Ok(Writer::new()),
            Kind::Port => Ok(number(u32::from(self.port))),
            Kind::Mount => {
                let mut writer = Writer::new();
                writer.u32(0).opaque(&self.handle_of(1)).u32(1).u32(1);
                Ok(writer)
            }
            Kind::Exports => {
                let mut writer = Writer::new();
                writer.u32(1).opaque(b"/").u32(0).u32(0);
                Ok(writer)
            }
            Kind::GetAttributes | Kind::SetAttributes | Kind::Access | Kind::ReadLink => {
                self.about_file(request.kind, arguments)
            }
            Kind::FileSystemStatistics | Kind::FileSystemInfo | Kind::PathConfiguration => {
                self.about_server(request.kind, arguments)
            }
            Kind::Read => self.read(arguments),
            Kind::Write => self.write(arguments),
            Kind::Commit => self.commit(arguments),
            Kind::ReadDirectory | Kind::ReadDirectoryPlus => self.list(request.kind, arguments),
            Kind::Lookup
            | Kind::Create
            | Kind::MakeDirectory
            | Kind::Symlink
            | Kind::MakeNode
            | Kind::Remove
            | Kind::RemoveDirectory
            | Kind::Rename
            | Kind::Link => self.about_names(request, arguments),
        }
    }

    fn tick(&mut self) -> u64 {
        self.clock += 1_000_003;
        self.clock
    }
}

fn number(value: u32) -> Writer {
    let mut writer = Writer::new();
    writer.u32(value);
    writer
}

/// A no, with attributes left out everywhere.
fn failed(kind: Kind, status: crate::Status) -> Writer {
    let mut writer = number(status.number());
    let absent = match kind {
        Kind::GetAttributes => 0,
        Kind::Rename => 4,
        Kind::Link => 3,
        Kind::SetAttributes
        | Kind::Write
        | Kind::Create
        | Kind::MakeDirectory
        | Kind::Symlink
        | Kind::MakeNode
        | Kind::Remove
        | Kind::RemoveDirectory
        | Kind::Commit => 2,
        _ => 1,
    };
    for _ in 0..absent {
        writer.u32(0);
    }
    writer
}

fn handle_in<'a>(arguments: &mut Reader<'a>) -> Result<&'a [u8], DecodeError> {
    arguments.opaque("a handle", 64)
}
