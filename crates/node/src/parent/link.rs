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

use super::choice::{Draw, JOIN_PAUSE, PAUSE_MIN, has_decayed, in_order_of_choice, next_pause};
use super::measuring::Dialled;
use super::readmission::Readmission;
use super::search_error::SearchError;
use super::status::{CandidateStatus, LinkState, LinkStatus};
use super::throughput::{BUSY_LEN, Samples};
use crate::clock;
use crate::contents::message::{Ask, Reply};
use crate::contents::push::ask;
use crate::core::CLOSE_LEFT;
use crate::greet::{self, Attach, GreetError, Welcomed};
use crate::handshake::{ChildRole, Refusal};
use crate::nearby::Nearby;
use crate::servers::{ServerInfo, ServerKind, exchange, reach};
use crate::volume::Volume;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, timeout};
use tracing::{debug, info};
use wayfs_net::{Address, CloseCode, Connection, Endpoint, Ticket};
use wayfs_proto::{PeerId, Role};
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

/// Why a session ends that another takes the place of.
const MOVED: &str = "moved to another server";
/// Why a session ends whose other end is a server of the volume no longer.
const REMOVED: &str = "the home removed this server from the volume";
/// How often a decayed path or a lost session is looked for.
const LOOK_PERIOD: Duration = Duration::from_secs(5);
/// Pause between two looks at the counters of the connection.
const CALM_PERIOD: Duration = Duration::from_millis(500);
/// The same while much goes over it.
const BUSY_PERIOD: Duration = Duration::from_millis(100);
/// A refused machine tries again so often: it may be admitted again.
const REFUSED_PAUSE: Duration = Duration::from_secs(15);
/// Addresses heard on the local network that go before the others.
const NEARBY_MAX: usize = 4;
/// How often a dial is begun anew because addresses changed meanwhile.
const REDIALS_MAX: u32 = 8;
/// First pause between two looks at servers that are no parent for us, while none that is one can be reached.
const AROUND_MIN: Duration = Duration::from_secs(1);
/// Longest such pause.
const AROUND_MAX: Duration = Duration::from_secs(30);
/// Longest such look.
const AROUND_PATIENCE: Duration = Duration::from_secs(5);
/// A session that ended sooner than that did not do well: the next is begun after a pause, and each time a longer one.
const DIED_YOUNG: Duration = Duration::from_secs(5);
/// Others get this long after the first answered, or twice its round trip.
const GRACE_MIN: Duration = Duration::from_millis(30);

#[derive(Debug, Clone, Default)]
struct Measured {
    rtt: Option<Duration>,
    at: Option<WallTime>,
    error: Option<String>,
    up: Samples,
    down: Samples,
}

struct State {
    online: bool,
    pinned: Option<NodeId>,
    state: LinkState,
    since: WallTime,
    why: String,
    parent: Option<ServerInfo>,
    connection: Option<Connection>,
    measured: BTreeMap<NodeId, Measured>,
    /// Someone said that the volume is no more.
    deleted: bool,
    heard: Option<WallTime>,
    /// When the other servers are measured again.
    measure_at: Option<Instant>,
    /// The user wants them measured now.
    measure_now: bool,
    /// When a server was left because another is nearer.
    left: BTreeMap<NodeId, Instant>,
}

