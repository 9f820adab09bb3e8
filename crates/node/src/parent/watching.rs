//! Stays with a session as long as it is the best, and moves it.

use super::choice::{Draw, JOIN_PAUSE, has_decayed};
use super::link::{LOOK_PERIOD, Shared};
use super::measuring::Dialled;
use super::status::LinkState;
use crate::core::CLOSE_LEFT;
use crate::servers::{ServerInfo, exchange};
use crate::volume::Volume;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tracing::debug;
use wayfs_net::{CloseCode, Connection};
use wayfs_proto::PeerId;
use wayfs_types::NodeId;

/// Why a session ends whose other end is a server of the volume no longer.
const REMOVED: &str = "the home removed this server from the volume";

/// A live session, as the link's task sees it.
pub(super) struct Live {
    pub(super) server: ServerInfo,
    pub(super) connection: Connection,
    pub(super) peer: PeerId,
    pub(super) rtt_when_chosen: Duration,
}

/// What ended a session's watch.
pub(super) enum Ended {
    Lost,
    Unwanted,
    VolumeGone,
}

impl Shared {
    /// Stays with a session until it ends; moves it when another server is much nearer.
    pub(super) async fn watch(&self, mut live: Live) -> Ended {
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
    pub(super) async fn learn_from(&self, volume: &Arc<Volume>, live: &Live) {
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
}
