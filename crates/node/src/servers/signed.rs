//! A statement with the signature under it.

use serde::{Deserialize, Serialize};
use wayfs_net::{NodeIdentity, verify_signature};
use wayfs_types::NodeId;

/// A statement in JSON, kept as the text that was signed, and who signed it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signed {
    text: String,
    by: NodeId,
    signature: Vec<u8>,
}

/// What may be said under a signature. The kinds differ in the first bytes of what is signed, so that none can be taken for
/// another.
pub(crate) trait Statement: Serialize + for<'a> Deserialize<'a> {
    /// First bytes of what is signed.
    const CONTEXT: &'static str;
    /// Longest text, in bytes.
    const TEXT_LEN_MAX: usize;

    /// Whether all bounds hold.
    fn is_well_formed(&self) -> bool;
}

impl Signed {
    /// Signs a statement; `None` if it breaks its own bounds.
    pub(crate) fn new<T: Statement>(statement: &T, identity: &NodeIdentity) -> Option<Self> {
        let text = serde_json::to_string(statement).expect("these statements hold nothing that JSON cannot say");
        if !statement.is_well_formed() || text.len() > T::TEXT_LEN_MAX {
            return None;
        }
        let signature = identity.sign(&message::<T>(&text)).to_vec();
        Some(Self { text, by: identity.id(), signature })
    }

    /// Whether the lengths are in bounds, before anything else is looked at.
    pub(crate) fn is_short<T: Statement>(&self) -> bool {
        self.text.len() <= T::TEXT_LEN_MAX && self.signature.len() == 64
    }

    /// What it says, if it is well-formed. Says nothing of who signed it.
    pub(crate) fn read<T: Statement>(&self) -> Option<T> {
        let statement: T = serde_json::from_str(&self.text).ok().filter(|_| self.is_short::<T>())?;
        statement.is_well_formed().then_some(statement)
    }

    /// Whether the machine with this key signed it.
    pub(crate) fn is_signed_by<T: Statement>(&self, node: NodeId) -> bool {
        let message = message::<T>(&self.text);
        let signature = <&[u8; 64]>::try_from(&self.signature[..]);
        self.by == node && signature.is_ok_and(|signature| verify_signature(node, &message, signature))
    }
}

fn message<T: Statement>(text: &str) -> Vec<u8> {
    [T::CONTEXT.as_bytes(), b"\0", text.as_bytes()].concat()
}
