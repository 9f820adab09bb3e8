//! What is in files, and what is known of them.

use super::tree::Change;
use super::{Toy, failed, handle_in, number};
use crate::xdr::{DecodeError, Reader, Writer};
use crate::{Kind, Status};

/// Largest file: a test that writes beyond it has gone wrong.
pub(super) const SIZE_MAX: u64 = 1 << 28;

impl Toy {
    pub(super) fn about_file(&mut self, kind: Kind, arguments: &mut Reader<'_>) -> Result<Writer, DecodeError> {
        let id = match self.find(handle_in(arguments)?) {
            Ok(id) => id,
            Err(status) => return Ok(failed(kind, status)),
        };
        let mut writer = number(0);
        match kind {
            Kind::GetAttributes => self.write_attributes(id, &mut writer),
            Kind::SetAttributes => return self.set_attributes(id, arguments),
            Kind::Access => {
                self.write_optional(id, &mut writer);
                writer.u32(arguments.u32("rights")?);
            }
            _ => {
                let node = &self.nodes[&id];
                if node.kind != 5 {
                    return Ok(failed(kind, Status::new(22).unwrap_or(Status::IO)));
                }
                self.write_optional(id, &mut writer);
                writer.opaque(&node.bytes);
            }
        }
        Ok(writer)
    }

    fn set_attributes(&mut self, id: u64, arguments: &mut Reader<'_>) -> Result<Writer, DecodeError> {
        let change = Change::read(arguments)?;
        let guard = if arguments.bool("a guard")? {
            Some(u64::from(arguments.u32("a time")?) * 1_000_000_000 + u64::from(arguments.u32("a time")?))
        } else {
            None
        };
        let time = self.tick();
        let Some(node) = self.nodes.get_mut(&id) else { return Ok(failed(Kind::SetAttributes, Status::STALE)) };
        if guard.is_some_and(|guard| guard != node.ctime) {
            return Ok(failed(Kind::SetAttributes, Status::NOT_SYNC));
        }
        if let Err(status) = change.check() {
            return Ok(failed(Kind::SetAttributes, status));
        }
        change.apply(node, time);
        let mut writer = number(0);
        self.write_change(id, &mut writer);
        Ok(writer)
    }

    pub(super) fn about_server(&mut self, kind: Kind, arguments: &mut Reader<'_>) -> Result<Writer, DecodeError> {
        let id = match self.find(handle_in(arguments)?) {
            Ok(id) => id,
            Err(status) => return Ok(failed(kind, status)),
        };
        let mut writer = number(0);
        self.write_optional(id, &mut writer);
        if kind == Kind::FileSystemStatistics {
            writer.u64(1 << 40).u64(1 << 39).u64(1 << 38).u64(1 << 20).u64(1 << 19).u64(1 << 19).u32(0);
        } else {
            for size in [self.transfer_max; 6] {
                writer.u32(size);
            }
            writer.u32(8192).u64(SIZE_MAX).u32(0).u32(1).u32(0x1b);
        }
        Ok(writer)
    }

    pub(super) fn read(&mut self, arguments: &mut Reader<'_>) -> Result<Writer, DecodeError> {
        let handle = handle_in(arguments)?;
        let (offset, count) = (arguments.u64("an offset")?, arguments.u32("a count")?.min(self.transfer_max));
        let id = match self.find(handle) {
            Ok(id) => id,
            Err(status) => return Ok(failed(Kind::Read, status)),
        };
        let bytes = &self.nodes[&id].bytes;
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
        let end = start.saturating_add(count as usize).min(bytes.len());
        let mut writer = number(0);
        self.write_optional(id, &mut writer);
        writer.u32((end - start) as u32).u32(u32::from(end == bytes.len())).opaque(&bytes[start..end]);
        Ok(writer)
    }

    pub(super) fn write(&mut self, arguments: &mut Reader<'_>) -> Result<Writer, DecodeError> {
        let handle = handle_in(arguments)?;
        let (offset, _, stable) =
            (arguments.u64("an offset")?, arguments.u32("a count")?, arguments.u32("a stability")?);
        let given = arguments.opaque("bytes", 65_536)?;
        let given = &given[..given.len().min(self.transfer_max as usize)];
        let id = match self.find(handle) {
            Ok(id) => id,
            Err(status) => return Ok(failed(Kind::Write, status)),
        };
        let end = offset.saturating_add(given.len() as u64);
        let stored: u64 = self.nodes.values().map(|node| node.bytes.len() as u64).sum();
        let (time, life) = (self.tick(), self.life);
        let Some(node) = self.nodes.get_mut(&id) else { return Ok(failed(Kind::Write, Status::STALE)) };
        let growth = end.saturating_sub(node.bytes.len() as u64);
        if end > SIZE_MAX || stored.saturating_add(growth) > self.room {
            return Ok(failed(Kind::Write, Status::new(28).unwrap_or(Status::IO)));
        }
        if node.durable.is_none() {
            node.durable = Some(node.bytes.clone());
        }
        let (start, end) = (offset as usize, end as usize);
        node.bytes.resize(node.bytes.len().max(end), 0);
        node.bytes[start..end].copy_from_slice(given);
        if stable > 0 {
            node.durable = Some(node.bytes.clone());
        }
        (node.mtime, node.ctime) = (time, time);
        let mut writer = number(0);
        self.write_change(id, &mut writer);
        writer.u32(given.len() as u32).u32(stable).fixed(&life.to_be_bytes());
        Ok(writer)
    }

    pub(super) fn commit(&mut self, arguments: &mut Reader<'_>) -> Result<Writer, DecodeError> {
        let id = match self.find(handle_in(arguments)?) {
            Ok(id) => id,
            Err(status) => return Ok(failed(Kind::Commit, status)),
        };
        if let Some(node) = self.nodes.get_mut(&id) {
            node.durable = Some(node.bytes.clone());
        }
        let mut writer = number(0);
        self.write_change(id, &mut writer);
        writer.fixed(&self.life.to_be_bytes());
        Ok(writer)
    }
}
