//! A volume as one machine has it: the engine, its stores, its threads and its sessions.
//!
//! ```text
//!  FUSE threads ── request / submit ──┐            ┌── answers, hooks (no lock held)
//!  session tasks ── frames ───────────┤  one lock  ├── frames, in order (under the lock)
//!  timer ── Tick ─────────────────────┼─▶ engine ──┼── Sync ─▶ syncer thread ─▶ Stored
//!  syncer ── Stored ──────────────────┤            └── Push ─▶ uploader tasks ─▶ Pushed
//!  serving tasks ── ContentsHere ─────┘
//! ```
//!
//! **Order of locks**: the core; then any one of the leaves (sync queue, timer, uploads, fetches, recency,
//! servers), which are never held while another is taken. Hooks and callbacks run with none held.

mod members;
mod requests;
mod servers;
mod sessions;

use crate::close_codes::CLOSE_STOPPING;
use crate::contents::{Contents, Fetches, Former, News, Sent, Uploads};
use crate::core::{Core, Orders};
use crate::error::OpenError;
use crate::hooks::Hooks;
use crate::live_replica::LiveReplica;
use crate::metrics::VolumeMetrics;
use crate::propagation::Propagation;
use crate::room::{DiskRoom, full_text};
use crate::scrub::{self, ScrubPosition, Scrubber};
use crate::seals::MachineKey;
use crate::servers::Directory;
use crate::sweep;
use crate::syncer::{self, SyncQueue};
use crate::timer::{self, Timer};
use crate::{VolumeSettings, clock};
use rand::TryRngCore;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::Semaphore;
use wayfs_proto::{Full, Input, Replica, Role, Room, ServerRoom};
use wayfs_store::{ChunkConfig, ChunkStore, DataDir, DiskMetaStore, MetaConfig, Pressure, Reserves};
use wayfs_types::{FileId, FsError, Life, OriginId, RecordId, Seal, StorageError, Ticket, VolumeId};

/// Chunks of at most 1 MiB, and as many bytes of bases, that all neighbours together may have in memory here; one more
/// waits its turn.
pub(crate) const BODIES_MAX: usize = 96;
/// A full cache is in so many segments, if they are not below [`SEGMENT_MIN`].
const SEGMENTS_MIN: u64 = 32;
/// Bytes of the smallest segments: two of the largest chunks.
const SEGMENT_MIN: u64 = 2 << 20;
/// Longest wait for the last sync when a volume stops.
const STOP_SYNC_MAX: Duration = Duration::from_secs(30);

/// One volume on this machine. Shared by all threads; ended by [`Volume::stop`].
pub struct Volume {
    pub(crate) settings: VolumeSettings,
    core: Mutex<Core>,
    /// Commits of the replica so far, counted under the lock of the core.
    commits: Arc<AtomicU64>,
    unvouched: Arc<AtomicU64>,
    /// Up to here commits are with the system.
    written: Arc<AtomicU64>,
    has_quota: Arc<AtomicBool>,
    pub(crate) hooks: Arc<dyn Hooks>,
    pub(crate) syncs: Arc<SyncQueue>,
    timer: Arc<Timer>,
    pub(crate) contents: Contents,
    pub(crate) uploads: Uploads,
    pub(crate) sent: Sent,
    pub(crate) news: News,
    pub(crate) fetches: Fetches,
    /// Versions that went over slow paths. A leaf in the order of locks.
    pub(crate) former: Mutex<Former>,
    pub(crate) directory: Directory,
    pub(crate) scrubber: Arc<Scrubber>,
    /// Chunks in memory on behalf of neighbours.
    pub(crate) bodies: Semaphore,
    /// Chunks in memory on their way to the parent.
    pub(crate) chunks_up: Semaphore,
    pub(crate) metrics: Arc<VolumeMetrics>,
    pub(crate) disk_room: DiskRoom,
    /// How far the disk is behind with metadata.
    pressure: Pressure,
    threads: Mutex<Vec<JoinHandle<()>>>,
    stopping: AtomicBool,
    pub(crate) me: Weak<Volume>,
}

