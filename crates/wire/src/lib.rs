//! wayfs-wire
