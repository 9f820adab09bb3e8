//! What all operations share.

use super::attributes::{Attributes, attributes};
use super::caller::{Caller, Credentials};
use super::copy_sources::Sources;
use super::handles::Handles;
use super::held_locks::HeldLocks;
use super::identity::Identities;
use super::kernel::{Abilities, Kernel};
use super::pending::Pending;
use super::reply::{Reply, Respond, Unanswered};
use super::results::Entry;
use super::second_walks::SecondWalks;
use super::settings::FileSystemSettings;
use super::shared_memory::SharedMemory;
use super::shown::Shown;
use super::space::SpaceGuard;
use super::warmed::Warmed;
use crate::engine::Engine;
use crate::files::{FileTable, WaitPolicy};
use crate::inotify::Watchers;
use crate::notices::{Notices, Stale};
use crate::workers::{Limits, Workers};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use wayfs_node::CachedNames;
use wayfs_proto::Keeping;
use wayfs_types::request::Level;
use wayfs_types::{FileId, Inode, Kind};

/// The file system of one mount: what all its operations share.
pub struct FileSystem {
    pub(super) engine: Arc<dyn Engine>,
    pub(super) files: Arc<FileTable>,
    pub(super) settings: FileSystemSettings,
    /// By the names that the volume had when it was mounted.
    by_names: OnceLock<Identities>,
    pub(super) handles: Handles,
    pub(super) pending: Pending,
    pub(super) locks: HeldLocks,
    pub(super) shared_memory: SharedMemory,
    pub(super) second_walks: SecondWalks,
    pub(super) warmed: Warmed,
    pub(super) cold: super::cold::Cold,
    /// Reads from afar.
    pub(super) readers: Workers,
    /// Commits and syncs that somebody waits for.
    pub(super) savers: Workers,
    /// Commits of what was closed early.
    pub(super) cutters: Workers,
    /// Locks that were granted and wait for the kernel to forget.
    pub(super) granters: Workers,
    /// Rights that others want.
    pub(super) givers: Workers,
    /// Whether the kernel can be told to ask for all names again.
    pub(super) expires_all: AtomicBool,
    pub(super) write_patterns: super::write_pattern::WritePatterns,
    pub(super) sources: Sources,
    pub(super) kernel: OnceLock<Arc<dyn Kernel>>,
    /// Whether the kernel may still take passthrough files.
    pub(super) has_passthrough: AtomicBool,
    /// The kernel checks access control lists, and leaves the umask to us.
    pub(super) has_lists: AtomicBool,
    pub(super) space: SpaceGuard,
    unanswered: Arc<Unanswered>,
    /// What the kernel must forget.
    pub(super) notices: Arc<Notices>,
    /// Changes from elsewhere that programs are told of by inotify.
    pub(super) watchers: Arc<Watchers>,
}

/// Threads that wait for bytes from afar: as many reads can be under way.
const READERS: usize = 16;
/// Threads that commit and sync: enough to share a group commit.
const SAVERS: usize = 4;
/// Threads that cut and hash what nobody waits for: one leaves the other cores to programs.
const CUTTERS: usize = 1;
/// Threads that wait for the kernel to forget what is old: all of them wait for the same.
const GRANTERS: usize = 2;
/// Threads that commit what others want to look at. They wait for the disk, never for other machines.
const GIVERS: usize = 2;
/// How long the kernel may believe what only this machine changes, where it cannot be told at once to ask again.
const TTL_WITHOUT_EXPIRY: Duration = Duration::from_secs(1);
/// Body files are kept ready for passthrough so long for who reads them next: three quarters of a minute. After that most of what is
/// written, and of what is long, is not read here for long, and takes no more room than once within a minute.
const COPIES_KEPT: Duration = Duration::from_secs(45);
/// Jobs that may wait for any of them; one more is answered with `ETIMEDOUT`.
const WAITING_MAX: usize = 4096;

const fn limits(threads_max: usize) -> Limits {
    Limits { threads_max, waiting_max: WAITING_MAX }
}

