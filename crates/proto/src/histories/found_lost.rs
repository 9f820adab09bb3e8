//! What a station found that its home lost, over a crash in the middle of a takeover.
//!
//! A long takeover is applied in parts (`Replica::spill`): what the station had instead of a part is not in its store any more, and the
//! comparison cannot be made again. So what was found goes into the store with the part, and is read by whoever opens it before the
//! takeover has ended. (Not which names of a crowded file differ: of these a crash forgets those of the parts that were applied.)

use crate::histories::Histories;
use crate::histories::lost::{Kind, Lost, Moved};
use crate::replica::core::Core;
use crate::state::tables::{pack, parse_record_key, record_key, table, unpack};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use wayfs_types::{AttrVersion, FileId, Inode, MetaStore, Pairs, RecordId, StorageError};

/// Rows of what was found: this prefix, the kind, and the file.
const FOUND: &[u8] = &[table::META, b'r'];

/// The same with what it was before.
#[derive(Debug, Serialize, Deserialize)]
enum Found {
    Older(RecordId, Arc<Inode>),
    Moved(Moved),
    Changed(AttrVersion, Arc<Inode>),
    PlacedSince,
}

fn found_key(kind: Kind, file: FileId) -> Vec<u8> {
    let mut key = FOUND.to_vec();
    key.extend(record_key(kind as u8, file.maker()));
    key
}

impl Found {
    fn of(lost: &Lost, kind: Kind, file: FileId) -> Option<Self> {
        match kind {
            Kind::Older => lost.older.get(&file).map(|(upon, inode)| Self::Older(*upon, inode.clone())),
            Kind::Moved => lost.moved.get(&file).map(|moved| Self::Moved(moved.clone())),
            Kind::Changed => lost.changed.get(&file).map(|(upon, inode)| Self::Changed(*upon, inode.clone())),
            Kind::PlacedSince => Some(Self::PlacedSince),
        }
    }
}

impl Histories {
    /// Part of a takeover goes into the store: with it what was found in it.
    pub(crate) fn keep_found<S: MetaStore>(&mut self, core: &mut Core<S>) {
        for (kind, file) in self.fork.lost.unkept.clone() {
            if let Some(found) = Found::of(&self.fork.lost, kind, file) {
                core.state.put_row(found_key(kind, file), pack(&found));
                core.state.stage_found(kind, file);
            }
        }
    }

    /// A takeover was not ended when the store was closed.
    pub(crate) fn read_found<S: MetaStore>(&mut self, core: &mut Core<S>) -> Result<(), StorageError> {
        if !core.state.rescues() {
            return Ok(());
        }
        let mut lost = Lost::default();
        for (key, value) in Self::found_rows(core)? {
            let file = FileId::made_by(parse_record_key(key.get(FOUND.len()..).unwrap_or_default())?);
            match unpack::<Found>(&value)? {
                Found::Older(upon, inode) => lost.add_older(file, upon, inode),
                Found::Moved(moved) => lost.add_moved(file, moved),
                Found::Changed(upon, inode) => lost.add_changed(file, upon, inode),
                Found::PlacedSince => lost.add_placed_since(file),
            }
        }
        lost.unkept.clear();
        self.fork.lost = lost;
        Ok(())
    }

    /// The takeover has ended.
    pub(crate) fn forget_found<S: MetaStore>(core: &mut Core<S>) -> Result<(), StorageError> {
        for (key, _) in Self::found_rows(core)? {
            core.state.delete_row(key);
        }
        Ok(())
    }

    fn found_rows<S: MetaStore>(core: &mut Core<S>) -> Result<Pairs, StorageError> {
        let mut until = FOUND.to_vec();
        until.push(u8::MAX);
        core.state.tx().scan_raw(FOUND, &until, usize::MAX / 2)
    }
}
