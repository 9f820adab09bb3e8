//! What a child that wants to catch up with the home waits for, and what it is answered.

use wayfs_types::CommitNumber;
use wayfs_wire::AskId;

/// What a child that wants to catch up waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Catch {
    /// The home's answer to our own question.
    Home(AskId),
    /// That it was told everything up to this change of ours.
    Told(CommitNumber),
}

/// What a parent answers who was asked to catch up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Caught {
    /// It was told all that the home had, and told it on.
    Up,
    /// It cannot reach the home.
    CutOff,
}
