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
    /// Records of it that the home had not ordered when it was removed do nothing, wherever they come from.
    pub is_fenced: bool,
    /// How much of the volume it may take up. In the row of the home: how much all may together.
    pub quota: Quota,
}

/// How much may be taken up. Set afterwards by a command, not by a ticket.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Quota {
    /// Bytes of contents. `None`: as many as there is room for.
    pub bytes: Option<u64>,
    /// Files, directories and everything else that has a name.
    pub files: Option<u64>,
}

impl Quota {
    /// No bound.
    pub const NONE: Self = Self { bytes: None, files: None };
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
    pub const NONE: Self = Self { squash: None, no_setid: false, below: None, is_fenced: false, quota: Quota::NONE };

    /// Whether a record may be against them. A quota is kept to before a record is taken, not by what it does.
    pub fn is_none(&self) -> bool {
        self.same_but_quota(&Self::NONE)
    }

    /// Whether two differ in their quotas at most.
    pub fn same_but_quota(&self, other: &Self) -> bool {
        Self { quota: Quota::NONE, ..*self } == Self { quota: Quota::NONE, ..*other }
    }
}
