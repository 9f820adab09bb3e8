//! Measures the other servers beside the parent, and says which is worth a move.

use super::choice::{Draw, LOOKS_MAX, ROUND_PAUSE, ROUNDS, Seen, draw, in_order_of_choice, is_contested};
use super::dialling::Grace;
use super::link::Shared;
use super::watching::Live;
use crate::core::LiveReplica;
use crate::servers::{ServerInfo, ServerKind, exchange};
use crate::volume::Volume;
use std::sync::Arc;
use std::time::Duration;
use wayfs_net::{CloseCode, Connection};
use wayfs_types::NodeId;

/// A dialled server.
pub(super) struct Dialled {
    pub(super) server: ServerInfo,
    pub(super) connection: Connection,
    /// The shortest round trip that was seen.
    pub(super) rtt: Duration,
}

impl Dialled {
    pub(super) fn rtt(&self) -> Duration {
        self.rtt
    }

    /// Which of those that are about as near all choose: a station, which is there for its site, before a home; then by key.
    pub(super) fn rank(&self) -> Rank {
        rank(&self.server)
    }

    fn seen(&self) -> Seen<Rank> {
        Seen { rtt: self.rtt, rank: self.rank() }
    }
}

/// Where a server stands in the order of all clients.
type Rank = (bool, NodeId);

fn rank(server: &ServerInfo) -> Rank {
    (server.kind == ServerKind::Home, server.node)
}

impl Shared {
    /// Dials servers that answered again, as long as noise may be why one of them looks farther than it is.
    pub(super) async fn measure_again(&self, dialled: &mut [Dialled]) {
        for _ in 1..LOOKS_MAX {
            if !is_contested(dialled.iter().map(|one| (one.rtt, one.rank()))) {
                return;
            }
            let servers = dialled.iter().map(|one| one.server.clone()).collect();
            keep_least(dialled, self.dial_all(servers, Grace::AfterFirst).await);
        }
    }

    /// Measures the others; the best, if it is worth a move, and why. The rest are asked what they know of the servers: a parent
    /// that was removed would not tell.
    pub(super) async fn find_better(
        &self,
        volume: &Arc<Volume>,
        live: &Live,
        moved_by_user: bool,
    ) -> Option<(Dialled, Draw)> {
        let wanted = self.wanted();
        if wanted.iter().all(|server| server.node == live.server.node) {
            // The user chose it. Only the others would tell that the home removed it.
            let others = self.candidates().into_iter().filter(|server| server.node != live.server.node).collect();
            for other in self.dial_all(others, Grace::All).await {
                exchange::look(volume, &other.connection).await;
            }
            return None;
        }
        let (parent, others) = self.measure(wanted, live).await;
        let nearest = others.iter().map(Dialled::rtt).min().unwrap_or(parent.rtt);
        let mut best = None;
        for candidate in in_order_of_choice(others, Dialled::rtt, Dialled::rank) {
            let why =
                if moved_by_user { Some(Draw::ByHand) } else { self.drawn_to(volume, &parent, &candidate, nearest) };
            match why.filter(|_| best.is_none()) {
                Some(why) => best = Some((candidate, why)),
                None => exchange::look(volume, &candidate.connection).await,
            }
        }
        let best = match best {
            Some((best, why)) if why != Draw::ByHand => (self.still_better(volume, best, why, live).await?, why),
            other => other?,
        };
        // What was heard may be that the best is a server no longer.
        volume.directory().find(best.0.server.node).map(|_| best)
    }

    /// Why to leave the parent for another. Locks may be lost on the way, which only a nearer server is worth.
    fn drawn_to(&self, volume: &Volume, parent: &Seen<Rank>, other: &Dialled, nearest: Duration) -> Option<Draw> {
        let why = draw(parent, &other.seen(), nearest)?;
        let holds_locks = || volume.lock().replica.as_ref().is_some_and(LiveReplica::holds_locks);
        let may_join = || !holds_locks() && !self.has_left(other.server.node);
        (why != Draw::Shared || may_join()).then_some(why)
    }

    /// Measures the best and the parent again, and again, until it was worth a move as often as it must be.
    async fn still_better(&self, volume: &Volume, mut best: Dialled, why: Draw, live: &Live) -> Option<Dialled> {
        for _ in 1..ROUNDS {
            tokio::time::sleep(ROUND_PAUSE).await;
            let (parent, mut again) = self.measure_often(vec![live.server.clone(), best.server.clone()], live).await;
            let again = again.pop().filter(|again| self.drawn_to(volume, &parent, again, again.rtt) == Some(why));
            best.connection.close(CloseCode::GOODBYE, "");
            best = again?;
        }
        Some(best)
    }

    /// As [`Shared::measure`], with the least of some round trips of each: a machine or a line that is busy adds to most of them.
    async fn measure_often(&self, servers: Vec<ServerInfo>, live: &Live) -> (Seen<Rank>, Vec<Dialled>) {
        let (mut parent, mut others) = self.measure(servers.clone(), live).await;
        for _ in 1..LOOKS_MAX {
            let (again, dialled) = self.measure(servers.clone(), live).await;
            parent.rtt = parent.rtt.min(again.rtt);
            keep_least(&mut others, dialled);
        }
        (parent, others)
    }

    /// Dials servers and the parent: its round trip as a new connection sees it, as it sees those of the others, and these.
    /// That of the session is an average, which remembers for long how busy this machine was.
    async fn measure(&self, servers: Vec<ServerInfo>, live: &Live) -> (Seen<Rank>, Vec<Dialled>) {
        let (parent, others): (Vec<_>, Vec<_>) =
            self.dial_all(servers, Grace::All).await.into_iter().partition(|one| one.server.node == live.server.node);
        let rtt = parent.iter().map(Dialled::rtt).min();
        for one in parent {
            one.connection.close(CloseCode::GOODBYE, "");
        }
        (Seen { rtt: rtt.unwrap_or_else(|| live.connection.rtt()), rank: rank(&live.server) }, others)
    }
}

/// Of what was measured before and again the least counts.
fn keep_least(dialled: &mut [Dialled], again: Vec<Dialled>) {
    for again in again {
        if let Some(first) = dialled.iter_mut().find(|one| one.server.node == again.server.node) {
            first.rtt = first.rtt.min(again.rtt);
        }
        again.connection.close(CloseCode::GOODBYE, "");
    }
}
