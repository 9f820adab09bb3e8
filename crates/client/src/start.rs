//! Starting: from settings to a served mount.

use crate::client::{Client, Parts, Stopper};
use crate::commands::MountCommands;
use crate::config::{ClientConfig, Source, own_label};
use crate::events::Events;
use crate::files::{FileTable, HostDisk, TableSettings};
use crate::fs::{FileSystem, FileSystemSettings};
use crate::fuse::Front;
use crate::hooks::MountHooks;
use crate::labels::Labels;
use crate::live::Live;
use crate::notices::{Caches, Notices};
use crate::pins::Pins;
use crate::saved::{Saved, SavedError, directory_of};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use wayfs_control::{CommandHandler, ControlServer, DaemonKind, Registered, Registration};
use wayfs_fuse::{BackgroundSession, Mount, MountError, MountOptions, Session};
use wayfs_net::{Endpoint, NodeIdentity};
use wayfs_node::{Keys, LinkSettings, LinkState, News, ParentLink, Volume, VolumeSettings};
use wayfs_proto::Role;
use wayfs_store::Reserves;

/// Body files that nobody has open, beside the bytes they may take.
const IDLE_COUNT_MAX: usize = 512;
/// A fresh member waits so long for its first session, so that the first `ls` shows something.
const FIRST_SESSION_WAIT: Duration = Duration::from_secs(5);

