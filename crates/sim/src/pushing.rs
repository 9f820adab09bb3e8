//! A push that is under way, and the questions to the parent and their answers that it goes on by.

use wayfs_proto::PeerId;
use wayfs_transfer::push::{Input, Push};
use wayfs_transfer::uploads::Failure;
use wayfs_transfer::{Order, Piece, PushId};
use wayfs_types::Digest;

/// A push that is under way.
#[derive(Debug)]
pub(crate) struct Pushing {
    pub(crate) order: Order<PeerId>,
    pub(crate) push: Push,
    /// Which of the pushes of this host: answers to a former one come too late.
    pub(crate) number: u64,
    pub(crate) answers: usize,
    /// Why it failed.
    pub(crate) failure: Failure,
}

/// A question to the parent.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) id: PushId<PeerId>,
    pub(crate) number: u64,
    pub(crate) question: Question,
}

#[derive(Debug, Clone)]
pub(crate) enum Question {
    Presence(Vec<Piece>),
    Take(Digest),
    /// The one chunk of a content, and whether it is there.
    TakeWhole(Digest),
    /// Whether all below this root is there.
    Complete(Digest),
}

/// An answer, or why there is none.
pub(crate) type Answer = Result<Input, Failure>;
