//! The last whole content of a file whose newest bytes are not at the home yet.
//!
//! A record may come home long before its bytes. If these die with their writer, what the file held before is what its
//! users have left, so the home keeps that until the newer bytes are here.

use crate::api::Role;
use crate::contents::content_of;
use crate::replica::Replica;
use crate::tables::{pack, parse_root_key, record_key, root_prefix, table, unpack};
use serde::{Deserialize, Serialize};
use wayfs_tree::Effect;
use wayfs_types::{Content, FileId, Kind, MetaStore, Op, Record, RecordId, StorageError, WallTime};

/// Table of the last whole contents, by the missing version that took their place.
pub(crate) const PREVIOUS: u8 = b'p';

/// What a file held before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Previous {
    pub(crate) file: FileId,
    pub(crate) content: Content,
    pub(crate) mtime: WallTime,
}

impl<S: MetaStore> Replica<S> {
    /// What the home would show of a file if the bytes that a record names never came. To be asked before the record is
    /// applied.
    pub(crate) fn previous_of(&mut self, record: &Record) -> Result<Option<Previous>, StorageError> {
        let Op::Store { file, content, .. } = &record.op else { return Ok(None) };
        if self.config.role != Role::Home || content.root().is_none() {
            return Ok(None);
        }
        let file = *file;
        let Some(inode) = wayfs_tree::inode(&self.tx(), file)? else { return Ok(None) };
        if inode.is_removed() || inode.kind != Kind::File || inode.content == Content::EMPTY {
            return Ok(None);
        }
        if self.is_vanished(inode.version)? {
            return Ok(None);
        }
        if self.is_content_missing(&inode.content)? {
            return self.previous(inode.version);
        }
        Ok(Some(Previous { file, content: inode.content.clone(), mtime: inode.mtime }))
    }

    /// Keeps it, if the record took its place and its bytes are not here.
    pub(crate) fn keep_previous(
        &mut self,
        record: &Record,
        effect: &Effect,
        previous: Option<Previous>,
    ) -> Result<(), StorageError> {
        let Some(previous) = previous else { return Ok(()) };
        let stood = effect.stored.is_some_and(|stored| (stored.file, stored.version) == (previous.file, record.id));
        if stood && content_of(record).is_some() && self.missing(record.id)?.is_some() {
            self.overlay.put_raw(record_key(PREVIOUS, record.id), pack(&previous));
        }
        Ok(())
    }

    /// Contents came whose successor is still missing: they are newer than what was kept for it.
    pub(crate) fn renew_previous(
        &mut self,
        file: FileId,
        came: RecordId,
        content: &Content,
    ) -> Result<(), StorageError> {
        let Some(inode) = wayfs_tree::inode(&self.tx(), file)? else { return Ok(()) };
        if inode.version == came || self.missing(inode.version)?.is_none() {
            return Ok(());
        }
        let previous = Previous { file, content: content.clone(), mtime: inode.mtime };
        self.overlay.put_raw(record_key(PREVIOUS, inode.version), pack(&previous));
        Ok(())
    }

    pub(crate) fn previous(&mut self, version: RecordId) -> Result<Option<Previous>, StorageError> {
        self.tx().get_raw(&record_key(PREVIOUS, version))?.map(|bytes| unpack(&bytes)).transpose()
    }

    /// Whether contents are missing here, under whichever record's name.
    fn is_content_missing(&mut self, content: &Content) -> Result<bool, StorageError> {
        let Some(root) = content.root() else { return Ok(false) };
        let prefix = root_prefix(&root);
        let until = crate::tables::after_prefix(&prefix);
        for (key, _) in self.tx().scan_raw(&prefix, &until, crate::replica::PAGE)? {
            let record = parse_root_key(&key)?;
            if self.tx().get_raw(&record_key(table::MISSING, record))?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
