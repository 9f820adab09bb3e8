//! A machine's change of its key: the old key says which one follows it.
//!
//! Who knows a machine by its old key takes the new one for it, on the word of the old. The old private key is needed once, to
//! say so, and is gone afterwards: nobody can say otherwise any more but whoever stole it before.
//!
//! ```text
//!  bytes: 0..32 old key, 32..64 new key, 64..128 signature of the old key under CONTEXT, old key, new key
//! ```

use crate::{NodeIdentity, verify_signature};
use serde::{Deserialize, Serialize};
use wayfs_types::NodeId;

/// Changes that are told; of more the oldest are forgotten. Each costs its receiver the check of a signature.
pub const KEY_CHANGES_MAX: usize = 8;

/// First bytes of what is signed: no other statement of a machine begins so.
const CONTEXT: &[u8] = b"wayfs key change 1\0";

/// A change of key whose signature holds: there are no others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<u8>", into = "Vec<u8>")]
pub struct KeyChange {
    old: NodeId,
    new: NodeId,
    signature: [u8; 64],
}

/// Bytes that are no change of a key, or whose signature does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this is no change of a key that the old key signed")]
pub struct NotSigned;

impl KeyChange {
    /// Length of its bytes.
    pub const LEN: usize = 128;

    /// The word of `old` that `new` follows it.
    pub fn sign(old: &NodeIdentity, new: NodeId) -> Self {
        let signature = old.sign(&message(old.id(), new));
        Self { old: old.id(), new, signature }
    }

    /// The key of before.
    pub fn old(&self) -> NodeId {
        self.old
    }

    /// Its bytes.
    pub fn to_bytes(&self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[..32].copy_from_slice(self.old.as_bytes());
        bytes[32..64].copy_from_slice(self.new.as_bytes());
        bytes[64..].copy_from_slice(&self.signature);
        bytes
    }
}

impl TryFrom<&[u8]> for KeyChange {
    type Error = NotSigned;

    fn try_from(bytes: &[u8]) -> Result<Self, NotSigned> {
        let bytes: &[u8; Self::LEN] = bytes.try_into().map_err(|_| NotSigned)?;
        let key = |at: usize| {
            let mut key = [0; 32];
            key.copy_from_slice(&bytes[at..at + 32]);
            NodeId::from_bytes(key)
        };
        let (old, new) = (key(0), key(32));
        let mut signature = [0; 64];
        signature.copy_from_slice(&bytes[64..]);
        let holds = old != new && verify_signature(old, &message(old, new), &signature);
        holds.then_some(Self { old, new, signature }).ok_or(NotSigned)
    }
}

impl TryFrom<Vec<u8>> for KeyChange {
    type Error = NotSigned;

    fn try_from(bytes: Vec<u8>) -> Result<Self, NotSigned> {
        Self::try_from(&bytes[..])
    }
}

impl From<KeyChange> for Vec<u8> {
    fn from(change: KeyChange) -> Self {
        change.to_bytes().to_vec()
    }
}

/// The key that a machine has now which had this one, by these changes in whatever order; the same if none is of it.
pub fn follow(changes: &[KeyChange], mut key: NodeId) -> NodeId {
    // As many steps as there are changes: they may go round in a circle.
    for _ in changes {
        match changes.iter().find(|change| change.old == key) {
            Some(change) => key = change.new,
            None => break,
        }
    }
    key
}

fn message(old: NodeId, new: NodeId) -> Vec<u8> {
    [CONTEXT, old.as_bytes(), new.as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_followed_as_far_as_signatures_lead() {
        let [one, two, three, other] = [(); 4].map(|()| NodeIdentity::generate().unwrap());
        let changes = [KeyChange::sign(&two, three.id()), KeyChange::sign(&one, two.id())];
        assert_eq!(follow(&changes, one.id()), three.id());
        assert_eq!(follow(&changes[..1], one.id()), one.id(), "a gap ends it");
        assert_eq!(follow(&changes, other.id()), other.id());
        let round = [KeyChange::sign(&one, two.id()), KeyChange::sign(&two, one.id())];
        assert!([one.id(), two.id()].contains(&follow(&round, one.id())), "a circle ends");
    }

    #[test]
    fn bytes_are_a_change_only_if_the_old_key_signed_them() {
        let [old, new, thief] = [(); 3].map(|()| NodeIdentity::generate().unwrap());
        let change = KeyChange::sign(&old, new.id());
        let bytes = change.to_bytes();
        assert_eq!(KeyChange::try_from(&bytes[..]), Ok(change));
        for at in [0, 31, 32, 63, 64, 127] {
            let mut damaged = bytes;
            damaged[at] ^= 1;
            assert_eq!(KeyChange::try_from(&damaged[..]), Err(NotSigned), "byte {at}");
        }
        assert_eq!(KeyChange::try_from(&bytes[..127]), Err(NotSigned));
        let mut stolen = KeyChange::sign(&thief, new.id()).to_bytes();
        stolen[..32].copy_from_slice(old.id().as_bytes());
        assert_eq!(KeyChange::try_from(&stolen[..]), Err(NotSigned), "another's signature");
        let itself = KeyChange::sign(&old, old.id()).to_bytes();
        assert_eq!(KeyChange::try_from(&itself[..]), Err(NotSigned));
    }
}
