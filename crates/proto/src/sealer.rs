//! The key of a machine, which its driver has.

use std::fmt::Debug;
use wayfs_types::{NodeId, Seal};

/// The keys of the driver.
pub trait Sealer: Debug + Send + Sync {
    /// Signs with the key of this machine.
    fn seal(&self, message: &[u8]) -> Seal;

    /// Whether the machine with this key signed it.
    fn is_sealed_by(&self, node: NodeId, message: &[u8], seal: &Seal) -> bool;
}
