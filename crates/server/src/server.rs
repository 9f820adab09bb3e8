//! The daemon: one endpoint, one runtime, any number of volumes.

use crate::addresses;
use crate::admission::HomeAdmission;
use crate::broken::Broken;
use crate::config::ServerConfig;
use crate::control::ServerCommands;
use crate::error::StartError;
use crate::layout::{Layout, ServedAs, VolumeFile};
use crate::promotion::PromotionError;
use crate::served::{Served, ServerHooks};
use crate::tickets::Tickets;
use rand::TryRngCore as _;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, RwLock, Weak};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tracing::info;
use wayfs_admin::events::Listeners;
use wayfs_control::ControlServer;
use wayfs_control::link_signals::LinkListener;
use wayfs_net::{Address, CloseCode, Endpoint, NodeIdentity};
use wayfs_node::metrics::{MetricsServer, Text, render};
use wayfs_node::nearby::Announcement;
use wayfs_node::{Grant, Hooks, Host, Keys, LinkSettings, ParentLink, Volume, VolumeSettings};
use wayfs_proto::{Config, Role};
use wayfs_types::{NodeId, OriginId, VolumeId};

/// Longest wait for tasks when the server stops.
const STOP_MAX: Duration = Duration::from_secs(3);

/// Pause between two looks at the addresses of this machine.
const ADDRESSES_PERIOD: Duration = Duration::from_secs(60);
/// Longest that the start of a server waits in all for other copies of its homes. Each volume goes on looking afterwards.
const COPY_PATIENCE: Duration = Duration::from_secs(5);

/// Asks a server to stop, if it is still there.
#[derive(Debug, Clone)]
pub struct ServerStopper(Weak<Shared>);

impl ServerStopper {
    /// As [`Server::request_stop`].
    pub fn request_stop(&self) {
        if let Some(shared) = self.0.upgrade() {
            shared.request_stop();
        }
    }
}

/// What all parts of a server share.
pub(crate) struct Shared {
    pub(crate) config: ServerConfig,
    policy: wayfs_policy::Setting,
    pub(crate) layout: Layout,
    pub(crate) runtime: tokio::runtime::Handle,
    pub(crate) endpoint: Endpoint,
    pub(crate) bound: SocketAddr,
    pub(crate) volumes: RwLock<BTreeMap<VolumeId, Arc<Served>>>,
    /// Volumes that cannot be opened.
    pub(crate) broken: RwLock<Vec<Broken>>,
    /// What is left of the time to look for other copies of this home before its volumes are served.
    copy_patience: Mutex<Duration>,
    /// Volumes are made and joined one at a time, so that names stay unique.
    pub(crate) making: Mutex<()>,
    /// Takes ids of volumes of which this server was a station, and which their home deleted.
    deletions: Mutex<std::sync::mpsc::Sender<VolumeId>>,
    pub(crate) events: Arc<Listeners>,
    pub(crate) started: Instant,
    pub(crate) host: RwLock<Option<Arc<Host>>>,
    stop_wanted: Mutex<bool>,
    stop_changed: Condvar,
}

/// A running server: home of its own volumes, station of others'.
pub struct Server {
    shared: Arc<Shared>,
    runtime: Option<Runtime>,
    control: Option<ControlServer>,
    metrics: Option<MetricsServer>,
    /// Ends the announcement when dropped.
    announcement: Option<Announcement>,
    links: Option<LinkListener>,
    stopped: AtomicBool,
}

