//! What a client wrote over before anybody was sent it.
//!
//! Such a version is not sent: the one that took its place stands for both (`wayfs_proto`, log cancellation), and none of
//! its bytes are kept. If those of the later one are lost after that, both are ([S-losses]). If they were lost before, the
//! earlier one was the last whole content of its file, and giving that up for them is a fault.

use crate::host::Host;
use crate::world::World;
use wayfs_types::{Op, RecordId, Time};
use wayfs_wire::{Message, Up};

/// How many bytes at the beginning of a message tell its kind: its format, and two choices.
const KIND_LEN: usize = 3;

impl World {
    /// A client sends something: perhaps the empty records of what it wrote over.
    pub(crate) fn note_cancelled(&mut self, index: usize, bytes: &[u8]) {
        if !self.hosts.get(index).is_some_and(Host::is_client) || !is_of_records(bytes) {
            return;
        }
        let Ok(Message::Up(Up::Records { records })) = wayfs_wire::decode(bytes) else { return };
        // What is cancelled is so when the session begins, be it sent much later.
        let session = self.hosts[index].parent_session.and_then(|peer| self.sessions.get(&peer));
        let since = session.map_or(self.now, |session| session.since);
        for sent in records.into_iter().filter(|sent| sent.record.op == Op::Touch) {
            self.history.cancelled(index, sent.record.id, since);
        }
    }
}

fn is_of_records(bytes: &[u8]) -> bool {
    is_of_kind(bytes, Up::Records { records: Vec::new() })
}

/// Whether a message is of the kind of another one.
pub(crate) fn is_of_kind(bytes: &[u8], other: Up) -> bool {
    bytes.get(..KIND_LEN) == wayfs_wire::encode(&Message::Up(other)).get(..KIND_LEN)
}

impl crate::history::History {
    /// A host's client was sent nothing of an update but its number.
    fn cancelled(&mut self, host: usize, record: RecordId, at: Time) {
        let record = self.first(record);
        if !self.updates.contains_key(&record) || self.went_with.contains_key(&record) {
            return;
        }
        let is_next = |(later, update): &(&RecordId, &crate::history::Update)| {
            update.base == Some(record) && self.is_of(**later, host)
        };
        let next = self.updates.iter().find(is_next).map(|(later, _)| *later);
        if let Some(next) = next.filter(|next| !self.was_said_gone(*next, at)) {
            self.went_with.insert(record, next);
        }
    }

    /// Whether an update was written over before it was sent, and what took its place is lost.
    pub(crate) fn is_lost_with_another(&self, record: RecordId) -> bool {
        let mut later = std::iter::successors(self.went_with.get(&record), |next| self.went_with.get(next));
        later.any(|next| self.is_said_lost(*next))
    }
}
