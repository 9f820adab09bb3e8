//! What all operations share.

use super::attributes::{Attributes, attributes};
use super::caller::{Caller, Credentials};
use super::handles::Handles;
use super::identity::Identities;
use super::in_step::Shown;
use super::kernel::{Abilities, Kernel};
use super::locks::HeldLocks;
use super::pending::{EndedBy, Pending, ReplySlot};
use super::reply::{Reply, Respond, Unanswered};
use super::results::Entry;
use super::second_walks::SecondWalks;
use super::shared_memory::SharedMemory;
use crate::engine::Engine;
use crate::files::{FileTable, WaitPolicy};
use crate::inotify::Watchers;
use crate::notices::{Notices, Stale};
use crate::workers::Workers;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use wayfs_proto::Keeping;
use wayfs_types::request::{Answer, Change, Level, Outcome, Removed, Request as Ask};
use wayfs_types::{FileId, FsError, Inode, Kind};

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
    pub people: Option<super::People>,
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
    pub(super) warmed: super::warming::Warmed,
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
    pub(super) sources: super::copying::Sources,
    pub(super) kernel: OnceLock<Arc<dyn Kernel>>,
    /// Whether the kernel may still take passthrough files.
    pub(super) has_passthrough: AtomicBool,
    /// The kernel checks access control lists, and leaves the umask to us.
    pub(super) has_lists: AtomicBool,
    pub(super) space: super::data::SpaceGuard,
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
            settings,
            by_names: OnceLock::new(),
            handles: Handles::default(),
            pending: Pending::default(),
            locks: HeldLocks::default(),
            shared_memory: SharedMemory::default(),
            second_walks: SecondWalks::default(),
            warmed: super::warming::Warmed::default(),
            cold: super::cold::Cold::default(),
            readers: Workers::start("read", READERS, WAITING_MAX)?,
            savers: Workers::start("save", SAVERS, WAITING_MAX)?,
            cutters: Workers::start("cut", CUTTERS, WAITING_MAX)?,
            granters: Workers::start("grant", GRANTERS, WAITING_MAX)?,
            givers: Workers::start("give", GIVERS, WAITING_MAX)?,
            expires_all: AtomicBool::new(false),
            write_patterns: super::write_pattern::WritePatterns::default(),
            sources: super::copying::Sources::default(),
            kernel: OnceLock::new(),
            has_passthrough: AtomicBool::new(false),
            has_lists: AtomicBool::new(false),
            space: super::data::SpaceGuard::default(),
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
    pub fn open_handles(&self) -> usize {
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

    /// Asks the engine and hands the outcome on, here or later.
    pub(super) fn ask<R: Respond>(
        self: &Arc<Self>,
        caller: &Caller,
        ask: Ask,
        reply: Reply<R>,
        then: impl FnOnce(&Arc<Self>, Reply<R>, Outcome) + Send + 'static,
    ) -> Answered {
        self.ask_within(caller, ask, self.settings.metadata_timeout, reply, then)
    }

    /// As [`FileSystem::ask`], with a bound of its own.
    pub(super) fn ask_within<R: Respond>(
        self: &Arc<Self>,
        caller: &Caller,
        ask: Ask,
        timeout: Duration,
        reply: Reply<R>,
        then: impl FnOnce(&Arc<Self>, Reply<R>, Outcome) + Send + 'static,
    ) -> Answered {
        let answered = Arc::new(AtomicBool::new(false));
        let (fs, was_answered, token) = (Arc::clone(self), Arc::clone(&answered), caller.token);
        let ended_by = if matches!(ask, Ask::Lock(_)) { EndedBy::AnySignal } else { EndedBy::WishToEnd };
        let callback = Box::new(move |outcome| {
            // The order matters: whoever registers the wait after this looks at the flag.
            was_answered.store(true, Ordering::SeqCst);
            fs.pending.done(token);
            then(&fs, reply, outcome);
        });
        let Some(id) = self.engine.submit(ask, timeout, callback) else { return Answered::Here };
        self.pending.wait_for_engine((token, caller.pid), id, ended_by);
        if answered.load(Ordering::SeqCst) {
            self.pending.done(token);
        } else if caller.interrupt.is_set() {
            self.signalled(token);
        }
        Answered::Elsewhere
    }

    /// Makes a change; `then` gets the file it was about.
    pub(super) fn change<R: Respond>(
        self: &Arc<Self>,
        caller: &Caller,
        change: Change,
        reply: Reply<R>,
        then: impl FnOnce(&Arc<Self>, Reply<R>, Changed) + Send + 'static,
    ) {
        let ask = Ask::Change { user: self.user(caller), change };
        self.ask(caller, ask, reply, move |fs, reply, outcome| match outcome {
            Ok(Answer::Changed { file, inode, removed, .. }) => then(fs, reply, Changed { file, inode, removed }),
            other => reply.refuse(refusal(other)),
        });
    }

    /// Hands on a file's inode, and the id under which it is kept (another than asked for, if the file was
    /// merged with its twin): at once if what is known here may be trusted, else when the parent answered.
    ///
    /// Of a removed file that is the inode that it had last. What the engine keeps is a marker without contents, and a
    /// program that found the name just before another file was renamed over it must not read an empty file.
    pub(crate) fn with_inode<R: Respond>(
        self: &Arc<Self>,
        caller: &Caller,
        file: FileId,
        reply: Reply<R>,
        then: impl FnOnce(&Arc<Self>, Reply<R>, FileId, &Inode) + Send + 'static,
    ) {
        if let Some(removed) = self.files.find(file).and_then(|open| open.removed_inode()) {
            return then(self, reply, file, &removed);
        }
        let thread = caller.pid;
        self.ask(caller, Ask::Attributes { file }, reply, move |fs, reply, outcome| match outcome {
            Ok(Answer::File(file, inode)) if inode.is_removed() && !inode.is_directory() => {
                fs.with_removed(thread, reply, file, then);
            }
            Err(FsError::NotFound) => fs.with_removed(thread, reply, file, then),
            Ok(Answer::File(file, inode)) => then(fs, reply, file, &inode),
            other => reply.refuse(refusal(other)),
        });
    }

    /// Hands on a removed file's inode as it was last.
    pub(super) fn with_removed<R: Respond>(
        self: &Arc<Self>,
        thread: u32,
        reply: Reply<R>,
        file: FileId,
        then: impl FnOnce(&Arc<Self>, Reply<R>, FileId, &Inode) + Send + 'static,
    ) {
        match self.files.last_seen(file).or_else(|| self.second_walks.shown(thread, file)) {
            Some(last) => then(self, reply, file, &last),
            None => {
                // The kernel walks the path again, asking for each name.
                self.second_walks.begin(thread);
                reply.refuse(FsError::Stale);
            }
        }
    }

    /// Runs work that may wait on a worker; a signal that asks the caller to end answers it at once.
    pub(super) fn on_worker<R: Respond>(
        self: &Arc<Self>,
        workers: &Workers,
        caller: &Caller,
        reply: Reply<R>,
        work: impl FnOnce(&Arc<Self>, &ReplySlot<R>) + Send + 'static,
    ) {
        let slot = ReplySlot::new(reply);
        let (fs, token, waiting) = (Arc::clone(self), caller.token, Arc::clone(&slot));
        self.pending.wait_for_worker((token, caller.pid), &slot);
        let queued = workers.run(move || {
            work(&fs, &waiting);
            fs.pending.worker_done(token);
        });
        if queued.is_err() {
            self.pending.done(token);
            if let Some(reply) = slot.take() {
                reply.refuse(FsError::TimedOut);
            }
        } else if caller.interrupt.is_set() {
            self.signalled(token);
        }
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
    /// the kernel knows, it asks for each name again (`expire`). Answers whether `then` is called, on another thread, when that
    /// is done.
    pub fn give_back(
        self: &Arc<Self>,
        directories: Vec<FileId>,
        expire: bool,
        then: impl FnOnce() + Send + 'static,
    ) -> bool {
        let fs = Arc::clone(self);
        let job = move || {
            fs.commit_closing_in(&directories);
            if expire {
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

/// Who knows the answer to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answered {
    /// This machine: it is given already.
    Here,
    /// The station is asked.
    Elsewhere,
}

/// What a change did.
pub(super) struct Changed {
    /// The file it was about.
    pub(super) file: FileId,
    /// Its inode afterwards.
    pub(super) inode: Arc<Inode>,
    /// A file that lost its last name.
    pub(super) removed: Option<Removed>,
}

/// What is refused; an answer of a wrong kind is our own fault and becomes `EIO`.
pub(super) fn refusal(outcome: Outcome) -> FsError {
    match outcome {
        Err(error) => error,
        Ok(answer) => {
            tracing::error!(?answer, "the replica answered something else than was asked");
            FsError::Io
        }
    }
}
