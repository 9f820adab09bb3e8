//! A plain loopback file system over a host directory.
