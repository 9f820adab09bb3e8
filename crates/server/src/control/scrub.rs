//! Reading all that is kept, and telling how far that is.

use super::status::{role, unix_ms};
use crate::served::Served;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wayfs_control::report::{ScrubFound, ScrubReport, ScrubStatus, VolumeScrub};
use wayfs_control::{ControlError, Progress, Sink};
use wayfs_node::{ScrubCounts, ScrubPosition};

/// Pause between two words on how far it is.
const TELL_PERIOD: Duration = Duration::from_millis(100);

/// Reads everything of some volumes, one after the other.
pub(super) fn run(volumes: &[Arc<Served>], out: &mut dyn Sink) -> Result<ScrubReport, ControlError> {
    let mut report = ScrubReport::default();
    for served in volumes {
        let (started, mut told) = (Instant::now(), Instant::now());
        let mut tell = |found: &ScrubCounts| {
            if told.elapsed() < TELL_PERIOD {
                return true;
            }
            told = Instant::now();
            let progress = Progress {
                what: format!("reading {}", served.name()),
                done_bytes: found.bytes,
                total_bytes: served.volume.contents().bytes().max(found.bytes),
                ..Progress::default()
            };
            out.progress(&progress).is_ok() && !out.is_gone()
        };
        let found = served.volume.scrub(&mut tell).map_err(|error| super::target::failed("scrub", error))?;
        report.volumes.push(VolumeScrub {
            volume: served.name().to_owned(),
            role: role(served).to_string(),
            found: told_of(&found),
            elapsed_ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
        });
    }
    Ok(report)
}

/// How far the scrub is that goes on by itself.
pub(super) fn status(position: &ScrubPosition) -> ScrubStatus {
    ScrubStatus {
        began_unix_ms: position.began.map(unix_ms),
        found: told_of(&position.found),
        ended_unix_ms: position.ended.map(unix_ms),
        found_before: told_of(&position.found_before),
    }
}

fn told_of(found: &ScrubCounts) -> ScrubFound {
    let ScrubCounts { chunks, bytes, damaged, renewed, lost, waiting } = *found;
    ScrubFound { chunks, bytes, damaged, renewed, lost, waiting }
}
