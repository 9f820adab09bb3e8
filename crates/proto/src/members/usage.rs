//! What each member and the whole volume take up: a file counts for whoever made it, its bytes for whoever wrote them last.
//!
//! The sums stand in rows beside the view and are written with each batch that changes it, so that a look costs one read and a
//! record a few. Holes count as bytes. Only servers keep them: a client knows a part.

use crate::members::Members;
use crate::replica::{Core, Replica};
use crate::state::overlay::Overlay;
use crate::state::tables::{self, KeyKind, kind_range, pack, table, unpack};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use wayfs_types::{Batch, FileId, Image, Key, MetaStore, OriginId, StorageError};

/// Stands for the whole volume.
pub(crate) const ALL: OriginId = OriginId::GENESIS;
/// Origins of one machine, each in place of the one before, whose sums are added.
const RENEWALS_MAX: usize = 1024;

/// So much of a volume.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Bytes of contents, as long as the files say that they are.
    pub bytes: u64,
    /// Files, directories and everything else that has a name; the root is not one.
    pub files: u64,
}

impl Usage {
    fn plus(self, change: Change) -> Self {
        Self {
            bytes: self.bytes.saturating_add_signed(change.bytes),
            files: self.files.saturating_add_signed(change.files),
        }
    }

    fn and(self, other: Self) -> Self {
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
pub(crate) struct UsageChange(BTreeMap<OriginId, Change>);

impl UsageChange {
    /// That of what is not committed yet.
    pub(crate) fn of(overlay: &Overlay) -> Self {
        let mut change = Self::default();
        for (key, old, new) in overlay.changes() {
            change.count(key, old, -1);
            change.count(key, new, 1);
        }
        change
    }

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
fn row(origin: OriginId) -> Vec<u8> {
    let mut row = vec![table::USAGE];
    row.extend(origin.raw().to_be_bytes());
    row
}

impl<S: MetaStore> Replica<S> {
    /// A store of before there were sums gets them.
    pub(crate) fn begin_usage(&mut self) -> Result<(), StorageError> {
        if self.core.state.store().get(&row(ALL))?.is_some() {
            return Ok(());
        }
        let mut counted = Members::counted_anew(&self.core)?;
        counted.entry(ALL).or_default();
        for (origin, sum) in counted {
            self.core.state.put_row(row(origin), pack(&sum));
        }
        self.commit()
    }
}

impl Members {
    /// What a member takes up, under the origins that it had before, too. At servers only.
    pub(crate) fn usage<S: MetaStore>(core: &Core<S>, origin: OriginId) -> Result<Usage, StorageError> {
        let (mut sum, mut at) = (Usage::default(), Some(origin));
        for _ in 0..RENEWALS_MAX {
            let Some(origin) = at else { break };
            sum = sum.and(Self::usage_row(core, origin)?);
            at = match core.state.image(&Key::Origin(origin))? {
                Some(Image::Origin(image)) => image.renews.map(|renews| renews.of),
                _ => None,
            };
        }
        Ok(sum)
    }

    /// What the whole volume takes up. At servers only.
    pub(crate) fn usage_of_volume<S: MetaStore>(core: &Core<S>) -> Result<Usage, StorageError> {
        Self::usage_row(core, ALL)
    }

    fn usage_row<S: MetaStore>(core: &Core<S>, origin: OriginId) -> Result<Usage, StorageError> {
        Ok(core.state.store().get(&row(origin))?.map(|bytes| unpack(&bytes)).transpose()?.unwrap_or_default())
    }

    /// The sums of all origins, and of the volume under that of the root, as they come out when every file is looked at.
    fn counted_anew<S: MetaStore>(core: &Core<S>) -> Result<BTreeMap<OriginId, Usage>, StorageError> {
        let mut all = UsageChange::default();
        let (from, until) = kind_range(table::VIEW, KeyKind::Inode);
        core.state.each(&from, &until, |key, value| {
            all.count(&tables::parse_image_key(key)?, Some(&tables::unpack_view(value)?.image), 1);
            Ok(())
        })?;
        let sums = all.0.into_iter().map(|(origin, change)| (origin, Usage::default().plus(change)));
        Ok(sums.filter(|(_, sum)| *sum != Usage::default()).collect())
    }

    /// Whether the sums are what every file together gives; if not, what differs. For checks: it reads the whole view.
    pub(crate) fn usage_is_wrong<S: MetaStore>(core: &Core<S>) -> Result<Option<String>, StorageError> {
        let counted = Self::counted_anew(core)?;
        let mut kept = BTreeMap::new();
        core.state.each(&[table::USAGE], &[table::USAGE + 1], |key, value| {
            let origin = key.get(1..).and_then(|raw| raw.try_into().ok()).map(u32::from_be_bytes);
            let origin = origin.and_then(|raw| OriginId::new(raw).ok());
            let origin = origin.ok_or_else(|| StorageError::Corrupt(format!("key {key:?}")))?;
            let sum: Usage = unpack(value)?;
            if sum != Usage::default() {
                kept.insert(origin, sum);
            }
            Ok(())
        })?;
        Ok((kept != counted).then(|| format!("kept {kept:?}, counted {counted:?}")))
    }
}
