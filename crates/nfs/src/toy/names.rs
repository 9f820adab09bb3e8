//! What makes, finds, moves and takes away names.

use super::request::Request;
use super::tree::{Change, Node, place};
use super::{Toy, failed, handle_in, number};
use crate::xdr::{DecodeError, Reader, Writer};
use crate::{Kind, Status};

impl Toy {
    pub(super) fn about_names(
        &mut self,
        request: &Request<'_>,
        arguments: &mut Reader<'_>,
    ) -> Result<Writer, DecodeError> {
        let kind = request.kind;
        let done = match kind {
            Kind::Lookup => self.look_up(arguments)?,
            Kind::Remove | Kind::RemoveDirectory => self.remove(kind, arguments)?,
            Kind::Rename => self.rename(arguments)?,
            Kind::Link => self.link(arguments)?,
            _ => self.make(request, arguments)?,
        };
        Ok(done.unwrap_or_else(|status| failed(kind, status)))
    }

    fn directory(&self, handle: &[u8]) -> Result<u64, Status> {
        let id = self.find(handle)?;
        if self.nodes[&id].kind == 2 { Ok(id) } else { Err(Status::NOTDIR) }
    }

    fn child(&self, handle: &[u8], name: &[u8]) -> Result<(u64, u64), Status> {
        let parent = self.directory(handle)?;
        let id = self.nodes[&parent].names.get(name).ok_or(Status::NOENT)?;
        Ok((parent, *id))
    }

    fn look_up(&mut self, arguments: &mut Reader<'_>) -> Result<Result<Writer, Status>, DecodeError> {
        let (directory, name) = place(arguments)?;
        Ok(self.child(directory, name).map(|(parent, id)| {
            let mut writer = number(0);
            writer.opaque(&self.handle_of(id));
            self.write_optional(id, &mut writer);
            self.write_optional(parent, &mut writer);
            writer
        }))
    }

    fn remove(&mut self, kind: Kind, arguments: &mut Reader<'_>) -> Result<Result<Writer, Status>, DecodeError> {
        let (directory, name) = place(arguments)?;
        let (parent, id) = match self.child(directory, name) {
            Ok(found) => found,
            Err(status) => return Ok(Err(status)),
        };
        let node = &self.nodes[&id];
        match (kind, node.kind) {
            (Kind::Remove, 2) => return Ok(Err(Status::ISDIR)),
            (Kind::RemoveDirectory, 2) if !node.names.is_empty() => {
                return Ok(Err(Status::new(66).unwrap_or(Status::IO)));
            }
            (Kind::RemoveDirectory, other) if other != 2 => return Ok(Err(Status::NOTDIR)),
            _ => {}
        }
        self.detach(parent, name);
        let mut writer = number(0);
        self.write_change(parent, &mut writer);
        Ok(Ok(writer))
    }

    fn rename(&mut self, arguments: &mut Reader<'_>) -> Result<Result<Writer, Status>, DecodeError> {
        let ((from, name), (to, new_name)) = (place(arguments)?, place(arguments)?);
        let (parent, id) = match self.child(from, name) {
            Ok(found) => found,
            Err(status) => return Ok(Err(status)),
        };
        let new_parent = match self.directory(to) {
            Ok(found) => found,
            Err(status) => return Ok(Err(status)),
        };
        let taken = self.nodes[&new_parent].names.get(new_name).copied();
        if let Some(other) = taken.filter(|other| *other != id) {
            if self.nodes[&other].kind == 2 && !self.nodes[&other].names.is_empty() {
                return Ok(Err(Status::new(66).unwrap_or(Status::IO)));
            }
            self.detach(new_parent, new_name);
        }
        if taken != Some(id) {
            let time = self.tick();
            let is_directory = self.nodes[&id].kind == 2;
            if let Some(directory) = self.nodes.get_mut(&parent) {
                directory.names.remove(name);
                (directory.mtime, directory.ctime) = (time, time);
                directory.links -= u32::from(is_directory);
            }
            self.attach(new_parent, new_name, id);
            if is_directory && let Some(directory) = self.nodes.get_mut(&new_parent) {
                directory.links += 1;
            }
            if let Some(node) = self.nodes.get_mut(&id) {
                node.ctime = time;
            }
        }
        let mut writer = number(0);
        self.write_change(parent, &mut writer);
        self.write_change(new_parent, &mut writer);
        Ok(Ok(writer))
    }

    fn link(&mut self, arguments: &mut Reader<'_>) -> Result<Result<Writer, Status>, DecodeError> {
        let file = handle_in(arguments)?;
        let (directory, name) = place(arguments)?;
        let found = self.find(file).and_then(|id| self.directory(directory).map(|parent| (id, parent)));
        let (id, parent) = match found {
            Ok(found) => found,
            Err(status) => return Ok(Err(status)),
        };
        if self.nodes[&parent].names.contains_key(name) {
            return Ok(Err(Status::EXIST));
        }
        let time = self.tick();
        self.attach(parent, name, id);
        if let Some(node) = self.nodes.get_mut(&id) {
            node.links += 1;
            node.ctime = time;
        }
        let mut writer = number(0);
        self.write_optional(id, &mut writer);
        self.write_change(parent, &mut writer);
        Ok(Ok(writer))
    }

