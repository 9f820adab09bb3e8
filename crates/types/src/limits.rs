//! What a member may do less than others: the home's word, given with its ticket.

use crate::FileId;
use serde::{Deserialize, Serialize};

/// Limits of one member. Every server of the volume keeps to them, whatever the member's own machine does; by default there are none.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Limits {
    /// Whom all that it makes belongs to; it gives nothing to anybody else then. `None`: whom it says.
    pub squash: Option<Squash>,
    /// Whether what it makes or changes gets no set-id bits, is no device, and has no attributes below `security.` and `trusted.`.
    pub no_setid: bool,
    /// The directory below which it works, that one included: of all else it sees nothing but the way there, and changes nothing.
    /// `None`: the whole volume.
    pub below: Option<FileId>,
}

/// A user and a group that stand for whoever a member says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Squash {
    /// Number of the user in the volume.
    pub uid: u32,
    /// Number of the group in the volume.
    pub gid: u32,
}

impl Limits {
    /// No limits.
    pub const NONE: Self = Self { squash: None, no_setid: false, below: None };

    /// Whether there is any.
    pub fn is_none(&self) -> bool {
        *self == Self::NONE
    }
}
