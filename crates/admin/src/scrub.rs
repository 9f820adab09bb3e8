//! Reading all that is kept, and telling how far that is.

use crate::local::LocalVolume;
use crate::words::{elapsed_ms, unix_ms};
use std::time::{Duration, Instant};
use wayfs_control::report::{ScrubFound, ScrubReport, ScrubStatus, VolumeScrub};
use wayfs_control::{ControlError, ErrorKind, Progress, Sink};
use wayfs_node::{ScrubCounts, Volume};

/// Pause between two words on how far it is.
const TELL_PERIOD: Duration = Duration::from_millis(100);

/// Reads everything that volumes keep, one after the other.
///
/// # Errors
/// If the contents of one cannot be read at all. What is damaged is in the report.
pub fn run<V: LocalVolume>(volumes: &[V], out: &mut dyn Sink) -> Result<ScrubReport, ControlError> {
    let scrubbed = volumes.iter().map(|local| scrub(local, out));
    Ok(ScrubReport { volumes: scrubbed.collect::<Result<_, _>>()? })
}

fn scrub(local: &impl LocalVolume, out: &mut dyn Sink) -> Result<VolumeScrub, ControlError> {
    let (started, mut told) = (Instant::now(), Instant::now());
    let mut tell = |found: &ScrubCounts| {
        if told.elapsed() < TELL_PERIOD {
            return true;
        }
        told = Instant::now();
        let progress = Progress {
            what: format!("reading {}", local.name()),
            done_bytes: found.bytes,
            total_bytes: local.volume().contents().bytes().max(found.bytes),
            ..Progress::default()
        };
        out.progress(&progress).is_ok() && !out.is_gone()
    };
    let found = local.volume().scrub(&mut tell).map_err(|error| {
        ControlError::new(ErrorKind::Failed, format!("scrub: {error}"), "`wayfs doctor` looks for the cause.")
    })?;
    Ok(VolumeScrub {
        volume: local.name().to_owned(),
        role: local.role().to_string(),
        found: report(&found),
        elapsed_ms: elapsed_ms(started),
    })
}

/// How far the scrub is that goes on by itself.
pub fn status(volume: &Volume) -> ScrubStatus {
    let position = volume.scrub_position();
    ScrubStatus {
        began_unix_ms: position.began.map(unix_ms),
        found: report(&position.found),
        ended_unix_ms: position.ended.map(unix_ms),
        found_before: report(&position.found_before),
    }
}

fn report(found: &ScrubCounts) -> ScrubFound {
    let ScrubCounts { chunks, bytes, damaged, renewed, lost, waiting } = *found;
    ScrubFound { chunks, bytes, damaged, renewed, lost, waiting }
}
