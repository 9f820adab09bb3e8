//! What happens to open files of a host: what its programs, its kernel, its table and its disk come to in time.

use super::handle::HandleNumber;
use wayfs_types::FileId;

/// Something that happens to open files of a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum OpenEvent {
    /// A program does something.
    Program,
    /// What is looked after once a second.
    Tick,
    /// What a commit took is hashed.
    Hash(FileId),
    /// A file that was closed early is committed.
    Commit(FileId),
    /// The table hears that a file changed.
    News(FileId),
    /// The kernel hears which pages are out of date.
    Forget,
    /// It sends what mappings of a file stored.
    WriteBack(FileId),
    /// A program that syncs looks whether all is durable.
    Durable { handle: HandleNumber, through: u64 },
    /// The process ended in the middle of a step.
    Ended,
}
