//! What was had by former parents.

use crate::mirror::Mirror;
use crate::replica::core::Core;
use crate::state::tables::{FORGOT_AT, LOST_AFTER, MOVED_AT, parse_origin_key, unpack};
use std::collections::BTreeMap;
use wayfs_types::{CommitNumber, MetaStore, OriginId, RecordId, StorageError, Time};

/// What was had by former parents.
#[derive(Debug, Default)]
pub(super) struct Past {
    /// What is in the store.
    pub(super) kept: Mirror<KeptPast>,
    /// What our own records were built upon that left the log since.
    pub(super) built_upon: BTreeMap<RecordId, RecordId>,
    /// Since when this life counts what was seen before the move, and nobody has.
    pub(super) moved_since: Option<Time>,
}

/// What the store says of former parents.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct KeptPast {
    /// Images of earlier changes were vouched for by a former parent; 0: there was none.
    pub(super) moved_at: CommitNumber,
    /// What was known before this change no parent need know.
    pub(super) forgot_at: CommitNumber,
    /// Former origins of ours, and between which records of them all were lost, or written again since nobody had confirmed them.
    pub(super) lost_after: BTreeMap<OriginId, (u64, u64)>,
}

impl KeptPast {
    pub(super) fn read<S: MetaStore>(core: &Core<S>) -> Result<Self, StorageError> {
        let number = |key: &[u8]| {
            let bytes = core.state.store().get(key)?;
            bytes.map_or(Ok(CommitNumber::ZERO), |bytes| unpack(&bytes))
        };
        let (moved_at, forgot_at) = (number(MOVED_AT)?, number(FORGOT_AT)?);
        let mut lost_after = BTreeMap::new();
        let mut until = LOST_AFTER.to_vec();
        until.push(u8::MAX);
        core.state.each(LOST_AFTER, &until, |key, value| {
            lost_after.insert(parse_origin_key(&key[1..])?, unpack(value)?);
            Ok(())
        })?;
        Ok(Self { moved_at, forgot_at, lost_after })
    }
}
