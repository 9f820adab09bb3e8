//! What is to happen, and in which order.

use super::transfer::Transfer;
use crate::dcache::cache::Notice;
use crate::disk::{Disk, SyncPoint};
use crate::host::Expectation;
use crate::network::End;
use crate::openfiles::event::OpenEvent;
use wayfs_proto::PeerId;
use wayfs_roam::DialId;
use wayfs_types::request::{Request, RequestId};
use wayfs_types::{Content, Digest, FileId, NodeId, RecordId, Time};

/// Something that happens to someone at some time.
#[derive(Debug, Clone)]
pub(crate) enum Event {
    /// Frames of a session may have arrived from an end.
    Deliver {
        session: PeerId,
        from: End,
    },
    /// A sync that was asked for is done.
    Synced {
        host: usize,
        life: u32,
        point: SyncPoint,
    },
    /// An engine's timer.
    Wake {
        host: usize,
        life: u32,
    },
    /// Something of how a host chooses a parent.
    Roaming {
        host: usize,
        life: u32,
        event: RoamingEvent,
    },
    /// A user goes online.
    GoOnline {
        host: usize,
    },
    /// An end notices that its session is dead.
    Notice {
        session: PeerId,
        end: End,
    },
    /// A link that was cut is still cut after the idle timeout?
    CutCheck {
        link: (usize, usize),
        since: Time,
    },
    /// Something happens to contents under way.
    Transfer(Transfer),
    /// A server synced a content that became whole otherwise.
    Look {
        host: usize,
        life: u32,
        file: FileId,
        version: RecordId,
        content: Content,
    },
    /// A station looks whether it has a content that its parent named.
    LookHere {
        host: usize,
        life: u32,
        version: RecordId,
        root: Digest,
    },
    Whole {
        host: usize,
        life: u32,
        root: Digest,
        chunk_writes: u64,
    },
    /// A host removes chunks that it need not keep.
    Sweep {
        host: usize,
    },
    /// A store is put back to an older copy.
    GoBack {
        host: usize,
        copy: Box<Disk>,
    },
    /// A host says where it stands.
    Speak {
        host: usize,
    },
    /// A quota of a member, or of all, is lifted.
    LiftQuota {
        node: Option<NodeId>,
    },
    /// A full disk has room again.
    Room {
        host: usize,
    },
    /// The timer of a station's policy.
    PolicyWake {
        host: usize,
        life: u32,
    },
    /// A client gives rights back.
    GivenBack {
        host: usize,
        life: u32,
        serial: wayfs_proto::RecallId,
        /// Its kernel is to ask for all names again before.
        expires: bool,
    },
    /// Something happens between a client and what its kernel keeps of names.
    Kernel {
        host: usize,
        life: u32,
        event: KernelEvent,
    },
    /// Something happens to open files.
    OpenFiles {
        host: usize,
        life: u32,
        event: OpenEvent,
    },
    /// A client does something.
    Work {
        host: usize,
    },
    /// Something breaks.
    Fault,
    /// A crashed host comes back.
    Restart {
        host: usize,
        life: u32,
    },
    /// A cut link is whole again.
    Reconnect {
        link: (usize, usize),
    },
}

/// What happens to a host that chooses a parent.
#[derive(Debug, Clone)]
pub(crate) enum RoamingEvent {
    /// What its machine asked for is done.
    Done(wayfs_roam::Input),
    /// The machine's timer.
    Wake,
    /// A server answers a greeting.
    Greeted(DialId),
}

/// Something that happens between a client and its kernel.
#[derive(Debug, Clone)]
pub(crate) enum KernelEvent {
    /// An answer reaches the kernel.
    Answered(RequestId),
    /// It is told to forget something.
    Told(Notice),
    /// A program that waited for a directory's lock tries again.
    Tried(Box<(Request, Expectation)>),
}

/// The queue's entry: time, order of arrival, event.
pub(super) struct Scheduled(pub(super) Time, pub(super) u64, pub(super) Event);

impl PartialEq for Scheduled {
    fn eq(&self, other: &Self) -> bool {
        (self.0, self.1) == (other.0, other.1)
    }
}
impl Eq for Scheduled {}
impl PartialOrd for Scheduled {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Scheduled {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.0, self.1).cmp(&(other.0, other.1))
    }
}
