//! What a seed asks for: how many replicas, which faults, how much work.

use crate::openfiles::plan::OpenFilesPlan;
use crate::planted::Bug;
use crate::policies::{ON_DEMAND, policies};
use crate::stores::StoresPlan;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeSet;
use std::time::Duration;
use wayfs_policy::Setting;

/// Something rare that a run may have to live with. Each seed draws its own few of those that are on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Disaster {
    /// A power cut keeps any prefix of the records and any prefix of the chunks, so records without their chunks.
    Torn,
    /// A disk is full for a while.
    Full,
    /// A chunk rots on a disk.
    Damage,
    /// A chunk is gone from a disk.
    ChunkGone,
    /// A client's disk is gone for good, often right after it said something.
    ClientGone,
    /// A station's disk is gone for good.
    StationGone,
    /// The home's disk is gone for good. The engine cannot replace it: only what is said meanwhile is checked.
    HomeGone,
    /// A client's store is put back to an older copy.
    ClientBack,
    /// A station's store is put back to an older copy.
    StationBack,
    /// The home's store is put back to an older copy.
    HomeBack,
    /// A client's store is copied, and both run.
    Clone,
    /// The home bounds what a member, or all, may take up, for a while.
    Quota,
    /// The home removes a client with a fence, and the client is gone.
    Fence,
    /// Programs have files open in the machine that ships, and clients are killed.
    OpenFiles,
    /// The stores that ship are under the machines, and the power fails at any of their writes.
    Stores,
}

impl Disaster {
    /// All of them, by the name that `cargo xtask sim --with` and `--without` take.
    pub const ALL: [(&'static str, Self); 15] = [
        ("torn", Self::Torn),
        ("full", Self::Full),
        ("damage", Self::Damage),
        ("chunk-gone", Self::ChunkGone),
        ("client-gone", Self::ClientGone),
        ("station-gone", Self::StationGone),
        ("home-gone", Self::HomeGone),
        ("client-back", Self::ClientBack),
        ("station-back", Self::StationBack),
        ("home-back", Self::HomeBack),
        ("clone", Self::Clone),
        ("quota", Self::Quota),
        ("fence", Self::Fence),
        ("open-files", Self::OpenFiles),
        ("stores", Self::Stores),
    ];
    /// Those that the engine lives up to. Why the others are off: `docs/simulator.md`.
    pub const ON: [Self; 12] = [
        Self::ClientGone,
        Self::StationGone,
        Self::ClientBack,
        Self::StationBack,
        Self::Damage,
        Self::ChunkGone,
        Self::Torn,
        Self::Full,
        Self::Quota,
        Self::Fence,
        Self::OpenFiles,
        Self::Stores,
    ];

    /// Whether it happens at a moment of its own, rather than with a crash or a claim.
    pub(crate) const fn strikes(self) -> bool {
        !matches!(self, Self::Torn | Self::ClientGone | Self::OpenFiles | Self::Stores)
    }

    /// In which part of the seeds it may happen, if it is on.
    const fn share(self) -> f64 {
        match self {
            Self::ClientGone => 0.8,
            Self::Stores => 0.1,
            _ => 0.25,
        }
    }
}

/// How often clients do what: each is drawn by its weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// Makes a file, a symbolic link or a fifo.
    Create,
    /// Makes a directory.
    MakeDirectory,
    /// Stores a content.
    Store,
    /// Removes a name.
    Unlink,
    /// Removes a directory.
    RemoveDirectory,
    /// Renames.
    Rename,
    /// Makes a hard link.
    Link,
    /// Changes a mode.
    SetMode,
    /// Waits until its last record is safe.
    WaitSafe,
    /// Looks a name or a file up.
    Look,
    /// Reads a file.
    Read,
    /// Lists a directory.
    List,
}

impl Operation {
    /// Each with its usual weight.
    const USUAL: [(Self, u32); 12] = [
        (Self::Create, 12),
        (Self::MakeDirectory, 5),
        (Self::Store, 33),
        (Self::Unlink, 8),
        (Self::RemoveDirectory, 3),
        (Self::Rename, 9),
        (Self::Link, 3),
        (Self::SetMode, 4),
        (Self::WaitSafe, 8),
        (Self::Look, 6),
        (Self::Read, 4),
        (Self::List, 5),
    ];
}

/// Limits of the engines, often tiny, so that few updates reach them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Records in one message.
    pub records_per_message: usize,
    /// Images in one message: few make long cuts of many messages.
    pub images_per_message: usize,
    /// Bytes in one message.
    pub message_len: usize,
    /// Records in flight.
    pub in_flight: usize,
    /// Contents in flight.
    pub pushes: usize,
    /// Contents that a host brings to its parent at once.
    pub uploads: usize,
    /// Versions that are looked at together when somebody wants all of an origin.
    pub wants: usize,
    /// Files of one client whose locks it may decide about.
    pub lock_delegations: usize,
    /// Watches of a client.
    pub watches: usize,
    /// Changes for which tombstones are kept.
    pub tombstones: u64,
    /// Changes that a child may be behind.
    pub catch_up: u64,
    /// Whether records are sent before they are durable.
    pub sends_ahead: bool,
    /// Seconds of silence after which a child loses its callbacks.
    pub lease: u64,
    /// Milliseconds for which changes are gathered for one sync.
    pub gather: u64,
    /// Milliseconds between two reconciliations.
    pub period: u64,
}

