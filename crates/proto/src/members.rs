//! Who belongs to a volume, what each may do, and how much room there is for it.

pub(crate) mod admission;
pub(crate) mod home;
pub(crate) mod home_key;
pub(crate) mod home_word;
pub(crate) mod quota;
pub(crate) mod reports_kept;
pub(crate) mod rooms;
pub(crate) mod seals;
pub(crate) mod usage;

use crate::members::home_word::Words;
use crate::members::quota::{Grown, Quotas};
use crate::members::rooms::Rooms;

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
