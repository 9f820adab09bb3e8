//! Servers in temporary directories, and machines that join them.

use crate::{Server, ServerConfig};
use std::cell::Cell;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use wayfs_control::{Command, ControlError, Done, Event, Gone, Progress, Sink, TicketLimits, TicketRole};
use wayfs_net::{Endpoint, NetConfig, NodeIdentity, Ticket};
use wayfs_node::{Grant, JoinError, Keys, LinkSettings, NoHooks, ParentLink, Volume, VolumeSettings};
use wayfs_proto::{Config, Role};
use wayfs_types::NodeId;

pub(super) const PATIENCE: Duration = Duration::from_secs(8);

pub(super) fn config(dir: &Path) -> ServerConfig {
    let mut config = ServerConfig::new(dir.to_owned());
    config.listen = "127.0.0.1:0".parse().unwrap();
    config.reconcile_period = Duration::from_millis(100);
    config.label = "server@test".into();
    config
}

pub(super) fn start(dir: &Path) -> Server {
    Server::start(config(dir)).unwrap()
}

/// Hears progress and forgets it.
#[derive(Default)]
pub(super) struct Deaf {
    pub(super) events: Vec<Event>,
    pub(super) hang_up_after: Option<usize>,
    pub(super) descriptor: Option<OwnedFd>,
}

impl Deaf {
    /// One that brings a descriptor with the command.
    pub(super) fn with(descriptor: OwnedFd) -> Self {
        Self { descriptor: Some(descriptor), ..Self::default() }
    }
}

impl Sink for Deaf {
    fn progress(&mut self, _progress: &Progress) -> Result<(), Gone> {
        Ok(())
    }

    fn event(&mut self, event: &Event) -> Result<(), Gone> {
        self.events.push(event.clone());
        Ok(())
    }

    fn is_gone(&mut self) -> bool {
        self.hang_up_after.is_some_and(|count| self.events.len() >= count)
    }

    fn take_descriptor(&mut self) -> Option<OwnedFd> {
        self.descriptor.take()
    }
}

pub(super) fn run(server: &Server, command: Command) -> Result<Done, ControlError> {
    server.control().run(command, &mut Deaf::default())
}

pub(super) fn create(server: &Server, name: &str) {
    run(server, Command::VolumeCreate { name: name.into(), owner: None, group_writable: false }).unwrap();
}

pub(super) fn ticket(server: &Server, volume: &str, role: TicketRole) -> Ticket {
    ticket_text(server, volume, role, None).parse().unwrap()
}

pub(super) fn ticket_text(server: &Server, volume: &str, role: TicketRole, expires_s: Option<u64>) -> String {
    match run(server, Command::VolumeTicket { volume: volume.into(), role, expires_s, limits: TicketLimits::default() })
    {
        Ok(Done::Ticket(report)) => report.ticket,
        other => panic!("no ticket: {other:?}"),
    }
}

pub(super) fn join_station(station: &Server, ticket: String) -> Result<Done, ControlError> {
    run(station, Command::StationJoin { ticket: wayfs_control::TicketText(ticket) })
}

/// A machine that may join volumes.
pub(super) struct Joiner {
    pub(super) runtime: tokio::runtime::Runtime,
    pub(super) endpoint: Endpoint,
    /// The home of the last ticket.
    home: Cell<Option<NodeId>>,
}

impl Joiner {
    pub(super) fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let endpoint = {
            let _inside = runtime.enter();
            Endpoint::bind("127.0.0.1:0".parse().unwrap(), &NodeIdentity::generate().unwrap(), NetConfig::default())
                .unwrap()
        };
        Self { runtime, endpoint, home: Cell::default() }
    }

    pub(super) fn join(&self, ticket: &Ticket) -> Result<Grant, JoinError> {
        self.home.set(Some(ticket.home()));
        let joining =
            async { tokio::time::timeout(PATIENCE, wayfs_node::join(&self.endpoint, ticket, "ann@laptop")).await };
        self.runtime.block_on(joining).expect("an answer in time")
    }

    /// Opens what was granted and connects.
    pub(super) fn open(&self, grant: &Grant, dir: &Path) -> (Arc<Volume>, ParentLink) {
        let config = Config::new(grant.volume, Role::Client, grant.origin, grant.label.clone(), self.endpoint.id());
        let keys = Keys { own: self.endpoint.identity(), home: self.home.get().expect("it joined") };
        let settings = VolumeSettings::new(config, keys, dir.to_owned(), self.runtime.handle().clone());
        let volume = Volume::open(settings, Arc::new(NoHooks)).unwrap();
        volume.directory().take(grant.news.clone());
        let link = ParentLink::start(&volume, self.endpoint.clone(), LinkSettings::default());
        (volume, link)
    }
}
