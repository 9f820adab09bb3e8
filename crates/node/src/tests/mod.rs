//! Sessions, contents and sweeps between volumes in one process, over QUIC on loopback.

mod contents;
mod differences;
mod forwarding;
mod full_disk;
mod hostile;
mod scrubbing;
mod sessions;
mod sweeping;
mod torn;
