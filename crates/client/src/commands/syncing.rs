//! Waiting until updates have come so far.

use super::asking::Asker;
use super::uncommitted::Uncommitted;
use super::{LOOK_PERIOD, MountCommands};
use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};
use wayfs_admin::below::{each_file, is_at};
use wayfs_admin::elapsed_ms;
use wayfs_admin::queue::{each_content, each_record};
use wayfs_control::report::{AmountReport, SyncReport};
use wayfs_control::{ControlError, Progress, Sink};
use wayfs_node::LiveReplica;
use wayfs_proto::Ledger;
use wayfs_types::request::{Level, Request};
use wayfs_types::{FileId, FsError, RecordId};

/// Longest wait without a bound given: a year, which fits every clock.
pub(super) const FOREVER: Duration = Duration::from_secs(365 * 24 * 3600);

/// What is waited for.
#[derive(Clone, Copy)]
pub(super) struct Wanted<'a> {
    /// Only what lies at or below this path.
    pub(super) path: Option<&'a Path>,
    /// How far.
    pub(super) until: Level,
    /// Only what this user wrote on this machine.
    pub(super) asker: Option<&'a Asker<'a>>,
}

/// What is not so far yet.
#[derive(Debug, Default, Clone, Copy)]
struct Remaining {
    items: u64,
    bytes: u64,
    last: Option<RecordId>,
}

impl MountCommands {
    /// Waits until what was written and is not lost is so far.
    pub(super) fn sync_to(
        &self,
        wanted: Wanted<'_>,
        timeout: Duration,
        out: &mut dyn Sink,
    ) -> Result<SyncReport, ControlError> {
        let started = Instant::now();
        let end = started.checked_add(timeout.min(FOREVER)).unwrap_or(started);
        let until = wanted.until;
        let mut uncommitted = match wanted.asker {
            None => Uncommitted::commit(&self.parts.fs),
            Some(asker) => Uncommitted::commit_of(&self.parts.fs, &self.dirty_of(asker)),
        };
        let disk = self.volume().sync(timeout.min(super::PATIENCE));
        let (mut remaining, mut reason) = self.wait_for_own(wanted, end, &mut uncommitted, out)?;
        if !uncommitted.is_empty() {
            reason = uncommitted.reason();
        }
        if let Err(error) = disk
            && reason.is_empty()
        {
            reason = format!("the cache disk: {error}");
        }
        let is_own_done = remaining.items == 0 && uncommitted.is_empty();
        if let Some(path) = wanted.path.filter(|_| is_own_done && wanted.asker.is_none()) {
            let others = self.wait_for_others(path, until, end, &mut |others| {
                let progress = Progress {
                    what: "sent by others".to_owned(),
                    done_bytes: 0,
                    total_bytes: 0,
                    done_items: 0,
                    total_items: others.files + others.unknown,
                };
                out.progress(&progress).is_ok() && !out.is_gone()
            })?;
            reason = others.reason(until);
            remaining = Remaining { items: others.files + others.unknown, bytes: others.bytes, last: None };
        }
        let reached = remaining.items == 0 && uncommitted.is_empty();
        if let Some(cause) = self.parts.link.status().held_up_by_choice().filter(|_| !reached) {
            reason = cause;
        }
        if let Some(full) = self.volume().full().filter(|_| !reached) {
            reason = full;
        }
        if !reached && reason.is_empty() {
            reason = "it takes longer than was allowed".to_owned();
        }
        Ok(SyncReport {
            reached,
            until,
            remaining_items: remaining.items + uncommitted.len(),
            remaining_bytes: remaining.bytes,
            lost: 0,
            elapsed_ms: elapsed_ms(started),
            reason: if reached { String::new() } else { reason },
        })
    }

