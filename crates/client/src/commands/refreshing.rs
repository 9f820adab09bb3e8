//! Catching up with the home on demand.

use super::{MountCommands, PATIENCE, refused};
use std::path::Path;
use std::time::{Duration, Instant};
use wayfs_control::report::RefreshReport;
use wayfs_control::{ControlError, ErrorKind};
use wayfs_types::FsError;
use wayfs_types::request::Request;

impl MountCommands {
    /// Waits until all that the home had when this was asked is seen here, at most `timeout`.
    pub(super) fn refresh(&self, path: Option<&Path>, timeout: Duration) -> Result<RefreshReport, ControlError> {
        let started = Instant::now();
        self.volume().request(Request::Refresh, timeout).map_err(|error| self.not_refreshed(error))?;
        let found = match path {
            Some(path) => match crate::paths::resolve(self.volume(), path, PATIENCE) {
                Ok(_) => Some(path.to_owned()),
                Err(FsError::NotFound) => None,
                Err(error) => return Err(refused(&format!("look up {}", path.display()), error)),
            },
            None => None,
        };
        let elapsed_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        if let (Some(path), None) = (path, &found) {
            let message = format!("the home has no {}", path.display());
            return Err(ControlError::new(ErrorKind::NotFound, message, "Ask its writer whether it is visible yet."));
        }
        Ok(RefreshReport { volume: self.parts.name.clone(), elapsed_ms, path: found })
    }

    fn not_refreshed(&self, error: FsError) -> ControlError {
        let seen = match self.home_seen() {
            Some(ago) => format!("it was heard {} s ago", ago.as_secs()),
            None => "it was not heard since this mount began".to_owned(),
        };
        let message = match error {
            FsError::TimedOut => format!("the home did not answer in time; {seen}"),
            FsError::Unreachable => format!("the home cannot be reached; {seen}"),
            other => return refused("refresh", other),
        };
        let next = "What is shown is what was known here before; `wayfs status` says when the home is back.";
        ControlError::new(ErrorKind::Unreachable, message, next)
    }

    /// How long ago the home was heard, by the parent's word. `None`: not since this mount began.
    pub(super) fn home_seen(&self) -> Option<Duration> {
        let heard = self.volume().look(wayfs_node::LiveReplica::home_heard)??;
        Some(wayfs_node::clock::now().since(heard))
    }
}
