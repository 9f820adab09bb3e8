//! What was written here and is lost for good: a wait for it must not end well.

use super::syncing::{FOREVER, Wanted};
use super::{LOOK_PERIOD, MountCommands};
use std::time::{Duration, Instant};
use wayfs_admin::below::is_at;
use wayfs_admin::storage;
use wayfs_control::report::SyncReport;
use wayfs_control::{ControlError, Sink};
use wayfs_node::LiveReplica;
use wayfs_proto::LostContent;
use wayfs_types::StorageError;

/// Most losses that are looked through.
const LOST_MAX: usize = 65_536;
/// So long is waited for the home's report of what it has decided.
const WORD_MAX: Duration = Duration::from_secs(10);

impl MountCommands {
    /// Waits until what was written is so far. What was declared lost counts for nothing any more, and the marks move on past it: but it is
    /// neither safe nor stable, and whoever asks hears so until he takes it off the list of conflicts.
    pub(super) fn sync(
        &self,
        wanted: Wanted<'_>,
        timeout: Duration,
        out: &mut dyn Sink,
    ) -> Result<SyncReport, ControlError> {
        let end = Instant::now() + timeout.min(FOREVER);
        let mut report = self.sync_to(wanted, timeout, out)?;
        if report.reached {
            report.remaining_items = self.wait_for_word(wanted, end.min(Instant::now() + WORD_MAX), out)?;
        }
        report.lost = self.only_wanted(wanted, |replica| lost(replica, wanted))?.len() as u64;
        if report.reached && report.remaining_items > 0 {
            report.reason = "the home has not said yet what it found of bytes that are gone here".to_owned();
        } else if report.reached && report.lost > 0 {
            report.reason = wayfs_control::lost_text(report.lost);
        }
        report.reached &= report.remaining_items == 0 && report.lost == 0;
        Ok(report)
    }

    /// The marks move on as soon as the home has decided that nobody has some bytes, and its report comes a moment later. Answers of how
    /// many versions it has not come.
    fn wait_for_word(&self, wanted: Wanted<'_>, end: Instant, out: &mut dyn Sink) -> Result<u64, ControlError> {
        loop {
            let undecided = self.only_wanted(wanted, |replica| replica.undecided(LOST_MAX))?;
            let left = self.not_so_far_of(&undecided, wanted.until);
            if left == 0 || Instant::now() >= end || out.is_gone() {
                return Ok(left);
            }
            std::thread::sleep(LOOK_PERIOD.min(end.saturating_duration_since(Instant::now())));
        }
    }

    /// What the engine names, of what is waited for.
    fn only_wanted(
        &self,
        wanted: Wanted<'_>,
        look: impl FnOnce(&LiveReplica) -> Result<Vec<LostContent>, StorageError>,
    ) -> Result<Vec<LostContent>, ControlError> {
        let mut named = self.volume().look(look).unwrap_or_else(|| Ok(Vec::new())).map_err(|error| storage(&error))?;
        named.retain(|one| {
            is_at(one.path.as_deref(), wanted.path) && wanted.asker.is_none_or(|asker| asker.owns(one.file))
        });
        Ok(named)
    }
}

/// What is lost of this machine's, be it under a number that it had before, and, below a path, of others' too.
fn lost(replica: &LiveReplica, wanted: Wanted<'_>) -> Result<Vec<LostContent>, StorageError> {
    let is_of_others_too = wanted.path.is_some() && wanted.asker.is_none();
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