impl Server {
    /// Opens the data directory, takes the port, and serves all volumes that are there.
    ///
    /// # Errors
    /// [`StartError`]; nothing keeps running then.
    pub fn start(config: ServerConfig) -> Result<Self, StartError> {
        let layout = Layout::open(&config.data_dir)?;
        let policy = match &config.policy {
            None => wayfs_policy::Setting::default(),
            Some(text) => text.parse().map_err(|source| StartError::Policy { text: text.clone(), source })?,
        };
        let identity = NodeIdentity::open(&layout.identity(), config.passphrase.as_ref())?;
        let runtime = wayfs_node::runtime("wayfs-net").map_err(StartError::Runtime)?;
        let endpoint = {
            let _inside = runtime.enter();
            Endpoint::bind(config.listen, &identity, config.net.clone())?
        };
        let bound = endpoint.local_addr().map_err(StartError::Runtime)?;
        let deleted = layout.deleted()?;
        let (files, damaged) = layout.volumes()?;
        let (deletions, dead) = std::sync::mpsc::channel();
        let shared = Arc::new(Shared {
            layout,
            runtime: runtime.handle().clone(),
            policy,
            bound,
            volumes: RwLock::default(),
            broken: RwLock::default(),
            making: Mutex::default(),
            copy_patience: Mutex::new(COPY_PATIENCE),
            deletions: Mutex::new(deletions),
            events: Arc::default(),
            started: Instant::now(),
            host: RwLock::default(),
            stop_wanted: Mutex::new(false),
            stop_changed: Condvar::new(),
            endpoint: endpoint.clone(),
            config,
        });
        let admission = Arc::new(HomeAdmission::new(Arc::downgrade(&shared)));
        let host = Arc::new(Host::start(endpoint, runtime.handle(), admission));
        deleted.into_iter().for_each(|id| host.delete_replica(id));
        crate::deletion::start(dead, Arc::downgrade(&shared)).map_err(StartError::Runtime)?;
        *shared.host.write().unwrap_or_else(PoisonError::into_inner) = Some(host);
        let mut server = Self {
            shared,
            runtime: Some(runtime),
            control: None,
            metrics: None,
            announcement: None,
            links: None,
            stopped: AtomicBool::new(false),
        };
        damaged.into_iter().for_each(|broken| server.shared.note_broken(broken));
        for file in files {
            match server.shared.serve(file.clone()) {
                Err(error) if error.is_damage() => server.shared.note_broken(Broken::of_stores(&file, &error)),
                Err(error @ StartError::Copied { .. }) => server.shared.note_broken(Broken::of_copy(&file, &error)),
                served => drop(served?),
            }
        }
        server.shared.opened();
        server.watch_addresses();
        server.open_doors()?;
        info!(node = %server.node().short(), address = %server.address(), "server started");
        Ok(server)
    }

    /// Looks from time to time whether this machine's addresses have changed.
    fn watch_addresses(&self) {
        let shared = Arc::downgrade(&self.shared);
        self.shared.runtime.spawn(async move {
            loop {
                tokio::time::sleep(ADDRESSES_PERIOD).await;
                let Some(shared) = shared.upgrade() else { return };
                // Reads files of the kernel and may write one of ours.
                let _ = tokio::task::spawn_blocking(move || shared.refresh_addresses()).await;
            }
        });
    }

    fn open_doors(&mut self) -> Result<(), StartError> {
        if self.shared.is_on_local_network() {
            // Tickets and the register work without it.
            self.announcement = Announcement::start(self.node(), self.address().port())
                .inspect_err(|error| tracing::warn!(%error, "this server is not announced on the local network"))
                .ok();
        }
        if let Some(links) = self.shared.config.links.clone() {
            let endpoint = self.shared.endpoint.clone();
            self.links = Some(wayfs_node::heed_links(endpoint, links).map_err(StartError::Runtime)?);
        }
        if let Some(address) = self.shared.config.metrics {
            let shared = Arc::downgrade(&self.shared);
            self.metrics =
                Some(MetricsServer::start(address, move || shared.upgrade().map(|s| s.metrics()).unwrap_or_default())?);
        }
        if let Some(path) = self.shared.config.control_socket.clone() {
            let commands = Arc::new(ServerCommands::new(Arc::clone(&self.shared)));
            self.control = Some(ControlServer::start(&path, commands)?);
        }
        Ok(())
    }

    /// Who this server is to others.
    pub fn node(&self) -> NodeId {
        self.shared.endpoint.id()
    }

    /// The UDP address taken.
    pub fn address(&self) -> SocketAddr {
        self.shared.bound
    }

    /// Carries out control commands without a socket, for whoever runs the server in its own process.
    pub fn control(&self) -> Arc<dyn wayfs_control::CommandHandler> {
        Arc::new(ServerCommands::new(Arc::clone(&self.shared)))
    }

    /// A volume by name or id, for whoever runs the server in its own process.
    pub fn volume(&self, name: &str) -> Option<Arc<Volume>> {
        self.shared.find(name).map(|served| Arc::clone(&served.volume))
    }