/// Why a mount did not start. Each says what to do, or carries an error that does.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// What was saved.
    #[error(transparent)]
    Saved(#[from] SavedError),
    /// The ticket has expired and this machine did not join with it.
    #[error("the ticket for volume {0} has expired: ask for a new one")]
    TicketExpired(String),
    /// The ticket is a station's.
    #[error("this is a ticket for a station: use it with `wayfs station join`, and ask for a client's ticket")]
    TicketOfStation,
    /// The ticket admits as something else than this machine was admitted as.
    #[error(
        "this machine was admitted to the volume {0}, and this ticket is not for that: ask for another, or give another cache directory"
    )]
    TicketOfOther(&'static str),
    /// Another volume of the same name is in this cache.
    #[error("{} belongs to another volume named {name}: choose another cache directory", path.display())]
    NameTaken {
        /// The name.
        name: String,
        /// Its directory.
        path: PathBuf,
    },
    /// The directory of the volume cannot be used.
    #[error("use cache directory {}: {source}", path.display())]
    Directory {
        /// Which.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// The key of this machine.
    #[error("key of this machine: {0}")]
    Identity(#[from] wayfs_net::IdentityError),
    /// The network.
    #[error("open the network: {0}")]
    Bind(#[from] wayfs_net::BindError),
    /// The join.
    #[error(transparent)]
    Join(#[from] wayfs_node::JoinError),
    /// The replica.
    #[error("open the cache of the volume: {0}")]
    Volume(#[from] wayfs_node::OpenError),
    /// The kernel.
    #[error(transparent)]
    Mount(#[from] MountError),
    /// The kernel, after the mount.
    #[error("serve the mount: {0}")]
    Session(#[from] wayfs_fuse::SessionError),
    /// The control socket.
    #[error(transparent)]
    Control(#[from] wayfs_control::StartError),
    /// The list of daemons.
    #[error("register the mount in {}: {}", .0.directory.display(), .0.source)]
    Registry(wayfs_control::RegistryError),
    /// Metrics.
    #[error(transparent)]
    Metrics(#[from] wayfs_node::metrics::MetricsError),
    /// Users are mapped by the names that the volume keeps, and they are not known here.
    #[error(
        "the volume's names of users are not known here yet ({0}): mount it once while it can connect, or without `idmap=names`"
    )]
    Names(wayfs_types::FsError),
    /// Threads and the like.
    #[error("start: {0}")]
    System(#[from] std::io::Error),
}

impl Client {
    /// Joins if need be, opens the replica, mounts, and serves. When this returns the mount answers.
    ///
    /// # Errors
    /// [`StartError`]; nothing is left mounted.
    pub fn start(config: ClientConfig) -> Result<Self, StartError> {
        raise_file_limit();
        let runtime = wayfs_node::runtime("net")?;
        let membership = Membership::find(&config, runtime.handle())?;
        let Membership { directory, saved, endpoint, joined, news } = membership;
        let events = Arc::new(Events::new(saved.name.clone()));
        let notices = Arc::new(Notices::default());
        let pins = Arc::new(Pins::load(&directory.join("pins.json"))?);
        let hooks = MountHooks::new(Arc::clone(&notices), Arc::clone(&events), pins);
        let volume = open_volume(&config, &directory, &saved, &endpoint, runtime.handle(), &hooks)?;
        learn_servers(&config, &volume, &saved, news);
        let fs = build_file_system(&config, &directory, &volume, &hooks, notices)?;
        let link = start_link(&config, (&volume, &fs), &endpoint, joined)?;
        let links = config.links.clone().map(|links| wayfs_node::heed_links(endpoint.clone(), links)).transpose()?;
        let metrics = match config.metrics {
            Some(address) => Some(crate::metrics::serve(address, &volume, &fs, saved.name.clone())?),
            None => None,
        };
        let session = mount(&config, &saved, &fs)?;
        let stopper = Stopper::new(session.unmounter());
        let caches: Arc<dyn Caches> = Arc::new(session.notifier());
        let notice_threads = hooks.notices.start(&caches)?;
        let mountpoint = session.unmounter().map_or(config.mountpoint.clone(), |u| u.mountpoint().to_owned());
        let watcher = if config.watch {
            hooks.attach_watchers(fs.watchers());
            Some(fs.watchers().start(Arc::clone(fs.engine()), mountpoint.clone())?)
        } else {
            None
        };
        let labels = Arc::new(Labels::load(&directory.join("labels.json"), (saved.origin, saved.label.clone())));
        let commands: Arc<dyn CommandHandler> = Arc::new(MountCommands::new(crate::commands::MountParts {
            volume: Arc::clone(&volume),
            labels: Arc::clone(&labels),
            link: Arc::clone(&link),
            fs: Arc::clone(&fs),
            hooks: Arc::clone(&hooks),
            stopper: stopper.clone(),
            name: saved.name.clone(),
            mountpoint: mountpoint.clone(),
            cache_limit: config.cache_size,
            read_only: config.read_only || saved.reader,
            granted: session.granted().clone(),
        }));
        let (control, for_all) = start_control(&config, &directory, commands)?;
        let registered = register(config, (&control, for_all.as_ref()), &saved, &mountpoint, &hooks)?;
        let committer = crate::background_committer::BackgroundCommitter::start(
            &fs,
            &volume,
            &events,
            (Arc::clone(&link), labels),
        )?;
        Ok(Self::from_parts(Parts {
            session,
            stopper,
            watcher,
            notices: notice_threads,
            committer,
            control,
            for_all,
            registered,
            metrics,
            link,
            fs,
            volume,
            hooks,
            endpoint,
            links,
            runtime,
            saved,
            mountpoint,
        }))
    }
}

/// The sockets that commands come through: the owner's, and one where all users may ask about their files. Only root's mounts have it: others have no directory in which everybody
/// would look for it, and nobody has a reason to believe what they say.
fn start_control(
    config: &ClientConfig,
    directory: &Path,
    commands: Arc<dyn CommandHandler>,
) -> Result<(ControlServer, Option<ControlServer>), StartError> {
    let socket = config.control_socket.clone().unwrap_or_else(|| directory.join("control.sock"));
    let control = ControlServer::start(&socket, Arc::clone(&commands))?;
    if !config.allow_other || !rustix::process::geteuid().is_root() {
        return Ok((control, None));
    }
    let path = config.registry.socket_for_all(DaemonKind::Mount).map_err(StartError::Registry)?;
    let for_all = ControlServer::start_for_all(&std::path::absolute(path)?, commands)?;
    Ok((control, Some(for_all)))
}

/// Makes the mount known on this machine, and has it say later why it ended.
fn register(
    config: ClientConfig,
    (control, for_all): (&ControlServer, Option<&ControlServer>),
    saved: &Saved,
    mountpoint: &Path,
    hooks: &MountHooks,
) -> Result<Registered, StartError> {
    let registration = Registration {
        kind: DaemonKind::Mount,
        place: mountpoint.to_owned(),
        socket: std::path::absolute(control.path())?,
        pid: std::process::id(),
        volume: saved.name.clone(),
        for_all: for_all.map(|server| server.path().to_owned()),
    };
    let registered = config.registry.register(&registration).map_err(StartError::Registry)?;
    if let Some(end) = config.on_failure {
        let registry = config.registry;
        hooks.attach_failure(move |reason| {
            if let Err(error) = registry.note_end(&registration, reason) {
                tracing::warn!(%error, "nothing tells later why this mount ended");
            }
            end(reason);
        });
    }
    Ok(registered)
}

/// When this machine became a member of the volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Joined {
    /// A moment ago, by its ticket.
    Now,
    /// Before it was started.
    Before,
}

/// What this machine is in the volume.
struct Membership {
    directory: PathBuf,
    saved: Saved,
    endpoint: Endpoint,
    joined: Joined,
    /// What the home said of the servers when it took this machine in.
    news: News,
}

impl Membership {
    fn find(config: &ClientConfig, runtime: &tokio::runtime::Handle) -> Result<Self, StartError> {
        let name = match &config.source {
            Source::Ticket(ticket) => ticket.volume_name().to_owned(),
            Source::Saved(name) => name.clone(),
        };
        let directory = directory_of(&config.cache_dir, &name);
        let known = Saved::load(&directory)?;
        match (&config.source, known) {
            (Source::Saved(_), None) => Err(SavedError::Unknown { name, cache: config.cache_dir.clone() }.into()),
            (Source::Saved(_), Some(saved)) => Self::known(config, directory, saved, runtime),
            (Source::Ticket(ticket), Some(saved)) => {
                if saved.volume_id(&directory)? != ticket.volume() {
                    return Err(StartError::NameTaken { name, path: directory });
                }
                match (saved.reader, ticket.role()) {
                    (_, wayfs_net::TicketRole::Station) => return Err(StartError::TicketOfStation),
                    (true, wayfs_net::TicketRole::Client) => return Err(StartError::TicketOfOther("to read only")),
                    (false, wayfs_net::TicketRole::Reader) => return Err(StartError::TicketOfOther("to write")),
                    (true, wayfs_net::TicketRole::Reader) | (false, wayfs_net::TicketRole::Client) => {}
                }
                Self::known(config, directory, saved, runtime)
            }
            (Source::Ticket(ticket), None) => Self::join(config, directory, ticket, runtime),
        }
    }

    fn known(
        config: &ClientConfig,
        directory: PathBuf,
        saved: Saved,
        runtime: &tokio::runtime::Handle,
    ) -> Result<Self, StartError> {
        let endpoint = bind(config, &directory, runtime)?;
        Ok(Self { directory, saved, endpoint, joined: Joined::Before, news: News::default() })
    }

    fn join(
        config: &ClientConfig,
        directory: PathBuf,
        ticket: &wayfs_net::Ticket,
        runtime: &tokio::runtime::Handle,
    ) -> Result<Self, StartError> {
        if ticket.role() == wayfs_net::TicketRole::Station {
            return Err(StartError::TicketOfStation);
        }
        if ticket.expired_at(wayfs_node::clock::unix_seconds()) {
            return Err(StartError::TicketExpired(ticket.volume_name().to_owned()));
        }
        make_private(&directory)?;
        // The key is durable before the join: a join whose answer was lost is repeated with the same key.
        let endpoint = bind(config, &directory, runtime)?;
        let label = config.label.clone().unwrap_or_else(own_label);
        let grant = runtime.block_on(wayfs_node::join(&endpoint, ticket, &label))?;
        let saved = Saved::new(ticket, &grant);
        saved.save(&directory)?;
        Ok(Self { directory, saved, endpoint, joined: Joined::Now, news: grant.news })
    }
}

fn make_private(directory: &Path) -> Result<(), StartError> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
        .map_err(|source| StartError::Directory { path: directory.to_owned(), source })
}

fn bind(config: &ClientConfig, directory: &Path, runtime: &tokio::runtime::Handle) -> Result<Endpoint, StartError> {
    let identity = NodeIdentity::open(&directory.join("identity"), config.passphrase.as_ref())?;
    let _inside = runtime.enter();
    if let Some(address) = config.bind {
        return Ok(Endpoint::bind(address, &identity, config.net.clone())?);
    }
    let six = SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0));
    let four = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    Endpoint::bind(six, &identity, config.net.clone())
        .or_else(|_| Endpoint::bind(four, &identity, config.net.clone()))
        .map_err(StartError::Bind)
}

fn open_volume(
    config: &ClientConfig,
    directory: &Path,
    saved: &Saved,
    endpoint: &Endpoint,
    runtime: &tokio::runtime::Handle,
    hooks: &Arc<MountHooks>,
) -> Result<Arc<Volume>, StartError> {
    let id = saved.volume_id(directory)?;
    let mut replica = wayfs_proto::Config::new(id, Role::Client, saved.origin, saved.label.clone(), endpoint.id());
    replica.read_only = saved.reader;
    replica.sharing = config.sharing;
    let keys = Keys { own: endpoint.identity(), home: saved.home };
    let mut settings = VolumeSettings::new(replica, keys, directory.join("volume"), runtime.clone());
    settings.scrub_period = config.scrub_period;
    // The rest is for body files that nobody has open.
    settings.cache_bytes_max = Some(config.cache_size - config.cache_size / 4);
    Ok(Volume::open(settings, hooks.clone())?)
}

fn build_file_system(
    config: &ClientConfig,
    directory: &Path,
    volume: &Arc<Volume>,
    hooks: &Arc<MountHooks>,
    notices: Arc<Notices>,
) -> Result<Arc<FileSystem>, StartError> {
    let live = Live::new(Arc::clone(volume), Arc::clone(&hooks.events));
    let table = TableSettings {
        disk: HostDisk::at(&directory.join("files"), journal_free_min(directory)),
        idle_len_max: config.cache_size / 4,
        idle_count_max: IDLE_COUNT_MAX,
        memory_max: crate::files::body::MEMORY_MAX,
        body_count_max: body_count_max(),
    };
    let files = Arc::new(FileTable::open(live.clone(), table)?);
    hooks.attach(&files, volume);
    files.commit_left();
    // What is written is committed from there to chunks, which leave a part of the disk free.
    let reserve = Reserves::of_disk(directory).contents;
    let settings = FileSystemSettings { free_min: config.fs.free_min.min(reserve + reserve / 2), ..config.fs.clone() };
    let fs = FileSystem::new(live, files, notices, settings)?;
    hooks.attach_file_system(&fs);
    Ok(fs)
}

fn mount(config: &ClientConfig, saved: &Saved, fs: &Arc<FileSystem>) -> Result<BackgroundSession, StartError> {
    let mut options = MountOptions::new(&config.mountpoint);
    options.fsname = format!("wayfs:{}", saved.name);
    options.read_only = config.read_only || saved.reader;
    options.allow_other = config.allow_other;
    options.no_exec = config.no_exec;
    let mount = match Mount::new(&options) {
        Err(MountError::Stale { path }) => {
            tracing::info!("an earlier daemon left its mount behind: it is taken down");
            take_down(&path);
            Mount::new(&options)?
        }
        other => other?,
    };
    let session = Session::new(mount, fuse_config(fs));
    Ok(session.spawn(Arc::new(Front(Arc::clone(fs))), config.threads)?)
}

/// Takes down a mount whose daemon is gone. If that fails, mounting again says why.
fn take_down(mountpoint: &Path) {
    let flags = rustix::mount::UnmountFlags::DETACH;
    if rustix::mount::unmount(mountpoint, flags).is_ok() {
        return;
    }
    let helper = std::process::Command::new("fusermount3").arg("-u").arg("-z").arg("--").arg(mountpoint).status();
    if let Err(error) = helper {
        tracing::warn!(%error, "run fusermount3");
    }
}

/// Begins to look for a parent, and has ready what the mount needs of the root. A ticket that was not needed to join is kept for the case that this machine was removed.
fn start_link(
    config: &ClientConfig,
    (volume, fs): (&Arc<Volume>, &Arc<FileSystem>),
    endpoint: &Endpoint,
    joined: Joined,
) -> Result<Arc<ParentLink>, StartError> {
    let link = Arc::new(ParentLink::start(volume, endpoint.clone(), link_settings(config)));
    match joined {
        Joined::Now if !config.offline => wait_for_session(&link),
        Joined::Now => {}
        Joined::Before => {
            if let Source::Ticket(ticket) = &config.source {
                link.offer_ticket(ticket.as_ref().clone())?;
            }
        }
    }
    map_by_names(config, fs, volume, &link)?;
    // Whatever else was looked at: the root can be worked in when the network goes.
    fs.warm(wayfs_types::FileId::ROOT);
    Ok(link)
}

fn link_settings(config: &ClientConfig) -> LinkSettings {
    LinkSettings { offline: config.offline, mdns: config.mdns, ..LinkSettings::default() }
}

/// Where the servers are, as far as is known before the first session. A ticket for a volume that this machine is in already
/// tells where its home is now, and stays unspent.
fn learn_servers(config: &ClientConfig, volume: &Volume, saved: &Saved, news: News) {
    let directory = volume.directory();
    directory.take(news);
    match &config.source {
        Source::Ticket(ticket) => {
            directory.trust_home(ticket.home());
            directory.tell(ticket.home(), ticket.addresses().to_vec());
        }
        Source::Saved(_) if directory.list().iter().all(|server| server.addresses.is_empty()) => {
            directory.tell(saved.home, saved.addresses.clone());
        }
        Source::Saved(_) => {}
    }
}

/// Learns whom the volume names, from the home's word if somebody can be asked for it.
fn map_by_names(config: &ClientConfig, fs: &FileSystem, volume: &Volume, link: &ParentLink) -> Result<(), StartError> {
    if config.fs.people.is_none() {
        return Ok(());
    }
    if !config.offline {
        wait_for_session(link);
    }
    let root = crate::paths::resolve(volume, Path::new(""), config.fs.metadata_timeout).map_err(StartError::Names)?;
    fs.map_by_names(&root.1);
    Ok(())
}

fn wait_for_session(link: &ParentLink) {
    let end = Instant::now() + FIRST_SESSION_WAIT;
    while link.status().state != LinkState::Connected && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Bytes that the journal of open files leaves free: what metadata and removals need, and half as much again.
fn journal_free_min(directory: &Path) -> u64 {
    let meta = Reserves::of_disk(directory).meta;
    meta + meta / 2
}

/// Descriptors kept back from body files: for chunks, tables, sessions, tools, and the thread that reads the kernel.
const DESCRIPTORS_RESERVED: u64 = 512;

/// How many body files there may be: what the process may open, less what the rest of it needs.
fn body_count_max() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(limit.saturating_sub(DESCRIPTORS_RESERVED).max(limit / 4)).unwrap_or(usize::MAX)
}

/// Each body file holds a descriptor; the usual soft limit of 1024 would be reached.
fn raise_file_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum }) {
        tracing::debug!(%error, "raise the limit of open files");
    }
}

/// Files are found by handle, too: numbers of files are the same on every machine and never given twice.
fn fuse_config(fs: &FileSystem) -> wayfs_fuse::Config {
    let mut config = wayfs_fuse::Config::default();
    config.export_support = true;
    config.posix_acl = fs.identities().shows_lists();
    config
}
