//! What a mount can say about its own health.

use super::MountCommands;
use wayfs_admin::doctor::{self, fact};
use wayfs_control::report::{DoctorFact, DoctorReport, LedgerReport, Verdict};
use wayfs_fuse::InitFlags;
use wayfs_node::LinkState;

/// Age of the oldest unsafe update above which something is wrong.
const OLD_MS: u64 = 10 * 60_000;

impl MountCommands {
    pub(super) fn doctor(&self) -> DoctorReport {
        let (ledger, volume) = (self.ledger(), self.volume());
        DoctorReport {
            facts: vec![
                doctor::replica("replica", self.parts.hooks.failure().or_else(|| volume.failure())),
                self.link_fact(),
                self.home_fact(),
                self.disk_fact(),
                doctor::way_home("room on the way home", volume),
                self.kernel_fact(),
                self.not_safe_fact(&ledger),
                self.at_station_fact(&ledger),
                doctor::own_contents("own contents", volume),
                doctor::conflicts("conflicts", volume),
            ],
        }
    }

    fn link_fact(&self) -> DoctorFact {
        let status = self.parts.link.status();
        if let Some(cause) = status.held_up_by_choice() {
            return fact("station", Verdict::Warning, cause, super::stations::USE_ANOTHER);
        }
        match status.state {
            LinkState::Connected => {
                let rtt = status.rtt.map_or(0.0, |rtt| rtt.as_secs_f64() * 1e3);
                let name = status.parent.map(|parent| parent.label).unwrap_or_default();
                fact("station", Verdict::Good, format!("{name}, {rtt:.1} ms away"), "")
            }
            LinkState::Offline => {
                fact("station", Verdict::Warning, "offline, as you said", "`wayfs auto` connects again.")
            }
            LinkState::Searching { last_error } => {
                fact("station", Verdict::Warning, format!("none answers: {last_error}"), "Check the network.")
            }
            LinkState::Refused { reason } => fact("station", Verdict::Bad, reason, "Ask for a new ticket."),
        }
    }

    /// How the home is, by the station's word.
    fn home_fact(&self) -> DoctorFact {
        match (self.is_home_reachable(), self.home_seen()) {
            (Some(true), Some(ago)) => fact("home", Verdict::Good, format!("seen {} s ago", ago.as_secs()), ""),
            (_, Some(ago)) => {
                let next = "Nothing that is safe is lost; it goes home by itself when the home is back.";
                fact("home", Verdict::Warning, format!("not heard for {} s", ago.as_secs()), next)
            }
            (_, None) => fact("home", Verdict::Good, "not known yet: the station tells in its next answer", ""),
        }
    }

    fn disk_fact(&self) -> DoctorFact {
        let directory = self.parts.vfs.files().directory();
        match rustix::fs::statvfs(directory) {
            Ok(disk) => {
                let free = disk.f_bavail.saturating_mul(disk.f_frsize);
                let place = format!("on the disk of {}", directory.display());
                doctor::room("cache disk", &place, free, self.parts.vfs.settings().free_min)
            }
            Err(error) => fact("cache disk", Verdict::Bad, error.to_string(), "Check the disk."),
        }
    }

    fn kernel_fact(&self) -> DoctorFact {
        let granted = &self.parts.granted;
        if granted.flags.contains(InitFlags::PASSTHROUGH) {
            fact("passthrough", Verdict::Good, "cached files are read at the disk's own speed", "")
        } else {
            let next = "Run as root on Linux 6.9 or later for full speed; all works without.";
            fact("passthrough", Verdict::Warning, "the kernel did not grant it", next)
        }
    }

    /// What is on this machine only. It is well while it is under way, and not while it cannot go.
    fn not_safe_fact(&self, ledger: &LedgerReport) -> DoctorFact {
        let amount = ledger.unsafe_amount();
        if ledger.is_safe() {
            let is_home = ledger.is_nothing() || self.volume().full().is_none();
            let detail = if is_home { "everything is safe" } else { "nothing is on this machine only" };
            return fact("data at risk", Verdict::Good, detail, "");
        }
        let age = amount.oldest_ms.unwrap_or(0);
        let detail = format!(
            "{} updates, {} open files, {} KiB are on this machine only, the oldest for {} s: {}",
            amount.records,
            ledger.open_files,
            amount.bytes.div_ceil(1024),
            age / 1000,
            ledger.why
        );
        if self.volume().full().is_some() {
            return fact("data at risk", Verdict::Bad, detail, &ledger.next_step);
        }
        let connected = self.parts.link.status().state == LinkState::Connected;
        match (connected, age < OLD_MS) {
            (true, true) => fact("data at risk", Verdict::Good, detail, &ledger.next_step),
            (true, false) => fact("data at risk", Verdict::Warning, detail, "`wayfs queue` shows what waits and why."),
            (false, _) => fact("data at risk", Verdict::Warning, detail, &ledger.next_step),
        }
    }

    /// What has one copy at a station.
    fn at_station_fact(&self, ledger: &LedgerReport) -> DoctorFact {
        let amount = ledger.station_amount();
        if amount.is_nothing() {
            return fact("data not at the home", Verdict::Good, "none", "");
        }
        let detail = format!(
            "{} updates and the contents of {} files, {} KiB, are at a station and not at the home",
            amount.records,
            amount.versions,
            amount.bytes.div_ceil(1024)
        );
        if self.volume().full().is_some() {
            return fact(
                "data not at the home",
                Verdict::Warning,
                format!("{detail}: {}", ledger.why),
                &ledger.next_step,
            );
        }
        let next = "They go home by the volume's policy; `wayfs sync --until stable` sends them now.";
        fact("data not at the home", Verdict::Good, detail, next)
    }
}
