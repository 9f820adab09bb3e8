//! wayfs-system-tests
