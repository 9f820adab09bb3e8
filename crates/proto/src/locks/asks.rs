//! Questions about locks under way to a parent, and what verdicts mean to a program.

use crate::locks::relays::{Relayed, Wish};
use crate::locks::table::Verdict;
use wayfs_types::FsError;
use wayfs_types::request::{Answer, LockRequest, Outcome, RequestId};
use wayfs_wire::LockVerdict;

/// What a lock question to the parent was for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum LockAsk {
    Lock(RequestId, LockRequest),
    Test(RequestId),
    Reclaim(LockRequest),
    /// The asker got a signal, and waits for what became of the question.
    Cancelled(RequestId, LockRequest),
    /// The asker gave up and was told so.
    Abandoned(LockRequest),
    /// A claim for a change in an exclusive directory.
    Claim(RequestId, LockRequest),
    /// Station: a child's question, which the home answers.
    Relay(Relayed),
}

impl LockAsk {
    /// Whether our parent is still to say of something that we have whether it is ours in this session.
    pub(crate) fn is_of_former_session(&self) -> bool {
        matches!(self, Self::Reclaim(_) | Self::Relay(Relayed { wish: Wish::Keep, .. }))
    }

    /// Whether nobody may ask anything in this owner's name about this file before this is answered.
    pub(super) fn holds_back(&self, other: &LockRequest) -> bool {
        match self {
            Self::Abandoned(request) => {
                (request.file, request.family, request.owner) == (other.file, other.family, other.owner)
            }
            Self::Lock(..) | Self::Test(_) | Self::Reclaim(_) | Self::Cancelled(..) => false,
            Self::Claim(..) | Self::Relay(_) => false,
        }
    }
}

/// What our own user is told; `None`: nothing yet.
pub(crate) fn own_outcome(verdict: Verdict) -> Option<Outcome> {
    match verdict {
        Verdict::Granted => Some(Ok(Answer::Done)),
        Verdict::Refused => Some(Err(FsError::Locked)),
        Verdict::Deadlock => Some(Err(FsError::Deadlock)),
        Verdict::Overload => Some(Err(FsError::NoLocks)),
        Verdict::Waiting => None,
    }
}

/// Why a lock is not granted.
pub(crate) fn lock_error(verdict: LockVerdict) -> FsError {
    match verdict {
        LockVerdict::Deadlock => FsError::Deadlock,
        LockVerdict::Overload => FsError::NoLocks,
        LockVerdict::Unreachable => FsError::Unreachable,
        LockVerdict::Granted | LockVerdict::Refused | LockVerdict::Free => FsError::Locked,
        LockVerdict::Held(_) | LockVerdict::Delegated { .. } => FsError::Locked,
    }
}
