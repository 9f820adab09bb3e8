//! One simulated machine: disk, clock and, unless crashed, an engine.

use crate::dcache::cache::NameCache;
use crate::disk::DiskHandle;
use crate::lock_use::LockUse;
use crate::looking::{Looking, Waiting};
use crate::openfiles::open_host::OpenHost;
use crate::parent_choice::Roaming;
use crate::pushing::Pushing;
use crate::shared_changes::Asked;
use std::collections::{BTreeMap, BTreeSet};
use wayfs_policy::{Propagator, Setting};
use wayfs_proto::{Config, PeerId, Replica, Role};
use wayfs_transfer::fetches::{LookId, WaitId};
use wayfs_transfer::{Fetches, PushId, Uploads};
use wayfs_types::request::{Level, Outcome, Request, RequestId};
use wayfs_types::{Content, Digest, FileId, Inode, Name, OriginId, RecordId, Time, WallTime};

/// What a client waits to hear, to be entered into the history.
#[derive(Debug, Clone)]
pub(crate) enum Expectation {
    /// A creation.
    Created,
    /// A creation of what holds something from the start.
    Published { content: Content },
    /// A store of some content upon a version.
    Stored { base: RecordId, content: Content },
    /// A name taken from a file, perhaps.
    NameTaken,
    /// A report that a record reached a level; asked while attached to that station's session.
    Level { record: RecordId, level: Level, station: usize, session: PeerId },
    /// A look at a file: nothing older than this may be seen.
    Read,
    /// The world itself asked and picks the answer up.
    Collected,
    /// Nothing depends on it.
    Nothing,
}

/// A machine.
pub(crate) struct Host {
    pub(crate) config: Config,
    pub(crate) disk: DiskHandle,
    pub(crate) replica: Option<Replica<DiskHandle>>,
    /// Counts restarts, so that events for an earlier life are dropped.
    pub(crate) life: u32,
    /// The disk is gone for good.
    pub(crate) destroyed: bool,
    /// The origins that it wrote under.
    pub(crate) origins: Vec<OriginId>,
    /// Its store was put back to an older copy.
    pub(crate) is_copy: bool,
    /// Its store began as a copy of another host's.
    pub(crate) is_clone: bool,
    /// What it answers at this moment its parent does not vouch for: a question found no answer in time.
    pub(crate) is_unvouched: bool,
    /// Suspended until then.
    pub(crate) asleep_until: Time,
    /// Nanoseconds by which its wall clock is off.
    pub(crate) skew: i64,
    /// Hosts it may attach to.
    pub(crate) parents: Vec<usize>,
    /// The one that its user chose.
    pub(crate) pinned: Option<usize>,
    /// Whether its user wants a session.
    pub(crate) is_online: bool,
    /// How its process chooses a parent.
    pub(crate) roaming: Option<Roaming>,
    /// Moves from one parent to another since it was counted anew.
    pub(crate) moves: usize,
    /// When its last session began.
    pub(crate) attached_at: Time,
    /// Its session upward, as it sees it.
    pub(crate) parent_session: Option<PeerId>,
    pub(crate) next_request: u64,
    pub(crate) waiting: BTreeMap<RequestId, Expectation>,
    /// What its program does with locks.
    pub(crate) lock: LockUse,
    /// What it was asked, where clients take rights to change alone.
    pub(crate) asked: BTreeMap<RequestId, Asked>,
    /// The last record of its own of which is noted what it took a name from, where all is exclusive.
    pub(crate) noted: Option<RecordId>,
    /// What it was asked, where all is exclusive or programs use locks.
    pub(crate) changes_asked: BTreeMap<RequestId, Request>,
    pub(crate) collected: BTreeMap<RequestId, Outcome>,
    /// Files it came across, newest last.
    pub(crate) files: Vec<FileId>,
    pub(crate) directories: Vec<FileId>,
    /// The newest version of each file that it wrote or saw.
    pub(crate) seen: BTreeMap<FileId, RecordId>,
    pub(crate) last_record: Option<RecordId>,
    /// The earliest wake-up that is under way.
    pub(crate) wake_at: Option<Time>,
    /// Station: which contents it sends ahead.
    pub(crate) policy: Option<Setting>,
    /// The machine that decides that, while it runs.
    pub(crate) propagator: Option<Propagator>,
    /// Versions of which somebody above read a part: the policy sends the rest at the bound, and not with its period.
    pub(crate) back_fetched: BTreeSet<RecordId>,
    /// The earliest wake-up of that machine that is under way.
    pub(crate) policy_wakes_at: Option<Time>,
    /// When chunks were put or read last.
    pub(crate) touched: BTreeMap<Digest, Time>,
    /// Contents on their way to the parent: a sweep leaves them alone.
    pub(crate) uploads: Uploads<PeerId>,
    /// Most of them under way at once.
    uploads_at_once: usize,
    /// The earliest end of a pause that is waited for.
    pub(crate) uploads_wake_at: Option<Time>,
    /// Pushes under way.
    pub(crate) pushes: BTreeMap<PushId<PeerId>, Pushing>,
    pub(crate) pushes_begun: u64,
    /// Looks for pieces that are under way.
    pub(crate) looks: BTreeMap<LookId, Looking>,
    /// Who waits for which of them.
    pub(crate) fetches: Fetches<PeerId>,
    pub(crate) waits: BTreeMap<WaitId, Waiting>,
    /// The earliest end of a patience that is waited for.
    pub(crate) fetches_wake_at: Option<Time>,
    /// Client: its open files, in seeds that have them.
    pub(crate) open: Option<Box<OpenHost>>,
    /// Client: what its kernel keeps of names, in seeds that have that.
    pub(crate) names: Option<Box<NameCache>>,
    /// Its disk lost or damaged something that the engine relies on.
    pub(crate) is_harmed: bool,
    /// Chunks that were on its disk and were damaged or lost there.
    pub(crate) hit: BTreeSet<Digest>,
}

