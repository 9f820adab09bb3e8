//! wayfs-server
