//! A home, a station and joining machines in one process, over QUIC on loopback.

mod admission;
mod copying;
mod daemon;
mod deleting;
mod harness;
mod stations;
