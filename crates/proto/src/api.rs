//! The engine's face: what goes in, what comes out.
//!
//! ```text
//!   driver (node, sim)                          Replica
//!     kernel, tool ── Input::Request ─────────▶  │
//!     network ─────── Input::{PeerUp, Message} ▶ │ ── commit ──▶ MetaStore
//!     syncer ──────── Input::Stored ───────────▶ │
//!     chunk store ─── Input::ContentsHere ─────▶ │
//!                     ◀── Output::{Answer, Send, Sync, Invalidate, …}
//! ```
//!
//! Contents never pass through: the engine names versions and where they are,
//! the driver moves bytes.

use crate::sealer::Sealer;
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;
use wayfs_types::request::{Outcome, Request, RequestId};
use wayfs_types::{Content, FileId, Life, Name, NodeId, OriginId, RecordId, Ticket, Time, Top, VolumeId};
use wayfs_wire::{RecallId, Room, ServerRoom};

/// A session with a neighbour. The driver picks a fresh number for every
/// connection, so that what a dead session still says is not mistaken for the
/// living one's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerId(pub u64);

/// Who is at the other end of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PeerRole {
    Parent,
    Child(OriginId),
}

/// What this replica is in its volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Orders the updates. Has no parent.
    Home,
    /// Between clients and home; holds the whole metadata of the volume.
    Station,
    /// Has a mount; holds what it looked at.
    Client,
}

/// Files of one client about whose locks it decides, unless a driver says otherwise.
const LOCK_DELEGATIONS_MAX: usize = 1024;

/// What a neighbour is to us.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Neighbour {
    /// Our parent.
    Parent,
    /// A station below us: it gets everything.
    ChildStation {
        /// Stable name of that replica over sessions (its own origin).
        origin: OriginId,
    },
    /// A client below us: it gets what it watches.
    ChildClient {
        /// The origin whose records it writes.
        origin: OriginId,
    },
}

/// Whether what one client of a parent closed is seen by the next look of the others there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sharing {
    /// When the news arrives. No change waits for anybody.
    #[default]
    Relaxed,
    /// At once: the first change where others look waits for the parent, and the first look where another changes.
    CloseToOpen,
    /// At once, where a message to the parent and back takes so long at most; else when the news arrives.
    Near(Duration),
}

/// Settings of one replica. Durations are of [`Time`].
#[derive(Debug, Clone)]
pub struct Config {
    /// The volume.
    pub volume: VolumeId,
    /// Its part in it.
    pub role: Role,
    /// The origin under which it writes records of its own.
    pub origin: OriginId,
    /// `USER@HOST` of that origin.
    pub label: String,
    /// The key of this machine.
    pub node: NodeId,
    /// Home: keys that it had before. Default: none.
    pub former_keys: Vec<NodeId>,
    /// Station to home: records are gathered so long unless the link is idle. Default 1 s (the research: 15 s).
    pub reconcile_period: Duration,
    /// Station: a record that finds the link to the home idle waits so long for what may undo it (the lock and
    /// temporary files of programs live for milliseconds), so that neither crosses; longer while others keep coming
    /// within that time of each other, and while something was made and left empty, up to
    /// [`Config::reconcile_period`]. Default 50 ms. Zero: it leaves at once.
    pub reconcile_gather: Duration,
    /// Changes that nobody waits for are gathered so long for one sync, and at a client for one message. Default 10 ms.
    /// Zero: each goes by itself, and costs every machine on its way a sync, a message and an acknowledgement.
    pub sync_gather: Duration,
    /// Rows of the committed view that are kept decoded in memory: those that were read last, up to twice so many, of at most
    /// 4 KiB each. Default 512. Zero: none.
    pub view_rows_kept: usize,
    /// Client: small records that somebody waits for are sent while the own disk still syncs them, so that the time
    /// to safe is one round trip and one group commit. Default true.
    pub sends_ahead: bool,
    /// A child that has been silent for so long loses its callbacks and locks. Default 10 s.
    pub lease: Duration,
    /// Files of one client whose locks it may decide about by itself, as long as nobody else asks for one there. Default 1024. Zero:
    /// each lock and each release is a question, or a message, to the parent.
    pub lock_delegations_max: usize,
    /// Most records in one message. Default 512.
    pub records_per_message: usize,
    /// Most images in one message. Default 512.
    pub images_per_message: usize,
    /// Images of one cut gathered before those that touch nothing tentative are applied early: they are one batch of the store, and
    /// nothing else happens while it is made. Default 16,384.
    pub images_gathered_max: usize,
    /// Most bytes of records or images in one message. Default 1 MiB (a frame holds 4 MiB).
    pub message_len_max: usize,
    /// Most records in flight to the parent before it acknowledged. Default 4096.
    pub records_in_flight_max: usize,
    /// Most contents on their way to the parent at a time. Default 64.
    pub pushes_max: usize,
    /// Versions that are looked at together when somebody wants all of an origin at the home; at least 1. Default 4096.
    pub wants_max: usize,
    /// Client: most watches at once; the one unused for longest goes first. Default 65,536.
    pub watches_max: usize,
    /// Changes for which tombstones are kept at least. Default 100,000. A child further behind gets the whole
    /// state (a station) or verifies its cache (a client).
    pub tombstones_kept: u64,
    /// Most waiting requests; one more is refused with `TimedOut`. Default 4096.
    pub requests_waiting_max: usize,
    /// Contents that came before a record that names them are kept so long. Default 10 min: longer than a record is late.
    pub announced_grace: Duration,
    /// A child further behind than this many changes revalidates instead of catching up. Default 1,000,000.
    pub catch_up_max: u64,
    /// Client: after a move, what was seen of others and the home does not have is shown for so long, and what rests upon it cannot be
    /// read. Default 10 min, with a home that can be reached: who has it may come back. Beyond, what the home says counts.
    pub seen_kept: Duration,
    /// Home: most conflict reports kept; past it those go that matter least. Default 10,000: what the tools list.
    pub conflicts_max: u64,
    /// This opening of the store, drawn at random by the driver: a copy of the store that is opened elsewhere, or put
    /// back later, is told apart by it. Default [`Life::NONE`]: nothing is concluded from it.
    pub life: Life,
    /// Home: if the store is a station's, it takes the place of its home with it, for good. Default false: it is refused.
    pub succeeds: bool,
    /// Client: this member may only read. Changes are refused here as they would be anywhere else. Default false.
    pub read_only: bool,
    /// Client: when others see what is closed here, and we what they closed. Default [`Sharing::Relaxed`].
    pub sharing: Sharing,
    /// The key of this machine, and how signatures of others are checked. Default `None`: nothing is signed, and nothing checked. All
    /// replicas of a volume do the same.
    pub seals: Option<Arc<dyn Sealer>>,
    /// The key of the home, by which its own word is known. Default `None`: no word is taken for the home's.
    pub home: Option<NodeId>,
}

