//! Looking at attributes and changing them.

use crate::asker::Asker;
use crate::fail::Fail;
use crate::flushing::Until;
use crate::nodes::Node;
use crate::vfs::Vfs;
use std::sync::Arc;
use std::time::Duration;
use wayfs_fuse::{Attributes, Errno, FileSystemStatistics, SetAttributes, TimeChange};
use wayfs_nfs::{FileKind, SetTime, Timestamp, operations};

/// Units in which room is told.
const UNIT: u64 = 4096;

impl Vfs {
    pub(crate) fn attributes(&self, asker: &mut Asker<'_>, node: &Arc<Node>) -> Result<(Attributes, Duration), Fail> {
        // What is written here and not there yet is newer than anything that the server could say.
        if node.lock().file.behind.has_unwritten() {
            return Ok((self.shown(node), Duration::ZERO));
        }
        let attributes = self.on(asker, node, operations::attributes)?;
        let ttl = self.learn(node, attributes)?;
        Ok((self.shown(node), ttl))
    }

    pub(crate) fn set_attributes(
        self: &Arc<Self>,
        asker: &mut Asker<'_>,
        node: &Arc<Node>,
        change: &SetAttributes,
    ) -> Result<(Attributes, Duration), Fail> {
        let wanted = wayfs_nfs::SetAttributes {
            mode: change.mode.map(|mode| mode & 0o7777),
            uid: change.uid,
            gid: change.gid,
            size: change.size,
            atime: set_time(change.atime)?,
            mtime: set_time(change.mtime)?,
        };
        // What was written before must not change times, or come back, afterwards.
        if node.lock().file.behind.has_unwritten() {
            self.flush(asker, node, Until::Written)?;
        }
        let attributes = match change.size {
            Some(size) => self.on(asker, node, |asker, file| operations::resize(asker, file, size, &wanted))?,
            None => self.on(asker, node, |asker, file| operations::set_attributes(asker, file, &wanted))?,
        };
        if let Some(size) = change.size {
            node.lock().file.behind.cut_to(size);
        }
        let ttl = self.learn(node, attributes)?;
        Ok((self.shown(node), ttl))
    }

    pub(crate) fn read_link(&self, asker: &mut Asker<'_>, node: &Arc<Node>) -> Result<Vec<u8>, Fail> {
        if node.lock().attributes.kind != FileKind::Symlink {
            return Err(Fail(Errno::INVAL));
        }
        self.on(asker, node, operations::read_link)
    }

    pub(crate) fn statistics(&self, asker: &mut Asker<'_>) -> Result<FileSystemStatistics, Fail> {
        let root = self.node(wayfs_fuse::Inode::ROOT)?;
        let room = self.on(asker, &root, operations::statistics)?;
        Ok(FileSystemStatistics {
            blocks: room.bytes / UNIT,
            blocks_free: room.bytes_free / UNIT,
            blocks_available: room.bytes_available / UNIT,
            files: room.files,
            files_free: room.files_free,
            block_size: UNIT as u32,
            name_len_max: 255,
            fragment_size: UNIT as u32,
        })
    }
}

/// Times before 1970 and after 2106 have no form in version 3.
fn set_time(change: Option<TimeChange>) -> Result<SetTime, Fail> {
    Ok(match change {
        None => SetTime::Keep,
        Some(TimeChange::Now) => SetTime::Now,
        Some(TimeChange::To(time)) => {
            let seconds = u32::try_from(time.seconds).map_err(|_| Fail(Errno::OVERFLOW))?;
            SetTime::To(Timestamp { seconds, nanoseconds: time.nanoseconds })
        }
    })
}
