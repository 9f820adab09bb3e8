//! The sums of what members take up, and how a batch changes them.

use crate::state::tables::{pack, table, unpack};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use wayfs_types::{Batch, FileId, Image, Key, MetaStore, OriginId, StorageError};

/// Stands for the whole volume.
pub(crate) const ALL: OriginId = OriginId::GENESIS;

/// So much of a volume.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Bytes of contents, as long as the files say that they are.
    pub bytes: u64,
    /// Files, directories and everything else that has a name; the root is not one.
    pub files: u64,
}

impl Usage {
    pub(super) fn plus(self, change: Change) -> Self {
        Self {
            bytes: self.bytes.saturating_add_signed(change.bytes),
            files: self.files.saturating_add_signed(change.files),
        }
    }

    pub(super) fn and(self, other: Self) -> Self {
        Self { bytes: self.bytes.saturating_add(other.bytes), files: self.files.saturating_add(other.files) }
    }
}

/// How much more or less.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) bytes: i64,
    pub(crate) files: i64,
}

/// What some changes of the view do to the sums.
#[derive(Debug, Default)]
pub(crate) struct UsageChange(pub(super) BTreeMap<OriginId, Change>);

impl UsageChange {
    /// Adds what stands under a key, or takes it away.
    pub(crate) fn count(&mut self, key: &Key, image: Option<&Image>, sign: i64) {
        let (Key::Inode(file), Some(Image::Inode(inode))) = (key, image) else { return };
        if *file == FileId::ROOT || inode.is_removed() {
            return;
        }
        let bytes = i64::try_from(inode.content.size()).unwrap_or(i64::MAX);
        for origin in [inode.version.origin(), ALL] {
            let sum = self.0.entry(origin).or_default();
            sum.bytes = sum.bytes.saturating_add(sign.saturating_mul(bytes));
        }
        for origin in [file.maker().origin(), ALL] {
            self.0.entry(origin).or_default().files += sign;
        }
    }

    pub(crate) fn for_origin(&self, origin: OriginId) -> Change {
        self.0.get(&origin).copied().unwrap_or_default()
    }

    /// Writes the sums down.
    pub(crate) fn write<S: MetaStore>(&self, store: &S, batch: &mut Batch) -> Result<(), StorageError> {
        for (origin, change) in self.0.iter().filter(|(_, change)| **change != Change::default()) {
            let row = row(*origin);
            let before: Usage = store.get(&row)?.map(|bytes| unpack(&bytes)).transpose()?.unwrap_or_default();
            batch.put(row, pack(&before.plus(*change)));
        }
        Ok(())
    }
}

/// Row of a member's sums; the volume's own stand under the origin of the root.
pub(super) fn row(origin: OriginId) -> Vec<u8> {
    let mut row = vec![table::USAGE];
    row.extend(origin.raw().to_be_bytes());
    row
}