impl Config {
    /// The defaults, documented at each field.
    pub fn new(volume: VolumeId, role: Role, origin: OriginId, label: String, node: NodeId) -> Self {
        Self {
            volume,
            role,
            origin,
            label,
            node,
            former_keys: Vec::new(),
            reconcile_period: Duration::from_secs(1),
            reconcile_gather: Duration::from_millis(50),
            sync_gather: Duration::from_millis(10),
            view_rows_kept: 512,
            sends_ahead: true,
            lease: Duration::from_secs(10),
            lock_delegations_max: LOCK_DELEGATIONS_MAX,
            records_per_message: 512,
            images_per_message: 512,
            images_gathered_max: 16_384,
            message_len_max: 1 << 20,
            records_in_flight_max: 4096,
            pushes_max: 64,
            wants_max: 4096,
            watches_max: 65_536,
            tombstones_kept: 100_000,
            requests_waiting_max: 4096,
            announced_grace: Duration::from_secs(600),
            catch_up_max: 1_000_000,
            seen_kept: Duration::from_secs(600),
            conflicts_max: 10_000,
            life: Life::NONE,
            succeeds: false,
            read_only: false,
            sharing: Sharing::default(),
            seals: None,
            home: None,
        }
    }
}

/// Events for [`crate::Replica::handle`].
#[derive(Debug, Clone)]
pub enum Input {
    /// A request of this replica's own user. Answered by [`Output::Answer`] with the same id, at the
    /// latest at `deadline` (then `TimedOut`, or `Unreachable` when there is no parent).
    Request {
        /// Chosen by the driver.
        id: RequestId,
        /// What is asked.
        request: Request,
        /// When to give up.
        deadline: Time,
    },
    /// The asker gave up (a signal): the request is answered `Interrupted` if it still waits.
    Cancel {
        /// Which.
        id: RequestId,
    },
    /// A session with an admitted neighbour began.
    PeerUp {
        /// The session.
        peer: PeerId,
        /// What it is to us.
        neighbour: Neighbour,
    },
    /// A session ended, for whatever reason.
    PeerDown {
        /// The session.
        peer: PeerId,
    },
    /// A session ended by its other end, which said that it trusts nothing any more that it was told in it. A driver says so to
    /// its parent once it has fed [`Input::PeerDown`] to its own engine: from then on nobody waits for its caches.
    PeerLeft {
        /// The session.
        peer: PeerId,
    },
    /// An encoded [`wayfs_wire::Message`] of a session, in the session's order.
    Message {
        /// The session.
        peer: PeerId,
        /// Its bytes, as [`Output::Send`] gave them at the other end.
        bytes: Bytes,
    },
    /// Everything up to this batch is durable.
    Stored {
        /// The newest durable batch.
        ticket: Ticket,
    },
    /// All bytes of these contents are durable in the chunk store of this replica.
    ContentsHere {
        /// Their tops.
        tops: Vec<Top>,
    },
    /// The contents behind [`Output::Push`] arrived and are durable at the parent.
    Pushed {
        /// The versions pushed.
        versions: Vec<RecordId>,
    },
    /// Station: of a push under way so many bytes have gone, for its writer to see. About once a second.
    Sent {
        /// The version.
        version: RecordId,
        /// Bytes of it that the parent has.
        bytes: u64,
    },
    /// The contents of a version that this replica owes, lent, or (a home) shows are not whole in its chunk store: damaged,
    /// gone, or the disk was put back. The driver has asked whom it could, and got them from nobody.
    ContentGone {
        /// Its file.
        file: FileId,
        /// The version.
        version: RecordId,
        /// The content.
        content: Content,
    },
    /// Answers [`Output::Seek`].
    Sought {
        /// Its file.
        file: FileId,
        /// The version.
        version: RecordId,
        /// The content.
        content: Content,
        /// Whether all of it is durable in the chunk store, every chunk read and found sound.
        is_here: bool,
    },
    /// Station: answers [`Output::LookHere`].
    LookedHere {
        /// Versions of which every byte is durable in the chunk store, and was read.
        here: Vec<RecordId>,
        /// Those of which not all is there.
        not_here: Vec<RecordId>,
    },
    /// The propagation policy (or someone waiting for *stable*) wants this version's contents at our parent.
    Propagate {
        /// Its file.
        file: FileId,
        /// The version.
        version: RecordId,
    },
    /// A child fetched the contents of a file from us (to cache them): a later version by another
    /// child breaks its copy, and that is told to the writer's side as [`Output::Shared`]. Optional: without it
    /// no sharing is noticed.
    Fetched {
        /// The child's session.
        peer: PeerId,
        /// The file.
        file: FileId,
    },
    /// Client: the cache is full of contents that the home does not have. Servers are asked to bring them home, whatever
    /// the policy, so that they can be evicted here.
    MakeRoom,
    /// Client: what [`Output::GiveBack`] asked for is done.
    GivenBack {
        /// Its number.
        serial: RecallId,
    },
    /// Contents went over a session, either way, since this was last said. The other side is there, however long its messages
    /// wait in a line that contents fill; what it vouched for is not vouched for any longer. Said before [`Input::Tick`]; optional:
    /// without it a parent is given up whose messages take a lease.
    Moved {
        /// The session.
        peer: PeerId,
    },
    /// The room on our own disk, whenever it changed by much.
    Room {
        /// It.
        room: Room,
    },
    /// Nothing: look at the clock. Sent when [`crate::Replica::poll_timeout`] has come.
    Tick,
}

