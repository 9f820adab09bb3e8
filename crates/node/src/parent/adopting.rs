//! Makes a greeted connection the session with the parent, and ends it.

use super::shared::Shared;
use super::status::LinkState;
use super::tasks::Greeted;
use crate::clock;
use crate::close_codes::CLOSE_LEFT;
use crate::servers::{ServerInfo, exchange};
use crate::volume::Volume;
use std::net::SocketAddr;
use std::sync::Arc;
use tracing::info;
use wayfs_net::{CloseCode, Connection};
use wayfs_proto::{Neighbour, PeerId, Role};
use wayfs_roam::{DialId, Leaving};

/// Why a session ends that another takes the place of.
const MOVED: &str = "moved to another server";
/// Why a session ends by the user's will.
const WENT_OFFLINE: &str = "went offline";
/// Why a session ends whose other end is a server of the volume no longer.
const REMOVED: &str = "the home removed this server from the volume";

/// The session with the parent.
pub(super) struct Live {
    pub(super) dial: DialId,
    pub(super) server: ServerInfo,
    pub(super) connection: Connection,
    pub(super) peer: PeerId,
}

/// A connection whose server took this machine.
pub(super) struct Welcome {
    pub(super) dial: DialId,
    pub(super) server: ServerInfo,
    pub(super) connection: Connection,
    pub(super) greeted: Greeted,
}

impl Shared {
    /// Makes a greeted connection the session, in place of an old one.
    pub(super) fn adopt(&self, volume: &Arc<Volume>, old: Option<&Live>, new: Welcome, why: String) -> Live {
        let Welcome { dial, server, connection, greeted: (frames, welcomed) } = new;
        self.readmission.forget();
        volume.take_news(welcomed.news);
        if volume.role() == Role::Station {
            self.note_own_place(volume, welcomed.seen_at);
            // Contents that a station sends ahead of need must not delay what it tells the home.
            connection.yield_in_background();
        }
        let replaced = old.map(|old| (old.peer, MOVED));
        let peer = volume.attach_in_place_of(replaced, &connection, frames, Neighbour::Parent);
        if let Some(old) = old {
            old.connection.close(CLOSE_LEFT, MOVED);
        }
        if let Some(session) = volume.session(peer) {
            session.note_has(&welcomed.have);
            let volume = Arc::clone(volume);
            tokio::spawn(async move { exchange::tell(&volume, &session).await });
        }
        self.note_attached(&server, &connection, why);
        Live { dial, server, connection, peer }
    }

    fn note_attached(&self, server: &ServerInfo, connection: &Connection, why: String) {
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
    }

    /// Tells others where the parent sees this machine.
    fn note_own_place(&self, volume: &Volume, seen_at: SocketAddr) {
        if self.settings.tell_seen {
            let ip = seen_at.ip().to_canonical();
            volume.directory().set_seen_at(Some(SocketAddr::new(ip, seen_at.port()).into()));
        }
    }

    /// Ends the session.
    pub(super) fn leave(&self, live: &Live, why: Leaving) {
        match why {
            Leaving::WentOffline => {
                self.detach(live, WENT_OFFLINE);
                live.connection.close(CLOSE_LEFT, WENT_OFFLINE);
            }
            Leaving::Removed => {
                self.detach(live, REMOVED);
                live.connection.close(CloseCode::NOT_ADMITTED, REMOVED);
                self.set(LinkState::Searching { last_error: REMOVED.to_owned() });
            }
        }
    }

    /// Takes note of a session that ended by itself.
    pub(super) fn note_lost(&self, live: &Live) {
        let ours = self.volume.upgrade().and_then(|volume| volume.lock().end_of(live.peer));
        let closed = || live.connection.close_reason().map_or_else(String::new, |closed| closed.to_string());
        let reason = ours.unwrap_or_else(closed);
        self.detach(live, &reason);
        self.set(LinkState::Searching { last_error: reason });
    }

    fn detach(&self, live: &Live, reason: &str) {
        if let Some(volume) = self.volume.upgrade() {
            volume.detach(live.peer, reason);
        }
        let mut state = self.lock();
        state.heard = state.last_heard();
        state.connection = None;
    }
}
