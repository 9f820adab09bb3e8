//! What all parts of a server share: its volumes, and how they are made, opened and found.

use crate::addresses;
use crate::broken::Broken;
use crate::config::ServerConfig;
use crate::error::StartError;
use crate::layout::{Layout, ServedAs, VolumeFile};
use crate::served::{Served, ServerHooks};
use crate::tickets::Tickets;
use rand::TryRngCore as _;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};
use tracing::info;
use wayfs_admin::events::Listeners;
use wayfs_net::{Address, Endpoint};
use wayfs_node::metrics::{Text, render};
use wayfs_node::{Grant, Hooks, Host, Keys, LinkSettings, ParentLink, Volume, VolumeSettings};
use wayfs_proto::{Config, Role};
use wayfs_types::{NodeId, OriginId, VolumeId};

/// What all parts of a server share.
pub(crate) struct Shared {
    pub(crate) config: ServerConfig,
    pub(crate) policy: wayfs_policy::Setting,
    pub(crate) layout: Layout,
    pub(crate) runtime: tokio::runtime::Handle,
    pub(crate) endpoint: Endpoint,
    pub(crate) bound: SocketAddr,
    pub(crate) volumes: RwLock<BTreeMap<VolumeId, Arc<Served>>>,
    /// Volumes that cannot be opened.
    pub(crate) broken: RwLock<Vec<Broken>>,
    /// What is left of the time to look for other copies of this home before its volumes are served.
    pub(crate) copy_patience: Mutex<Duration>,
    /// Volumes are made and joined one at a time, so that names stay unique.
    pub(crate) making: Mutex<()>,
    /// Takes ids of volumes of which this server was a station, and which their home deleted.
    pub(crate) deletions: Mutex<std::sync::mpsc::Sender<VolumeId>>,
    pub(crate) events: Arc<Listeners>,
    pub(crate) started: Instant,
    pub(crate) host: RwLock<Option<Arc<Host>>>,
    pub(crate) stop_wanted: Mutex<bool>,
    pub(crate) stop_changed: Condvar,
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
    pub(crate) fn is_on_local_network(&self) -> bool {
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
    pub(crate) fn note_broken(&self, broken: Broken) {
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
    pub(crate) fn opened(&self) {
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
    pub(crate) fn refresh_addresses(&self) {
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
