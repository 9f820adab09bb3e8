//! wayfs-link
