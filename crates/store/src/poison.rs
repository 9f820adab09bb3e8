//! After a failed write or sync a store accepts nothing more.
//!
//! The kernel may have thrown away the pages that it could not write: what the store
//! believes and what the disk holds can differ. Only opening again finds the truth.

use std::sync::OnceLock;

/// The first failure, kept for everyone who asks later.
#[derive(Debug, Default)]
pub(crate) struct Poison(OnceLock<String>);

impl Poison {
    /// Records a failure; the first one stays.
    pub(crate) fn set(&self, cause: String) -> &str {
        self.0.get_or_init(|| {
            tracing::error!(%cause, "store stopped after a failed write; restart after mending the cause");
            cause
        })
    }

    /// The failure, if there was one.
    pub(crate) fn cause(&self) -> Option<&str> {
        self.0.get().map(String::as_str)
    }
}
