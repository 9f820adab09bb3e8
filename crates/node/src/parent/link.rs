//! Keeps one session to the best parent.
//!
//! ```text
//!            go_offline                     lost, or refused
//!  Offline ◀──────────── any state   Connected ─────────────▶ Searching
//!     └── go_online ──▶ Searching ── dialled, greeted ──▶ Connected ── a better one ──▶ Connected to that
//! ```
//!
//! While searching, all known servers are dialled at the same time, and of the nearest that answer the one is taken that other
//! machines of the site take, too. While connected, the others are measured from time to time, and one that is nearer, or about as
//! near and the one that others take, is moved to. A move makes the new session before it leaves the old one, so that only the engine
//! notices.

use super::readmission::Readmission;
use super::sampling::sample;
use super::status::{CandidateStatus, LinkState, LinkStatus};
use super::throughput::Samples;
use super::watching::Live;
use crate::clock;
use crate::contents::message::{Ask, Reply};
use crate::contents::push::ask;
use crate::core::CLOSE_LEFT;
use crate::nearby::Nearby;
use crate::servers::ServerInfo;
use crate::volume::Volume;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout};
use tracing::info;
use wayfs_net::{Connection, Endpoint, Ticket};
use wayfs_types::{NodeId, OriginId, WallTime};

/// Settings of a [`ParentLink`].
#[derive(Debug, Clone)]
pub struct LinkSettings {
    /// Begin offline.
    pub offline: bool,
    /// Pause between measurements of the other servers. Default 60 s: a dial costs a few packets each.
    pub measure_period: Duration,
    /// Look for known servers on the local network by multicast DNS. Default false.
    pub mdns: bool,
    /// Stations: tell others also where the home sees this machine, which may be an address translator. Default true.
    pub tell_seen: bool,
}

impl Default for LinkSettings {
    fn default() -> Self {
        Self { offline: false, measure_period: Duration::from_secs(60), mdns: false, tell_seen: true }
    }
}

/// How often a decayed path or a lost session is looked for.
pub(super) const LOOK_PERIOD: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, Default)]
pub(super) struct Measured {
    pub(super) rtt: Option<Duration>,
    pub(super) at: Option<WallTime>,
    pub(super) error: Option<String>,
    pub(super) up: Samples,
    pub(super) down: Samples,
}

pub(super) struct State {
    pub(super) online: bool,
    pub(super) pinned: Option<NodeId>,
    pub(super) state: LinkState,
    pub(super) since: WallTime,
    pub(super) why: String,
    pub(super) parent: Option<ServerInfo>,
    pub(super) connection: Option<Connection>,
    pub(super) measured: BTreeMap<NodeId, Measured>,
    /// Someone said that the volume is no more.
    pub(super) deleted: bool,
    pub(super) heard: Option<WallTime>,
    /// When the other servers are measured again.
    pub(super) measure_at: Option<Instant>,
    /// The user wants them measured now.
    pub(super) measure_now: bool,
    /// When a server was left because another is nearer.
    pub(super) left: BTreeMap<NodeId, Instant>,
}

impl State {
    /// When something was last heard of a parent.
    pub(super) fn last_heard(&self) -> Option<WallTime> {
        let at = self.connection.as_ref().and_then(Connection::acked_at).map(|at| wall_before(at.elapsed()));
        at.max(self.heard)
    }
}

fn wall_before(span: Duration) -> WallTime {
    let nanos = i64::try_from(span.as_nanos()).unwrap_or(i64::MAX);
    WallTime::from_nanos(clock::wall().as_nanos().saturating_sub(nanos))
}

pub(super) struct Shared {
    pub(super) volume: Weak<Volume>,
    pub(super) endpoint: Endpoint,
    pub(super) settings: LinkSettings,
    pub(super) state: Mutex<State>,
    pub(super) changed: Notify,
    /// A session has begun.
    pub(super) attached: Arc<Notify>,
    /// Whoever announces itself on the local network, if we look.
    pub(super) nearby: OnceLock<Nearby>,
    pub(super) readmission: Readmission,
}

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
            online: !settings.offline,
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
            measure_now: false,
            left: BTreeMap::new(),
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
        let task = runtime.spawn(Arc::clone(&shared).run()).abort_handle();
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
            measures_in: state.measure_at.map(|at| at.saturating_duration_since(Instant::now())),
            deleted: state.deleted && matches!(state.state, LinkState::Refused { .. }),
            candidates,
        }
    }

    /// Ends the session and does not look for another until [`ParentLink::go_online`].
    pub fn go_offline(&self) {
        self.shared.lock().online = false;
        self.shared.changed.notify_one();
    }

    /// Looks for a parent at once.
    pub fn go_online(&self) {
        self.shared.lock().online = true;
        self.shared.changed.notify_one();
    }

    /// Uses this server only; `None`: chooses by itself again.
    pub fn pin(&self, server: Option<NodeId>) {
        self.shared.lock().pinned = server;
        self.shared.changed.notify_one();
    }

    /// Measures the other servers at once, and moves to a nearer one.
    pub fn measure_now(&self) {
        self.shared.lock().measure_now = true;
        self.shared.changed.notify_one();
    }

    /// Asks the parent how members are called; empty if there is none, or it does not answer in time.
    pub async fn labels(&self, origins: Vec<OriginId>) -> Vec<(OriginId, String)> {
        let Some(connection) = self.shared.lock().connection.clone() else { return Vec::new() };
        match timeout(LOOK_PERIOD, ask(&connection, &Ask::Labels { origins })).await {
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
        self.shared.changed.notify_one();
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
            link.changed.notify_one();
        }
    });
    match looking {
        Ok(nearby) => drop(shared.nearby.set(nearby)),
        Err(error) => info!(%error, "servers are not looked for on the local network"),
    }
}

impl Shared {
    pub(super) fn last_errors(&self) -> String {
        let state = self.lock();
        let errors: Vec<String> = state.measured.values().filter_map(|measured| measured.error.clone()).collect();
        errors.join("; ")
    }

    pub(super) fn detach(&self, live: &Live, reason: &str) {
        if let Some(volume) = self.volume.upgrade() {
            volume.detach(live.peer, reason);
        }
        let mut state = self.lock();
        state.heard = state.last_heard();
        state.connection = None;
    }

    pub(super) fn set(&self, state: LinkState) {
        let mut guard = self.lock();
        if std::mem::discriminant(&guard.state) != std::mem::discriminant(&state) {
            guard.since = clock::wall();
        }
        guard.state = state;
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
