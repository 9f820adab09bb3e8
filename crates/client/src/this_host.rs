//! The machine that the daemon runs on, as open files ask it.

use crate::files::body::BodyFile;
use crate::files::host::Host;
use wayfs_types::Time;

/// The machine that the daemon runs on.
#[derive(Debug)]
pub(crate) struct ThisHost;

impl Host for ThisHost {
    fn now(&self) -> Time {
        wayfs_node::clock::now()
    }

    fn is_held_elsewhere(&self, body: &BodyFile) -> bool {
        let Some(body) = body.descriptor() else { return false };
        wayfs_fuse::is_held_elsewhere(body).unwrap_or_else(|error| {
            tracing::debug!(%error, "look who has a body file open");
            false
        })
    }
}
