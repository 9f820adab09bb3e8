//! Who belongs to a volume, what each may do, and how much room there is for it.

pub(crate) mod admission;
pub(crate) mod home;
pub(crate) mod home_key;
pub(crate) mod home_word;
pub(crate) mod quota;
pub(crate) mod quota_left;
pub(crate) mod reports_kept;
pub(crate) mod rooms;
pub(crate) mod seals;
pub(crate) mod usage;
pub(crate) mod usage_sums;
pub(crate) mod word_kept;

use crate::members::quota_left::{Grown, Quotas};
use crate::members::word_kept::Words;
use wayfs_wire::{Full, Room, ServerRoom};

/// What a replica knows of members and of the room for them. No other part sees into it.
#[derive(Debug, Default)]
pub(crate) struct Members {
    rooms: Rooms,
    /// The home's own word.
    words: Words,
    /// Client: what was written since a server said what its quotas leave.
    grown: Grown,
    /// Server: what is kept in mind of quotas.
    quotas: Quotas,
}

/// Of the servers above us and of our own disk.
#[derive(Debug, Default)]
pub(crate) struct Rooms {
    own: Option<Room>,
    /// Nearest first.
    above: Vec<ServerRoom>,
    /// They were told in the session that goes on, or that begins.
    are_told: bool,
    /// What was full when our user was told last, over the sessions.
    said: Vec<(bool, Full, String)>,
}
