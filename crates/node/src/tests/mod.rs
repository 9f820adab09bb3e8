//! Sessions, contents and sweeps between volumes in one process, over QUIC on loopback.