pub(super) struct Shared {
    volume: Weak<Volume>,
    endpoint: Endpoint,
    settings: LinkSettings,
    state: Mutex<State>,
    changed: Notify,
    /// Whoever announces itself on the local network, if we look.
    nearby: OnceLock<Nearby>,
    readmission: Readmission,
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
            heard: state.heard,
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

/// Reads the counters of the present connection: seldom, and often while much goes over it.
async fn sample(link: Weak<Shared>) {
    let mut last: Option<(u64, Instant, wayfs_net::Traffic)> = None;
    let mut pause = CALM_PERIOD;
    loop {
        tokio::time::sleep(pause).await;
        let Some(link) = link.upgrade() else { return };
        let mut state = link.lock();
        let Some((connection, node)) = state.connection.clone().zip(state.parent.as_ref().map(|parent| parent.node))
        else {
            last = None;
            continue;
        };
        let (now, traffic) = (Instant::now(), connection.stats().traffic);
        let known =
            last.replace((connection.number(), now, traffic)).filter(|(number, ..)| *number == connection.number());
        let Some((_, at, before)) = known else { continue };
        if traffic.wire_bytes_received > before.wire_bytes_received {
            state.heard = Some(clock::wall());
        }
        let took = now - at;
        let measured = state.measured.entry(node).or_default();
        let sent = payload_sent(&traffic) - payload_sent(&before);
        let received = payload_received(&traffic) - payload_received(&before);
        // What is handed to the transport leaves later, so the wire says how fast it went; without contents under way
        // there are acknowledgements on it only.
        let on_wire = traffic.wire_bytes_sent - before.wire_bytes_sent;
        let up = measured.up.observe(clock::now(), if sent >= BUSY_LEN { on_wire } else { 0 }, took);
        let down = measured.down.observe(clock::now(), received, took);
        pause = if up || down { BUSY_PERIOD } else { CALM_PERIOD };
    }
}

fn payload_sent(traffic: &wayfs_net::Traffic) -> u64 {
    traffic.body_bytes_sent + traffic.frame_bytes_sent
}

fn payload_received(traffic: &wayfs_net::Traffic) -> u64 {
    traffic.body_bytes_received + traffic.frame_bytes_received
}

/// What came of a handshake.
type Greeted = (greet::Frames, Welcomed);

/// A live session, as the link's task sees it.
pub(super) struct Live {
    pub(super) server: ServerInfo,
    pub(super) connection: Connection,
    peer: PeerId,
    rtt_when_chosen: Duration,
}

/// What ended a session's watch.
enum Ended {
    Lost,
    Unwanted,
    VolumeGone,
}

impl Shared {
    async fn run(self: Arc<Self>) {
        let mut pause = PAUSE_MIN;
        let (mut around_at, mut around_pause) = (Instant::now(), AROUND_MIN);
        loop {
            let Some(volume) = self.volume.upgrade().filter(|volume| !volume.is_stopped()) else { return };
            if !self.lock().online {
                self.set(LinkState::Offline);
                drop(volume);
                self.changed.notified().await;
                continue;
            }
            match self.connect(&volume).await {
                Ok(live) => {
                    drop(volume);
                    around_pause = AROUND_MIN;
                    let began = Instant::now();
                    match self.watch(live).await {
                        Ended::VolumeGone => return,
                        Ended::Lost if began.elapsed() < DIED_YOUNG => {
                            // Whatever ended it will end the next one as well, and many can make many of them.
                            let _ = timeout(pause, self.changed.notified()).await;
                            pause = next_pause(pause);
                        }
                        Ended::Lost | Ended::Unwanted => pause = PAUSE_MIN,
                    }
                }
                Err(error) => {
                    if !matches!(error, SearchError::Greet(..)) && Instant::now() >= around_at {
                        self.look_around(&volume).await;
                        around_at = Instant::now() + around_pause;
                        around_pause = (around_pause * 2).min(AROUND_MAX);
                    }
                    let mut servers = volume.directory().subscribe();
                    drop(volume);
                    let wait = if error.is_final() { REFUSED_PAUSE } else { pause };
                    self.set(error.into_state());
                    // Whoever asks for something else does not wait, nor does news of an address.
                    tokio::select! {
                        () = tokio::time::sleep(wait) => {}
                        () = self.changed.notified() => {}
                        _ = servers.changed() => {}
                    }
                    pause = next_pause(pause);
                }
            }
        }
    }

    /// Dials all until the first has answered, and begins anew when it hears of another address meanwhile.
    async fn dial_first(&self, volume: &Volume, mut wanted: Vec<ServerInfo>) -> Vec<Dialled> {
        let mut servers = volume.directory().subscribe();
        for _ in 0..REDIALS_MAX {
            tokio::select! {
                dialled = self.dial_all(wanted.clone(), Grace::AfterFirst) => return dialled,
                _ = servers.changed() => {}
            }
            let now = self.wanted();
            if now != wanted {
                debug!("the servers have changed: dialled anew");
                wanted = now;
            }
        }
        self.dial_all(wanted, Grace::AfterFirst).await
    }

    /// Asks servers that are no parent for us whether they know where our parent is now.
    async fn look_around(&self, volume: &Arc<Volume>) {
        if volume.role() == Role::Station || self.lock().pinned.is_some() {
            reach::look_around_within(volume, &self.endpoint, AROUND_PATIENCE).await;
        }
    }

    /// Tells others where the parent sees this machine.
    fn note_own_place(&self, volume: &Volume, seen_at: SocketAddr) {
        if self.settings.tell_seen {
            let ip = seen_at.ip().to_canonical();
            volume.directory().set_seen_at(Some(SocketAddr::new(ip, seen_at.port()).into()));
        }
    }

