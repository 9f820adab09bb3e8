//! Volumes on loopback for tests: homes, stations and clients in one process, over real QUIC and real disks.

use crate::{
    Callback, ChildRole, ContentPacking, Have, Hooks, Host, Keys, LinkSettings, News, NoAdmission, NoHooks, ParentLink,
    ServerInfo, ServerKind, Volume, VolumeSettings,
};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use wayfs_net::{CloseCode, Endpoint, NetConfig, NodeIdentity};
use wayfs_policy::Setting;
use wayfs_proto::{Config, Role};
use wayfs_types::request::{Answer, Change, Level, Outcome, Request, RequestId};
use wayfs_types::{Admitted, Content, FileId, Inode, Kind, Name, NodeId, OriginId, VolumeId, WallTime};

/// The volume of all tests.
pub const VOLUME: VolumeId = VolumeId::from_bytes([7; 16]);
/// Longest wait of a test for anything.
pub const PATIENCE: Duration = Duration::from_secs(8);

/// One machine: a runtime, a port, a volume. Everything ends when it is dropped.
pub struct Machine {
    /// Its replica.
    pub volume: Arc<Volume>,
    /// Its port.
    pub endpoint: Endpoint,
    /// Its way to the parent, but for a home.
    pub link: Option<ParentLink>,
    /// Where children come in, but for a client.
    pub host: Option<Host>,
    identity: PathBuf,
    store: PathBuf,
    role: Role,
    origin: OriginId,
    runtime: Option<Runtime>,
}

/// How a machine is started.
pub struct Plan<'a> {
    /// Its directory; started there again it is the same machine.
    pub directory: &'a Path,
    /// Its part.
    pub role: Role,
    /// Its origin, as granted by the home; 1 for the home.
    pub origin: OriginId,
    /// What it tells.
    pub hooks: Arc<dyn Hooks>,
    /// Where it finds parents.
    pub servers: Vec<ServerInfo>,
    /// The home's key; `None`: its own.
    pub home: Option<NodeId>,
    /// What it knows of the servers from the start.
    pub news: News,
    /// Bound of its cache.
    pub cache_bytes_max: Option<u64>,
    /// How long it keeps what nobody refers to; short, so that tests need not wait.
    pub unreferenced_grace: Duration,
    /// How often everything is read.
    pub scrub_period: Option<Duration>,
    /// How its contents are packed.
    pub content_packing: ContentPacking,
    /// What a station sends ahead; by default nothing.
    pub propagation: Option<Setting>,
    /// Port, or 0.
    pub port: u16,
}

impl<'a> Plan<'a> {
    /// The defaults.
    pub fn new(directory: &'a Path, role: Role, origin: OriginId) -> Self {
        Self {
            directory,
            role,
            origin,
            hooks: Arc::new(NoHooks),
            servers: Vec::new(),
            home: None,
            news: News::default(),
            cache_bytes_max: None,
            unreferenced_grace: Duration::from_millis(200),
            scrub_period: None,
            content_packing: ContentPacking::ByPath,
            propagation: None,
            port: 0,
        }
    }
}

impl Machine {
    /// Starts a machine.
    ///
    /// # Panics
    /// When something is not as a test needs it.
    pub fn start(plan: Plan<'_>) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
        std::fs::create_dir_all(plan.directory).expect("a directory");
        let identity = plan.directory.join("identity");
        let key = NodeIdentity::load_or_create(&identity).expect("an identity");
        let endpoint = {
            let _inside = runtime.enter();
            let address = SocketAddr::from(([127, 0, 0, 1], plan.port));
            Endpoint::bind(address, &key, NetConfig::default()).expect("a port")
        };
        let label = format!("{:?}{}@test", plan.role, plan.origin.raw()).to_lowercase();
        let mut config = Config::new(VOLUME, plan.role, plan.origin, label, key.id());
        config.reconcile_period = Duration::from_millis(100);
        let store = plan.directory.join("store");
        let home = plan.home.unwrap_or(key.id());
        let keys = Keys { own: &key, home };
        let mut settings = VolumeSettings::new(config, keys, store.clone(), runtime.handle().clone());
        settings.unreferenced_grace = plan.unreferenced_grace;
        settings.cache_bytes_max = plan.cache_bytes_max;
        settings.scrub_period = plan.scrub_period;
        settings.content_packing = plan.content_packing;
        settings.propagation = plan.propagation;
        let volume = Volume::open(settings, plan.hooks).expect("a volume");
        volume.directory().take(plan.news);
        for server in plan.servers {
            volume.directory().tell(server.node, server.addresses);
        }
        if plan.role != Role::Client {
            volume.directory().set_own(vec![endpoint.local_addr().expect("an address").into()]);
        }
        let host = (plan.role != Role::Client).then(|| {
            let host = Host::start(endpoint.clone(), runtime.handle(), Arc::new(NoAdmission));
            host.add(Arc::clone(&volume));
            host.complete();
            host
        });
        let link = (plan.role != Role::Home).then(|| {
            let link = LinkSettings { measure_period: Duration::from_secs(1), ..LinkSettings::default() };
            ParentLink::start(&volume, endpoint.clone(), link)
        });
        Self {
            volume,
            endpoint,
            link,
            host,
            identity,
            store,
            role: plan.role,
            origin: plan.origin,
            runtime: Some(runtime),
        }
    }

