//! The home's word on who serves a volume.

use super::info::{ADDRESSES_MAX, SERVERS_MAX, ServerKind};
use super::signed::Statement;
use crate::label::is_label;
use serde::{Deserialize, Serialize};
use wayfs_net::{Address, KEY_CHANGES_MAX, KeyChange};
use wayfs_types::{Admitted, NodeId, Origin, OriginId, VolumeId};

/// Removed servers that a list still names; the oldest are left out first.
const REVOKED_MAX: usize = 64;

/// Who serves a volume. Signed by the key that it names as its home's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerList {
    /// The volume.
    pub volume: VolumeId,
    /// Grows with each list of the volume: the time of signing in milliseconds of Unix time, or one more than the last. So a
    /// home that was restored from an older copy does not give a number twice.
    pub number: u64,
    /// The key of the home.
    pub home: NodeId,
    /// How that key was changed: whoever knows the home by a key of before follows it to this one.
    #[serde(default)]
    pub changes: Vec<KeyChange>,
    /// The servers, the home among them, and those that were removed.
    pub entries: Vec<Entry>,
}

/// One server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Its key.
    pub node: NodeId,
    /// What it is.
    pub role: ServerKind,
    /// A name for people, `USER@HOST`.
    pub name: String,
    /// Where it listens by the home's word: what was given by hand there. Its own word is its [`Place`](super::Place).
    pub addresses: Vec<Address>,
    /// When it was admitted, in milliseconds of Unix time.
    pub since_unix_ms: i64,
    /// When it was removed.
    pub revoked_unix_ms: Option<i64>,
}

impl ServerList {
    /// The servers that serve now.
    pub fn live(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(|entry| entry.revoked_unix_ms.is_none())
    }

    /// One of those.
    pub(crate) fn find(&self, node: NodeId) -> Option<&Entry> {
        self.live().find(|entry| entry.node == node)
    }

    /// The entries that follow from the origins of a home, and from what the list before said.
    pub(crate) fn entries_of(
        origins: &[(OriginId, Origin)],
        before: Option<&Self>,
        by_hand: impl Fn(NodeId) -> Vec<Address>,
        now_unix_ms: i64,
    ) -> Vec<Entry> {
        let earlier = |node: NodeId| before?.entries.iter().find(|entry| entry.node == node);
        let mut entries: Vec<Entry> = Vec::new();
        for (_, origin) in origins {
            let role = match origin.admitted {
                Admitted::Home => ServerKind::Home,
                Admitted::Station => ServerKind::Station,
                Admitted::Client | Admitted::Reader | Admitted::Revoked => continue,
            };
            let known = earlier(origin.node).filter(|entry| entry.revoked_unix_ms.is_none());
            entries.retain(|entry| entry.node != origin.node);
            entries.push(Entry {
                node: origin.node,
                role,
                name: origin.label.clone(),
                addresses: by_hand(origin.node),
                since_unix_ms: known.map_or(now_unix_ms, |entry| entry.since_unix_ms),
                revoked_unix_ms: None,
            });
        }
        entries.truncate(SERVERS_MAX);
        let is_live = |node: NodeId, entries: &[Entry]| entries.iter().any(|entry| entry.node == node);
        let mut gone: Vec<Entry> = before.map_or(&[][..], |before| &before.entries).to_vec();
        gone.retain(|entry| !is_live(entry.node, &entries) && entry.role == ServerKind::Station);
        for entry in &mut gone {
            entry.revoked_unix_ms = entry.revoked_unix_ms.or(Some(now_unix_ms));
            entry.addresses.clear();
        }
        gone.sort_by_key(|entry| std::cmp::Reverse(entry.revoked_unix_ms));
        gone.truncate(REVOKED_MAX);
        entries.extend(gone);
        entries
    }
}

impl Statement for ServerList {
    const CONTEXT: &'static str = "wayfs server list 1";
    const TEXT_LEN_MAX: usize = 128 << 10;

    fn is_well_formed(&self) -> bool {
        let is_sound = |entry: &Entry| entry.addresses.len() <= ADDRESSES_MAX && is_label(&entry.name);
        self.live().count() <= SERVERS_MAX
            && self.changes.len() <= KEY_CHANGES_MAX
            && self.entries.len() <= SERVERS_MAX + REVOKED_MAX
            && self.entries.iter().all(is_sound)
            && self.live().all(|entry| (entry.role == ServerKind::Home) == (entry.node == self.home))
    }
}
