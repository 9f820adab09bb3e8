//! Settings of a mount.

use super::identity::Identities;
use std::time::Duration;

/// When `close` returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Close {
    /// When the change is in the log; it becomes durable and safe in the background.
    #[default]
    Asynchronous,
    /// When a station has it.
    Safe,
}

/// Settings of the mount.
#[derive(Debug, Clone)]
pub struct FileSystemSettings {
    /// When `close` returns.
    pub close: Close,
    /// Longest wait of an operation on names and attributes. Default 10 s.
    pub metadata_timeout: Duration,
    /// Longest silence that a read bears while it waits for bytes from afar: as long as they come it goes on, for at most an
    /// hour by the default. Default 30 s.
    pub read_timeout: Duration,
    /// Longest wait of `fsync` (and of a safe `close`) for the station. Default 10 s.
    pub safe_timeout: Duration,
    /// How long the kernel may believe names and attributes; they are broken by notifications. Default 1 h.
    pub ttl: Duration,
    /// An open file that is written to without a pause of a second is committed when its writes are this old. Default 5 s: what a
    /// power cut can take of it, and after how long others see it.
    pub dirty_age: Duration,
    /// Free space that writes leave on the cache disk, in bytes. Default 192 MiB, half as much again as what the chunk store
    /// leaves; less on small disks, where that leaves less.
    pub free_min: u64,
    /// Room on the cache disk beyond `free_min` without which no file is written past the daemon, in bytes: such
    /// writes end only where the disk does. Default 4 GiB; less risks that a disk runs full under other files.
    pub passthrough_room: u64,
    /// How owners, groups and modes are shown. Default: as the volume has them.
    pub identities: Identities,
    /// Users and groups of this machine, to whom the names that the volume keeps are mapped. Default `None`: by number only.
    pub people: Option<super::people::People>,
}

impl Default for FileSystemSettings {
    fn default() -> Self {
        Self {
            close: Close::default(),
            metadata_timeout: Duration::from_secs(10),
            read_timeout: Duration::from_secs(30),
            safe_timeout: Duration::from_secs(10),
            ttl: Duration::from_secs(3600),
            dirty_age: Duration::from_secs(5),
            free_min: 192 << 20,
            passthrough_room: 4 << 30,
            identities: Identities::default(),
            people: None,
        }
    }
}
