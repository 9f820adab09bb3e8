//! Waiting until updates have come so far.

use super::{LOOK_PERIOD, Target};
use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};
use wayfs_control::report::SyncReport;
use wayfs_control::{ControlError, Progress, Sink};
use wayfs_types::request::{Level, Request};
use wayfs_types::{FsError, RecordId};

/// Longest wait without a bound given: a year, which fits every clock.
pub(super) const FOREVER: Duration = Duration::from_secs(365 * 24 * 3600);

/// What is not so far yet.
#[derive(Debug, Default, Clone, Copy)]
struct Remaining {
    items: u64,
    bytes: u64,
    last: Option<RecordId>,
}

impl Target {
    /// Waits until what was written (below a path) is so far.
    pub(super) fn sync_to(
        &self,
        path: Option<&Path>,
        until: Level,
        timeout: Duration,
        out: &mut dyn Sink,
    ) -> Result<SyncReport, ControlError> {
        let started = Instant::now();
        let end = started.checked_add(timeout.min(FOREVER)).unwrap_or(started);
        let mut reason = String::new();
        let failed = self.parts.vfs.commit_all();
        if let Some((file, error)) = failed.first() {
            reason = format!("writes to an open file ({file}) cannot be kept: {error}");
        }
        if let Err(error) = self.volume().sync(timeout.min(super::PATIENCE)) {
            reason = format!("the cache disk: {error}");
        }
        let whole = self.remaining(path, until)?;
        let mut remaining = whole;
        while remaining.items > 0 && Instant::now() < end && !out.is_gone() {
            reason = self
                .wait_a_little(remaining.last, until, end)
                .map_or_else(|error| error.to_string(), |()| String::new());
            remaining = self.remaining(path, until)?;
            let progress = Progress {
                what: "sending".to_owned(),
                done_bytes: whole.bytes.saturating_sub(remaining.bytes),
                total_bytes: whole.bytes,
                done_items: whole.items.saturating_sub(remaining.items),
                total_items: whole.items,
            };
            if out.progress(&progress).is_err() {
                break;
            }
        }
        let reached = remaining.items == 0 && failed.is_empty();
        if !reached && reason.is_empty() {
            reason = "it takes longer than was allowed".to_owned();
        }
        Ok(SyncReport {
            reached,
            until,
            remaining_items: remaining.items + failed.len() as u64,
            remaining_bytes: remaining.bytes,
            elapsed_ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
            reason: if reached { String::new() } else { reason },
        })
    }

    /// Waits for a record, at most one look's period.
    fn wait_a_little(&self, record: Option<RecordId>, until: Level, end: Instant) -> Result<(), FsError> {
        let left = end.saturating_duration_since(Instant::now()).min(LOOK_PERIOD);
        let (send, receive) = mpsc::sync_channel(1);
        let callback = Box::new(move |outcome: wayfs_types::request::Outcome| {
            // Nobody listens after the wait was given up.
            let _ = send.send(outcome);
        });
        let id = self.volume().submit(Request::Wait { record, until }, left + super::PATIENCE, callback);
        match receive.recv_timeout(left) {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => {
                // Refused at once (nobody is connected): the next look comes no sooner for that.
                std::thread::sleep(left.min(LOOK_PERIOD));
                Err(error)
            }
            Err(_) => {
                if let Some(id) = id {
                    self.volume().cancel(id);
                }
                Ok(())
            }
        }
    }

    fn remaining(&self, path: Option<&Path>, until: Level) -> Result<Remaining, ControlError> {
        let mut remaining = Remaining::default();
        self.each_in_queue(|item| {
            let concerns =
                path.is_none_or(|path| item.path.as_ref().is_some_and(|own| Path::new(own).starts_with(path)));
            if concerns && item.level < until {
                remaining.items += 1;
                remaining.bytes += item.bytes;
                remaining.last = Some(item.record.id);
            }
            true
        })?;
        if remaining.items == 0 && path.is_none() && !self.is_reached(until) {
            remaining.items = 1;
        }
        Ok(remaining)
    }

    /// Whether the marks of our own log say so; records leave the queue when they are visible.
    fn is_reached(&self, until: Level) -> bool {
        self.volume().look(wayfs_node::LiveReplica::progress).is_some_and(|progress| {
            let last = progress.last_record.map_or(0, RecordId::sequence);
            let through = match until {
                Level::Modified => progress.durable_through,
                Level::Safe => progress.safe_through,
                Level::Visible => progress.visible_through,
                Level::Stable => progress.stable_through,
            };
            through >= last
        })
    }
}