    /// Makes a station of this server the home of its volume, for good; `None`: no such volume.
    ///
    /// # Errors
    /// [`PromotionError`]: it is the home already, or its files cannot be written or opened.
    pub fn promote(&self, name: &str) -> Option<Result<(), PromotionError>> {
        self.shared.find(name).map(|served| self.shared.promote(served))
    }

    /// The same for as long as it takes. Nothing wakes the thread before.
    pub fn wait_for_stop(&self) {
        let wanted = self.shared.stop_wanted.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.shared.stop_changed.wait_while(wanted, |wanted| !*wanted));
    }

    /// Ends [`Server::wait_stop`].
    pub fn request_stop(&self) {
        self.shared.request_stop();
    }

    /// What a thread that handles signals has to ask it to stop.
    pub fn stopper(&self) -> ServerStopper {
        ServerStopper(Arc::downgrade(&self.shared))
    }

    /// Ends cleanly: children are told, everything is durable, the port and the directory are free. Idempotent.
    pub fn stop(&mut self) {
        self.end(|served| served.stop());
    }

    /// Ends as a crash would: nothing more is written. For tests of crashes.
    pub fn abandon(&mut self) {
        self.end(|served| served.volume.abandon());
    }

    fn end(&mut self, end_volume: impl Fn(&Served)) {
        if self.stopped.swap(true, Ordering::AcqRel) {
            return;
        }
        self.shared.request_stop();
        if let Some(control) = self.control.take() {
            control.stop();
        }
        self.metrics = None;
        self.announcement = None;
        self.links = None;
        let host = self.shared.host.write().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(host) = &host {
            host.stop();
        }
        let volumes = std::mem::take(&mut *self.shared.volumes.write().unwrap_or_else(PoisonError::into_inner));
        for served in volumes.values() {
            end_volume(served);
        }
        drop(volumes);
        if let Some(runtime) = self.runtime.take() {
            let endpoint = self.shared.endpoint.clone();
            runtime.block_on(async move { endpoint.close(CloseCode::SHUTDOWN, "the server stops").await });
            runtime.shutdown_timeout(STOP_MAX);
        }
        info!("server stopped");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server")
            .field("node", &self.node().short())
            .field("address", &self.address())
            .finish_non_exhaustive()
    }
}

/// What becomes of tickets that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum IfDamaged {
    /// The volume is not served.
    Refuse,
    /// They are void.
    SetAside,
}

impl Shared {
    /// Where others reach this server.
    pub(crate) fn addresses(&self) -> Vec<Address> {
        addresses::advertised(&self.config.advertise, self.bound)
    }

    /// Whether multicast DNS is wanted and of use.
    fn is_on_local_network(&self) -> bool {
        self.config.mdns && !self.bound.ip().to_canonical().is_loopback()
    }

    /// A volume by its name, its id, or the beginning of its id.
    pub(crate) fn find(&self, name: &str) -> Option<Arc<Served>> {
        let volumes = self.volumes.read().unwrap_or_else(PoisonError::into_inner);
        let by_name = volumes.values().find(|served| served.name() == name);
        let found = by_name.or_else(|| {
            let mut matching =
                volumes.values().filter(|served| name.len() >= 8 && served.id.to_string().starts_with(name));
            matching.next().filter(|_| matching.next().is_none())
        });
        found.cloned()
    }

    /// All volumes in order of name.
    pub(crate) fn all(&self) -> Vec<Arc<Served>> {
        let mut all: Vec<_> = self.volumes.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
        all.sort_by(|a, b| a.name().cmp(b.name()));
        all
    }

    pub(crate) fn request_stop(&self) {
        *self.stop_wanted.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.stop_changed.notify_all();
    }

    /// A volume is not served. Its members are told to come again.
    fn note_broken(&self, broken: Broken) {
        tracing::error!(volume = %broken.name, "this volume is not served: {} {}", broken.why, broken.next_step);
        let detail = format!("not served: {}", broken.why);
        self.events.tell(wayfs_admin::events::event(wayfs_control::EventKind::Attention, Some(&broken.name), detail));
        if let (Some(id), Some(host)) = (broken.id, self.host.read().unwrap_or_else(PoisonError::into_inner).as_ref()) {
            host.note_broken(id);
        }
        self.broken.write().unwrap_or_else(PoisonError::into_inner).push(broken);
    }

