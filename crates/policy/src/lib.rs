//! wayfs-policy