impl FileSystem {
    /// A mount over a replica and its files.
    ///
    /// # Errors
    /// When the system has no room for threads.
    pub fn new(
        engine: Arc<dyn Engine>,
        files: Arc<FileTable>,
        notices: Arc<Notices>,
        settings: FileSystemSettings,
    ) -> std::io::Result<Arc<Self>> {
        Ok(Arc::new(Self {
            engine,
            files,
            space: SpaceGuard::new(settings.free_min),
            settings,
            by_names: OnceLock::new(),
            handles: Handles::default(),
            pending: Pending::default(),
            locks: HeldLocks::default(),
            shared_memory: SharedMemory::default(),
            second_walks: SecondWalks::default(),
            warmed: Warmed::default(),
            cold: super::cold::Cold::default(),
            readers: Workers::start("read", limits(READERS))?,
            savers: Workers::start("save", limits(SAVERS))?,
            cutters: Workers::start("cut", limits(CUTTERS))?,
            granters: Workers::start("grant", limits(GRANTERS))?,
            givers: Workers::start("give", limits(GIVERS))?,
            expires_all: AtomicBool::new(false),
            write_patterns: super::write_pattern::WritePatterns::default(),
            sources: Sources::default(),
            kernel: OnceLock::new(),
            has_passthrough: AtomicBool::new(false),
            has_lists: AtomicBool::new(false),
            unanswered: Arc::default(),
            notices,
            watchers: Arc::default(),
        }))
    }

    /// The open files.
    pub fn files(&self) -> &Arc<FileTable> {
        &self.files
    }

    /// Changes from elsewhere that programs are told of by inotify.
    pub fn watchers(&self) -> &Arc<Watchers> {
        &self.watchers
    }

    /// What it asks.
    pub fn engine(&self) -> &Arc<dyn Engine> {
        &self.engine
    }

    /// Its settings.
    pub fn settings(&self) -> &FileSystemSettings {
        &self.settings
    }

    /// Whose files are shown as whose.
    pub fn identities(&self) -> &Identities {
        self.by_names.get().unwrap_or(&self.settings.identities)
    }

    /// Maps users and groups by the names that the volume keeps in its root, from now on; once, before anything is shown.
    pub(crate) fn map_by_names(&self, root: &Inode) {
        if let Some(here) = &self.settings.people {
            let volume = super::People::of_volume(root);
            let _ = self.by_names.set(self.settings.identities.clone().by_names(&volume, here));
        }
    }

    /// Owes an answer to a front end.
    pub fn reply<R: Respond>(&self, to: R) -> Reply<R> {
        Reply::new(to, &self.unanswered)
    }

    /// How many operations ended without an answer: a bug, or more work than may wait.
    pub fn unanswered(&self) -> u64 {
        self.unanswered.count()
    }

    /// Handles that the kernel has open.
    pub(crate) fn open_handles(&self) -> usize {
        self.handles.count()
    }

    /// Lets go of the second copy of what was written here, or is long, within a minute of its close, once another machine has it.
    pub fn let_go_copies(&self) {
        let is_safe = |file| {
            self.engine.level(file).is_some_and(|level| level != Level::Modified) || self.engine.is_made_elsewhere(file)
        };
        self.files.let_go_copies(COPIES_KEPT, is_safe);
    }

    /// Lets go of the contents of files that other machines removed; called once a minute or so.
    pub fn let_go_removed(&self) {
        self.files.let_go_removed();
    }

    /// Ends the worker threads, after what is queued.
    pub fn stop(&self) {
        self.readers.stop();
        self.savers.stop();
        self.cutters.stop();
        self.granters.stop();
        self.givers.stop();
    }

    /// All that was committed is durable, and nothing comes any more.
    pub fn end(&self) {
        self.files.end();
    }

    /// A front end with a kernel begins. A second one over the same state does not exist; the first stays.
    pub fn begin(&self, abilities: Abilities, kernel: Arc<dyn Kernel>) {
        self.has_passthrough.store(abilities.passthrough, Ordering::Relaxed);
        self.has_lists.store(abilities.access_lists, Ordering::Relaxed);
        self.expires_all.store(abilities.expiry, Ordering::Relaxed);
        let _ = self.kernel.set(kernel);
    }

    /// The file that a front end names by its number.
    pub fn known_as(&self, file: FileId) -> FileId {
        self.notices.numbers.real(file)
    }

    /// A front end drops so many of the lookups of a file that it got through entries, by the number that it knows.
    pub fn forget(&self, file: FileId, lookups: u64) {
        // The kernel may look it up again at once with references of its own still counted; losing the note then costs one
        // re-read of pages.
        self.files.kernel_forgot(self.known_as(file));
        self.notices.numbers.forgotten(file, lookups);
    }

    /// Who asks.
    pub fn caller(&self, credentials: Credentials) -> Caller {
        Caller::new(credentials, &*self.engine)
    }