impl Host {
    pub(crate) fn new(config: Config, parents: Vec<usize>, skew: i64, uploads_at_once: usize) -> Self {
        Self {
            disk: DiskHandle::default(),
            replica: None,
            life: 0,
            destroyed: false,
            origins: vec![config.origin],
            is_copy: false,
            is_clone: false,
            is_unvouched: false,
            asleep_until: Time::ZERO,
            skew,
            parents,
            pinned: None,
            is_online: true,
            roaming: None,
            moves: 0,
            attached_at: Time::ZERO,
            parent_session: None,
            next_request: 1,
            waiting: BTreeMap::new(),
            lock: LockUse::Idle,
            asked: BTreeMap::new(),
            noted: None,
            changes_asked: BTreeMap::new(),
            collected: BTreeMap::new(),
            files: Vec::new(),
            directories: vec![FileId::ROOT],
            seen: BTreeMap::new(),
            last_record: None,
            wake_at: None,
            policy: None,
            propagator: None,
            back_fetched: BTreeSet::new(),
            policy_wakes_at: None,
            touched: BTreeMap::new(),
            uploads: Uploads::new(uploads_at_once),
            uploads_at_once,
            uploads_wake_at: None,
            pushes: BTreeMap::new(),
            pushes_begun: 0,
            looks: BTreeMap::new(),
            fetches: Fetches::default(),
            waits: BTreeMap::new(),
            fetches_wake_at: None,
            open: None,
            names: None,
            is_harmed: false,
            hit: BTreeSet::new(),
            config,
        }
    }

    /// What its store is opened with. The driver's settings name the origin that was granted at first; which one the store goes on
    /// under since a fork only the store knows, since its driver notes none (`node::volume` keeps the one of its settings).
    pub(crate) fn settings(&self) -> Config {
        let granted = self.origins.first().copied().unwrap_or(self.config.origin);
        Config { origin: granted, ..self.config.clone() }
    }

    pub(crate) const fn role(&self) -> Role {
        self.config.role
    }

    pub(crate) fn is_client(&self) -> bool {
        self.role() == Role::Client
    }

    /// Whether its disk has all that it ever promised.
    pub(crate) const fn is_sound(&self) -> bool {
        !self.destroyed && !self.is_copy && !self.is_harmed
    }

    /// Files that were made again under other names: what stands under the former ones is what another copy of this store made.
    pub(crate) fn follow_renamed(&mut self) {
        let Some(replica) = &self.replica else { return };
        let mut seen = BTreeMap::new();
        for (former, now) in replica.renamed() {
            if let Some(version) = self.seen.remove(&FileId::made_by(former)) {
                seen.insert(FileId::made_by(now), version);
            }
        }
        self.seen.extend(seen);
    }

    /// Its wall clock: seventeen years after the epoch and its own error.
    pub(crate) fn wall(&self, now: Time) -> WallTime {
        let true_nanos = 1_800_000_000_000_000_000 + (now.as_micros() as i64) * 1000;
        WallTime::from_nanos(true_nanos + self.skew)
    }

    pub(crate) fn request_id(&mut self) -> RequestId {
        self.next_request += 1;
        RequestId(self.next_request)
    }

    /// Remembers something that it came across, within bounds.
    pub(crate) fn remember(&mut self, file: FileId, inode: &Inode) {
        let list = if inode.is_directory() { &mut self.directories } else { &mut self.files };
        if !list.contains(&file) {
            list.push(file);
        }
        if list.len() > 24 {
            list.remove(1);
        }
    }

    /// Roots of contents that were put for changes which wait for their turn, or are being pushed.
    pub(crate) fn promised_roots(&self) -> impl Iterator<Item = Digest> {
        let stored = self.waiting.values().filter_map(|expectation| match expectation {
            Expectation::Stored { content, .. } | Expectation::Published { content } => content.root(),
            _ => None,
        });
        let pushed = self.uploads.running().chain(self.uploads.waiting());
        stored.chain(pushed.filter_map(|order| order.content.root()))
    }

    /// All that dies with the process.
    pub(crate) fn forget_life(&mut self) {
        self.end_open_files();
        self.names = None;
        self.replica = None;
        self.roaming = None;
        self.life += 1;
        self.parent_session = None;
        self.waiting.clear();
        self.lock = LockUse::Idle;
        self.asked.clear();
        self.changes_asked.clear();
        // Numbers that a crash took are given again, and those of a new life need not be greater (seed 551 of `stores`).
        self.noted = None;
        self.wake_at = None;
        self.propagator = None;
        self.policy_wakes_at = None;
        self.touched.clear();
        self.uploads = Uploads::new(self.uploads_at_once);
        self.uploads_wake_at = None;
        self.pushes.clear();
        self.looks.clear();
        self.fetches = Fetches::default();
        self.waits.clear();
        self.fetches_wake_at = None;
    }
}

/// One of a few names, so that clients meet.
pub(crate) fn name(number: u32) -> Name {
    name_of(&format!("n{number}"))
}

pub(crate) fn name_of(text: &str) -> Name {
    Name::new(text).expect("a plain name")
}
