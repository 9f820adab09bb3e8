//! wayfs-control