    /// A file as the kernel wants it. The engine told the inode when it had changed `since` times, or later.
    ///
    /// The kernel keeps the answer, and nobody tells it of what is committed here: it wrote that itself. So it must
    /// not get what was before a commit that ended between the two looks, at the engine and at the open file (which
    /// may be gone by then): neither has what was written.
    pub(super) fn attributes(&self, file: FileId, inode: &Inode, since: u64) -> Shown<Attributes> {
        let (mut since, mut newer) = (since, None);
        loop {
            let overlay = self.files.overlay(file);
            let changes = self.engine.changes();
            let inode = newer.as_deref().unwrap_or(inode);
            let show = || {
                let what = self.identities().show(inode, attributes(file, inode, overlay));
                Shown { file, version: inode.version, what }
            };
            if overlay.is_some() || changes == since || inode.kind != Kind::File {
                return show();
            }
            since = changes;
            let Some(now) = self.engine.inode(file).filter(|now| !now.is_removed()) else { return show() };
            newer = Some(now);
        }
    }

    /// The user whom the log names for what a caller does.
    pub(super) fn user(&self, caller: &Caller) -> u32 {
        self.identities().user(caller.uid)
    }

    /// How long the kernel may keep what it is told of a directory in answer to a request: as long as nothing breaks it, if
    /// somebody vouches for it who would tell, and not at all otherwise.
    pub(super) fn ttl(&self, caller: &Caller, directory: FileId) -> Duration {
        if self.engine.unvouched() != caller.unvouched {
            return Duration::ZERO;
        }
        match self.engine.keeping(directory) {
            Keeping::No => Duration::ZERO,
            Keeping::Relaxed => self.settings.ttl,
            Keeping::Alone | Keeping::Shared if self.can_expire() => self.settings.ttl,
            // Where the kernel cannot be told at once to ask for all names again, it does so by itself.
            Keeping::Alone => TTL_WITHOUT_EXPIRY,
            Keeping::Shared => Duration::ZERO,
        }
    }

    /// As [`FileSystem::ttl`], for a file in whatever directories it stands. Of one with names that it does not list, who changes it
    /// calls those who look at it and those who look at the directories that it lists.
    pub(crate) fn file_ttl(&self, caller: &Caller, file: FileId, inode: &Inode) -> Duration {
        let ttls = inode.places.iter().map(|place| self.ttl(caller, place.parent));
        let listed = ttls.min().unwrap_or(Duration::ZERO);
        match inode.is_crowded() {
            true if self.engine.is_exclusive(file) => Duration::ZERO,
            true => listed.max(self.ttl(caller, file)),
            false => listed,
        }
    }

    fn can_expire(&self) -> bool {
        self.expires_all.load(Ordering::Relaxed)
    }

    /// Others are to look at these directories: what was closed in them goes into the log. If others are to change some that
    /// the kernel knows, it asks for each name again. Answers whether `then` is called, on another thread, when that
    /// is done.
    pub fn give_back(
        self: &Arc<Self>,
        directories: Vec<FileId>,
        names: CachedNames,
        then: impl FnOnce() + Send + 'static,
    ) -> bool {
        let fs = Arc::clone(self);
        let job = move || {
            fs.commit_closing_in(&directories);
            if names == CachedNames::Expire {
                fs.expire_all();
            }
            then();
        };
        self.givers.run(job).is_ok()
    }

    /// Has the kernel ask for all names and attributes again before it shows them. Waits for no request in hand.
    pub(crate) fn expire_all(&self) {
        if let Some(kernel) = self.kernel.get() {
            kernel.expire_names();
        }
        // Whoever has a file open asks without walking to it.
        for file in self.files.ids() {
            self.notices.inode(file, Stale::Attributes);
        }
    }

    /// A name's answer; `since` as in [`FileSystem::attributes`], `ttl` as [`FileSystem::ttl`] has it.
    pub(crate) fn entry(&self, file: FileId, inode: &Inode, since: u64, ttl: Duration) -> Shown<Entry> {
        let Shown { version, what: attributes, .. } = self.attributes(file, inode, since);
        let what = Entry { file: self.notices.numbers.tell(file), attributes, ttl };
        Shown { file, version, what }
    }

    /// For a read that may wait.
    pub(super) fn read_patience(&self) -> WaitPolicy {
        WaitPolicy::Silence(self.settings.read_timeout)
    }
}