impl Volume {
    /// Opens the stores in the settings' directory and starts the threads. Makes them if they are not there.
    ///
    /// # Errors
    /// [`OpenError`]: the directory is in use, unreadable, damaged or of a newer format.
    pub fn open(settings: VolumeSettings, hooks: Arc<dyn Hooks>) -> Result<Arc<Self>, OpenError> {
        let kind = match settings.replica.role {
            Role::Client => wayfs_store::Role::Client,
            Role::Home | Role::Station => wayfs_store::Role::Server,
        };
        let data = DataDir::open(&settings.directory, kind)?;
        let (meta, segments) = store_configs(&settings);
        let open_tables = if settings.accept_loss { DiskMetaStore::open_accepting_loss } else { DiskMetaStore::open };
        let store = open_tables(&data, meta)?;
        let (chunks, report) = ChunkStore::open(&data, segments)?;
        tracing::debug!(?report, "chunks opened");
        let contents = Contents::new(chunks, settings.unreferenced_grace);
        // Between two looks of the sweep a writer gets a little ahead of it.
        contents.writers_room.bound(settings.cache_bytes_max.map(|max| max + max / 16));
        let path = settings.directory.join("servers.json");
        let directory = Directory::load(&path, settings.replica.volume, settings.identity.clone(), settings.home);
        let (syncer, pressure) = (store.syncer(), store.pressure());
        let mut config = settings.replica.clone();
        if config.life == Life::NONE {
            let drawn = rand::rngs::OsRng
                .try_next_u32()
                .map_err(|error| wayfs_proto::OpenError::Storage(StorageError::Io(error.to_string())))?;
            config.life = Life(drawn.max(1));
        }
        config.seals = Some(Arc::new(MachineKey(settings.identity.clone())));
        config.home = Some(directory.home());
        config.former_keys = settings.identity.changes().iter().map(wayfs_net::KeyChange::old).collect();
        config.announced_grace = settings.unreferenced_grace;
        let found = store.committed();
        let replica = Replica::open(config, store, clock::now())?;
        let is_station = settings.replica.role == Role::Station;
        let core = Core::new(replica, settings.propagation.filter(|_| is_station).map(Propagation::new));
        let disk_room = DiskRoom::watch(settings.directory.clone());
        let timer = Arc::new(Timer::new().map_err(OpenError::Threads)?);
        let volume = Arc::new_cyclic(|me| Self {
            commits: core.commits_seen(),
            unvouched: core.unvouched_seen(),
            written: Arc::new(AtomicU64::new(found.0)),
            has_quota: core.quota_seen(),
            core: Mutex::new(core),
            hooks,
            syncs: Arc::default(),
            timer,
            contents,
            uploads: Uploads::new(settings.pushes_max),
            sent: Sent::default(),
            news: News::default(),
            fetches: Fetches::default(),
            former: Mutex::default(),
            directory,
            scrubber: Arc::new(Scrubber::new(ScrubPosition::load(&settings.directory))),
            bodies: Semaphore::new(BODIES_MAX),
            chunks_up: Semaphore::new(wayfs_transfer::push::CHUNKS_MAX),
            metrics: Arc::default(),
            disk_room,
            pressure,
            threads: Mutex::default(),
            stopping: AtomicBool::new(false),
            me: me.clone(),
            settings,
        });
        volume.start_threads(syncer).map_err(OpenError::Threads)?;
        volume.begin_as_successor();
        volume.refresh_servers();
        volume.spread_news_of_servers();
        volume.step(Input::Room { room: volume.room() });
        Ok(volume)
    }

    /// The volume.
    pub fn id(&self) -> VolumeId {
        self.settings.replica.volume
    }

    /// The origin that it writes under now. That of the settings may be a former one, whose history forked.
    pub fn origin(&self) -> OriginId {
        self.look(|replica| replica.config().origin).unwrap_or(self.settings.replica.origin)
    }

    /// What the home signed when it gave that origin in place of another.
    pub(crate) fn admission(&self) -> Option<Seal> {
        self.look(LiveReplica::admission).and_then(Result::ok).flatten()
    }

    /// Its part in the volume.
    pub fn role(&self) -> Role {
        self.settings.replica.role
    }

    /// The settings it was opened with.
    pub fn settings(&self) -> &VolumeSettings {
        &self.settings
    }