    /// A fresh home.
    ///
    /// # Panics
    /// As [`Machine::start`].
    pub fn home(directory: &Path) -> Self {
        Self::start(Plan::new(directory, Role::Home, OriginId::new(1).expect("in range")))
    }

    /// A machine below `home` whose origin is granted by it; it knows `parents`.
    ///
    /// # Panics
    /// As [`Machine::start`].
    pub fn below(home: &Self, directory: &Path, role: ChildRole, parents: &[&Self]) -> Self {
        Self::start(Self::plan_below(home, directory, role, parents))
    }

    /// The plan of [`Machine::below`].
    ///
    /// # Panics
    /// When the home does not grant the origin.
    pub fn plan_below<'a>(home: &Self, directory: &'a Path, role: ChildRole, parents: &[&Self]) -> Plan<'a> {
        std::fs::create_dir_all(directory).expect("a directory");
        let key = NodeIdentity::load_or_create(&directory.join("identity")).expect("an identity");
        let (admitted, part) = match role {
            ChildRole::Client => (Admitted::Client, Role::Client),
            ChildRole::Station => (Admitted::Station, Role::Station),
            ChildRole::Reader => (Admitted::Reader, Role::Client),
        };
        let label = format!("{part:?}@{}", key.id().short()).to_lowercase();
        let origin = home.volume.grant_origin(key.id(), admitted, &label, PATIENCE).expect("an origin");
        let mut plan = Plan::new(directory, part, origin);
        plan.servers = parents.iter().map(|parent| parent.info()).collect();
        plan.home = Some(home.endpoint.id());
        // The list without the places: it knows who serves, and where the parents given are.
        plan.news.list = home.volume.directory().news_for(&Have::default()).list;
        plan
    }

    /// How others find it.
    ///
    /// # Panics
    /// When its socket is gone.
    pub fn info(&self) -> ServerInfo {
        ServerInfo {
            node: self.endpoint.id(),
            kind: if self.role == Role::Home { ServerKind::Home } else { ServerKind::Station },
            label: format!("{:?}@test", self.role).to_lowercase(),
            addresses: vec![self.endpoint.local_addr().expect("an address").into()],
        }
    }

    /// Its origin.
    pub fn origin(&self) -> OriginId {
        self.origin
    }

    /// Where its stores are.
    pub fn store(&self) -> &Path {
        &self.store
    }

    /// Where its key is.
    pub fn identity(&self) -> &Path {
        &self.identity
    }

    /// Ends as a crash would.
    pub fn crash(mut self) {
        self.volume.abandon();
        self.end();
    }

    /// Ends cleanly.
    pub fn stop(mut self) {
        self.volume.stop();
        self.end();
    }

    fn end(&mut self) {
        self.link = None;
        self.host = None;
        let Some(runtime) = self.runtime.take() else { return };
        let endpoint = self.endpoint.clone();
        runtime.block_on(async move { endpoint.close(CloseCode::SHUTDOWN, "").await });
        runtime.shutdown_timeout(Duration::from_secs(3));
    }

    /// Asks its replica.
    ///
    /// # Errors
    /// The answer's.
    pub fn ask(&self, request: Request) -> Outcome {
        self.volume.request(request, PATIENCE)
    }

    /// Asks without waiting.
    pub fn submit(&self, request: Request, callback: Callback) -> Option<RequestId> {
        self.volume.submit(request, PATIENCE, callback)
    }

    /// Changes something.
    ///
    /// # Panics
    /// When it is refused.
    pub fn change(&self, change: Change) -> (FileId, Inode) {
        match self.ask(Request::Change { user: 0, change }) {
            Ok(Answer::Changed { file, inode, .. }) => (file, Arc::unwrap_or_clone(inode)),
            other => panic!("changed nothing: {other:?}"),
        }
    }

    /// The file under a name in a directory.
    pub fn find(&self, parent: FileId, name: &str) -> Option<(FileId, Inode)> {
        match self.ask(Request::Lookup { parent, name: self::name(name) }) {
            Ok(Answer::File(file, inode)) => Some((file, Arc::unwrap_or_clone(inode))),
            _ => None,
        }
    }

    /// Lists the root, so that all of it is known when the parent is away.
    ///
    /// # Panics
    /// When the parent does not answer.
    pub fn learn_root(&self) -> Vec<String> {
        match self.ask(Request::List { directory: FileId::ROOT, after: None, limit: 4096 }) {
            Ok(Answer::List { entries, .. }) => entries.into_iter().map(|(name, _, _)| name.to_string()).collect(),
            other => panic!("no list: {other:?}"),
        }
    }

    /// Goes offline and waits until it is.
    ///
    /// # Panics
    /// When it has no parent to leave.
    pub fn go_offline(&self) {
        self.link.as_ref().expect("a link").go_offline();
        eventually("it is offline", || self.volume.sessions().is_empty());
    }

    /// Makes a file in the root with this content; answers what it became.
    ///
    /// # Panics
    /// When it is refused.
    pub fn write(&self, name: &str, bytes: &[u8]) -> (FileId, Inode) {
        let (file, inode) = match self.find(FileId::ROOT, name) {
            Some(found) => found,
            None => self.change(create(name)),
        };
        let content = self.keep(bytes);
        self.change(Change::Store { file, base: inode.version, content, mtime: WallTime::from_nanos(1) })
    }

    /// Puts bytes into its chunk store.
    ///
    /// # Panics
    /// When there is no room.
    pub fn keep(&self, bytes: &[u8]) -> Content {
        let bytes = bytes::Bytes::copy_from_slice(bytes);
        wayfs_content::build(&bytes, &mut self.volume.contents().sink()).expect("room for contents")
    }

    /// The bytes of a file in the root, fetched if need be.
    ///
    /// # Errors
    /// In words.
    pub fn read(&self, name: &str) -> Result<Vec<u8>, String> {
        let (file, inode) = self.find(FileId::ROOT, name).ok_or("no such file")?;
        self.read_content(file, &inode)
    }

    /// The bytes of a version.
    ///
    /// # Errors
    /// In words.
    pub(crate) fn read_content(&self, file: FileId, inode: &Inode) -> Result<Vec<u8>, String> {
        if let Content::Inline(bytes) = &inode.content {
            return Ok(bytes.to_vec());
        }
        let runtime = self.runtime.as_ref().ok_or("ended")?;
        let fetch = || {
            let fetching = self.volume.fetch_content((file, inode.version), &inode.content, PATIENCE, |_| {});
            runtime.block_on(fetching).map_err(|error| error.to_string())
        };
        // A full cache may let go of what has just come: then it is fetched again.
        for _ in 0..3 {
            fetch()?;
            if let Ok(bytes) = self.bytes_here(inode) {
                return Ok(bytes);
            }
        }
        fetch()?;
        self.bytes_here(inode)
    }

    /// The bytes of a version whose chunks are all here.
    fn bytes_here(&self, inode: &Inode) -> Result<Vec<u8>, String> {
        let nodes = |digest: &wayfs_types::Digest| self.volume.contents().get(digest).ok();
        let reader = wayfs_content::ContentReader::new(&inode.content, &nodes).map_err(|error| error.to_string())?;
        let mut bytes = Vec::new();
        for located in reader.entries(0, 0) {
            let digest = located.map_err(|error| error.to_string())?.entry.digest;
            bytes.extend_from_slice(&self.volume.contents().get(&digest).map_err(|error| error.to_string())?);
        }
        Ok(bytes)
    }

    /// Waits until all that it wrote is so far.
    ///
    /// # Panics
    /// When that takes too long.
    pub fn wait(&self, until: Level) {
        let outcome = self.ask(Request::Wait { record: None, until });
        assert_eq!(
            outcome,
            Ok(Answer::Reached),
            "{until:?} at {:?}: {:?}",
            self.role,
            self.volume.look(wayfs_proto::Replica::progress)
        );
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.volume.abandon();
        self.end();
    }
}