/// Something that happens by the plan's will: it can be left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// A fault, by its number.
    Fault(u64),
    /// What a host does, by the host and its number.
    Work(usize, u64),
}

/// The shape of one run, drawn from its seed.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The seed; it also drives everything random in the run.
    pub seed: u64,
    /// Stations, `0..=2`.
    pub stations: usize,
    /// Clients, `1..=4`.
    pub clients: usize,
    /// Length of the faulty phase.
    pub faulty: Duration,
    /// Mean time between two operations of a client.
    pub think: Duration,
    /// Mean time between two faults; `None`: no faults at all.
    pub fault_every: Option<Duration>,
    /// Chance that a packet is lost.
    pub loss: f64,
    /// One-way delay of wide-area links.
    pub wide_delay: Duration,
    /// Pause between two measurements of the servers that are not a client's parent.
    pub measure_period: Duration,
    /// Chance that a store is too big to travel with its record.
    pub big: f64,
    /// What each station sends ahead, and when.
    pub policies: [Setting; 2],
    /// Whether clients take rights to change alone (`docs/decisions/0024-rights-to-change-alone.md`).
    pub close_to_open: bool,
    /// Whether all directories are exclusive (`docs/decisions/0034-exclusive-directories.md`).
    pub exclusive: bool,
    /// Whether programs lock files although no directory is exclusive.
    pub locks: bool,
    /// Different names that clients draw from in a directory.
    pub names: u32,
    /// What clients do, by weight.
    pub operations: Vec<(Operation, u32)>,
    /// Limits of the engines.
    pub limits: Limits,
    /// Chunks that a client's cache may hold beside what it must; `None`: no bound.
    pub cache_chunks_max: Option<usize>,
    /// How long a sweep leaves a chunk alone that was put or read.
    pub sweep_grace: Duration,
    /// Whether the kernels of clients keep names and attributes.
    pub kernel_names: bool,
    /// Open files, in a part of the seeds.
    pub open_files: Option<OpenFilesPlan>,
    /// The stores that ship, in a part of the seeds.
    pub stores: Option<StoresPlan>,
    /// A bug that is planted.
    pub bug: Option<Bug>,
    /// Faults and requests that do not happen.
    pub without: BTreeSet<Step>,
    /// What may happen beyond crashes, cuts, sleep and wrong clocks.
    pub disasters: BTreeSet<Disaster>,
}

impl Plan {
    /// Draws a plan.
    pub(crate) fn of_seed(seed: u64) -> Self {
        Self::with(seed, &Disaster::ON, &[])
    }

    /// Draws a plan with some disasters that may happen, and some that do.
    pub fn with(seed: u64, may: &[Disaster], does: &[Disaster]) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed ^ 0x5eed);
        let usual = random.random_bool(0.5);
        let faulty = Duration::from_secs(random.random_range(10..60));
        let calm = random.random_bool(0.1);
        Self {
            seed,
            stations: if usual { 2 } else { random.random_range(0..=2) },
            clients: if usual { 3 } else { random.random_range(1..=4) },
            faulty,
            think: Duration::from_millis(random.random_range(50..800)),
            fault_every: (!calm).then(|| Duration::from_millis(random.random_range(500..8000))),
            loss: if random.random_bool(0.5) { 0.0 } else { random.random_range(0.0..0.2) },
            wide_delay: Duration::from_millis(random.random_range(0..200)),
            measure_period: Duration::from_secs(ChaCha8Rng::seed_from_u64(seed ^ 0x70a3).random_range(2..=20)),
            big: random.random_range(0.0..0.8),
            policies: policies(seed, random.random_range(0.0..1.0)),
            // Drawn for itself: the rest of the seed is as without it.
            close_to_open: ChaCha8Rng::seed_from_u64(seed ^ 0xc105e).random_bool(0.5),
            exclusive: ChaCha8Rng::seed_from_u64(seed ^ 0xe8c1).random_bool(0.2),
            locks: ChaCha8Rng::seed_from_u64(seed ^ 0x10c5).random_bool(0.25),
            names: if random.random_bool(0.5) { 5 } else { random.random_range(1..=16) },
            operations: operations(&mut random),
            limits: Limits {
                uploads: uploads(seed),
                wants: wants(seed),
                lock_delegations: lock_delegations(seed),
                ..Limits::draw(&mut random)
            },
            cache_chunks_max: random.random_bool(0.5).then(|| random.random_range(0..20)),
            sweep_grace: Duration::from_millis(if random.random_bool(0.5) {
                600_000
            } else {
                random.random_range(0..5000)
            }),
            kernel_names: ChaCha8Rng::seed_from_u64(seed ^ 0xdcac4e).random_bool(0.5),
            open_files: drawn(seed, may, does).contains(&Disaster::OpenFiles).then(|| OpenFilesPlan::draw(seed)),
            stores: drawn(seed, may, does).contains(&Disaster::Stores).then(|| StoresPlan::draw(seed)),
            bug: None,
            without: BTreeSet::new(),
            disasters: drawn(seed, may, does),
        }
    }

    /// With contents that stay where their writer lent them, another station to go to, and time enough for what was lost with
    /// the first to be given up while things still break: who looks for it makes up for much else.
    pub(crate) fn with_long_duties(self) -> Self {
        Self {
            stations: 2,
            clients: self.clients.max(2),
            policies: [ON_DEMAND; 2],
            big: 0.8,
            faulty: Duration::from_secs(150),
            think: self.think.max(Duration::from_millis(400)),
            ..self
        }
    }
}

