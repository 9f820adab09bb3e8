//! wayfs-sim
