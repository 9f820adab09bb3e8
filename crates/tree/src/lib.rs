//! wayfs-tree
