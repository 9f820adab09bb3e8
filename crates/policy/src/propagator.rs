//! What a station sends ahead, and when: a machine beside its engine.
//!
//! ```text
//!   Written ──▶ unsent, due at … or never ──▶ Output::Propagate ──▶ sent
//!                │  ▲ decisions of the policy
//!                ├── Sent, Released ──────────────────────────────▶ sent
//!                ├── BackFetched ──▶ rest, due at the bound ──────▶ sent
//!                └── Written, Overwritten, Elsewhere(Write), Removed: nothing of it is sent
//! ```
//!
//! No event is lost, and none waits: a file has one entry at most, which a newer version takes over. The driver tells it
//! what the engine did in the order in which the engine did it.

use crate::back_fetched::BackFetched;
use crate::file_memory::{FILES_MAX, FileMemory};
use crate::{Access, Decision, Fate, PropagationPolicy, Setting};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use wayfs_types::{FileId, RecordId, Time};

/// Unsent versions held at most; one more makes the oldest due at once, as sending loses nothing. About 250 bytes each.
pub(crate) const UNSENT_MAX: usize = 1_000_000;

/// What happened to the contents of a file, for [`Propagator::handle`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    /// A version came from below whose contents the home lacks. Told again, it is as if it had not been, except that the file
    /// may be another: a version that became a copy of its own.
    Written {
        /// Its file.
        file: FileId,
        /// The version.
        version: RecordId,
        /// How long it has waited already: zero, unless it is told when the station is opened.
        age: Duration,
    },
    /// A version came from below that travels whole with its record. What its file showed before is not to be sent.
    Overwritten {
        /// The file.
        file: FileId,
    },
    /// The home broke a callback elsewhere because of this version.
    Shared {
        /// Its file.
        file: FileId,
        /// The version.
        version: RecordId,
    },
    /// The home fetched this version, or a part of it, because somebody wants to read it.
    BackFetched {
        /// Its file.
        file: FileId,
        /// The version.
        version: RecordId,
    },
    /// This version is on its way to the home, for whatever reason (somebody waits for it to be stable).
    Sent {
        /// The version.
        version: RecordId,
    },
    /// The home has this version whole, or nobody needs it any more.
    Released {
        /// The version.
        version: RecordId,
    },
    /// Another node read the file at the home, or wrote it (so that the version here is no longer current).
    ///
    /// Of reads a live station hears nothing but [`Input::BackFetched`] and [`Input::Shared`]: no message tells them.
    Elsewhere {
        /// The file.
        file: FileId,
        /// What it did.
        access: Access,
    },
    /// The file is gone: nothing of it is to be sent.
    Removed {
        /// The file.
        file: FileId,
    },
    /// Nothing: look at the clock. Sent when [`Propagator::poll_timeout`] has come.
    Tick,
}

/// What a driver does for [`Propagator::poll_output`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// This version's contents are to go to the home.
    Propagate {
        /// Its file.
        file: FileId,
        /// The version.
        version: RecordId,
    },
}

/// The unsent versions of a station under one policy.
#[derive(Debug)]
pub struct Propagator {
    policy: Box<dyn PropagationPolicy>,
    within: Option<Duration>,
    now: Time,
    unsent: BTreeMap<FileId, Unsent>,
    /// The files of the unsent versions.
    files: BTreeMap<RecordId, FileId>,
    by_due: BTreeSet<(Time, FileId)>,
    by_update: BTreeSet<(Time, FileId)>,
    back_fetched: BackFetched,
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
    version: RecordId,
    updated: Time,
    was_read: bool,
}

impl Propagator {
    /// Nothing unsent yet.
    ///
    /// What is unsent is not kept over a restart: the driver tells it again with [`Input::Written`]
    /// from the replica's list of contents that the home lacks.
    pub fn new(setting: Setting) -> Self {
        Self::with_policy(setting.mechanism.policy(), setting.within)
    }

    /// With any policy. `within`: every version still current goes so long after it began to wait, whatever the policy says; `None`: never.
    pub(crate) fn with_policy(policy: Box<dyn PropagationPolicy>, within: Option<Duration>) -> Self {
        Self {
            policy,
            within,
            now: Time::ZERO,
            unsent: BTreeMap::new(),
            files: BTreeMap::new(),
            by_due: BTreeSet::new(),
            by_update: BTreeSet::new(),
            back_fetched: BackFetched::default(),
            sent: FileMemory::new(FILES_MAX),
            unsent_max: UNSENT_MAX,
        }
    }

    /// Takes an event in. `now` must not run backwards; if it does, the newest seen counts.
    pub fn handle(&mut self, now: Time, input: Input) {
        self.now = self.now.max(now);
        match input {
            Input::Written { file, version, age } => self.on_written(file, version, age),
            Input::Overwritten { file } => self.on_overwritten(file),
            Input::Shared { file, version } => self.on_shared(file, version),
            Input::BackFetched { file, version } => self.on_back_fetched(file, version),
            Input::Sent { version } | Input::Released { version } => self.on_sent(version),
            Input::Elsewhere { file, access } => self.on_elsewhere(file, access),
            Input::Removed { file } => self.on_removed(file),
            Input::Tick => {}
        }
    }

    /// The next version to send, which counts as sent from here on. Call until `None`, or again when [`Self::poll_timeout`] says.
    pub fn poll_output(&mut self) -> Option<Output> {
        if let Some((file, version)) = self.back_fetched.pop_due(self.now) {
            return Some(Output::Propagate { file, version });
        }
        let (due, file) = *self.by_due.first()?;
        if due > self.now {
            return None;
        }
        let version = self.unsent.get(&file)?.version;
        self.on_sent(version);
        Some(Output::Propagate { file, version })
    }

