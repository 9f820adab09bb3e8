//! What other members are called.
//!
//! A client has the images of what it looks at, not the list of members: reports of conflicts name writers by number
//! only. So the parent is asked, once for each writer, and the answer is kept for times without a network.

use crate::saved::write_durably;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use wayfs_node::{LinkState, ParentLink};
use wayfs_types::OriginId;

/// Most labels kept; past it, who comes new goes by a number.
const KNOWN_MAX: usize = 65_536;
/// Most asked for at once.
const ASKED_MAX: usize = 1024;
/// Whom the parent did not know is asked for again after so long.
const AGAIN_AFTER: Duration = Duration::from_secs(30);

/// Labels of members, `USER@HOST`.
#[derive(Debug)]
pub struct Labels {
    path: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    known: BTreeMap<OriginId, String>,
    asked: BTreeMap<OriginId, Instant>,
}

impl Labels {
    /// What was learnt before, and what this machine itself is called. A list that cannot be read is learnt again.
    pub fn load(path: &Path, own: (OriginId, String)) -> Self {
        let mut known: BTreeMap<OriginId, String> = match std::fs::read(path) {
            Ok(bytes) => serde_json::from_slice(&bytes).unwrap_or_else(|error| {
                tracing::warn!(%error, "the list of labels is damaged and is learnt again");
                BTreeMap::new()
            }),
            Err(_) => BTreeMap::new(),
        };
        known.insert(own.0, own.1);
        Self { path: path.to_owned(), state: Mutex::new(State { known, asked: BTreeMap::new() }) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a member is called, if that is known here.
    pub fn label(&self, origin: OriginId) -> Option<String> {
        self.state().known.get(&origin).cloned()
    }

    /// Asks the parent for those that are not known, if one is connected; waits some seconds at most.
    pub fn learn(
        &self,
        link: &ParentLink,
        runtime: &tokio::runtime::Handle,
        origins: impl IntoIterator<Item = OriginId>,
    ) {
        let unknown = self.unknown(origins);
        if unknown.is_empty() || link.status().state != LinkState::Connected {
            return;
        }
        let now = Instant::now();
        self.state().asked.extend(unknown.iter().map(|origin| (*origin, now)));
        self.note(runtime.block_on(link.labels(unknown.into_iter().collect())));
    }

    fn unknown(&self, origins: impl IntoIterator<Item = OriginId>) -> BTreeSet<OriginId> {
        let mut state = self.state();
        state.asked.retain(|_, at| at.elapsed() < AGAIN_AFTER);
        let is_unknown = |origin: &OriginId| !state.known.contains_key(origin) && !state.asked.contains_key(origin);
        origins.into_iter().filter(is_unknown).take(ASKED_MAX).collect()
    }

    fn note(&self, labels: Vec<(OriginId, String)>) {
        if labels.is_empty() {
            return;
        }
        let mut state = self.state();
        for (origin, label) in labels {
            if state.known.len() < KNOWN_MAX {
                state.known.insert(origin, label);
            }
        }
        let bytes = serde_json::to_vec(&state.known).expect("numbers and texts");
        drop(state);
        // Only a convenience is lost: they are asked for again.
        if let Err(error) = write_durably(&self.path, &bytes) {
            tracing::warn!(%error, "keep the labels of members");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_survive_and_a_damaged_list_is_forgotten() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("labels.json");
        let (own, other) = (OriginId::new(3).unwrap(), OriginId::new(4).unwrap());
        let labels = Labels::load(&path, (own, "ann@lap".into()));
        assert_eq!(labels.unknown([own, other]), BTreeSet::from([other]));
        labels.note(vec![(other, "bob@reed".into())]);
        let again = Labels::load(&path, (own, "ann@lap".into()));
        assert_eq!(again.label(other).as_deref(), Some("bob@reed"));
        std::fs::write(&path, "nonsense").unwrap();
        let fresh = Labels::load(&path, (own, "ann@lap".into()));
        assert_eq!((fresh.label(other), fresh.label(own).as_deref()), (None, Some("ann@lap")));
    }
}