    fn make(
        &mut self,
        request: &Request<'_>,
        arguments: &mut Reader<'_>,
    ) -> Result<Result<Writer, Status>, DecodeError> {
        let (directory, name) = place(arguments)?;
        let (node, rule) = match self.wanted(request, arguments)? {
            Ok(wanted) => wanted,
            Err(status) => return Ok(Err(status)),
        };
        let parent = match self.directory(directory) {
            Ok(parent) => parent,
            Err(status) => return Ok(Err(status)),
        };
        let id = match self.nodes[&parent].names.get(name).copied() {
            None => self.insert(parent, name, node),
            Some(id) => {
                let is_same = node.verifier.is_some() && self.nodes[&id].verifier == node.verifier;
                if rule != 0 && !is_same {
                    return Ok(Err(Status::EXIST));
                }
                id
            }
        };
        let mut writer = number(0);
        writer.u32(1).opaque(&self.handle_of(id));
        self.write_optional(id, &mut writer);
        self.write_change(parent, &mut writer);
        Ok(Ok(writer))
    }

    /// What is to be made, and by which rule: 0 takes what is there.
    fn wanted(
        &self,
        request: &Request<'_>,
        arguments: &mut Reader<'_>,
    ) -> Result<Result<(Node, u32), Status>, DecodeError> {
        let mut rule = 1;
        let mut device = (0, 0);
        let mut bytes = Vec::new();
        let mut verifier = None;
        let (kind, change) = match request.kind {
            Kind::MakeDirectory => (2, Change::read(arguments)?),
            Kind::Symlink => {
                let change = Change::read(arguments)?;
                bytes = arguments.opaque("a target", 4096)?.to_vec();
                (5, change)
            }
            Kind::MakeNode => {
                let kind = arguments.u32("a kind")?;
                let change = Change::read(arguments)?;
                if matches!(kind, 3 | 4) {
                    device = (arguments.u32("a device")?, arguments.u32("a device")?);
                }
                (kind, change)
            }
            _ => {
                rule = arguments.u32("a rule")?;
                if rule == 2 {
                    if self.without_exclusive {
                        return Ok(Err(Status::NOTSUPP));
                    }
                    verifier = Some(arguments.fixed("a verifier")?);
                    (1, Change::default())
                } else {
                    (1, Change::read(arguments)?)
                }
            }
        };
        let mut node = if kind == 2 { Node::directory(0o755) } else { Node::of_kind(kind, 0o644) };
        (node.uid, node.gid) = (request.uid, request.gid);
        let change = if self.without_marks { Change { mtime: None, ..change } } else { change };
        if let Err(status) = change.check() {
            return Ok(Err(status));
        }
        change.apply(&mut node, 0);
        (node.device, node.verifier) = (device, verifier);
        node.durable = Some(bytes.clone());
        node.bytes = bytes;
        Ok(Ok((node, rule)))
    }

    pub(super) fn list(&mut self, kind: Kind, arguments: &mut Reader<'_>) -> Result<Writer, DecodeError> {
        let handle = handle_in(arguments)?;
        let (from, _) = (arguments.u64("a cookie")?, arguments.fixed::<8>("a verifier")?);
        let mut len = arguments.u32("a length")?;
        let plus = kind == Kind::ReadDirectoryPlus;
        if plus {
            len = arguments.u32("a length")?;
        }
        let parent = match self.directory(handle) {
            Ok(parent) if !(plus && self.without_plus) => parent,
            Ok(_) => return Ok(failed(kind, Status::NOTSUPP)),
            Err(status) => return Ok(failed(kind, status)),
        };
        let mut writer = number(0);
        self.write_optional(parent, &mut writer);
        writer.fixed(&[0; 8]);
        let (mut left, mut is_end) = (len as usize, true);
        let dots = [(b".".to_vec(), parent), (b"..".to_vec(), parent)];
        let names = self.nodes[&parent].names.iter().map(|(name, id)| (name.clone(), *id));
        // A place that stays where it is when names come and go.
        let mut entries: Vec<_> = dots.into_iter().chain(names).map(|(name, id)| (place_of(&name), name, id)).collect();
        entries.sort();
        for (place, name, id) in entries.into_iter().filter(|entry| entry.0 > from) {
            let size = 32 + name.len() + if plus { 120 } else { 0 };
            if size > left {
                is_end = false;
                break;
            }
            left -= size;
            writer.u32(1).u64(id).opaque(&name).u64(place);
            if plus {
                self.write_optional(id, &mut writer);
                writer.u32(1).opaque(&self.handle_of(id));
            }
        }
        writer.u32(0).u32(u32::from(is_end));
        Ok(writer)
    }
}

fn place_of(name: &[u8]) -> u64 {
    name.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
        >> 2
        | 1
}