    /// Dials all, takes the best that welcomes us.
    async fn connect(&self, volume: &Arc<Volume>) -> Result<Live, SearchError> {
        if matches!(self.lock().state, LinkState::Offline) {
            self.set(LinkState::Searching { last_error: String::new() });
        }
        let wanted = self.wanted();
        if wanted.is_empty() {
            return Err(SearchError::NoServers);
        }
        let mut dialled = self.dial_first(volume, wanted).await;
        if dialled.is_empty() {
            return Err(SearchError::Unreachable(self.last_errors()));
        }
        self.measure_again(&mut dialled).await;
        let dialled = in_order_of_choice(dialled, Dialled::rtt, Dialled::rank);
        let count = dialled.len();
        let (mut last, mut is_stranger) = (SearchError::NoServers, false);
        let mut queue = dialled.into_iter();
        while let Some(Dialled { server, connection, .. }) = queue.next() {
            match self.greet(volume, &server, &connection).await {
                Ok(greeted) => {
                    for other in queue {
                        other.connection.close(CloseCode::GOODBYE, "");
                    }
                    let why = self.reason(&server, connection.rtt(), count);
                    return Ok(self.adopt(volume, None, (server, connection, greeted), why));
                }
                Err(error) => {
                    debug!(node = %server.node.short(), %error, "server does not take us");
                    connection.close(CloseCode::GOODBYE, "");
                    is_stranger |= may_not_know_us(&error);
                    last = SearchError::Greet(server.label.clone(), error);
                }
            }
        }
        let asked = if is_stranger { self.ask_in_again(volume).await } else { None };
        Err(asked.unwrap_or(last))
    }

    /// Presents the ticket that the user gave, if there is one. The session is made by the next attempt.
    async fn ask_in_again(&self, volume: &Arc<Volume>) -> Option<SearchError> {
        match self.readmission.ask(volume, &self.endpoint).await? {
            Ok(news) => {
                volume.take_news(news);
                self.changed.notify_one();
                Some(SearchError::TakenIn)
            }
            Err(error) => Some(SearchError::Ticket(error)),
        }
    }

    async fn greet(
        &self,
        volume: &Arc<Volume>,
        server: &ServerInfo,
        connection: &Connection,
    ) -> Result<Greeted, GreetError> {
        let replica = &volume.settings().replica;
        let role = match replica.role {
            Role::Client => ChildRole::Client,
            Role::Home | Role::Station => ChildRole::Station,
        };
        let have = volume.directory().have();
        // Only a home that was put back asks for it.
        let admission = volume.admission().filter(|_| server.kind == ServerKind::Home);
        let attach = Attach { volume: replica.volume, origin: volume.origin(), role, have, admission };
        let result = greet::attach(connection, attach).await;
        if let Err(error) = &result {
            let deleted = matches!(error, GreetError::Refused(Refusal::Deleted));
            let mut state = self.lock();
            state.measured.entry(server.node).or_default().error = Some(error.to_string());
            state.deleted |= deleted;
            drop(state);
            // Of a station it is hearsay.
            if deleted && server.kind == ServerKind::Home {
                volume.hooks.deleted();
            }
        }
        result
    }

    /// Makes a greeted connection the session, in place of an old one.
    fn adopt(
        &self,
        volume: &Arc<Volume>,
        old: Option<&Live>,
        (server, connection, (frames, welcomed)): (ServerInfo, Connection, Greeted),
        why: String,
    ) -> Live {
        self.readmission.forget();
        volume.take_news(welcomed.news);
        if volume.role() == wayfs_proto::Role::Station {
            self.note_own_place(volume, welcomed.seen_at);
            // Contents that a station sends ahead of need must not delay what it tells the home.
            connection.yield_in_background();
        }
        let replaced = old.map(|old| (old.peer, MOVED));
        let peer = volume.attach_in_place_of(replaced, &connection, frames, wayfs_proto::Neighbour::Parent);
        if let Some(old) = old {
            old.connection.close(CLOSE_LEFT, MOVED);
        }
        if let Some(session) = volume.session(peer) {
            session.note_has(&welcomed.have);
            let volume = Arc::clone(volume);
            tokio::spawn(async move { exchange::tell(&volume, &session).await });
        }
        let rtt = connection.rtt();
        info!(node = %server.node.short(), rtt_ms = rtt.as_secs_f64() * 1e3, "attached to parent");
        let mut state = self.lock();
        state.parent = Some(server.clone());
        state.connection = Some(connection.clone());
        state.why = why;
        state.state = LinkState::Connected;
        state.since = clock::wall();
        state.heard = Some(clock::wall());
        let measured = state.measured.entry(server.node).or_default();
        (measured.rtt, measured.at, measured.error) = (Some(rtt), Some(clock::wall()), None);
        drop(state);
        Live { server, connection, peer, rtt_when_chosen: rtt }
    }

