//! Calls that must not be done twice.
//!
//! A server remembers answers for a while and gives them again to a call that comes twice. If it forgot (a restart, a small memory,
//! a burst that lasted), it does the call again, and the second time fails *because* the first succeeded. [`meaning`] tells what an
//! answer to a call that was sent more than once says; it never takes a failure for success without a sign, and where the sign
//! is somewhere else, the caller is told where to look.
//!
//! What cannot be seen from here: a copy that the network kept for so long that it does its work after a later call. Truncations are
//! guarded against it by the file's `ctime`, exclusive creations by their number.

use crate::{Kind, Status};

/// What an answer says of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning {
    /// What is written there.
    AsIs,
    /// Done: an earlier copy did it.
    Done,
    /// Look up the name that was made: if what is there is what was wanted, an earlier copy made it.
    LookAtTheNew,
    /// Look at the attributes of the file: if they are as wanted, an earlier copy did it.
    LookAtAttributes,
}

/// What `status` says to a call of that kind that was sent `sendings` times.
pub const fn meaning(kind: Kind, sendings: u32, status: Status) -> Meaning {
    if sendings < 2 || kind.is_idempotent() {
        return Meaning::AsIs;
    }
    match (kind, status) {
        (Kind::Remove | Kind::RemoveDirectory, Status::NOENT) => Meaning::Done,
        (Kind::Create | Kind::MakeDirectory | Kind::Symlink | Kind::MakeNode | Kind::Link, Status::EXIST) => {
            Meaning::LookAtTheNew
        }
        (Kind::Rename, Status::NOENT) => Meaning::LookAtTheNew,
        (Kind::SetAttributes, Status::NOT_SYNC) => Meaning::LookAtAttributes,
        _ => Meaning::AsIs,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_call_that_was_sent_twice_can_have_failed_by_its_own_success() {
        assert_eq!(meaning(Kind::Remove, 1, Status::NOENT), Meaning::AsIs);
        assert_eq!(meaning(Kind::Remove, 2, Status::NOENT), Meaning::Done);
        assert_eq!(meaning(Kind::Remove, 2, Status::ACCES), Meaning::AsIs);
        assert_eq!(meaning(Kind::Rename, 2, Status::NOENT), Meaning::LookAtTheNew);
        assert_eq!(meaning(Kind::MakeDirectory, 3, Status::EXIST), Meaning::LookAtTheNew);
        assert_eq!(meaning(Kind::SetAttributes, 2, Status::NOT_SYNC), Meaning::LookAtAttributes);
        assert_eq!(meaning(Kind::Lookup, 5, Status::NOENT), Meaning::AsIs);
    }
}
