//! The connections of an endpoint, and what all that it ever had moved.

use crate::shared::Shared;
use crate::traffic::Traffic;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Sums the traffic of an endpoint's connections, gone and alive.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// Taken alone, never while another lock is held.
    state: Mutex<LedgerState>,
}

#[derive(Debug, Default)]
struct LedgerState {
    gone: Traffic,
    alive: BTreeMap<u64, Weak<Shared>>,
}

impl Ledger {
    pub(crate) fn enter(&self, connection: &Arc<Shared>) {
        self.lock().alive.insert(connection.number, Arc::downgrade(connection));
    }

    pub(crate) fn leave(&self, connection: &Shared) {
        let last = connection.stats().traffic;
        let mut state = self.lock();
        if state.alive.remove(&connection.number).is_some() {
            state.gone += last;
        }
    }

    /// All that somebody holds.
    pub(crate) fn connections(&self) -> Vec<Arc<Shared>> {
        self.lock().alive.values().filter_map(Weak::upgrade).collect()
    }

    /// Connections that somebody holds.
    pub(crate) fn alive(&self) -> usize {
        self.lock().alive.len()
    }

    pub(crate) fn total(&self) -> Traffic {
        let (mut total, alive) = {
            let state = self.lock();
            let alive: Vec<_> = state.alive.values().filter_map(Weak::upgrade).collect();
            (state.gone, alive)
        };
        for connection in alive {
            total += connection.stats().traffic;
        }
        total
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, LedgerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
