//! A home, a station and clients in one process.
