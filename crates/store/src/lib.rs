//! wayfs-store