    /// The local chunks: put contents here before a [`wayfs_types::request::Change::Store`] names them.
    pub fn contents(&self) -> &Contents {
        &self.contents
    }

    /// Who serves this volume, as far as is known.
    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    /// Bytes of a version's contents that the parent is known to have, while they are under way to it.
    pub fn sent_bytes(&self, version: RecordId) -> u64 {
        self.sent.of(version)
    }

    /// The room on this machine's disk, as it was a second ago, or ten while nothing happens.
    pub fn room(&self) -> Room {
        self.disk_room.room()
    }

    /// Waits for a few seconds until so many bytes are free on the disk, while what can be fetched again gives way; whether
    /// they are.
    pub fn make_room(&self, free: u64) -> bool {
        self.contents.sweep_alarm.press();
        self.contents.wait_for_disk(free)
    }

    /// The room of the servers above, as far as they told, nearest first.
    pub fn rooms_above(&self) -> Vec<ServerRoom> {
        self.look(|replica| replica.rooms_above().to_vec()).unwrap_or_default()
    }

    /// Which disks on the way to the home are full, this machine's first: `full: home disk (HOST)`. `None`: there is room.
    pub fn full(&self) -> Option<String> {
        let settings = &self.settings.replica;
        let own = match self.role() {
            Role::Client if self.room().full != Full::No => Some("full: cache disk (this machine)".to_owned()),
            Role::Client => None,
            Role::Home | Role::Station => full_text(&[ServerRoom {
                is_home: self.role() == Role::Home,
                label: settings.label.clone(),
                room: self.room(),
                quota: None,
            }]),
        };
        match (own, full_text(&self.rooms_above())) {
            (Some(own), Some(above)) => Some(format!("{own} and {}", above.trim_start_matches("full: "))),
            (own, above) => own.or(above),
        }
    }

    /// Whether quotas allow that a file becomes so long, as far as a server told of any. Takes no lock where none did.
    pub fn has_quota_for(&self, file: FileId, size: u64) -> bool {
        let is_beyond = || matches!(self.look(|replica| replica.has_quota_for(file, size)), Some(Ok(false)));
        !self.has_quota.load(Ordering::Acquire) || !is_beyond()
    }

    /// Counters of this volume.
    pub fn metrics(&self) -> &Arc<VolumeMetrics> {
        &self.metrics
    }

    /// Reads the engine's state; `None` if the volume has stopped. Must be quick: it holds the volume's lock.
    ///
    /// A panic of `look` goes on to the caller without spoiling the volume: it could change nothing.
    pub fn look<T>(&self, look: impl FnOnce(&LiveReplica) -> T) -> Option<T> {
        let core = self.lock();
        let looked = catch_unwind(AssertUnwindSafe(|| core.replica.as_ref().map(look)));
        // Let go before the panic goes on, or the lock would count as spoilt.
        drop(core);
        looked.unwrap_or_else(|panic| resume_unwind(panic))
    }

    /// How many commits there were since the volume was opened. Takes no lock: who hears of what a commit did reads a
    /// count that has it.
    pub fn commits(&self) -> u64 {
        self.commits.load(Ordering::Acquire)
    }

    /// How often something was answered without the parent's word ([`wayfs_proto::Replica::unvouched`]). Takes no lock:
    /// who gets such an answer reads a count that has it.
    pub fn unvouched(&self) -> u64 {
        self.unvouched.load(Ordering::Acquire)
    }

    /// Waits until everything that was answered so far is durable on this machine, at most `timeout`.
    ///
    /// # Errors
    /// [`StorageError`]: the disk failed, is full, or did not finish in time.
    pub fn sync(&self, timeout: Duration) -> Result<(), StorageError> {
        let ticket = {
            let core = self.lock();
            match core.replica.as_ref() {
                Some(replica) => replica.store().committed().max(core.newest_sync),
                None => return Err(StorageError::Io("the volume has stopped".into())),
            }
        };
        self.syncs.wait(ticket, timeout)
    }

    /// The ticket of what was answered last. [`Volume::written`] says when it survives a kill of this process.
    pub fn recorded(&self) -> Ticket {
        let core = self.lock();
        core.replica.as_ref().map_or(Ticket(u64::MAX), |replica| replica.store().committed().max(core.newest_sync))
    }

