//! The engine over the store that live nodes have.

use wayfs_proto::Replica;
use wayfs_store::DiskMetaStore;

/// The engine as live nodes run it.
pub type LiveReplica = Replica<DiskMetaStore>;
