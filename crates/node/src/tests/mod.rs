//! Sessions, contents and sweeps between volumes in one process, over QUIC on loopback.

mod contents;
mod hostile;
mod sessions;
mod sweeping;
