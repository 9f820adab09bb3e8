//! The home's signature under a number that it gave a member in place of another.
//!
//! A home that was put back to an older copy does not know the numbers that it gave since, and gives a member the one back that it names
//! ([`Replica::admit_again`]). It believes nobody's word for it: the number may be another's, who has not come yet.
//!
//! ```text
//!   home ── Renewed: the number, signed ──▶ (stations pass it on) ──▶ member: keeps it with its store
//!   home that was put back ◀── the number, and what was signed ── member
//!         its own signature, or that of the home whose place it took? ──▶ the member has its number again
//! ```

use crate::members::Members;
use crate::replica::Replica;
use crate::replica::core::Core;
use crate::state::tables::{pack, table, unpack};
use wayfs_types::{MetaStore, NodeId, OriginId, Seal, StorageError};

/// Row of the meta table: the number of this store, and the home's signature under it.
const ADMISSION: &[u8] = &[table::META, b'a'];
/// First bytes of what is signed: no other statement of a machine begins so.
const CONTEXT: &[u8; 16] = b"wayfs admission\0";

impl<S: MetaStore> Replica<S> {
    /// Home: whether it signed that, with the key that it has or one that it had, or the home whose place it took. A driver without keys believes everybody.
    pub(crate) fn is_admission(&self, node: NodeId, origin: OriginId, seal: Option<&Seal>) -> bool {
        let Some(sealer) = &self.core.config.seals else { return true };
        let Some(seal) = seal else { return false };
        let said = Members::admission_of(&self.core, node, origin);
        let former = self.histories.former_home();
        let own = [self.core.config.node].into_iter().chain(self.core.config.former_keys.iter().copied());
        own.chain(former).any(|home| sealer.is_sealed_by(home, &said, seal))
    }
}

impl Members {
    /// What the home signs: this number of this volume is that machine's.
    fn admission_of<S: MetaStore>(core: &Core<S>, node: NodeId, origin: OriginId) -> Vec<u8> {
        let mut bytes = CONTEXT.to_vec();
        bytes.extend(core.config.volume.as_bytes());
        bytes.extend(origin.raw().to_be_bytes());
        bytes.extend(node.as_bytes());
        bytes
    }

    /// Home: signs that a number is a machine's. `None`: its driver has no keys.
    pub(crate) fn sign_admission<S: MetaStore>(core: &Core<S>, node: NodeId, origin: OriginId) -> Option<Seal> {
        let sealer = core.config.seals.as_ref().filter(|_| core.orders())?;
        Some(sealer.seal(&Self::admission_of(core, node, origin)))
    }

    /// Keeps what the home signed when it gave us our present number.
    pub(crate) fn keep_admission<S: MetaStore>(core: &mut Core<S>, seal: Option<Seal>) {
        match seal {
            Some(seal) => core.state.put_row(ADMISSION.to_vec(), pack(&(core.config.origin, seal))),
            None => core.state.delete_row(ADMISSION.to_vec()),
        }
    }

    /// The home's signature under the number that this store writes under, if it took that in place of another: a home that was put
    /// back and has forgotten the number wants to see it (`admit_again`). `None`: the number is the one that this machine was
    /// admitted under.
    pub(crate) fn admission<S: MetaStore>(core: &Core<S>) -> Result<Option<Seal>, StorageError> {
        let kept = core.state.store().get(ADMISSION)?.map(|bytes| unpack::<(OriginId, Seal)>(&bytes)).transpose()?;
        Ok(kept.filter(|(origin, _)| *origin == core.config.origin).map(|(_, seal)| seal))
    }
}
