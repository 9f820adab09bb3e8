//! What happens to contents under way: questions and answers of pushes and looks, and pauses that are over.

use super::World;
use crate::network::End;
use crate::push::Asked;
use crate::reading::Reader;
use crate::search::{Given, Question};
use wayfs_proto::PeerId;
use wayfs_transfer::fetches::LookId;
use wayfs_transfer::uploads::Failure;
use wayfs_transfer::{PushId, push};
use wayfs_types::Digest;

/// Something that happens to contents under way.
#[derive(Debug, Clone)]
pub(crate) enum Transfer {
    /// A question of a push reaches the parent.
    PushAsked(Asked),
    /// A parent synced the pieces of a push.
    PushSynced { asked: Asked, root: Digest, chunk_writes: u64 },
    /// An answer reaches the child that pushes.
    PushAnswered { id: PushId<PeerId>, number: u64, answer: Result<push::Input, Failure> },
    /// A question for a piece reaches whom it is for.
    LookAsked(Question),
    /// The answer reaches who asked.
    LookAnswered(Question, Given),
    /// Something is due at a host, unless that has crashed since.
    Due { host: usize, life: u32, due: Due },
}

/// Something of a host's own.
#[derive(Debug, Clone)]
pub(crate) enum Due {
    /// A pause of a push that failed may be over.
    Upload,
    /// A reader gets one more piece.
    Read(Reader),
    /// A pause or the patience of a look may be over.
    Look(LookId),
    /// The patience of a wait for a piece may be over.
    Fetch,
}

impl World {
    pub(super) fn transfer(&mut self, event: Transfer) {
        match event {
            Transfer::PushAsked(asked) => self.push_asked(asked),
            Transfer::PushSynced { asked, root, chunk_writes } => self.push_synced(asked, root, chunk_writes),
            Transfer::PushAnswered { id, number, answer } => self.push_answered(id, number, answer),
            Transfer::LookAsked(question) => self.look_asked(question),
            Transfer::LookAnswered(question, result) => self.look_answered(question, result),
            Transfer::Due { host, life, .. } if self.hosts[host].life != life => {}
            Transfer::Due { host, due, .. } => match due {
                Due::Upload => self.wake_uploads(host),
                Due::Read(reader) => self.read_on(host, reader),
                Due::Look(look) => self.wake_look(host, look),
                Due::Fetch => self.wake_fetches(host),
            },
        }
    }

    /// The host that must be awake for an event.
    pub(super) fn transfer_host(&self, event: &Transfer) -> Option<usize> {
        let at = |peer: &PeerId, end: End| self.sessions.get(peer).map(|session| session.host(end));
        match event {
            Transfer::PushAsked(asked) | Transfer::PushSynced { asked, .. } => at(&asked.id.peer, End::Parent),
            Transfer::PushAnswered { id, .. } => at(&id.peer, End::Child),
            Transfer::LookAsked(question) => at(&question.peer, question.from.other()),
            Transfer::LookAnswered(question, _) => at(&question.peer, question.from),
            Transfer::Due { host, .. } => Some(*host),
        }
    }
}
