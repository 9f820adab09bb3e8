//! Times and kinds as reports have them.

use std::time::Instant;
use wayfs_node::clock;
use wayfs_types::{Kind, WallTime};

/// Milliseconds since 1970.
pub fn unix_ms(time: WallTime) -> i64 {
    time.as_nanos().div_euclid(1_000_000)
}

/// Milliseconds since a time of a writer's clock; zero if that clock is ahead.
pub fn age_ms(time: WallTime) -> u64 {
    u64::try_from(unix_ms(clock::wall()) - unix_ms(time)).unwrap_or(0)
}

/// Milliseconds that have passed.
pub fn elapsed_ms(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// What a file is, in a word.
pub fn kind_word(kind: &Kind) -> &'static str {
    match kind {
        Kind::File => "file",
        Kind::Directory => "directory",
        Kind::Symlink(_) => "symlink",
        Kind::Fifo => "fifo",
        Kind::Socket => "socket",
        Kind::CharDevice(_) => "character device",
        Kind::BlockDevice(_) => "block device",
    }
}