/// Effects from [`crate::Replica::poll_output`]; carried out in this order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// Answers a request.
    Answer {
        /// Which.
        id: RequestId,
        /// How it ended.
        outcome: Outcome,
    },
    /// Sends a message on a session, in order, reliably; if that cannot be, the driver ends the session.
    Send {
        /// The session.
        peer: PeerId,
        /// The bytes.
        bytes: Bytes,
    },
    /// Ends a session: the peer broke the protocol. Answer with [`Input::PeerDown`].
    Disconnect {
        /// The session.
        peer: PeerId,
        /// What it did, for the log.
        reason: String,
    },
    /// Someone waits for everything up to this batch to be durable: sync, then say [`Input::Stored`].
    Sync {
        /// The batch.
        ticket: Ticket,
    },
    /// What the kernel has cached of a file is out of date.
    InvalidateInode {
        /// The file.
        file: FileId,
        /// Whether its bytes changed, too, or only attributes.
        what: Changed,
    },
    /// What the kernel has cached under a name (or that there is nothing) is out of date.
    InvalidateEntry {
        /// The directory.
        parent: FileId,
        /// The name.
        name: Name,
    },
    /// Nothing that the kernel has cached is vouched for any more: all of it is to be asked for again. What changed
    /// while nobody told us is not known.
    InvalidateAll,
    /// Push this version's contents to the parent, then say [`Input::Pushed`]. Resent in a new session if not confirmed.
    Push {
        /// Its file.
        file: FileId,
        /// The version.
        version: RecordId,
        /// What to push: all chunks below its root.
        content: Content,
    },
    /// Nobody on record has this version's contents. Look whether the chunk store has all of it, read every chunk, and say
    /// [`Input::Sought`]. A server asks everybody below it for what lacks: who read it is on no record.
    Seek {
        /// Its file.
        file: FileId,
        /// The version.
        version: RecordId,
        /// What is looked for.
        content: Content,
    },
    /// Station: the parent names a version, and nobody here has spoken of its contents; or nobody below has them by the records, and the
    /// parent is to be told so. The driver looks whether its own chunk store has all of them, asks nobody, and answers with [`Input::LookedHere`]. Until then they count as at this station only.
    LookHere {
        /// Its file.
        file: FileId,
        /// The version.
        version: RecordId,
        /// What is looked for.
        content: Content,
    },
    /// A new record of a child was applied here (station, home): for the propagation policy and events.
    Applied {
        /// Its file.
        file: FileId,
        /// The record.
        record: RecordId,
        /// The content if it is a tree that is not known to be here. If the driver's chunk store has all of
        /// it already, it says [`Input::ContentsHere`] at once; else the child will push it.
        content: Option<Content>,
    },
    /// The parent broke callbacks because of this version (the signal of the invalidation heuristic).
    Shared {
        /// Its file.
        file: FileId,
        /// The version that others had cached an older one of.
        version: RecordId,
    },
    /// Station: the contents of a version are here, and our parent does not have them ([`crate::Replica::propagation_news`]).
    Owed {
        /// The file that they were stored into; a copy made of a conflict has the version's own number.
        file: FileId,
        /// The version.
        version: RecordId,
    },
    /// Station: our parent has the contents of a version that were [`Output::Owed`], or nobody needs them any more.
    Released {
        /// The version.
        version: RecordId,
    },
    /// A file was made, edited, moved, removed: for people, by whatever way it came to be known here. Those that were found, rather
    /// than changed, because this replica looked for the first time are not told.
    Happened(crate::Happening),
    /// A conflict was found (first news of it in this replica).
    Conflict {
        /// Filed under.
        conflict: RecordId,
    },
    /// The home declared that nobody has the bytes of a version.
    Lost {
        /// What is lost; its report is filed as a conflict.
        version: RecordId,
        /// Its file.
        file: FileId,
        /// The file shows the last content that is whole.
        shows_older: bool,
    },
    /// This store and another with the same origin have each gone on by themselves (it was put back to an older copy,
    /// or cloned, or somebody wrote in its name). It asks for an origin of its own; until then it goes on as if offline.
    Forked {
        /// What was noticed.
        reason: String,
    },
    /// It has one: what nobody had confirmed was written again under it. The driver ends the session with the parent
    /// and attaches anew under [`Config::origin`].
    Renewed {
        /// The origin that it wrote under before.
        former: OriginId,
        /// The present one.
        origin: OriginId,
        /// Records that were written again.
        records: u64,
    },
    /// A child knows more of this store than the store: it was put back to an older copy.
    WentBack {
        /// The child that showed it.
        child: OriginId,
    },
    /// The parent was put back to an older copy, and what it lost and we have was written again.
    Recovered {
        /// How many records that took.
        records: u64,
    },
    /// Station: what children wrote under an origin and the home has not is written again under our own.
    Rescued {
        /// The origin whose history forked.
        of: OriginId,
        /// Records that were written again.
        records: u64,
    },
    /// Client: somebody else is to look at directories, or to change them. What programs closed in them is to be put into the
    /// log, and what the kernel keeps out of force; then say [`Input::GivenBack`]. Changes go on meanwhile.
    GiveBack {
        /// Its number.
        serial: RecallId,
        /// The directories that this client has alone; it may be none.
        files: Vec<FileId>,
        /// Whether the kernel is to ask for all names again.
        expire: bool,
    },
    /// A server above us got full, or has room again.
    RoomsAbove {
        /// All that is known of them, nearest first.
        rooms: Vec<ServerRoom>,
    },
    /// The store failed: the replica takes no more input. The driver must stop the volume.
    Failed {
        /// Why.
        reason: String,
    },
}

/// What changed of an inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Changed {
    /// Only attributes.
    Attributes,
    /// Contents (and so attributes).
    Content,
}

/// Where the contents of a version can be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holder {
    /// In this replica's own chunk store.
    Here,
    /// At the child with this origin (whose session may be down at the moment).
    Child(OriginId, Option<PeerId>),
    /// At our parent, or wherever it knows.
    Parent,
    /// Nobody on record has it.
    Unknown,
}
