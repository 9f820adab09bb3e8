//! What each member and the whole volume take up: a file counts for whoever made it, its bytes for whoever wrote them last.
//!
//! The sums stand in rows beside the view and are written with each batch that changes it, so that a look costs one read and a
//! record a few. Holes count as bytes. Only servers keep them: a client knows a part.

use crate::members::Members;
use crate::members::usage_sums::{ALL, Usage, UsageChange, row};
use crate::replica::Replica;
use crate::replica::core::Core;
use crate::state::tables::{self, KeyKind, kind_range, pack, table, unpack};
use std::collections::BTreeMap;
use wayfs_types::{Image, Key, MetaStore, OriginId, StorageError};

/// Origins of one machine, each in place of the one before, whose sums are added.
const RENEWALS_MAX: usize = 1024;

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