    /// Why a volume that is asked for by its name or id is not served, with what to do.
    pub(crate) fn broken(&self, name: &str) -> Option<Broken> {
        let broken = self.broken.read().unwrap_or_else(PoisonError::into_inner);
        broken.iter().find(|one| one.name == name || one.id.is_some_and(|id| id.to_string() == name)).cloned()
    }

    /// Opens a volume and takes its sessions.
    pub(crate) fn serve(&self, file: VolumeFile) -> Result<Arc<Served>, StartError> {
        let (id, origin) = file.ids().expect("checked when it was read or made");
        let name = file.name.clone();
        let deletions = self.deletions.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let heard = Arc::new(ServerHooks::new(id, name.clone(), Arc::clone(&self.events), deletions));
        let role = if file.role == ServedAs::Home { Role::Home } else { Role::Station };
        let mut replica = Config::new(id, role, origin, file.label.clone(), self.endpoint.id());
        replica.reconcile_period = self.config.reconcile_period;
        replica.succeeds = file.promoted;
        let own = self.endpoint.identity();
        let keys = Keys { own, home: file.home.unwrap_or(own.id()) };
        let mut settings = VolumeSettings::new(replica, keys, self.layout.store(id), self.runtime.clone());
        settings.unreferenced_grace = self.config.unreferenced_grace;
        settings.sweep_period = self.config.sweep_period;
        settings.scrub_period = self.config.scrub_period;
        settings.propagation = Some(self.policy);
        let is_called = |wanted: &String| *wanted == name || *wanted == id.to_string();
        settings.accept_loss = self.config.accept_loss.iter().any(is_called);
        let tickets = match file.role {
            ServedAs::Home => {
                let if_damaged = if settings.accept_loss { IfDamaged::SetAside } else { IfDamaged::Refuse };
                Some(self.load_tickets(id, if_damaged)?)
            }
            ServedAs::Station => None,
        };
        let volume = Volume::open(settings, Arc::clone(&heard) as Arc<dyn Hooks>)
            .map_err(|source| StartError::Volume { name: name.clone(), source })?;
        heard.attach(&volume);
        volume.directory().set_own(self.addresses());
        if role == Role::Home
            && let Some(address) = self.find_copy(&volume)
        {
            volume.stop();
            return Err(StartError::Copied { address });
        }
        let link = match file.role {
            ServedAs::Home => None,
            ServedAs::Station => {
                let link = LinkSettings {
                    mdns: self.is_on_local_network(),
                    tell_seen: self.config.advertise.is_empty(),
                    ..LinkSettings::default()
                };
                Some(ParentLink::start(&volume, self.endpoint.clone(), link))
            }
        };
        let served =
            Arc::new(Served { id, file, volume: Arc::clone(&volume), link, tickets: Mutex::new(tickets), heard });
        self.volumes.write().unwrap_or_else(PoisonError::into_inner).insert(id, Arc::clone(&served));
        if let Some(host) = self.host.read().unwrap_or_else(PoisonError::into_inner).as_ref() {
            host.add(volume);
        }
        Ok(served)
    }

    /// Where another copy of a home answers. Addresses that say nothing cost time, and a server may have many volumes: what is not found
    /// out within a bound for all of them is left to each volume's own watch.
    fn find_copy(&self, volume: &Volume) -> Option<SocketAddr> {
        let mut left = self.copy_patience.lock().unwrap_or_else(PoisonError::into_inner);
        let began = Instant::now();
        let look = async { tokio::time::timeout(*left, wayfs_node::find_copy(volume, &self.endpoint)).await };
        let found = self.runtime.block_on(look).ok().flatten();
        *left = left.saturating_sub(began.elapsed());
        found
    }

    /// The tickets of a home's volume.
    fn load_tickets(&self, id: VolumeId, if_damaged: IfDamaged) -> Result<Tickets, StartError> {
        let path = self.layout.tickets(id);
        let unreadable = |path: &std::path::Path, error: std::io::Error| StartError::Unreadable {
            path: path.to_owned(),
            why: format!("{error}; without it tickets that nobody used yet are void, and new ones are to be issued"),
        };
        match Tickets::load(&path) {
            Err(error) if if_damaged == IfDamaged::SetAside => {
                tracing::error!(%error, "the tickets are damaged and set aside: those that nobody used yet are void");
                let aside = path.with_extension("damaged");
                std::fs::rename(&path, &aside).map_err(|error| unreadable(&path, error))?;
                Tickets::load(&path).map_err(|error| unreadable(&path, error))
            }
            other => other.map_err(|error| unreadable(&path, error)),
        }
    }

