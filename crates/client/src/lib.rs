//! wayfs-client