/// Waits until something holds.
///
/// # Panics
/// When it does not hold in time.
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A name.
///
/// # Panics
/// When it is none.
pub fn name(text: &str) -> Name {
    Name::try_from(text).expect("a name")
}

/// A change that makes an empty file in the root.
pub fn create(name: &str) -> Change {
    Change::Create { parent: FileId::ROOT, name: self::name(name), kind: Kind::File, mode: 0o644, uid: 0, gid: 0 }
}

/// Bytes that compress as sources do, the same for the same seed: words of one vocabulary in lines.
pub fn text(len: usize, seed: u64) -> Vec<u8> {
    let letters = noise(3000, 0);
    let words: Vec<String> = letters
        .chunks_exact(10)
        .map(|word| word[..3 + usize::from(word[9] % 7)].iter().map(|byte| char::from(b'a' + byte % 26)).collect())
        .collect();
    let mut text = Vec::with_capacity(len + 16);
    for (number, choice) in noise(len, seed).chunks_exact(2).enumerate() {
        text.extend_from_slice(words[usize::from(choice[0]) * usize::from(choice[1]) % words.len()].as_bytes());
        text.push(if number % 12 == 11 { b'\n' } else { b' ' });
        if text.len() >= len {
            break;
        }
    }
    text.truncate(len);
    text
}

/// Bytes that do not compress, the same for the same seed.
pub fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; len];
    blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof().fill(&mut bytes);
    bytes
}
