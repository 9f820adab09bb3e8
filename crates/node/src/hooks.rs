//! What a volume tells whoever runs it.

use std::net::SocketAddr;
use wayfs_proto::{Changed, Happening, Neighbour};
use wayfs_types::{Content, FileId, Name, NodeId, RecordId, Ticket};

/// What becomes of the names that the kernel has cached when directories are given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CachedNames {
    /// It may keep them: somebody else only looks.
    Keep,
    /// It is to ask for all of them again: somebody else is to change some.
    Expire,
}

/// Called by a [`Volume`](crate::Volume) without any of its locks held, on whatever thread
/// found out. Calls must be quick and must not wait for the network: the thread may be the one
/// that reads a session. Two calls from two threads may overtake each other.
pub trait Hooks: Send + Sync + 'static {
    /// What the kernel has cached of a file is out of date.
    fn invalidate_inode(&self, file: FileId, changed: Changed) {
        let _ = (file, changed);
    }

    /// What the kernel has cached under a name is out of date.
    fn invalidate_entry(&self, parent: FileId, name: &Name) {
        let _ = (parent, name);
    }

    /// What the kernel has cached is not vouched for any more, whatever it is.
    fn invalidate_all(&self) {}

    /// Somebody else is to look at directories, or to change them. What programs closed in these is to be put into the log, and
    /// `names` says what the kernel may keep. Answers whether [`crate::Volume::given_back`] will be called when that is done; if
    /// not, there was nothing to do.
    fn give_back(&self, serial: wayfs_proto::RecallId, directories: &[FileId], names: CachedNames) -> bool {
        let _ = (serial, directories, names);
        false
    }

    /// A file was made, edited, moved, removed, here or elsewhere. Called in the order in which this replica heard of it.
    fn happened(&self, what: &Happening) {
        let _ = what;
    }

    /// First news of a conflict.
    fn conflict(&self, conflict: RecordId) {
        let _ = conflict;
    }

    /// A record of a child took effect here; with `content` if its contents are now owed to our parent.
    fn applied(&self, file: FileId, record: RecordId, content: Option<&Content>) {
        let _ = (file, record, content);
    }

    /// Our parent had to fetch this version's contents from us because someone waited for them.
    fn back_fetched(&self, file: FileId, version: RecordId) {
        let _ = (file, version);
    }

    /// Something that people should know of, in their words: a history forked, a store was put back.
    fn attention(&self, what: &str) {
        let _ = what;
    }

    /// The volume stopped for good: nothing is accepted until it is opened again.
    fn failed(&self, reason: &str) {
        let _ = reason;
    }

    /// A session with a neighbour began or ended.
    fn session_changed(&self, change: &SessionChange) {
        let _ = change;
    }

    /// The home said that it deleted the volume.
    fn deleted(&self) {}

    /// The disk has little room left: what can be made anew beside the stores is to go. Called again while that lasts.
    fn room_is_short(&self) {}

    /// Everything up to this ticket is with the system, and survives a kill of this process. Called by the thread that writes.
    fn written(&self, through: Ticket) {
        let _ = through;
    }

    /// Whether the cached contents of a file must stay (`wayfs pin`). Asked by the sweep at clients.
    fn is_pinned(&self, file: FileId) -> bool {
        let _ = file;
        false
    }
}

/// Hears nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoHooks;

impl Hooks for NoHooks {}

/// A session that began or ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionChange {
    /// The machine at the other end.
    pub node: NodeId,
    /// Its address.
    pub address: SocketAddr,
    /// What it is to us.
    pub neighbour: Neighbour,
    /// What happened.
    pub event: SessionEvent,
}

/// What happened to a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionEvent {
    /// It began.
    Up,
    /// It ended, for this reason.
    Down(String),
}
