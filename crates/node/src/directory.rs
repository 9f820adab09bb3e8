//! The servers of a volume, as this machine knows them; kept in `servers.json`.

use crate::server_info::{ADDRESSES_MAX, ServerInfo, merge};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tracing::warn;
use wayfs_types::NodeId;

/// Who serves a volume. A leaf in the order of locks.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    list: Mutex<Vec<ServerInfo>>,
}

impl Directory {
    /// What was saved. A list that cannot be read is empty: it is learnt again from the next server.
    pub(crate) fn load(path: &Path) -> Self {
        let list = match std::fs::read(path) {
            Ok(bytes) => serde_json::from_slice(&bytes).unwrap_or_else(|error| {
                warn!(%error, "the list of servers is damaged and is learnt again");
                Vec::new()
            }),
            Err(_) => Vec::new(),
        };
        Self { path: path.to_path_buf(), list: Mutex::new(list) }
    }

    /// All servers known.
    pub fn list(&self) -> Vec<ServerInfo> {
        self.lock().clone()
    }

    /// One of them.
    pub fn find(&self, node: NodeId) -> Option<ServerInfo> {
        self.lock().iter().find(|server| server.node == node).cloned()
    }

    /// Takes in what someone said; answers whether something changed.
    pub fn learn(&self, servers: impl IntoIterator<Item = ServerInfo>) -> bool {
        let mut list = self.lock();
        let mut changed = false;
        for mut server in servers {
            server.addresses.truncate(ADDRESSES_MAX);
            changed |= merge(&mut list, server);
        }
        if changed {
            self.save(&list);
        }
        changed
    }

    /// Forgets a server that was removed from the volume.
    pub fn forget(&self, node: NodeId) {
        let mut list = self.lock();
        let before = list.len();
        list.retain(|server| server.node != node);
        if list.len() != before {
            self.save(&list);
        }
    }

    fn save(&self, list: &[ServerInfo]) {
        let fresh = self.path.with_extension("new");
        let bytes = serde_json::to_vec_pretty(list).expect("a list of servers holds nothing that JSON cannot say");
        // Only a convenience is lost if this fails: the list is learnt again at the next session.
        if let Err(error) = std::fs::write(&fresh, bytes).and_then(|()| std::fs::rename(&fresh, &self.path)) {
            warn!(%error, "save list of servers");
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<ServerInfo>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