    /// When [`Self::poll_output`] has something next.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.by_due.first().map(|(due, _)| *due).into_iter().chain(self.back_fetched.next_due()).min()
    }

    /// Versions that are not sent.
    pub fn unsent(&self) -> usize {
        self.unsent.len()
    }

    fn on_written(&mut self, file: FileId, version: RecordId, age: Duration) {
        if self.was_sent(file, version) {
            // It waits all the same: its contents came only now, or its file was gone for a while, and the order to send it with that.
            return self.back_fetched.insert(file, version, self.now);
        }
        if self.is_known(file, version) {
            return;
        }
        let before = self.note_fate(file);
        let decision = self.policy.on_update(self.now, file);
        let waited = u64::try_from(age.as_micros()).unwrap_or(u64::MAX);
        let began = Time::from_micros(self.now.as_micros().saturating_sub(waited));
        let waiting_since = before.map_or(began, |before| before.waiting_since);
        let due = self.within.map(|within| waiting_since + within);
        self.put(file, Unsent { version, updated: self.now, waiting_since, due });
        self.decide(file, decision);
        if self.unsent.len() > self.unsent_max
            && let Some((_, oldest)) = self.by_update.first().copied()
        {
            self.decide(oldest, Decision::Now);
        }
    }

    fn was_sent(&mut self, file: FileId, version: RecordId) -> bool {
        let is_it = self.sent.get(file).is_some_and(|sent| sent.version == version);
        is_it && !self.files.contains_key(&version) && !self.back_fetched.has(file, version)
    }

    /// Whether a version was told of before. One that is unsent goes on under the file that it is told of now.
    fn is_known(&mut self, file: FileId, version: RecordId) -> bool {
        let known = self.files.get(&version).copied();
        if let Some(former) = known.filter(|former| *former != file)
            && let Some(unsent) = self.take(former)
        {
            self.note_fate(file);
            self.put(file, unsent);
        }
        known.is_some() || self.back_fetched.has(file, version)
    }

    /// What a file showed before is shown no longer: the policy hears what became of it.
    fn note_fate(&mut self, file: FileId) -> Option<Unsent> {
        self.back_fetched.remove(file);
        let before = self.take(file);
        let fate = match (before, self.sent.remove(file)) {
            (Some(_), _) => Some(Fate::Unsent),
            (None, Some(sent)) if sent.was_read => Some(Fate::Read),
            (None, Some(_)) => Some(Fate::SentUnread),
            (None, None) => None,
        };
        if let Some(fate) = fate {
            self.policy.on_overwritten(self.now, file, fate);
        }
        before
    }

    fn on_overwritten(&mut self, file: FileId) {
        self.note_fate(file);
    }

    fn on_shared(&mut self, file: FileId, version: RecordId) {
        let decision = self.policy.on_shared(self.now, file);
        if self.unsent.get(&file).is_some_and(|unsent| unsent.version == version) {
            self.decide(file, decision);
        }
    }

    fn on_back_fetched(&mut self, file: FileId, version: RecordId) {
        let known = self.files.get(&version).copied();
        let Some((file, unsent)) = known.and_then(|file| Some((file, self.take(file)?))) else {
            // It was on its way already: nobody came too late, but somebody reads it.
            if let Some(sent) = self.sent.get(file).filter(|sent| sent.version == version) {
                sent.was_read = true;
            }
            return;
        };
        self.sent.insert(file, Sent { version, updated: unsent.updated, was_read: true });
        // Who reads a part leaves the rest here.
        if let Some(within) = self.within {
            self.back_fetched.insert(file, version, unsent.waiting_since + within);
        }
        self.policy.on_back_fetch(self.now, file, self.now - unsent.updated);
        if let Some(span) = self.policy.recent_to_send() {
            self.send_recent(span);
        }
    }

    fn on_sent(&mut self, version: RecordId) {
        self.back_fetched.remove_version(version);
        if let Some(file) = self.files.get(&version).copied()
            && let Some(unsent) = self.take(file)
        {
            self.sent.insert(file, Sent { version, updated: unsent.updated, was_read: false });
        }
    }

    fn on_elsewhere(&mut self, file: FileId, access: Access) {
        let updated = self.unsent.get(&file).map(|unsent| unsent.updated);
        let updated = updated.or_else(|| self.sent.get(file).map(|sent| sent.updated));
        self.policy.on_elsewhere(self.now, file, access, updated.map(|updated| self.now - updated));
        match access {
            Access::Read => {
                if let Some(sent) = self.sent.get(file) {
                    sent.was_read = true;
                }
            }
            Access::Write => self.on_removed(file),
        }
    }

    fn on_removed(&mut self, file: FileId) {
        self.take(file);
        self.back_fetched.remove(file);
        self.sent.remove(file);
    }

    fn send_recent(&mut self, span: Duration) {
        // Newest first, so that the walk ends at the first that is too old.
        let is_recent = |(updated, _): &&(Time, FileId)| self.now - *updated <= span;
        let recent: Vec<FileId> = self.by_update.iter().rev().take_while(is_recent).map(|(_, file)| *file).collect();
        for file in recent {
            self.decide(file, Decision::Now);
        }
    }

    fn decide(&mut self, file: FileId, decision: Decision) {
        let wanted = match decision {
            Decision::Keep => return,
            Decision::Now => self.now,
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
        self.files.insert(unsent.version, file);
        self.unsent.insert(file, unsent);
    }

    fn take(&mut self, file: FileId) -> Option<Unsent> {
        let unsent = self.unsent.remove(&file)?;
        self.files.remove(&unsent.version);
        self.by_update.remove(&(unsent.updated, file));
        if let Some(due) = unsent.due {
            self.by_due.remove(&(due, file));
        }
        Some(unsent)
    }
}

#[cfg(test)]
pub(crate) mod tests;