    /// All volumes that were here before are served.
    fn opened(&self) {
        if let Some(host) = self.host.read().unwrap_or_else(PoisonError::into_inner).as_ref() {
            host.complete();
        }
    }

    /// Makes a volume of which this server is the home.
    pub(crate) fn create(&self, name: &str) -> Result<Arc<Served>, CreateError> {
        let _one_at_a_time = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        if name.is_empty() || name.len() > 64 || name.chars().any(|c| c.is_control() || c == '/' || c.is_whitespace()) {
            return Err(CreateError::Name);
        }
        if self.find(name).is_some() {
            return Err(CreateError::Taken(name.to_owned()));
        }
        let mut bytes = [0; 16];
        rand::rngs::OsRng.try_fill_bytes(&mut bytes).map_err(|error| CreateError::Randomness(error.to_string()))?;
        let id = VolumeId::from_bytes(bytes);
        let origin = OriginId::new(1).expect("one is an origin");
        let file = VolumeFile::new(id, name.to_owned(), ServedAs::Home, origin, self.config.label.clone());
        self.layout.save(id, &file)?;
        let served = self.serve(file)?;
        info!(volume = %id, "volume created");
        Ok(served)
    }

    /// Becomes a station with what the home granted; `home` is where the ticket found it.
    pub(crate) fn adopt(&self, grant: Grant, home: (NodeId, &[Address])) -> Result<Arc<Served>, CreateError> {
        let mut file = VolumeFile::new(grant.volume, grant.name, ServedAs::Station, grant.origin, grant.label);
        let (node, addresses) = home;
        file.home = Some(node);
        self.layout.save(grant.volume, &file)?;
        let served = self.serve(file)?;
        served.volume.directory().take(grant.news);
        served.volume.directory().tell(node, addresses.to_vec());
        Ok(served)
    }

    /// Looks where this machine is now: its interfaces may have other addresses than before.
    fn refresh_addresses(&self) {
        let addresses = self.addresses();
        for served in self.all() {
            served.volume.directory().set_own(addresses.clone());
        }
    }

    /// Prometheus text of everything.
    pub(crate) fn metrics(&self) -> String {
        let mut text = Text::default();
        let traffic = self.endpoint.traffic();
        text.counter("wayfs_net_sent_bytes_total", "UDP payload sent.", &[], traffic.wire_bytes_sent);
        text.counter("wayfs_net_received_bytes_total", "UDP payload received.", &[], traffic.wire_bytes_received);
        text.counter("wayfs_net_lost_packets_total", "Packets given up as lost.", &[], traffic.packets_lost);
        text.gauge("wayfs_uptime_seconds", "Since the start.", &[], self.started.elapsed().as_secs_f64());
        for served in self.all() {
            render(&mut text, &served.volume, served.name());
        }
        text.finish()
    }
}

/// Why a volume was not made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CreateError {
    #[error("a volume's name is 1 to 64 characters without spaces and `/`")]
    Name,
    #[error("this server has a volume called `{0}`")]
    Taken(String),
    #[error("the system gives no random numbers: {0}")]
    Randomness(String),
    #[error(transparent)]
    Start(#[from] StartError),
}

/// What tests ask of a server.
#[cfg(test)]
impl Server {
    /// Where metrics are served.
    pub(crate) fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics.as_ref().map(MetricsServer::address)
    }

    /// What a station of this server has, and what would be missing if it took its home's place now; `None`: no such volume.
    pub(crate) fn outlook(&self, name: &str) -> Option<Result<crate::promotion::Outlook, PromotionError>> {
        self.shared.find(name).map(|served| self.shared.outlook(&served))
    }

    /// Whether someone asked the server to stop, within `patience`.
    pub(crate) fn wait_stop(&self, patience: Duration) -> bool {
        let wanted = self.shared.stop_wanted.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.shared.stop_changed.wait_timeout_while(wanted, patience, |wanted| !*wanted);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}
