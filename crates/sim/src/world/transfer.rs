//! What happens to contents under way: questions and answers of pushes and looks, and pauses that are over.

use crate::looking::{Given, Question};
use crate::pushing::Asked;
use crate::reader::Reader;
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
