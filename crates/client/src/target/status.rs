//! How it goes, and what is under way.

use super::asking::Asker;
use super::{Target, stopped, storage};
use crate::events::unix_ms;
use wayfs_control::report::{Known, QueueItem, QueueReport, StatusReport, StatusWord, VolumeRole, VolumeStatus};
use wayfs_control::{ControlError, DaemonKind};
use wayfs_node::LinkState;
use wayfs_node::LiveReplica;
use wayfs_node::paths::path_of_record;
use wayfs_proto::Progress;
use wayfs_types::WallTime;
use wayfs_types::request::Level;

/// An update older than this that does not move is stuck.
const STUCK_MS: u64 = 60_000;
/// Most queue items in an answer.
const QUEUE_MAX: usize = 10_000;
/// Why what was written is kept back, where a quota is the cause.
pub(super) const OVER_QUOTA: &str = "quota: what was written here does not fit into it";
/// What helps then.
pub(super) const LESS_OR_MORE: &str = "Remove files, or ask for a larger quota (`wayfs volume quota`).";
/// The way out for a machine that was turned away.
pub(super) const NEW_TICKET: &str =
    "Ask the volume's administrator for a new ticket, unmount, and mount with it: what was written is sent then.";
/// Queue items read from the tables at a time.
pub(super) const QUEUE_PAGE: usize = 512;