    /// Stays with a session until it ends; moves it when another server is much nearer.
    async fn watch(&self, mut live: Live) -> Ended {
        let mut measure_at = Instant::now() + self.settings.measure_period.min(LOOK_PERIOD);
        let Some(mut servers) = self.volume.upgrade().map(|volume| volume.directory().subscribe()) else {
            return Ended::VolumeGone;
        };
        loop {
            self.lock().measure_at = Some(measure_at);
            tokio::select! {
                closed = live.connection.closed() => {
                    let ours = self.volume.upgrade().and_then(|volume| volume.lock().end_of(live.peer));
                    let reason = ours.unwrap_or_else(|| closed.to_string());
                    self.detach(&live, &reason);
                    self.set(LinkState::Searching { last_error: reason });
                    return Ended::Lost;
                }
                () = self.changed.notified() => {}
                _ = servers.changed() => {}
                () = tokio::time::sleep_until(measure_at.min(Instant::now() + LOOK_PERIOD)) => {}
            }
            let Some(volume) = self.volume.upgrade().filter(|volume| !volume.is_stopped()) else {
                live.connection.close(CloseCode::GOODBYE, "");
                return Ended::VolumeGone;
            };
            let (online, pinned, wanted_now) = {
                let mut state = self.lock();
                (state.online, state.pinned, std::mem::take(&mut state.measure_now))
            };
            if !online {
                self.detach(&live, "went offline");
                live.connection.close(CLOSE_LEFT, "went offline");
                return Ended::Unwanted;
            }
            if volume.directory().find(live.server.node).is_none() {
                self.detach(&live, REMOVED);
                live.connection.close(CloseCode::NOT_ADMITTED, REMOVED);
                self.set(LinkState::Searching { last_error: REMOVED.to_owned() });
                return Ended::Unwanted;
            }
            let rtt = live.connection.rtt();
            let moved_by_user = pinned.is_some_and(|pinned| self.now(pinned) != live.server.node);
            let due = wanted_now || Instant::now() >= measure_at || has_decayed(live.rtt_when_chosen, rtt);
            if !moved_by_user && !due {
                continue;
            }
            let measuring = async {
                self.learn_from(&volume, &live).await;
                self.find_better(&volume, &live, moved_by_user).await
            };
            let better = tokio::select! {
                better = measuring => {
                    measure_at = Instant::now() + self.settings.measure_period;
                    better
                }
                _ = live.connection.closed() => continue,
                () = self.changed.notified() => {
                    // The user wants something else: look at that first, then measure again.
                    self.lock().measure_now |= wanted_now;
                    self.changed.notify_one();
                    continue;
                }
            };
            if let Some((better, why)) = better
                && let Some(moved) = self.move_to(&volume, &live, better, why).await
            {
                live = moved;
            }
        }
    }

    /// Swaps news of the servers with the parent.
    async fn learn_from(&self, volume: &Arc<Volume>, live: &Live) {
        if let Some(session) = volume.session(live.peer) {
            exchange::swap(volume, &session).await;
        }
    }

    /// Whether a server was left lately because another is nearer.
    pub(super) fn has_left(&self, server: NodeId) -> bool {
        self.lock().left.get(&server).is_some_and(|at| at.elapsed() < JOIN_PAUSE)
    }

    async fn move_to(&self, volume: &Arc<Volume>, live: &Live, to: Dialled, draw: Draw) -> Option<Live> {
        let Dialled { server, connection, .. } = to;
        match self.greet(volume, &server, &connection).await {
            Ok(greeted) => {
                let why = match draw {
                    Draw::ByHand | Draw::Nearer => self.reason(&server, connection.rtt(), 1),
                    Draw::Shared => {
                        let ms = connection.rtt().as_secs_f64() * 1e3;
                        format!("the one of those as near as the nearest that all take ({ms:.1} ms away)")
                    }
                };
                let why = format!("{why} instead of {}", live.server.label);
                if draw == Draw::Nearer {
                    self.lock().left.insert(live.server.node, Instant::now());
                }
                Some(self.adopt(volume, Some(live), (server, connection, greeted), why))
            }
            Err(error) => {
                debug!(node = %server.node.short(), %error, "move refused");
                connection.close(CloseCode::GOODBYE, "");
                None
            }
        }
    }

