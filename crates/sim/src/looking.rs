//! A look for a piece that is under way, who waits for what it finds, and the questions that it asks of neighbours.

use crate::network::End;
use crate::reader::Reader;
use std::time::Duration;
use wayfs_proto::PeerId;
use wayfs_transfer::fetches::LookId;
use wayfs_transfer::search::Failure;
use wayfs_transfer::{Search, Want};

/// A look that is under way at a host.
#[derive(Debug)]
pub(crate) struct Looking {
    pub(crate) wanted: Want,
    pub(crate) search: Search<PeerId>,
    pub(crate) patience: Duration,
    /// Whom it asks, and which of its questions that is: an answer to a former one comes too late.
    pub(crate) asks: Option<PeerId>,
    pub(crate) questions: u64,
}

/// What somebody waits for, and why.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) wanted: Want,
    pub(crate) then: Then,
}

/// What a wait is for.
#[derive(Debug, Clone)]
pub(crate) enum Then {
    /// Somebody reads here.
    Read(Reader),
    /// The answer to a neighbour.
    Answer(Question),
}

/// A question for a piece.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Question {
    /// The session that it goes over, and from which of its ends.
    pub(crate) peer: PeerId,
    pub(crate) from: End,
    /// The look that asks, and which of its questions.
    pub(crate) look: LookId,
    pub(crate) number: u64,
    pub(crate) wanted: Want,
    pub(crate) patience: Duration,
}

/// An answer.
pub(crate) type Given = Result<(), Failure>;
