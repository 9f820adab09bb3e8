//! A page of a directory, as the parent sent it.

use wayfs_types::Name;

/// A page of a directory that the parent sent.
#[derive(Debug, Clone)]
pub(crate) struct Listed {
    /// It is the last one.
    pub(crate) ended: bool,
    /// The last name on it.
    pub(crate) last: Option<Name>,
}
