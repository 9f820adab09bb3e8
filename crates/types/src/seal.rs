//! What proves whose records these are.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A signature by the key of an origin's machine over all its records up to one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Seal([[u8; 32]; 2]);

impl Seal {
    /// From the 64 bytes of a signature.
    pub const fn from_bytes(bytes: [u8; 64]) -> Self {
        let (mut halves, mut at) = ([[0; 32]; 2], 0);
        while at < 64 {
            halves[at / 32][at % 32] = bytes[at];
            at += 1;
        }
        Self(halves)
    }

    /// The 64 bytes of the signature.
    pub fn to_bytes(self) -> [u8; 64] {
        let mut bytes = [0; 64];
        bytes[..32].copy_from_slice(&self.0[0]);
        bytes[32..].copy_from_slice(&self.0[1]);
        bytes
    }
}

impl fmt::Debug for Seal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Seal({:02x}{:02x}…)", self.0[0][0], self.0[0][1])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seal_keeps_its_bytes() {
        let bytes: [u8; 64] = std::array::from_fn(|at| at as u8);
        assert_eq!(Seal::from_bytes(bytes).to_bytes(), bytes);
    }
}
