//! wayfs-net
