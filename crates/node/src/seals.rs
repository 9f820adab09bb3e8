//! This machine's key, as the engine signs with it.

use wayfs_net::{NodeIdentity, verify_signature};
use wayfs_proto::Sealer;
use wayfs_types::{NodeId, Seal};

/// Signs in this machine's name.
#[derive(Debug)]
pub(crate) struct MachineKey(pub(crate) NodeIdentity);

impl Sealer for MachineKey {
    fn seal(&self, message: &[u8]) -> Seal {
        Seal::from_bytes(self.0.sign(message))
    }

    fn is_sealed_by(&self, node: NodeId, message: &[u8], seal: &Seal) -> bool {
        verify_signature(node, message, &seal.to_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seal_is_of_one_machine_and_one_statement() {
        let (own, other) = (NodeIdentity::generate().unwrap(), NodeIdentity::generate().unwrap());
        let key = MachineKey(own.clone());
        let seal = key.seal(b"this");
        assert!(MachineKey(other.clone()).is_sealed_by(own.id(), b"this", &seal));
        assert!(!key.is_sealed_by(own.id(), b"that", &seal));
        assert!(!key.is_sealed_by(other.id(), b"this", &seal));
    }
}
