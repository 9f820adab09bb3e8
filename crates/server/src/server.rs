//! The daemon: one endpoint, one runtime, any number of volumes.

use crate::admission::HomeAdmission;
use crate::broken::Broken;
use crate::config::ServerConfig;
use crate::control::ServerCommands;
use crate::error::StartError;
use crate::layout::Layout;
use crate::promotion::PromotionError;
use crate::served::Served;
use crate::shared::Shared;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, RwLock, Weak};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tracing::info;
use wayfs_control::ControlServer;
use wayfs_control::link_signals::LinkListener;
use wayfs_net::{CloseCode, Endpoint, NodeIdentity};
use wayfs_node::metrics::MetricsServer;
use wayfs_node::nearby::Announcement;
use wayfs_node::{Host, Volume};
use wayfs_types::NodeId;

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
