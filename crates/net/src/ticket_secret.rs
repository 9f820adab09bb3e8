//! A ticket's secret, and the proof of knowing it.
//!
//! The secret never crosses the wire. Whoever holds a ticket sends its [`TicketId`], a digest
//! that names the secret without giving it away, and a proof: a keyed digest of the
//! connection's binding and of the holder's own key. A proof seen by one peer is worth
//! nothing on another connection or to another machine.

use crate::connection::ChannelBinding;
use rand::TryRngCore;
use std::fmt;
use std::sync::Arc;
use wayfs_types::NodeId;
use zeroize::Zeroizing;

/// Length of a secret, in bytes.
pub(crate) const SECRET_LEN: usize = 32;

const ID_CONTEXT: &str = "wayfs ticket id 1";
const PROOF_CONTEXT: &str = "wayfs ticket proof 1";

/// The secret of a ticket, good for one admission. Wiped when dropped; never shown.
#[derive(Clone)]
pub struct TicketSecret(Arc<Zeroizing<[u8; SECRET_LEN]>>);

/// Names a secret: who knows the secret can compute it, and not the other way round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TicketId([u8; 16]);

impl TicketId {
    /// From its bytes.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl TicketSecret {
    /// A new secret from the system's random numbers; `None` if it gives none.
    pub fn generate() -> Option<Self> {
        let mut bytes = Zeroizing::new([0; SECRET_LEN]);
        rand::rngs::OsRng.try_fill_bytes(bytes.as_mut()).ok()?;
        Some(Self(Arc::new(bytes)))
    }

    /// From its bytes, as the home keeps them.
    pub fn from_bytes(bytes: [u8; SECRET_LEN]) -> Self {
        Self(Arc::new(Zeroizing::new(bytes)))
    }

    /// Its bytes, for the home's own store.
    pub fn expose(&self) -> &[u8; SECRET_LEN] {
        &self.0
    }

    /// What names it.
    pub fn id(&self) -> TicketId {
        let digest = blake3::derive_key(ID_CONTEXT, self.expose());
        let mut id = [0; 16];
        id.copy_from_slice(&digest[..16]);
        TicketId(id)
    }

    /// The proof of knowing it, by `prover`, on the connection that `binding` names.
    pub fn proof(&self, binding: &ChannelBinding, prover: NodeId) -> [u8; 32] {
        *self.digest(binding, prover).as_bytes()
    }

    /// Whether `proof` is what `prover` would send on that connection. Takes the same time
    /// whatever differs.
    pub fn verify(&self, binding: &ChannelBinding, prover: NodeId, proof: &[u8; 32]) -> bool {
        // Comparing BLAKE3's own digests takes constant time.
        self.digest(binding, prover) == blake3::Hash::from_bytes(*proof)
    }

    fn digest(&self, binding: &ChannelBinding, prover: NodeId) -> blake3::Hash {
        let key = Zeroizing::new(blake3::derive_key(PROOF_CONTEXT, self.expose()));
        let mut message = [0; 64];
        message[..32].copy_from_slice(binding.as_bytes());
        message[32..].copy_from_slice(prover.as_bytes());
        blake3::keyed_hash(&key, &message)
    }
}

impl PartialEq for TicketSecret {
    fn eq(&self, other: &Self) -> bool {
        blake3::Hash::from_bytes(**self.0) == blake3::Hash::from_bytes(**other.0)
    }
}

impl Eq for TicketSecret {}

impl fmt::Debug for TicketSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TicketSecret")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_holds_for_its_secret_connection_and_machine_only() {
        let secret = TicketSecret::generate().unwrap();
        let binding = ChannelBinding::from_bytes([1; 32]);
        let node = NodeId::from_bytes([2; 32]);
        let proof = secret.proof(&binding, node);
        assert!(secret.verify(&binding, node, &proof));
        assert!(!secret.verify(&ChannelBinding::from_bytes([3; 32]), node, &proof));
        assert!(!secret.verify(&binding, NodeId::from_bytes([3; 32]), &proof));
        let other = TicketSecret::generate().unwrap();
        assert!(!other.verify(&binding, node, &proof));
        assert_ne!(other.id(), secret.id());
    }
}
