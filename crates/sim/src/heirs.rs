//! What a version that took the place of another one leaves of that when it is lost itself.
//!
//! The home keeps what a version took the place of until the newer bytes are at a server, too (`wayfs_proto`, `contents/previous.rs`).
//! Then it lets the older go, and tells whoever has that to do the same. If all disks that have the newer bytes are lost after that,
//! both versions are ([S-losses], "the station's, and then the writer's").

use crate::cancelled::is_of_kind;
use crate::world::World;
use wayfs_proto::PeerId;
use wayfs_types::RecordId;
use wayfs_wire::{Message, Up};

impl World {
    /// The home is about to hear something: perhaps that a station has contents. What it says of those that are not on its disk is
    /// no reason to let anything go.
    pub(crate) fn note_heard(&mut self, peer: PeerId, bytes: &[u8]) {
        if !is_of_kind(bytes, Up::Have { versions: Vec::new() }) {
            return;
        }
        let Some(station) = self.sessions.get(&peer).map(|session| session.child) else { return };
        let Ok(Message::Up(Up::Have { versions })) = wayfs_wire::decode(bytes) else { return };
        for version in versions {
            let record = self.history.first(version);
            let root = self.history.updates.get(&record).and_then(|update| update.content.root());
            if root.is_some_and(|root| self.is_whole_durable(station, root)) {
                self.history.heard_of.insert(record);
            }
        }
    }

    /// Whether an update was stored over by one that the home had whole, or that was safe, so that everybody might let the former go, and the
    /// later one was lost after that: by a home that was put back, or by its station and its writer, which both were. Nobody has either any more
    /// ([S-losses], "what the copy has, and what others still hold"; seed 103000561 of `home-back` with `clone`, seed 158204954).
    pub(crate) fn went_before_its_heir(&self, record: RecordId) -> bool {
        let is_lost = |heir: &RecordId| {
            let was_at_home = self.hosts[0].is_copy && self.history.are_bytes_lost_at_home(*heir);
            let was_safe = self.history.is_safe(*heir) && self.history.is_said_lost(*heir);
            (was_at_home || was_safe) && self.is_nowhere(*heir)
        };
        self.is_nowhere(record) && self.history.heirs_of(record).iter().any(is_lost)
    }

    /// Whether an update was let go for one that a station had whole, and that died with the disks of that station and of its writer, who
    /// need not have lived to hear that it is safe. Bytes of the former that happen not to be swept nobody answers for (seed 174330119 of
    /// `station-back` with `clone`: the copy to which the station was put back had them, and the home told it to let them go before it
    /// knew what else that copy lacks).
    pub(crate) fn was_let_go_for_what_died(&self, record: RecordId) -> bool {
        let Some(root) = self.history.updates.get(&record).and_then(|update| update.content.root()) else {
            return false;
        };
        let died = |heir: &RecordId| {
            self.history.heard_of.contains(heir)
                && self.history.is_said_lost(*heir)
                && self.is_beyond_promise(*heir)
                && self.is_nowhere(*heir)
        };
        !self.running().into_iter().any(|index| self.is_kept_at(index, root))
            && self.history.heirs_of(record).iter().any(died)
    }
}
