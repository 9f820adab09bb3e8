//! The seam between the mount and the replica.

use std::sync::Arc;
use std::time::Duration;
use wayfs_proto::{Keeping, Room};
use wayfs_types::request::{Level, LockFamily, LockOwner, Outcome, Request, RequestId};
use wayfs_types::{FileId, Inode, OriginId, Place, StorageError};

/// Called with an answer.
pub type Callback = Box<dyn FnOnce(Outcome) + Send>;

/// What the mount asks of its replica. The live one is a volume.
pub trait Engine: Send + Sync + 'static {
    /// Asks; `callback` gets the answer. Answered at once it is called on this thread and the result
    /// is `None`; else it is called later on another, perhaps before this function returns.
    fn submit(&self, request: Request, timeout: Duration, callback: Callback) -> Option<RequestId>;

    /// Asks and waits for the answer.
    ///
    /// # Errors
    /// As the engine answers.
    fn request(&self, request: Request, timeout: Duration) -> Outcome;

    /// Gives a request up: it is answered `Interrupted` if it still waits.
    fn cancel(&self, id: RequestId);

    /// A file as seen here at present, without waiting.
    fn inode(&self, file: FileId) -> Option<Arc<Inode>>;

    /// The names of a file that are known here. Takes as long as it has names.
    fn names(&self, file: FileId) -> Vec<Place> {
        self.inode(file).map(|inode| inode.places.clone()).unwrap_or_default()
    }

    /// Whether a place is one of the names of a file whose inode is given.
    fn has_name(&self, file: FileId, inode: &Inode, place: &Place) -> bool {
        let _ = file;
        inode.places.contains(place)
    }

    /// How often something changed here since the replica was opened. What was asked for before the last change may be
    /// out of date. Costs next to nothing.
    fn changes(&self) -> u64;

    /// How often something was answered for which no parent vouched. What was answered while this moved is good for
    /// the moment only. Costs next to nothing.
    fn unvouched(&self) -> u64;

    /// Whether a parent vouches at present for what it told.
    fn is_vouched_for(&self) -> bool;

    /// How the kernel may keep what it is told of a directory.
    fn keeping(&self, directory: FileId) -> Keeping;

    /// Whether what is closed here is seen by the next look of any other client of the parent.
    fn is_close_to_open(&self) -> bool;

    /// Whether a file is, or stands in, a directory in which the home decides at once.
    fn is_exclusive(&self, file: FileId) -> bool {
        let _ = file;
        false
    }

    /// Whose locks on a file ended without their doing, until they let go.
    fn lost_locks(&self, file: FileId) -> Vec<(LockFamily, LockOwner)> {
        let _ = file;
        Vec::new()
    }

    /// Waits until everything answered so far is durable on this machine.
    ///
    /// # Errors
    /// The disk failed or did not finish in time.
    fn sync(&self, timeout: Duration) -> Result<(), StorageError>;

    /// Whether there is a session with a parent.
    fn is_connected(&self) -> bool;

    /// The origin of this replica's own records.
    fn origin(&self) -> OriginId;

    /// One of the readable attributes `user.wayfs.*` that need no question: `version`, `holder`, `conflict`, `exclusive`.
    fn attribute(&self, file: FileId, what: &str) -> Option<String>;

    /// How far a file's current version has come.
    fn level(&self, file: FileId) -> Option<Level>;

    /// Whether a file's current version was made elsewhere: then others have its contents.
    fn is_made_elsewhere(&self, file: FileId) -> bool {
        let _ = file;
        false
    }

    /// The least room of the servers between here and the home and of quotas, as far as they told, and how many files these leave.
    fn room_above(&self) -> Option<(Room, u64)> {
        None
    }

    /// Whether quotas, as far as anybody told, allow that a file becomes so long.
    fn has_quota_for(&self, file: FileId, size: u64) -> bool {
        let _ = (file, size);
        true
    }

    /// Waits for a few seconds until so many bytes are free on the disk, while clean copies give way; whether they are.
    fn make_room(&self, free: u64) -> bool {
        let _ = free;
        false
    }
}
