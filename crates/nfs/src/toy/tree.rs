//! Files and names.

use super::Toy;
use super::contents::SIZE_MAX;
use crate::xdr::{DecodeError, Reader, Writer};
use crate::{Status, Timestamp};
use std::collections::BTreeMap;

/// A file of whatever kind.
#[derive(Debug, Clone)]
pub(super) struct Node {
    /// As the protocol numbers kinds.
    pub(super) kind: u32,
    pub(super) mode: u32,
    pub(super) links: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) device: (u32, u32),
    pub(super) bytes: Vec<u8>,
    /// What survives a restart; `None` if that is `bytes`.
    pub(super) durable: Option<Vec<u8>>,
    pub(super) names: BTreeMap<Vec<u8>, u64>,
    pub(super) atime: u64,
    pub(super) mtime: u64,
    pub(super) ctime: u64,
    /// Of an exclusive creation.
    pub(super) verifier: Option<[u8; 8]>,
}

impl Node {
    pub(super) fn of_kind(kind: u32, mode: u32) -> Self {
        Self {
            kind,
            mode,
            links: 0,
            uid: 0,
            gid: 0,
            device: (0, 0),
            bytes: Vec::new(),
            durable: Some(Vec::new()),
            names: BTreeMap::new(),
            atime: 0,
            mtime: 0,
            ctime: 0,
            verifier: None,
        }
    }

    pub(super) fn directory(mode: u32) -> Self {
        Self { links: 2, ..Self::of_kind(2, mode) }
    }

    pub(super) fn file(mode: u32) -> Self {
        Self::of_kind(1, mode)
    }

    pub(super) fn restart(&mut self) {
        if let Some(durable) = &self.durable {
            self.bytes.clone_from(durable);
        }
    }
}

impl Toy {
    pub(super) fn handle_of(&self, id: u64) -> Vec<u8> {
        [&[self.handle_generation][..], &id.to_be_bytes()].concat()
    }

    /// The file of a handle.
    pub(super) fn find(&self, handle: &[u8]) -> Result<u64, Status> {
        let (generation, id) = handle.split_first().ok_or(Status::STALE)?;
        let id = u64::from_be_bytes(id.try_into().map_err(|_| Status::STALE)?);
        let is_known = *generation == self.handle_generation || self.takes_old_handles;
        if is_known && self.nodes.contains_key(&id) { Ok(id) } else { Err(Status::STALE) }
    }

    pub(super) fn insert(&mut self, parent: u64, name: &[u8], mut node: Node) -> u64 {
        let (id, time) = (self.next, self.tick());
        self.next += 1;
        (node.atime, node.ctime) = (time, time);
        if node.mtime == 0 {
            node.mtime = time;
        }
        node.links = if node.kind == 2 { 2 } else { 1 };
        let is_directory = node.kind == 2;
        self.nodes.insert(id, node);
        self.attach(parent, name, id);
        if is_directory && let Some(above) = self.nodes.get_mut(&parent) {
            above.links += 1;
        }
        id
    }

    pub(super) fn attach(&mut self, parent: u64, name: &[u8], id: u64) {
        let time = self.tick();
        if let Some(directory) = self.nodes.get_mut(&parent) {
            directory.names.insert(name.to_vec(), id);
            (directory.mtime, directory.ctime) = (time, time);
        }
    }

    /// Takes a name away, and the file with its last.
    pub(super) fn detach(&mut self, parent: u64, name: &[u8]) {
        let time = self.tick();
        let Some(directory) = self.nodes.get_mut(&parent) else { return };
        (directory.mtime, directory.ctime) = (time, time);
        let Some(id) = directory.names.remove(name) else { return };
        let Some(node) = self.nodes.get_mut(&id) else { return };
        node.links = node.links.saturating_sub(1);
        node.ctime = time;
        let (is_gone, is_directory) = (node.links == 0 || node.kind == 2, node.kind == 2);
        if is_gone {
            self.nodes.remove(&id);
        }
        if is_directory && let Some(above) = self.nodes.get_mut(&parent) {
            above.links -= 1;
        }
    }

    pub(super) fn write_attributes(&self, id: u64, writer: &mut Writer) {
        let Some(node) = self.nodes.get(&id) else { return };
        let size = match node.kind {
            2 => 4096,
            _ => node.bytes.len() as u64,
        };
        writer.u32(node.kind).u32(node.mode).u32(node.links).u32(node.uid).u32(node.gid);
        writer.u64(size).u64(size).u32(node.device.0).u32(node.device.1).u64(7).u64(id);
        for time in [node.atime, node.mtime, node.ctime] {
            writer.u32((time / 1_000_000_000) as u32).u32((time % 1_000_000_000) as u32);
        }
    }

    /// Attributes that may be there, and are.
    pub(super) fn write_optional(&self, id: u64, writer: &mut Writer) {
        if self.nodes.contains_key(&id) {
            writer.u32(1);
            self.write_attributes(id, writer);
        } else {
            writer.u32(0);
        }
    }

    /// Those before a change are left out.
    pub(super) fn write_change(&self, id: u64, writer: &mut Writer) {
        writer.u32(0);
        self.write_optional(id, writer);
    }
}

/// Attributes to be set.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Change {
    pub(super) mode: Option<u32>,
    pub(super) uid: Option<u32>,
    pub(super) gid: Option<u32>,
    pub(super) size: Option<u64>,
    pub(super) atime: Option<Option<Timestamp>>,
    pub(super) mtime: Option<Option<Timestamp>>,
}

impl Change {
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let number = |reader: &mut Reader<'_>| -> Result<Option<u32>, DecodeError> {
            if reader.bool("a flag")? { reader.u32("a number").map(Some) } else { Ok(None) }
        };
        let (mode, uid, gid) = (number(reader)?, number(reader)?, number(reader)?);
        let size = if reader.bool("a flag")? { Some(reader.u64("a size")?) } else { None };
        let time = |reader: &mut Reader<'_>| -> Result<Option<Option<Timestamp>>, DecodeError> {
            Ok(match reader.u32("a flag")? {
                0 => None,
                1 => Some(None),
                _ => Some(Some(Timestamp::read(reader)?)),
            })
        };
        Ok(Self { mode, uid, gid, size, atime: time(reader)?, mtime: time(reader)? })
    }

    /// Whether there is room for it.
    pub(super) fn check(&self) -> Result<(), Status> {
        let is_too_large = self.size.is_some_and(|size| size > SIZE_MAX);
        if is_too_large { Err(Status::new(27).unwrap_or(Status::IO)) } else { Ok(()) }
    }

    pub(super) fn apply(&self, node: &mut Node, time: u64) {
        node.mode = self.mode.map_or(node.mode, |mode| mode & 0o7777);
        node.uid = self.uid.unwrap_or(node.uid);
        node.gid = self.gid.unwrap_or(node.gid);
        let set = |to: Option<Timestamp>| {
            to.map_or(time, |to| u64::from(to.seconds) * 1_000_000_000 + u64::from(to.nanoseconds))
        };
        if let Some(size) = self.size {
            node.bytes.resize(usize::try_from(size).unwrap_or(0), 0);
            node.durable = Some(node.bytes.clone());
            node.mtime = time;
        }
        node.atime = self.atime.map_or(node.atime, set);
        node.mtime = self.mtime.map_or(node.mtime, set);
        node.ctime = time;
    }
}

/// A directory and a name in it.
pub(super) fn place<'a>(reader: &mut Reader<'a>) -> Result<(&'a [u8], &'a [u8]), DecodeError> {
    Ok((super::handle_in(reader)?, reader.opaque("a name", 255)?))
}
