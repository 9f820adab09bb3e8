//! wayfs-content
