//! What was written here and is lost for good: a wait for it must not end well.

use super::MountCommands;
use super::syncing::Wanted;
use std::path::Path;
use std::time::Duration;
use wayfs_admin::storage;
use wayfs_control::report::SyncReport;
use wayfs_control::{ControlError, Sink};
use wayfs_node::LiveReplica;
use wayfs_proto::LostContent;
use wayfs_types::StorageError;

/// Most losses that are looked through.
const LOST_MAX: usize = 65_536;

impl MountCommands {
    /// Waits until what was written is so far. What was declared lost counts for nothing any more, and the marks move on past it: but it is
    /// neither safe nor stable, and whoever asks hears so until he takes it off the list of conflicts.
    pub(super) fn sync(
        &self,
        wanted: Wanted<'_>,
        timeout: Duration,
        out: &mut dyn Sink,
    ) -> Result<SyncReport, ControlError> {
        let mut report = self.sync_to(wanted, timeout, out)?;
        report.lost = self.lost_here(wanted)?;
        if report.lost > 0 && report.reached {
            report.reached = false;
            report.reason = wayfs_control::lost_text(report.lost);
        }
        Ok(report)
    }

    /// How many versions are lost of what is waited for: of this machine's, and, below a path, of others' too.
    fn lost_here(&self, wanted: Wanted<'_>) -> Result<u64, ControlError> {
        let is_of_others_too = wanted.path.is_some() && wanted.asker.is_none();
        let look = |replica: &LiveReplica| lost(replica, is_of_others_too);
        let lost = self.volume().look(look).unwrap_or_else(|| Ok(Vec::new())).map_err(|error| storage(&error))?;
        let is_wanted = |one: &&LostContent| {
            let at = one.path.as_deref().map(|path| Path::new(path.trim_start_matches('/')));
            wanted.path.is_none_or(|path| at.is_some_and(|at| at.starts_with(path)))
                && wanted.asker.is_none_or(|asker| asker.owns(one.file))
        };
        Ok(lost.iter().filter(is_wanted).count() as u64)
    }
}

/// What is lost of everybody's, or of this machine's, be it under a number that it had before.
fn lost(replica: &LiveReplica, is_of_others_too: bool) -> Result<Vec<LostContent>, StorageError> {
    let mut lost = replica.lost_contents(LOST_MAX)?;
    if lost.is_empty() || is_of_others_too {
        return Ok(lost);
    }
    let own = replica.config().origin;
    let origins = replica.origins()?;
    let node = origins.iter().find(|(origin, _)| *origin == own).map(|(_, origin)| origin.node);
    let is_ours =
        |writer| writer == own || origins.iter().any(|(origin, image)| *origin == writer && Some(image.node) == node);
    lost.retain(|one| is_ours(one.version.origin()));
    Ok(lost)
}
