//! Searches for a parent until one is found, and again whenever it is lost.

use super::choice::{PAUSE_MIN, in_order_of_choice, next_pause};
use super::dialling::Grace;
use super::link::Shared;
use super::measuring::Dialled;
use super::search_error::SearchError;
use super::status::LinkState;
use super::watching::{Ended, Live};
use crate::clock;
use crate::core::CLOSE_LEFT;
use crate::greet::{self, Attach, GreetError, Welcomed};
use crate::handshake::{ChildRole, Refusal};
use crate::servers::{ServerInfo, ServerKind, exchange, reach};
use crate::volume::Volume;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout};
use tracing::{debug, info};
use wayfs_net::{CloseCode, Connection};
use wayfs_proto::Role;

/// Why a session ends that another takes the place of.
const MOVED: &str = "moved to another server";
/// A refused machine tries again so often: it may be admitted again.
const REFUSED_PAUSE: Duration = Duration::from_secs(15);
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

/// What came of a handshake.
type Greeted = (greet::Frames, Welcomed);

impl Shared {
    pub(super) async fn run(self: Arc<Self>) {
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
    pub(super) async fn connect(&self, volume: &Arc<Volume>) -> Result<Live, SearchError> {
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

    pub(super) async fn greet(
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
    pub(super) fn adopt(
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
        self.attached.notify_one();
        Live { server, connection, peer, rtt_when_chosen: rtt }
    }
}

/// Whether a server that refuses us may do so because it does not know us. A station that has not heard of a member says that it
/// is not ready: the home may not know it either.
fn may_not_know_us(error: &GreetError) -> bool {
    matches!(error, GreetError::Refused(Refusal::Revoked | Refusal::NotAdmitted | Refusal::NotReady(_)))
}
