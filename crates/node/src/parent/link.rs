//! The link of a volume to its parent, as others see it: what it is asked, and what it says of itself.

use super::driver::Driver;
use super::readmission::Readmission;
use super::sampling::sample;
use super::shared::{LinkSettings, Shared, State, Wishes};
use super::status::{CandidateStatus, LinkState, LinkStatus};
use crate::clock;
use crate::close_codes::CLOSE_LEFT;
use crate::contents::message::{Ask, Reply};
use crate::contents::push::ask;
use crate::nearby::Nearby;
use crate::volume::Volume;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tracing::info;
use wayfs_net::{Connection, Endpoint, Ticket};
use wayfs_types::{NodeId, OriginId};

/// Longest wait for a parent that is asked how members are called.
const LABELS_PATIENCE: Duration = Duration::from_secs(5);

/// The link of one volume to its parent; ends when dropped.
pub struct ParentLink {
    shared: Arc<Shared>,
    task: AbortHandle,
    sampling: AbortHandle,
}

impl ParentLink {
    /// Begins to search on the volume's runtime.
    pub fn start(volume: &Arc<Volume>, endpoint: Endpoint, settings: LinkSettings) -> Self {
        let state = State {
            wishes: Wishes::default(),
            pinned: None,
            state: if settings.offline {
                LinkState::Offline
            } else {
                LinkState::Searching { last_error: String::new() }
            },
            since: clock::wall(),
            why: String::new(),
            parent: None,
            connection: None,
            measured: BTreeMap::new(),
            deleted: false,
            heard: None,
            measure_at: None,
        };
        let runtime = volume.settings().runtime.clone();
        let shared = Arc::new(Shared {
            volume: Arc::downgrade(volume),
            endpoint,
            settings,
            state: Mutex::new(state),
            changed: Notify::new(),
            attached: Arc::default(),
            nearby: OnceLock::new(),
            readmission: Readmission::load(&volume.settings().directory),
        });
        if shared.settings.mdns {
            look_nearby(&shared);
        }
        let task = runtime.spawn(Driver::new(Arc::clone(&shared), volume.role()).run()).abort_handle();
        let sampling = runtime.spawn(sample(Arc::downgrade(&shared))).abort_handle();
        Self { shared, task, sampling }
    }

    /// A snapshot.
    pub fn status(&self) -> LinkStatus {
        let servers = self.shared.candidates();
        let now = clock::now();
        let state = self.shared.lock();
        let candidates = servers
            .into_iter()
            .map(|server| {
                let measured = state.measured.get(&server.node).cloned().unwrap_or_default();
                CandidateStatus {
                    rtt: measured.rtt,
                    up: measured.up.estimate(now),
                    down: measured.down.estimate(now),
                    measured_at: measured.at,
                    last_error: measured.error,
                    server,
                }
            })
            .collect();
        LinkStatus {
            state: state.state.clone(),
            parent: state.parent.clone(),
            rtt: state.connection.as_ref().filter(|_| state.state == LinkState::Connected).map(Connection::rtt),
            heard: state.last_heard(),
            since: state.since,
            why: state.why.clone(),
            pinned: state.pinned,
            measures_in: state.measure_at.map(|at| at.since(now)),
            deleted: state.deleted && matches!(state.state, LinkState::Refused { .. }),
            candidates,
        }
    }

    /// Ends the session and does not look for another until [`ParentLink::go_online`].
    pub fn go_offline(&self) {
        self.shared.wish(|state| state.wishes.online = Some(false));
    }

    /// Looks for a parent at once.
    pub fn go_online(&self) {
        self.shared.wish(|state| state.wishes.online = Some(true));
    }

    /// Uses this server only; `None`: chooses by itself again.
    pub fn pin(&self, server: Option<NodeId>) {
        self.shared.wish(|state| {
            state.pinned = server;
            state.wishes.pinned = Some(server);
        });
    }

    /// Measures the other servers at once, and moves to a nearer one.
    pub fn measure_now(&self) {
        self.shared.wish(|state| state.wishes.measure_now = true);
    }

    /// Asks the parent how members are called; empty if there is none, or it does not answer in time.
    pub async fn labels(&self, origins: Vec<OriginId>) -> Vec<(OriginId, String)> {
        let Some(connection) = self.shared.lock().connection.clone() else { return Vec::new() };
        match timeout(LABELS_PATIENCE, ask(&connection, &Ask::Labels { origins })).await {
            Ok(Ok(Reply::Labels(labels))) => labels,
            Ok(Ok(_) | Err(_)) | Err(_) => Vec::new(),
        }
    }

    /// Keeps a ticket, durably, and uses it if a server says that this machine is no member (any more).
    ///
    /// # Errors
    /// The disk's answer; the ticket is kept in memory then.
    pub fn offer_ticket(&self, ticket: Ticket) -> std::io::Result<()> {
        let kept = self.shared.readmission.keep(ticket);
        self.look_again();
        kept
    }

    /// Looks anew at once: an address was given.
    pub fn look_again(&self) {
        self.shared.look_again();
    }
}

impl Drop for ParentLink {
    fn drop(&mut self) {
        self.task.abort();
        self.sampling.abort();
        let Some(connection) = self.shared.lock().connection.take() else { return };
        if let Some(volume) = self.shared.volume.upgrade() {
            volume.detach_parent("this machine needs it no longer");
        }
        connection.close(CLOSE_LEFT, "");
    }
}

impl std::fmt::Debug for ParentLink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ParentLink").field("state", &self.shared.lock().state).finish_non_exhaustive()
    }
}

/// Begins to look for servers on the local network; without, those that are told are all.
fn look_nearby(shared: &Arc<Shared>) {
    let link = Arc::downgrade(shared);
    let looking = Nearby::start(move || {
        if let Some(link) = link.upgrade() {
            link.look_again();
        }
    });
    match looking {
        Ok(nearby) => drop(shared.nearby.set(nearby)),
        Err(error) => info!(%error, "servers are not looked for on the local network"),
    }
}
