//! What the link to the parent and its tasks share.

use super::readmission::Readmission;
use super::status::LinkState;
use super::throughput::Samples;
use crate::clock;
use crate::nearby::Nearby;
use crate::servers::ServerInfo;
use crate::volume::Volume;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::Notify;
use wayfs_net::{Connection, Endpoint};
use wayfs_roam::Input;
use wayfs_types::{NodeId, Time, WallTime};

/// Settings of a [`ParentLink`](super::ParentLink).
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

#[derive(Debug, Clone, Default)]
pub(super) struct Measured {
    pub(super) rtt: Option<Duration>,
    pub(super) at: Option<WallTime>,
    pub(super) error: Option<String>,
    pub(super) up: Samples,
    pub(super) down: Samples,
}

/// What the user wants and the machine has not been told. Of two words on one matter the later counts.
#[derive(Debug, Default)]
pub(super) struct Wishes {
    pub(super) online: Option<bool>,
    pub(super) pinned: Option<Option<NodeId>>,
    pub(super) measure_now: bool,
    pub(super) look_again: bool,
}

impl Wishes {
    /// What there is to tell the machine.
    pub(super) fn take(&mut self) -> impl Iterator<Item = Input> + use<> {
        let Self { online, pinned, measure_now, look_again } = std::mem::take(self);
        let online = online.map(|online| if online { Input::GoOnline } else { Input::GoOffline });
        let measure_now = measure_now.then_some(Input::MeasureNow);
        let look_again = look_again.then_some(Input::LookAgain);
        [online, pinned.map(Input::Pinned), measure_now, look_again].into_iter().flatten()
    }
}

pub(super) struct State {
    pub(super) wishes: Wishes,
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
    pub(super) measure_at: Option<Time>,
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

impl Shared {
    /// Takes in what the user wants, for the machine.
    pub(super) fn wish(&self, note: impl FnOnce(&mut State)) {
        note(&mut self.lock());
        self.changed.notify_one();
    }

    pub(super) fn look_again(&self) {
        self.wish(|state| state.wishes.look_again = true);
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