impl Plan {
    /// With nothing but names that are made, by many at once and at two stations: what is taken away says nothing of makers.
    pub(crate) fn with_makers_only(self) -> Self {
        Self {
            stations: 2,
            clients: 4,
            names: 40,
            think: Duration::from_millis(50),
            operations: vec![(Operation::Create, 4), (Operation::MakeDirectory, 1), (Operation::Link, 1)],
            ..self
        }
    }
}

/// A swarm: in half of the seeds each kind has a weight of its own, and some never happen.
fn operations(random: &mut ChaCha8Rng) -> Vec<(Operation, u32)> {
    let mut operations = Operation::USUAL.to_vec();
    if random.random_bool(0.5) {
        for (operation, weight) in &mut operations {
            let factor = [0, 1, 1, 2, 6][random.random_range(0..5)];
            // Without files there is nothing to see.
            *weight *= if matches!(operation, Operation::Create | Operation::Store) { factor.max(1) } else { factor };
        }
    }
    operations
}

impl Limits {
    /// As they are in use.
    pub(crate) const USUAL: Self = Self {
        records_per_message: 512,
        images_per_message: 512,
        message_len: 1 << 20,
        in_flight: 4096,
        pushes: 64,
        uploads: 4,
        wants: 4096,
        lock_delegations: 1024,
        watches: 65_536,
        tombstones: 100_000,
        catch_up: 1_000_000,
        sends_ahead: true,
        lease: 10,
        gather: 5,
        period: 1000,
    };

    /// Each is tiny in a quarter of the seeds, for itself.
    fn draw(random: &mut ChaCha8Rng) -> Self {
        let mut tiny = |most: u64, usual: u64| {
            if random.random_bool(0.25) { random.random_range(1..=most) } else { usual }
        };
        let mut small = |most: u64, usual: u64| usize::try_from(tiny(most, usual)).unwrap_or(usize::MAX);
        Self {
            records_per_message: small(4, 512),
            images_per_message: small(4, 512),
            message_len: small(2000, 1 << 20),
            in_flight: small(4, 4096),
            pushes: small(2, 64),
            uploads: Self::USUAL.uploads,
            wants: Self::USUAL.wants,
            lock_delegations: Self::USUAL.lock_delegations,
            // Not tiny: with few watches a connected client shows what is old (`docs/simulator.md`).
            watches: small(6, 65_536).max(65_536),
            tombstones: tiny(30, 100_000),
            catch_up: tiny(50, 1_000_000),
            sends_ahead: tiny(2, 1) == 1,
            lease: tiny(9, 10),
            gather: tiny(50, 5),
            period: tiny(5000, 1000),
        }
    }
}

/// As the other limits, and drawn for itself, so that all else in a seed stays what it was.
fn wants(seed: u64) -> usize {
    let mut random = ChaCha8Rng::seed_from_u64(seed ^ 0x3a17);
    if random.random_bool(0.25) { random.random_range(1..=4) } else { Limits::USUAL.wants }
}

/// The same.
fn uploads(seed: u64) -> usize {
    let mut random = ChaCha8Rng::seed_from_u64(seed ^ 0x0b10);
    if random.random_bool(0.25) { random.random_range(1..=2) } else { Limits::USUAL.uploads }
}

/// The same.
fn lock_delegations(seed: u64) -> usize {
    let mut random = ChaCha8Rng::seed_from_u64(seed ^ 0xde1e);
    if random.random_bool(0.25) { 0 } else { Limits::USUAL.lock_delegations }
}

/// Every kind is drawn for itself, so that a kind more does not change what the others do.
fn drawn(seed: u64, may: &[Disaster], does: &[Disaster]) -> BTreeSet<Disaster> {
    let kinds = Disaster::ALL.into_iter().enumerate().filter(|(number, (_, disaster))| {
        let mut random = ChaCha8Rng::seed_from_u64(seed ^ 0xd15a ^ ((*number as u64 + 1) << 32));
        does.contains(disaster) || may.contains(disaster) && random.random_bool(disaster.share())
    });
    kinds.map(|(_, (_, disaster))| disaster).collect()
}