    /// Everything up to this ticket is with the system, and survives a kill of this process. Takes no lock.
    pub fn written(&self) -> Ticket {
        Ticket(self.written.load(Ordering::Acquire))
    }

    /// Why the volume failed, if it did.
    pub fn failure(&self) -> Option<String> {
        self.lock().failed.clone()
    }

    /// Feeds the engine one input.
    pub fn step(&self, input: Input) {
        self.step_with(input, Orders::default());
    }

    /// The same, and this thread sends what follows from it.
    fn step_sending(&self, input: Input) {
        self.step_with(input, Orders::sending_here());
    }

    fn step_with(&self, input: Input, mut orders: Orders) {
        self.lock().handle(input, None, &mut orders);
        self.carry_out(orders);
    }

    /// The parent fetched something of a version from here, because somebody reads.
    pub(crate) fn back_fetched(&self, file: FileId, version: RecordId) {
        let mut orders = Orders::default();
        self.lock().back_fetched(file, version, &mut orders);
        self.carry_out(orders);
    }

    /// What [`crate::Hooks::give_back`] asked for is done.
    pub fn given_back(&self, serial: wayfs_proto::RecallId) {
        self.step_sending(Input::GivenBack { serial });
    }

    /// Ends cleanly: all is made durable, sessions are closed, threads end. Idempotent.
    pub fn stop(&self) {
        if self.stopping.load(Ordering::Acquire) {
            return;
        }
        if let Err(error) = self.sync(STOP_SYNC_MAX) {
            tracing::error!(%error, "last sync before the volume stops");
        }
        self.end();
    }

    /// Ends as a crash of the process would: nothing more is written. For tests of crashes.
    pub fn abandon(&self) {
        self.end();
    }

    /// Whether it was stopped.
    pub fn is_stopped(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    fn end(&self) {
        if self.stopping.swap(true, Ordering::AcqRel) {
            return;
        }
        self.uploads.stop();
        self.contents.sweep_alarm.stop();
        self.scrubber.stop();
        self.timer.stop();
        self.syncs.stop();
        self.join_threads();
        let mut orders = Orders::default();
        let replica = {
            let mut core = self.lock();
            for session in std::mem::take(&mut core.sessions).into_values() {
                session.connection.close(CLOSE_STOPPING, "the volume stops");
            }
            core.answer_all(FsError::Unreachable, &mut orders);
            core.replica.take()
        };
        // The stores close when they are dropped; not under the lock, since that writes.
        drop(replica);
        self.contents.close();
        for effect in orders.effects {
            // Nobody is left to be told.
            let _ = effect.carry_out(&*self.hooks);
        }
    }

    fn join_threads(&self) {
        let own = std::thread::current().id();
        let threads = std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            // A hook may stop the volume from one of these threads, which cannot wait for itself.
            if thread.thread().id() != own && thread.join().is_err() {
                tracing::error!("a thread of the volume panicked");
            }
        }
    }

