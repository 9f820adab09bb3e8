//! How it goes, and what is under way.

use super::MountCommands;
use wayfs_admin::ledger::MAKE_ROOM;
use wayfs_admin::{elapsed_ms, stations, unix_ms};
use wayfs_control::DaemonKind;
use wayfs_control::report::{LedgerReport, StatusReport, StatusWord, VolumeRole, VolumeStatus};
use wayfs_node::LinkState;
use wayfs_node::LiveReplica;
use wayfs_proto::Progress;

/// Why what was written is kept back, where a quota is the cause.
pub(super) const OVER_QUOTA: &str = "quota: what was written here does not fit into it";
/// What helps then.
pub(super) const LESS_OR_MORE: &str = "Remove files, or ask for a larger quota (`wayfs volume quota`).";
/// The way out for a machine that was turned away.
pub(super) const NEW_TICKET: &str =
    "Ask the volume's administrator for a new ticket, unmount, and mount with it: what was written is sent then.";

impl MountCommands {
    pub(super) fn status(&self) -> StatusReport {
        let progress = self.volume().look(LiveReplica::progress);
        StatusReport {
            kind: DaemonKind::Mount,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            uptime_ms: elapsed_ms(self.started),
            node: self.volume().settings().replica.node.to_string(),
            listening: Vec::new(),
            volumes: vec![self.volume_status(progress.as_ref())],
        }
    }

    fn volume_status(&self, progress: Option<&Progress>) -> VolumeStatus {
        let link = self.parts.link.status();
        let ledger = self.ledger();
        let (word, cause, next_step) = self.word(progress, &link.state, &ledger);
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
            parent: stations::parent(&link),
            home_reachable: self.is_home_reachable(),
            home_seen_ms: self.home_seen().map(|ago| u64::try_from(ago.as_millis()).unwrap_or(u64::MAX)),
            home_signed_unix_ms: signed.map(|word| word.at.as_nanos() / 1_000_000),
            home_word_age_ms: self.home_word_age_ms(),
            home_position: signed.map(|word| word.position.0),
            full: self.volume().full(),
            ledger,
            reconciled_unix_ms: link.heard.map(unix_ms),
            conflicts_open: progress.map_or(0, |progress| progress.conflicts_open),
            versions_lost: progress.map_or(0, |progress| progress.versions_lost),
            scrub: wayfs_admin::scrub::status(self.volume()),
            children: 0,
            cache_used_bytes: self.volume().contents().bytes() + self.parts.fs.files().idle_len(),
            cache_limit_bytes: settings.cache_bytes_max.map(|_| self.parts.cache_limit),
            pinned_bytes: self.pinned_bytes(),
            mode: self.mode().name().to_owned(),
            sharing: self.sharing(&link.state).to_owned(),
            read_only: self.parts.read_only,
        }
    }

    pub(super) fn is_home_reachable(&self) -> Option<bool> {
        let heard = self.volume().look(|replica| replica.is_home_reachable(wayfs_node::clock::now()));
        heard.flatten()
    }

    fn sharing(&self, link: &LinkState) -> &'static str {
        match link {
            LinkState::Connected if self.parts.fs.engine().is_close_to_open() => "close-to-open",
            LinkState::Connected => "relaxed",
            LinkState::Refused { .. } | LinkState::Offline | LinkState::Searching { .. } => "",
        }
    }

    fn word(
        &self,
        progress: Option<&Progress>,
        link: &LinkState,
        ledger: &LedgerReport,
    ) -> (StatusWord, String, String) {
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
                say(StatusWord::Full, &self.volume().full().unwrap_or_default(), MAKE_ROOM)
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
            LinkState::Connected if !ledger.is_safe() => say(StatusWord::Dirty, "updates are on their way", ""),
            LinkState::Connected => say(StatusWord::Active, "", ""),
        }
    }

    /// Whether a quota that this machine was told of keeps something back that was written here.
    pub(super) fn is_over_quota(&self) -> bool {
        let files = self.parts.fs.files();
        let is_beyond =
            |file: std::sync::Arc<crate::files::OpenFile>| !self.volume().has_quota_for(file.id(), file.overlay().size);
        files.dirty().into_iter().any(|dirty| files.find(dirty.file).is_some_and(is_beyond))
    }
}
