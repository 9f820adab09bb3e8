//! wayfs-node