    /// Sweeps now, and waits until it is done, at most `patience`; whether it was.
    pub fn sweep(&self, patience: Duration) -> bool {
        self.contents.sweep_alarm.sweep_now(patience)
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Core> {
        self.core.lock().expect("a panic inside the engine ends the program, and the test in which it happens")
    }

    /// Does what the engine wants, with no lock held. What goes into queues goes first, so that a slow hook delays no sync;
    /// then what is to be sent, while the disk works.
    fn carry_out(&self, orders: Orders) {
        match orders.sync {
            Some(ticket) => self.syncs.want(ticket),
            None if orders.is_committed => self.syncs.note_commit(),
            None => {}
        }
        drop(orders.sending);
        if orders.is_committed {
            self.contents.sweep_alarm.stir();
        }
        if let Some(wake) = orders.wake {
            self.timer.arm(wake);
        }
        self.upload(orders.pushes);
        if !orders.seeks.is_empty() {
            self.look_for_all(orders.seeks);
        }
        if !orders.looks.is_empty() {
            self.look_here(orders.looks);
        }
        for took in orders.safe_after {
            self.metrics.safety_ack.observe(took);
        }
        self.metrics.records_applied.add(orders.applied);
        self.metrics.engine_time.add(orders.worked);
        for effect in orders.effects {
            if let Some(serial) = effect.carry_out(&*self.hooks) {
                self.given_back(serial);
            }
        }
    }

    fn start_threads(self: &Arc<Self>, syncer: wayfs_store::Syncer) -> std::io::Result<()> {
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        let name = |what: &str| format!("{what}-{}", self.id().short());
        let me = Weak::clone(&self.me);
        let (queue, chunks) = (Arc::clone(&self.syncs), self.contents.handle());
        let (stored, metrics) = (Weak::clone(&self.me), Arc::clone(&self.metrics));
        let (written, hooks) = (Arc::clone(&self.written), Arc::clone(&self.hooks));
        let note = move |ticket: Ticket| {
            written.fetch_max(ticket.0, Ordering::AcqRel);
            hooks.written(ticket);
        };
        threads.push(spawn(name("sync"), move || {
            let stores = syncer::Stores {
                freeze: || syncer.freeze(),
                sync_chunks: || chunks.sync(),
                write_records: || {
                    let frozen = syncer.freeze()?;
                    syncer.write()?;
                    note(frozen);
                    Ok(())
                },
                sync_records: |ticket| {
                    let durable = syncer.sync_to(ticket)?;
                    note(durable);
                    Ok(())
                },
                make_ready: || syncer.make_ready(),
            };
            syncer::run(&queue, stores, &metrics.sync, |result| report(&stored, result));
        })?);
        let timer = Arc::clone(&self.timer);
        let ticking = Weak::clone(&me);
        threads.push(spawn(name("tick"), move || {
            timer::run(&timer, || ticking.upgrade().is_some_and(|volume| volume.tick()));
        })?);
        let (alarm, sweeping) = (Arc::clone(&self.contents.sweep_alarm), Weak::clone(&me));
        threads.push(spawn(name("sweep"), move || sweep::run(&alarm, &sweeping))?);
        if let Some(period) = self.settings.scrub_period {
            let (scrubber, directory) = (Arc::clone(&self.scrubber), self.settings.directory.clone());
            threads.push(spawn(name("scrub"), move || scrub::run(&scrubber, &me, &directory, period))?);
        }
        Ok(())
    }

    fn tick(&self) -> bool {
        let mut orders = Orders::default();
        {
            let mut core = self.lock();
            core.fired();
            core.tick(&mut orders);
        }
        self.carry_out(orders);
        !self.is_stopped()
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        self.end();
    }
}

impl std::fmt::Debug for Volume {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Volume").field("id", &self.id()).field("role", &self.role()).finish_non_exhaustive()
    }
}

/// How the stores use the disk: by its size, and by the bound of the cache.
fn store_configs(settings: &VolumeSettings) -> (MetaConfig, ChunkConfig) {
    let reserves = Reserves::of_disk(&settings.directory);
    let meta = MetaConfig::default();
    let meta =
        MetaConfig { min_free: reserves.meta, memtable_bytes: meta.memtable_bytes.min(reserves.meta / 2), ..meta };
    // A segment is what comes back at once; in small ones less room waits for its neighbours to die.
    let of_cache = settings.cache_bytes_max.map_or(u64::MAX, |max| (max / SEGMENTS_MIN).max(SEGMENT_MIN));
    let segment_bytes = reserves.segment.min(of_cache);
    (meta, ChunkConfig { min_free: reserves.contents, segment_bytes })
}

fn spawn(name: String, run: impl FnOnce() + Send + 'static) -> std::io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name).spawn(run)
}

/// The syncer's word to the engine.
fn report(volume: &Weak<Volume>, result: Result<wayfs_types::Ticket, StorageError>) {
    let Some(volume) = volume.upgrade() else { return };
    match result {
        // Whoever waits for the disk waits for what follows from it.
        Ok(ticket) => volume.step_sending(Input::Stored { ticket }),
        Err(error) => {
            let mut orders = Orders::default();
            volume.lock().fail(error.to_string(), &mut orders);
            volume.carry_out(orders);
        }
    }
}
