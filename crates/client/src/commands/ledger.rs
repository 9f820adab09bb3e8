//! The one account of what has not come all the way: every command takes its numbers from here.

use super::MountCommands;
use crate::fs::FileSystem;
use wayfs_admin::ledger::MAKE_ROOM;
use wayfs_control::report::{AmountReport, LedgerReport};
use wayfs_node::{LinkState, Volume};
use wayfs_proto::Full;
use wayfs_types::StorageError;

/// What helps where no session comes about, by what the last try met. A server whose disk is full of metadata takes none.
pub(super) fn what_helps(last_error: &str) -> &'static str {
    if last_error.contains(&StorageError::NoSpace.to_string()) {
        return "Make room on the disk of that server; it goes on by itself.";
    }
    "Check the network; it connects by itself."
}

/// What a volume and the open files of a mount hold that has not come all the way.
pub(crate) fn ledger_of(volume: &Volume, fs: Option<&FileSystem>) -> LedgerReport {
    let known = wayfs_admin::ledger::of(volume);
    let dirty = fs.map(|fs| fs.files().dirty()).unwrap_or_default();
    let written = AmountReport {
        records: 0,
        versions: 0,
        bytes: dirty.iter().map(|file| file.len).sum(),
        oldest_ms: dirty.first().map(|file| u64::try_from(file.age.as_millis()).unwrap_or(u64::MAX)),
    };
    LedgerReport {
        not_safe: Some(written.plus(known.unsafe_amount())),
        home_lacks: written.plus(known.home_lacks),
        open_files: dirty.len() as u64,
        ..known
    }
}

impl MountCommands {
    /// What has not come all the way, why, and what would help.
    pub(super) fn ledger(&self) -> LedgerReport {
        let mut ledger = ledger_of(self.volume(), Some(&self.parts.fs));
        (ledger.why, ledger.next_step) = self.why_it_waits(&ledger);
        ledger
    }

    fn why_it_waits(&self, ledger: &LedgerReport) -> (String, String) {
        let say = |why: &str, next: &str| (why.to_owned(), next.to_owned());
        if ledger.is_nothing() {
            return say("", "");
        }
        if let Some(reason) = self.parts.hooks.failure().or_else(|| self.volume().failure()) {
            return say(&reason, "Mend the cause and mount again.");
        }
        let not_safe = ledger.unsafe_amount();
        if let Some(cause) = self.parts.link.status().held_up_by_choice() {
            return say(&cause, super::stations::USE_ANOTHER);
        }
        let link = self.parts.link.status().state;
        // Whatever else holds it up: without room here nothing more is taken.
        if let (true, Some(full)) =
            (link != LinkState::Connected && self.volume().room().full != Full::No, self.volume().full())
        {
            return say(&full, MAKE_ROOM);
        }
        match link {
            LinkState::Offline => say("offline, as you said", "`wayfs auto` connects again."),
            LinkState::Searching { last_error } if last_error.is_empty() => {
                say("no station is connected", "Check the network; it connects by itself.")
            }
            LinkState::Searching { last_error } => say(&last_error, what_helps(&last_error)),
            LinkState::Refused { reason } => say(&reason, super::status::NEW_TICKET),
            LinkState::Connected if self.volume().full().is_some() => {
                say(&self.volume().full().unwrap_or_default(), MAKE_ROOM)
            }
            LinkState::Connected if self.is_over_quota() => say(super::status::OVER_QUOTA, super::status::LESS_OR_MORE),
            LinkState::Connected if not_safe.records > 0 || not_safe.versions > 0 => {
                say("on its way to the station", "")
            }
            LinkState::Connected if !ledger.is_safe() => say("written to open files, not yet closed or synced", ""),
            LinkState::Connected if ledger.home_lacks.records > 0 => {
                say("the station's next reconciliation with the home", "")
            }
            LinkState::Connected => say(
                "the station keeps contents until its policy or a reader wants them at the home",
                "`wayfs sync --until stable` sends them now.",
            ),
        }
    }
}