    /// Dials servers at the same time.
    pub(super) async fn dial_all(&self, servers: Vec<ServerInfo>, grace: Grace) -> Vec<Dialled> {
        let mut dials = JoinSet::new();
        for server in servers {
            let endpoint = self.endpoint.clone();
            dials.spawn(async move {
                let result = endpoint.connect(&server.addresses, server.node).await;
                (server, result)
            });
        }
        let mut dialled = Vec::new();
        let mut end: Option<Instant> = None;
        loop {
            let next = match end {
                Some(end) => match tokio::time::timeout_at(end, dials.join_next()).await {
                    Ok(next) => next,
                    Err(_) => break,
                },
                None => dials.join_next().await,
            };
            let Some(next) = next else { break };
            let Ok((mut server, result)) = next else { continue };
            if let Ok(connection) = &result {
                // The home may answer with a new key, which follows the one that is known.
                server.node = connection.peer();
            }
            let mut state = self.lock();
            let measured = state.measured.entry(server.node).or_default();
            measured.at = Some(clock::wall());
            match result {
                Ok(connection) => {
                    let rtt = connection.rtt();
                    (measured.rtt, measured.error) = (Some(rtt), None);
                    if grace == Grace::AfterFirst && end.is_none() {
                        end = Some(Instant::now() + (rtt * 2).max(GRACE_MIN));
                    }
                    dialled.push(Dialled { server, connection, rtt });
                }
                Err(error) => measured.error = Some(error.to_string()),
            }
        }
        dialled
    }

    /// The servers that may be the parent now.
    pub(super) fn wanted(&self) -> Vec<ServerInfo> {
        let pinned = self.lock().pinned;
        let all = self.candidates();
        // The one that the user chose may have changed its key.
        match pinned.map(|pinned| self.now(pinned)) {
            Some(pinned) => all.into_iter().filter(|server| server.node == pinned).collect(),
            None => all,
        }
    }

    /// The key that a server has now which had this one.
    fn now(&self, node: NodeId) -> NodeId {
        self.volume.upgrade().map_or(node, |volume| volume.directory().follow(node))
    }

    pub(super) fn candidates(&self) -> Vec<ServerInfo> {
        let Some(volume) = self.volume.upgrade() else { return Vec::new() };
        let own = self.endpoint.id();
        let homes_only = volume.role() != Role::Client;
        let mut list = volume.directory().list();
        if let Some(nearby) = self.nearby.get() {
            list.iter_mut().for_each(|server| add_nearby(server, nearby));
        }
        list.retain(|server| {
            server.node != own && !server.addresses.is_empty() && (!homes_only || server.kind == ServerKind::Home)
        });
        list
    }

    fn reason(&self, server: &ServerInfo, rtt: Duration, reachable: usize) -> String {
        let ms = rtt.as_secs_f64() * 1e3;
        let pinned = self.lock().pinned;
        if pinned.is_some_and(|pinned| self.now(pinned) == server.node) {
            return format!("chosen by you ({ms:.1} ms away)");
        }
        match reachable {
            1 => format!("the nearest that answered ({ms:.1} ms away)"),
            count => format!("as near as the nearest of {count} that answered, or nearly ({ms:.1} ms away)"),
        }
    }

    fn last_errors(&self) -> String {
        let state = self.lock();
        let errors: Vec<String> = state.measured.values().filter_map(|measured| measured.error.clone()).collect();
        errors.join("; ")
    }

    fn detach(&self, live: &Live, reason: &str) {
        if let Some(volume) = self.volume.upgrade() {
            volume.detach(live.peer, reason);
        }
        self.lock().connection = None;
    }

    fn set(&self, state: LinkState) {
        let mut guard = self.lock();
        if std::mem::discriminant(&guard.state) != std::mem::discriminant(&state) {
            guard.since = clock::wall();
        }
        guard.state = state;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a server that refuses us may do so because it does not know us. A station that has not heard of a member says that it
/// is not ready: the home may not know it either.
fn may_not_know_us(error: &GreetError) -> bool {
    matches!(error, GreetError::Refused(Refusal::Revoked | Refusal::NotAdmitted | Refusal::NotReady(_)))
}

/// Puts where a server was heard on the local network before where it is known to be.
fn add_nearby(server: &mut ServerInfo, nearby: &Nearby) {
    let mut addresses: Vec<Address> = nearby.addresses(server.node).into_iter().map(Address::from).collect();
    addresses.truncate(NEARBY_MAX);
    for known in std::mem::take(&mut server.addresses) {
        if !addresses.contains(&known) {
            addresses.push(known);
        }
    }
    server.addresses = addresses;
}

/// How long to wait for all of several dials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Grace {
    /// A little longer than the first took.
    AfterFirst,
    /// Until each has answered or failed.
    All,
}