impl Target {
    pub(super) fn status(&self) -> StatusReport {
        let progress = self.volume().look(LiveReplica::progress);
        StatusReport {
            kind: DaemonKind::Mount,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            uptime_ms: u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX),
            node: self.volume().settings().replica.node.to_string(),
            listening: Vec::new(),
            volumes: vec![self.volume_status(progress.as_ref())],
        }
    }

    fn volume_status(&self, progress: Option<&Progress>) -> VolumeStatus {
        let link = self.parts.link.status();
        let ledger = self.ledger();
        let (word, cause, next_step) = self.word(progress, &link.state, !ledger.unsafe_amount().is_nothing());
        let settings = self.volume().settings();
        let signed = self.volume().look(wayfs_node::LiveReplica::home_word).flatten();
        VolumeStatus {
            id: self.volume().id().to_string(),
            name: self.parts.name.clone(),
            role: VolumeRole::Client,
            mountpoint: Some(self.parts.mountpoint.clone()),
            word,
            cause,
            next_step,
            parent: link.parent.as_ref().map(|_| self.parent_report(&link)),
            home_reachable: self.is_home_reachable(),
            home_seen_ms: self.home_seen().map(|ago| u64::try_from(ago.as_millis()).unwrap_or(u64::MAX)),
            home_signed_unix_ms: signed.map(|word| word.at.as_nanos() / 1_000_000),
            home_word_age_ms: signed
                .map(|word| word.age(wayfs_node::clock::now(), wayfs_node::clock::wall()))
                .map(|age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX)),
            home_position: signed.map(|word| word.position.0),
            full: self.volume().full(),
            ledger,
            reconciled_unix_ms: link.heard.map(unix_ms),
            conflicts_open: progress.map_or(0, |progress| progress.conflicts_open),
            versions_lost: progress.map_or(0, |progress| progress.versions_lost),
            scrub: self.scrub_status(),
            children: 0,
            cache_used_bytes: self.volume().contents().bytes() + self.parts.vfs.files().idle_len(),
            cache_limit_bytes: settings.cache_bytes_max.map(|_| self.parts.cache_limit),
            pinned_bytes: self.pinned_bytes(),
            mode: self.mode().name().to_owned(),
            sharing: self.sharing(link.state == LinkState::Connected),
            read_only: self.parts.read_only,
        }
    }

    pub(super) fn is_home_reachable(&self) -> Option<bool> {
        let heard = self.volume().look(|replica| replica.is_home_reachable(wayfs_node::clock::now()));
        heard.flatten()
    }

    fn sharing(&self, connected: bool) -> String {
        match (connected, self.parts.vfs.engine().is_close_to_open()) {
            (false, _) => String::new(),
            (true, true) => "close-to-open".to_owned(),
            (true, false) => "relaxed".to_owned(),
        }
    }

    fn word(&self, progress: Option<&Progress>, link: &LinkState, is_dirty: bool) -> (StatusWord, String, String) {
        let say = |word, cause: &str, next: &str| (word, cause.to_owned(), next.to_owned());
        if let Some(reason) = self.parts.hooks.failure().or_else(|| self.volume().failure()) {
            return say(StatusWord::NeedsAttention, &reason, "Mend the cause and mount again.");
        }
        let conflicts = progress.map_or(0, |progress| progress.conflicts_open);
        match link {
            LinkState::Refused { reason } => {
                let next = if self.parts.link.status().deleted {
                    "Copy away what you need, then unmount it."
                } else {
                    NEW_TICKET
                };
                say(StatusWord::NeedsAttention, reason, next)
            }
            LinkState::Offline => say(StatusWord::Offline, "you said so", "`wayfs auto` connects again."),
            LinkState::Searching { .. } if self.parts.link.status().held_up_by_choice().is_some() => {
                let cause = self.parts.link.status().held_up_by_choice().unwrap_or_default();
                say(StatusWord::Offline, &cause, super::stations::USE_ANOTHER)
            }
            LinkState::Searching { last_error } => {
                let cause = if last_error.is_empty() { "no station answers" } else { last_error };
                say(StatusWord::Offline, cause, super::ledger::what_helps(cause))
            }
            LinkState::Connected if self.volume().full().is_some() => {
                say(StatusWord::Full, &self.volume().full().unwrap_or_default(), super::ledger::MAKE_ROOM)
            }
            LinkState::Connected if progress.is_some_and(|progress| progress.versions_lost > 0) => {
                let lost = progress.map_or(0, |progress| progress.versions_lost);
                say(StatusWord::NeedsAttention, &wayfs_control::lost_text(lost), wayfs_control::LOST_NEXT)
            }
            LinkState::Connected if conflicts > 0 => {
                let cause = match conflicts {
                    1 => "a conflict is open".to_owned(),
                    more => format!("{more} conflicts are open"),
                };
                say(StatusWord::NeedsAttention, &cause, "`wayfs conflicts list` shows them.")
            }
            LinkState::Connected if progress.is_some_and(|progress| !progress.connected) => {
                say(StatusWord::Stale, "catching up with the station", "")
            }
            LinkState::Connected if self.is_home_reachable() == Some(false) => {
                let ago = self.home_seen().map_or(0, |ago| ago.as_secs());
                let cause = format!("the station has not heard the home for {ago} s");
                say(
                    StatusWord::Away,
                    &cause,
                    "What is safe stays at the station; it goes home by itself when the home is back.",
                )
            }
            LinkState::Connected if self.is_over_quota() => say(StatusWord::Full, OVER_QUOTA, LESS_OR_MORE),
            LinkState::Connected if is_dirty => say(StatusWord::Dirty, "updates are on their way", ""),
            LinkState::Connected => say(StatusWord::Active, "", ""),
        }
    }

    /// Whether a quota that this machine was told of keeps something back that was written here.
    pub(super) fn is_over_quota(&self) -> bool {
        let files = self.parts.vfs.files();
        let is_beyond =
            |file: std::sync::Arc<crate::files::OpenFile>| !self.volume().has_quota_for(file.id(), file.overlay().size);
        files.dirty().into_iter().any(|dirty| files.find(dirty.file).is_some_and(is_beyond))
    }

    /// What is under way; for somebody who asks only items that he may see, with the sums of all.
    pub(super) fn queue(&self, limit: usize, asker: Option<&Asker<'_>>) -> Result<QueueReport, ControlError> {
        let ledger = self.ledger();
        let items_total = ledger.open_files + ledger.home_lacks.records;
        let bytes_total = ledger.home_lacks.bytes;
        let mut report = QueueReport { items_total, bytes_total, ledger, ..QueueReport::default() };
        for dirty in self.parts.vfs.files().dirty() {
            if asker.is_some_and(|asker| !asker.sees_file(dirty.file, Some(dirty.user))) {
                continue;
            }
            report.items.push(QueueItem {
                path: crate::paths::path_of(self.volume(), dirty.file),
                volume: self.parts.name.clone(),
                record: String::new(),
                operation: "write".to_owned(),
                size_bytes: dirty.len,
                sent_bytes: 0,
                age_ms: u64::try_from(dirty.age.as_millis()).unwrap_or(u64::MAX),
                state: Level::Modified,
                safe: Known::No,
                visible: Known::No,
                stable: Known::No,
                stuck: false,
                reason: "written to an open file, not yet closed or synced".to_owned(),
            });
        }
        let limit = limit.min(QUEUE_MAX);
        report.items.truncate(limit);
        let link = self.parts.link.status();
        let way = match link.held_up_by_choice() {
            Some(cause) => Some(cause),
            None if link.state != LinkState::Connected => Some("no station is connected".to_owned()),
            None => self.volume().full(),
        };
        self.each_in_queue(|item| {
            if report.items.len() < limit && asker.is_none_or(|asker| asker.sees_record(&item.record)) {
                report.items.push(self.queue_item(item, way.as_deref()));
            }
            report.items.len() < limit
        })?;
        let connected = link.state == LinkState::Connected;
        self.each_waiting(|waiting| {
            report.items_total += 1;
            if report.items.len() < limit && asker.is_none_or(|asker| asker.sees_file(waiting.file, None)) {
                report.items.push(self.waiting_item(waiting, connected));
            }
        })?;
        Ok(report)
    }

    /// Goes through what a server has and the home has not: it has left the log, and waits for the way home.
    pub(super) fn each_waiting(&self, mut step: impl FnMut(&wayfs_proto::ContentWaiting)) -> Result<(), ControlError> {
        let mut after = None;
        loop {
            let page = self.volume().look(|replica| replica.contents_waiting(after, QUEUE_PAGE)).ok_or_else(stopped)?;
            let page = page.map_err(|error| storage(&error))?;
            page.iter().filter(|waiting| !waiting.is_queued).for_each(&mut step);
            after = page.last().map(|waiting| waiting.version);
            if page.len() < QUEUE_PAGE {
                return Ok(());
            }
        }
    }

    fn waiting_item(&self, waiting: &wayfs_proto::ContentWaiting, connected: bool) -> QueueItem {
        let full = self.volume().full();
        let reason = match (connected, waiting.sent) {
            (false, _) => "at a station; none is connected",
            (true, _) if full.is_some() => full.as_deref().unwrap_or_default(),
            (true, 0) => "at the station, until its policy, a reader or `sync --until stable` wants it at the home",
            (true, _) => "on its way from the station to the home",
        };
        QueueItem {
            path: waiting.path.as_deref().map(|path| path.trim_start_matches('/').into()),
            volume: self.parts.name.clone(),
            record: waiting.version.to_string(),
            operation: "contents".to_owned(),
            size_bytes: waiting.bytes,
            sent_bytes: waiting.sent,
            age_ms: waiting.since.map_or(0, age_ms),
            state: waiting.facts.level(),
            safe: waiting.facts.safe.into(),
            visible: waiting.facts.visible.into(),
            stable: waiting.facts.stable.into(),
            stuck: false,
            reason: reason.to_owned(),
        }
    }

    fn queue_item(&self, item: &wayfs_proto::QueueItem, way: Option<&str>) -> QueueItem {
        let age_ms = age_ms(item.record.time);
        let is_stuck = age_ms > STUCK_MS;
        let reason = match (way, is_stuck) {
            (Some(cause), _) => cause,
            (None, true) => "it has not moved for a while: see the log",
            (None, false) => "",
        };
        QueueItem {
            path: self.volume().look(|replica| path_of_record(replica, &item.record)).flatten(),
            volume: self.parts.name.clone(),
            record: item.record.id.to_string(),
            operation: item.record.op.name().to_owned(),
            size_bytes: item.bytes,
            sent_bytes: if item.facts.safe.holds() {
                item.bytes
            } else {
                self.volume().sent_bytes(item.record.id).min(item.bytes)
            },
            age_ms,
            state: item.facts.level(),
            safe: item.facts.safe.into(),
            visible: item.facts.visible.into(),
            stable: item.facts.stable.into(),
            stuck: is_stuck,
            reason: reason.to_owned(),
        }
    }

    /// Goes through the log in order until `step` says enough.
    pub(super) fn each_in_queue(
        &self,
        mut step: impl FnMut(&wayfs_proto::QueueItem) -> bool,
    ) -> Result<(), ControlError> {
        let mut after = 0;
        loop {
            let page = self.volume().look(|replica| replica.queue(after, QUEUE_PAGE)).ok_or_else(stopped)?;
            let page = page.map_err(|error| storage(&error))?;
            for (place, item) in &page {
                after = *place;
                if !step(item) {
                    return Ok(());
                }
            }
            if page.len() < QUEUE_PAGE {
                return Ok(());
            }
        }
    }
}

/// Milliseconds since a time; a clock that was set back makes it zero.
pub(super) fn age_ms(time: WallTime) -> u64 {
    u64::try_from(unix_ms(wayfs_node::clock::wall()) - unix_ms(time)).unwrap_or(0)
}
