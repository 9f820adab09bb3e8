//! A volume as this server serves it.

use crate::layout::{ServedAs, VolumeFile};
use crate::tickets::Tickets;
use std::collections::BTreeMap;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use wayfs_admin::events::{Journeys, Listeners};
use wayfs_admin::happenings::Paths;
use wayfs_control::EventKind;
use wayfs_node::{Hooks, ParentLink, SessionChange, SessionEvent, Volume};
use wayfs_proto::{Happening, Neighbour};
use wayfs_types::{Content, FileId, NodeId, RecordId, VolumeId, WallTime};

/// A volume, and what this server adds to it.
pub(crate) struct Served {
    pub(crate) id: VolumeId,
    pub(crate) file: VolumeFile,
    pub(crate) volume: Arc<Volume>,
    /// A station's way to the home.
    pub(crate) link: Option<ParentLink>,
    /// A home's tickets.
    pub(crate) tickets: Mutex<Option<Tickets>>,
    pub(crate) heard: Arc<ServerHooks>,
}

impl Served {
    pub(crate) fn name(&self) -> &str {
        &self.file.name
    }

    pub(crate) fn is_home(&self) -> bool {
        self.file.role == ServedAs::Home
    }

    /// Takes what a new ticket says of the home, and looks for it there. The ticket stays unspent.
    pub(crate) fn learn_from(&self, ticket: &wayfs_net::Ticket) {
        let directory = self.volume.directory();
        directory.trust_home(ticket.home());
        directory.tell(ticket.home(), ticket.addresses().to_vec());
        if let Some(link) = &self.link {
            // It is of use if the home had removed this station.
            if let Err(error) = link.offer_ticket(ticket.clone()) {
                tracing::warn!(%error, "keep a ticket");
            }
        }
    }

    /// Ends it; what is durable stays.
    pub(crate) fn stop(&self) {
        self.volume.stop();
    }
}

/// What the volume tells its server.
pub(crate) struct ServerHooks {
    id: VolumeId,
    deletions: Sender<VolumeId>,
    name: String,
    events: Arc<Listeners>,
    seen: Mutex<BTreeMap<NodeId, WallTime>>,
    /// Records on their way, while somebody listens.
    journeys: Journeys,
    paths: Paths,
    volume: OnceLock<Weak<Volume>>,
}

impl ServerHooks {
    pub(crate) fn new(id: VolumeId, name: String, events: Arc<Listeners>, deletions: Sender<VolumeId>) -> Self {
        Self {
            id,
            deletions,
            name,
            events,
            seen: Mutex::default(),
            journeys: Journeys::default(),
            paths: Paths::default(),
            volume: OnceLock::new(),
        }
    }

    /// The volume, as soon as it is open.
    pub(crate) fn attach(&self, volume: &Arc<Volume>) {
        // Set once, when the volume is opened.
        let _ = self.volume.set(Arc::downgrade(volume));
    }

    /// When a machine's session last began or ended.
    pub(crate) fn seen(&self, node: NodeId) -> Option<WallTime> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).get(&node).copied()
    }

    /// Tells which records came further since the last time.
    pub(crate) fn tell_levels(&self, volume: &Volume) {
        self.journeys.tell(&self.events, &self.name, volume);
    }

    fn event(&self, kind: EventKind, record: Option<RecordId>, detail: String) {
        let mut event = wayfs_admin::events::event(kind, Some(&self.name), detail);
        event.record = record.map(|record| record.to_string());
        self.events.tell(event);
    }
}

impl Hooks for ServerHooks {
    fn happened(&self, what: &Happening) {
        if let Some(volume) = self.volume.get().and_then(Weak::upgrade) {
            self.events.tell(self.paths.tell(&volume, &self.name, what));
        }
    }

    fn conflict(&self, conflict: RecordId) {
        self.event(EventKind::Conflict, Some(conflict), "two updates met".into());
    }

    fn applied(&self, file: FileId, record: RecordId, content: Option<&Content>) {
        if !self.events.are_there() {
            return;
        }
        self.event(EventKind::Applied, Some(record), format!("file {file}"));
        self.journeys.follow(&self.events, record, file, content.map_or(0, Content::size));
    }

    fn back_fetched(&self, file: FileId, version: RecordId) {
        self.event(EventKind::Fetched, Some(version), format!("file {file}: the home fetched its contents"));
    }

    fn attention(&self, what: &str) {
        tracing::warn!(volume = self.name, what, "attention");
        self.event(EventKind::Attention, None, what.to_owned());
    }

    fn failed(&self, reason: &str) {
        self.event(EventKind::Attention, None, format!("the volume stopped: {reason}"));
    }

    fn deleted(&self) {
        // The thread that buries lives as long as the server.
        let _ = self.deletions.send(self.id);
    }

    fn session_changed(&self, change: &SessionChange) {
        let now = wayfs_node::clock::wall();
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).insert(change.node, now);
        let who = match change.neighbour {
            Neighbour::Parent => "home",
            Neighbour::ChildStation { .. } => "station",
            Neighbour::ChildClient { .. } => "client",
        };
        let node = change.node.short();
        match &change.event {
            SessionEvent::Up => self.event(EventKind::Connected, None, format!("{who} {node}")),
            SessionEvent::Down(reason) => self.event(EventKind::Disconnected, None, format!("{who} {node}: {reason}")),
        }
    }
}
