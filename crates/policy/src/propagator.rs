//! What a station's driver holds: the versions that are not sent yet, and when
//! each of them goes.
//!
//! ```text
//!   on_update ──▶ unsent, due at … or never ──▶ poll_send ──▶ sent
//!                    │   ▲ decisions of the policy
//!                    └── on_back_fetch, on_sent, on_elsewhere(Write), on_removed
//! ```

use crate::file_memory::{FILES_MAX, FileMemory};
use crate::{Access, Decision, Fate, PropagationPolicy, Setting};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use wayfs_types::{FileId, RecordId, Time};

/// Unsent versions held at most; one more makes the oldest due at once, as sending loses nothing. About 200 bytes each.
pub const UNSENT_MAX: usize = 1_000_000;

/// A version whose contents are to go to the home.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Due {
    /// Its file.
    pub file: FileId,
    /// The version.
    pub version: RecordId,
}

/// The unsent versions of a station under one policy.
#[derive(Debug)]
pub struct Propagator {
    policy: Box<dyn PropagationPolicy>,
    within: Option<Duration>,
    unsent: BTreeMap<FileId, Unsent>,
    by_due: BTreeSet<(Time, FileId)>,
    by_update: BTreeSet<(Time, FileId)>,
    sent: FileMemory<Sent>,
    unsent_max: usize,
}

#[derive(Debug, Clone, Copy)]
struct Unsent {
    version: RecordId,
    updated: Time,
    /// When the first of the versions in a row that were not sent was written.
    waiting_since: Time,
    due: Option<Time>,
}

#[derive(Debug, Clone, Copy)]
struct Sent {
    updated: Time,
    was_read: bool,
}

impl Propagator {
    /// Nothing unsent yet.
    ///
    /// What is unsent is not kept over a restart: the driver tells it again with [`Self::on_update`]
    /// from the replica's list of contents that the home lacks.
    pub fn new(setting: Setting) -> Self {
        Self::with_policy(setting.mechanism.policy(), setting.within)
    }

    /// With any policy. `within`: every version still current goes so long after it began to wait, whatever the policy says; `None`: never.
    pub fn with_policy(policy: Box<dyn PropagationPolicy>, within: Option<Duration>) -> Self {
        Self {
            policy,
            within,
            unsent: BTreeMap::new(),
            by_due: BTreeSet::new(),
            by_update: BTreeSet::new(),
            sent: FileMemory::new(FILES_MAX),
            unsent_max: UNSENT_MAX,
        }
    }

    /// A version was written here whose contents the home lacks.
    pub fn on_update(&mut self, now: Time, file: FileId, version: RecordId) {
        let before = self.take(file);
        let fate = match (before, self.sent.remove(file)) {
            (Some(_), _) => Some(Fate::Unsent),
            (None, Some(sent)) if sent.was_read => Some(Fate::Read),
            (None, Some(_)) => Some(Fate::SentUnread),
            (None, None) => None,
        };
        if let Some(fate) = fate {
            self.policy.on_overwritten(now, file, fate);
        }
        let decision = self.policy.on_update(now, file);
        let waiting_since = before.map_or(now, |before| before.waiting_since);
        let due = self.within.map(|within| waiting_since + within);
        self.put(file, Unsent { version, updated: now, waiting_since, due });
        self.decide(now, file, decision);
        if self.unsent.len() > self.unsent_max
            && let Some((_, oldest)) = self.by_update.first().copied()
        {
            self.decide(now, oldest, Decision::Now);
        }
    }

    /// The home broke a callback elsewhere because of this version.
    pub fn on_shared(&mut self, now: Time, file: FileId, version: RecordId) {
        let decision = self.policy.on_shared(now, file);
        if self.unsent.get(&file).is_some_and(|unsent| unsent.version == version) {
            self.decide(now, file, decision);
        }
    }

    /// The home fetched this version because somebody wanted to read it.
    pub fn on_back_fetch(&mut self, now: Time, file: FileId, version: RecordId) {
        if self.unsent.get(&file).is_none_or(|unsent| unsent.version != version) {
            return;
        }
        let Some(unsent) = self.take(file) else { return };
        self.sent.insert(file, Sent { updated: unsent.updated, was_read: true });
        self.policy.on_back_fetch(now, file, now - unsent.updated);
        if let Some(span) = self.policy.recent_to_send() {
            self.send_recent(now, span);
        }
    }

    /// The home has this version's contents for another reason (somebody waited for them to be stable).
    pub fn on_sent(&mut self, file: FileId, version: RecordId) {
        if self.unsent.get(&file).is_some_and(|unsent| unsent.version == version)
            && let Some(unsent) = self.take(file)
        {
            self.sent.insert(file, Sent { updated: unsent.updated, was_read: false });
        }
    }

    /// Another node read the file at the home, or wrote it (so that the version here is no longer current).
    pub fn on_elsewhere(&mut self, now: Time, file: FileId, access: Access) {
        let updated = self.unsent.get(&file).map(|unsent| unsent.updated);
        let updated = updated.or_else(|| self.sent.get(file).map(|sent| sent.updated));
        self.policy.on_elsewhere(now, file, access, updated.map(|updated| now - updated));
        match access {
            Access::Read => {
                if let Some(sent) = self.sent.get(file) {
                    sent.was_read = true;
                }
            }
            Access::Write => self.on_removed(file),
        }
    }

    /// The file is gone: nothing of it is to be sent.
    pub fn on_removed(&mut self, file: FileId) {
        self.take(file);
        self.sent.remove(file);
    }

    /// The next version to send, which counts as sent from here on. Call until `None`.
    pub fn poll_send(&mut self, now: Time) -> Option<Due> {
        let (due, file) = *self.by_due.first()?;
        if due > now {
            return None;
        }
        let unsent = self.take(file)?;
        self.sent.insert(file, Sent { updated: unsent.updated, was_read: false });
        Some(Due { file, version: unsent.version })
    }

    /// When [`Self::poll_send`] has something next.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.by_due.first().map(|(due, _)| *due)
    }

    /// Versions that are not sent.
    pub fn unsent(&self) -> usize {
        self.unsent.len()
    }

    fn send_recent(&mut self, now: Time, span: Duration) {
        // Newest first, so that the walk ends at the first that is too old.
        let is_recent = |(updated, _): &&(Time, FileId)| now - *updated <= span;
        let recent: Vec<FileId> = self.by_update.iter().rev().take_while(is_recent).map(|(_, file)| *file).collect();
        for file in recent {
            self.decide(now, file, Decision::Now);
        }
    }

    fn decide(&mut self, now: Time, file: FileId, decision: Decision) {
        let wanted = match decision {
            Decision::Keep => return,
            Decision::Now => now,
            Decision::At(time) => time,
        };
        let Some(mut unsent) = self.take(file) else { return };
        let latest = self.within.map(|within| unsent.waiting_since + within);
        unsent.due = Some(latest.map_or(wanted, |latest| wanted.min(latest)));
        self.put(file, unsent);
    }

    fn put(&mut self, file: FileId, unsent: Unsent) {
        self.by_update.insert((unsent.updated, file));
        self.by_due.extend(unsent.due.map(|due| (due, file)));
        self.unsent.insert(file, unsent);
    }

    fn take(&mut self, file: FileId) -> Option<Unsent> {
        let unsent = self.unsent.remove(&file)?;
        self.by_update.remove(&(unsent.updated, file));
        if let Some(due) = unsent.due {
            self.by_due.remove(&(due, file));
        }
        Some(unsent)
    }
}

#[cfg(test)]
pub(crate) mod tests;
