//! The running hash over an origin's records: a history has a name.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The running hash over all records of one origin up to one of them.
///
/// Two replicas that have the same sequence of an origin with the same chain have the same records; with another
/// chain they have different ones, whatever their numbers say. 16 bytes of BLAKE3: an accident never gives the same
/// chain twice, and who wants to give a record of his own for another's chain must try 2^128.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Chain([u8; 16]);

impl Chain {
    /// Before the first record.
    pub const START: Self = Self([0; 16]);

    /// From its bytes.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The chain after one more link, whose bytes these are.
    #[must_use]
    pub fn then(self, link: &[u8]) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.0);
        hasher.update(link);
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
        Self(bytes)
    }

    /// Its bytes.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// Four bytes of it: enough to notice in passing that two chains differ.
    pub const fn check(self) -> ChainCheck {
        let [a, b, c, d, ..] = self.0;
        ChainCheck([a, b, c, d])
    }
}

impl fmt::Display for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&data_encoding::HEXLOWER.encode(&self.0))
    }
}

impl fmt::Debug for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Chain({})", &self.to_string()[..8])
    }
}

/// Four bytes of a [`Chain`], for messages that are many.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct ChainCheck([u8; 4]);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_tells_order_and_contents() {
        let one = Chain::START.then(b"a").then(b"b");
        assert_ne!(one, Chain::START.then(b"b").then(b"a"));
        assert_ne!(one, Chain::START.then(b"ab"));
        assert_eq!(one, Chain::START.then(b"a").then(b"b"));
        assert_ne!(one.check(), Chain::START.check());
    }
}
