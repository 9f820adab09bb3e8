//! Reading all that is kept, and telling how far that is.

use super::Target;
use crate::events::unix_ms;
use std::time::{Duration, Instant};
use wayfs_control::report::{ScrubFound, ScrubReport, ScrubStatus, VolumeRole, VolumeScrub};
use wayfs_control::{ControlError, ErrorKind, Progress, Sink};
use wayfs_node::ScrubCounts;

/// Pause between two words on how far it is.
const TELL_PERIOD: Duration = Duration::from_millis(100);

impl Target {
    /// Reads everything in the cache.
    pub(super) fn scrub(&self, out: &mut dyn Sink) -> Result<ScrubReport, ControlError> {
        let (started, mut told) = (Instant::now(), Instant::now());
        let mut tell = |found: &ScrubCounts| {
            if told.elapsed() < TELL_PERIOD {
                return true;
            }
            told = Instant::now();
            let progress = Progress {
                what: "reading the cache".to_owned(),
                done_bytes: found.bytes,
                total_bytes: self.volume().contents().bytes().max(found.bytes),
                ..Progress::default()
            };
            out.progress(&progress).is_ok() && !out.is_gone()
        };
        let found = self.volume().scrub(&mut tell).map_err(|error| {
            ControlError::new(ErrorKind::Failed, format!("scrub: {error}"), "`wayfs doctor` looks for the cause.")
        })?;
        let volume = VolumeScrub {
            volume: self.parts.name.clone(),
            role: VolumeRole::Client.to_string(),
            found: told_of(&found),
            elapsed_ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
        };
        Ok(ScrubReport { volumes: vec![volume] })
    }

    /// How far the scrub is that goes on by itself.
    pub(super) fn scrub_status(&self) -> ScrubStatus {
        let position = self.volume().scrub_position();
        ScrubStatus {
            began_unix_ms: position.began.map(unix_ms),
            found: told_of(&position.found),
            ended_unix_ms: position.ended.map(unix_ms),
            found_before: told_of(&position.found_before),
        }
    }
}

fn told_of(found: &ScrubCounts) -> ScrubFound {
    let ScrubCounts { chunks, bytes, damaged, renewed, lost, waiting } = *found;
    ScrubFound { chunks, bytes, damaged, renewed, lost, waiting }
}