    /// Waits until what was written here (below a path) is so far, what could not be committed at first included. Answers what is
    /// left when the time is over, or waiting does not help, and why.
    fn wait_for_own(
        &self,
        wanted: Wanted<'_>,
        end: Instant,
        uncommitted: &mut Uncommitted,
        out: &mut dyn Sink,
    ) -> Result<(Remaining, String), ControlError> {
        let mut reason = String::new();
        let mut remaining = self.remaining(wanted)?;
        let whole = (remaining.items + uncommitted.len(), remaining.bytes);
        while Instant::now() < end && !out.is_gone() {
            if remaining.items > 0 {
                let waited = self.wait_a_little(remaining.last, wanted.until, end);
                reason = waited.map_or_else(|error| error.to_string(), |()| String::new());
            } else if !uncommitted.is_empty() && uncommitted.may_pass() {
                std::thread::sleep(LOOK_PERIOD.min(end.saturating_duration_since(Instant::now())));
            } else {
                break;
            }
            uncommitted.try_again(&self.parts.fs);
            remaining = self.remaining(wanted)?;
            let progress = Progress {
                what: if uncommitted.is_empty() { "sending".to_owned() } else { uncommitted.reason() },
                done_bytes: whole.1.saturating_sub(remaining.bytes),
                total_bytes: whole.1,
                done_items: whole.0.saturating_sub(remaining.items + uncommitted.len()),
                total_items: whole.0,
            };
            if out.progress(&progress).is_err() {
                break;
            }
        }
        Ok((remaining, reason))
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

    fn remaining(&self, wanted: Wanted<'_>) -> Result<Remaining, ControlError> {
        let Wanted { path, until, asker } = wanted;
        if path.is_none() && asker.is_none() {
            return Ok(self.all_remaining(until));
        }
        let mut remaining = Remaining::default();
        each_record(self.volume(), |item| {
            let is_asked_for = asker.is_none_or(|asker| asker.wrote(item.record.user.0));
            if is_asked_for && !item.facts.reached(until) && path.is_none_or(|path| self.is_below(item, path)) {
                remaining.items += 1;
                remaining.bytes += item.bytes;
                remaining.last = Some(item.record.id);
            }
            true
        })?;
        // Records leave the queue when they are visible and safe; what is below a path is then asked of the files.
        match (asker, path) {
            (_, _) if until != Level::Stable => {}
            (Some(asker), _) => self.add_unstable_of(asker, path, &mut remaining)?,
            (None, Some(path)) => self.add_unstable(path, &mut remaining)?,
            (None, None) => {}
        }
        Ok(remaining)
    }

    /// Files of a user whose contents a server has and the home has not.
    fn add_unstable_of(
        &self,
        asker: &Asker<'_>,
        path: Option<&Path>,
        remaining: &mut Remaining,
    ) -> Result<(), ControlError> {
        each_content(self.volume(), |waiting| {
            if is_at(waiting.path.as_deref(), path) && asker.owns(waiting.file) {
                remaining.items += 1;
                remaining.bytes += waiting.bytes.saturating_sub(waiting.sent);
                remaining.last = remaining.last.max(Some(waiting.version));
            }
        })
    }

    /// Files with writes of a user that are in no record.
    fn dirty_of(&self, asker: &Asker<'_>) -> Vec<FileId> {
        let dirty = self.parts.fs.files().dirty().into_iter();
        dirty.filter(|dirty| asker.wrote(dirty.user)).map(|dirty| dirty.file).collect()
    }

    /// Files of ours below a path that are visible and not yet stable.
    fn add_unstable(&self, path: &Path, remaining: &mut Remaining) -> Result<(), ControlError> {
        let own = self.volume().origin();
        each_file(self.volume(), path, |replica, file, inode| {
            let level = replica.level(file)?;
            let is_left =
                level.is_some_and(|level| level.facts.reached(Level::Visible) && !level.facts.reached(Level::Stable));
            if inode.version.origin() == own && is_left && replica.lost_of(file, inode.version)?.is_none() {
                remaining.items += 1;
                remaining.bytes += inode.content.size().saturating_sub(replica.sent_home(inode.version));
                remaining.last = remaining.last.max(Some(inode.version));
            }
            Ok(())
        })
        .map(|_| ())
    }

    fn is_below(&self, item: &wayfs_proto::QueueItem, path: &Path) -> bool {
        // A volume that stopped has nothing that could still come: the caller hears of it from the marks.
        self.volume().look(|replica| wayfs_node::paths::is_below(replica, &item.record, path)).unwrap_or(true)
    }

    /// What has not come so far of everything, by the account that all commands share.
    fn all_remaining(&self, until: Level) -> Remaining {
        if self.is_reached(until) {
            return Remaining::default();
        }
        let ledger = self.ledger();
        let amount = match until {
            Level::Modified => AmountReport::default(),
            Level::Safe => ledger.unsafe_amount(),
            Level::Visible | Level::Stable => ledger.home_lacks,
        };
        // What has gone from the station to the home of contents that have not come whole: the bar moves by it.
        let gone = match until {
            Level::Stable => self.volume().look(LiveReplica::bytes_sent_home).unwrap_or(0),
            Level::Modified | Level::Safe | Level::Visible => 0,
        };
        let bytes = amount.bytes.saturating_sub(gone);
        Remaining { items: amount.records.max(amount.versions).max(1), bytes, last: None }
    }

    /// Whether the marks of our own log say so, and the ledger as well; records leave the queue when they are visible. Of what was
    /// written before this machine went on as another member only the ledger tells.
    fn is_reached(&self, until: Level) -> bool {
        let said = self.volume().look(|replica| Some((replica.progress(), replica.ledger().ok()?)));
        said.flatten().is_some_and(|(progress, ledger)| {
            let last = progress.last_record.map_or(0, RecordId::sequence);
            let through = match until {
                Level::Modified => progress.durable_through,
                Level::Safe => progress.safe_through,
                Level::Visible => progress.visible_through,
                Level::Stable => progress.stable_through,
            };
            through >= last && is_nothing_left(&ledger, until)
        })
    }
}

/// Whether the ledger counts nothing that has not come so far.
fn is_nothing_left(ledger: &Ledger, until: Level) -> bool {
    let is_safe = ledger.not_safe.unwrap_or_default().is_nothing();
    match until {
        Level::Modified => true,
        Level::Safe => is_safe,
        Level::Visible => is_safe && ledger.home_lacks.records == 0,
        Level::Stable => ledger.home_lacks.is_nothing(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wayfs_proto::Amount;

    /// Marks tell of the present member's records: the ledger counts contents of all that this machine was.
    #[test]
    fn a_wait_ends_only_when_the_ledger_counts_nothing() {
        let all = [Level::Modified, Level::Safe, Level::Visible, Level::Stable];
        let left = |ledger: Ledger| all.map(|until| is_nothing_left(&ledger, until));
        let (none, one) = (Amount::default(), Amount { versions: 1, bytes: 7, ..Amount::default() });
        assert_eq!(left(Ledger::default()), [true; 4]);
        let here = Ledger { not_safe: Some(one), at_station: Some(none), home_lacks: one };
        assert_eq!(left(here), [true, false, false, false]);
        let at_station = Ledger { not_safe: Some(none), at_station: Some(one), home_lacks: one };
        assert_eq!(left(at_station), [true, true, true, false]);
    }
}
