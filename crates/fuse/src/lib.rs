//! wayfs-fuse
