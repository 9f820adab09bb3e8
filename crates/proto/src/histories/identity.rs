//! What a store was made for: it is opened as nothing else.

use crate::api::Role;
use crate::histories::Histories;
use crate::replica::Replica;
use crate::replica::core::Core;
use crate::replica::errors::OpenError;
use crate::state::tables::{pack, table, unpack};
use serde::{Deserialize, Serialize};
use wayfs_types::{Life, MetaStore, OriginId, StorageError};

/// Identity of the store: volume, role, origin.
pub(crate) const IDENTITY: &[u8] = &[table::META, b'i'];

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Identity {
    volume: wayfs_types::VolumeId,
    role: u8,
    origin: OriginId,
    /// Origins before the present one, whose histories had forked; the newest last.
    former: Vec<OriginId>,
}

const fn role_number(role: Role) -> u8 {
    match role {
        Role::Home => 0,
        Role::Station => 1,
        Role::Client => 2,
    }
}

/// Former origins of one store that are remembered.
const FORMER_MAX: usize = 1024;

impl<S: MetaStore> Replica<S> {
    /// Whether the store is to become a home's.
    pub(crate) fn check_identity(&mut self) -> Result<bool, OpenError> {
        let role = role_number(self.core.config.role);
        let mine =
            Identity { volume: self.core.config.volume, role, origin: self.core.config.origin, former: Vec::new() };
        let Some(bytes) = self.core.state.store().get(IDENTITY)? else {
            self.core.state.put_row(IDENTITY.to_vec(), pack(&mine));
            // What is empty may be a copy, too: of a machine that had joined and not written yet.
            self.histories.skips = self.core.writes() && self.core.config.life != Life::NONE;
            // Not with the first input: it may come to nothing.
            self.commit()?;
            return Ok(false);
        };
        let theirs: Identity = unpack(&bytes)?;
        let is_known = theirs.origin == mine.origin || theirs.former.contains(&mine.origin);
        let is_station = theirs.role == role_number(Role::Station);
        let succeeds = self.core.config.succeeds && self.core.orders() && is_station;
        if theirs.volume != mine.volume || !(theirs.role == mine.role || succeeds) || !is_known {
            return Err(OpenError::Foreign(format!("origin {} of volume {}", theirs.origin, theirs.volume)));
        }
        // The store knows best: it took a new origin when the history of the former one had forked.
        self.core.config.origin = theirs.origin;
        self.histories.fork.has_former = !theirs.former.is_empty();
        self.histories.reopened = true;
        self.histories.skips = self.core.writes();
        Ok(succeeds)
    }
}

impl Histories {
    /// From now on this store writes under another origin.
    pub(crate) fn change_origin<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        origin: OriginId,
    ) -> Result<(), StorageError> {
        let bytes = core.state.tx().get_raw(IDENTITY)?;
        let bytes = bytes.ok_or_else(|| StorageError::Corrupt("a store without identity".to_owned()))?;
        let mut identity: Identity = unpack(&bytes)?;
        identity.former.push(identity.origin);
        let excess = identity.former.len().saturating_sub(FORMER_MAX);
        identity.former.drain(..excess);
        identity.origin = origin;
        core.state.put_row(IDENTITY.to_vec(), pack(&identity));
        core.config.origin = origin;
        self.fork.has_former = true;
        Ok(())
    }

    /// From now on the store is of the role that we were opened in.
    pub(crate) fn take_role<S: MetaStore>(core: &mut Core<S>) -> Result<(), StorageError> {
        let bytes = core.state.store().get(IDENTITY)?;
        let bytes = bytes.ok_or_else(|| StorageError::Corrupt("a store without identity".to_owned()))?;
        let identity: Identity = unpack(&bytes)?;
        core.state.put_row(IDENTITY.to_vec(), pack(&Identity { role: role_number(core.config.role), ..identity }));
        Ok(())
    }

    /// Under which origin the store says that it writes.
    pub(super) fn stored_origin<S: MetaStore>(core: &Core<S>) -> Result<Option<OriginId>, StorageError> {
        let identity: Option<Identity> = core.state.store().get(IDENTITY)?.map(|bytes| unpack(&bytes)).transpose()?;
        Ok(identity.map(|identity| identity.origin))
    }

    /// Whether this store wrote under another origin before.
    pub(crate) fn is_former<S: MetaStore>(core: &Core<S>, origin: OriginId) -> Result<bool, StorageError> {
        let bytes = core.state.store().get(IDENTITY)?;
        let identity: Option<Identity> = bytes.map(|bytes| unpack(&bytes)).transpose()?;
        Ok(identity.is_some_and(|identity| identity.former.contains(&origin)))
    }

    /// The origins that this store had before, the newest last, at most so many.
    pub(crate) fn former_origins<S: MetaStore>(
        core: &mut Core<S>,
        limit: usize,
    ) -> Result<Vec<OriginId>, StorageError> {
        let bytes = core.state.tx().get_raw(IDENTITY)?;
        let identity: Option<Identity> = bytes.map(|bytes| unpack(&bytes)).transpose()?;
        let former = identity.map_or(Vec::new(), |identity| identity.former);
        Ok(former.get(former.len().saturating_sub(limit)..).unwrap_or_default().to_vec())
    }
}
