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
        let (ledger, volume, way) = (self.ledger(), self.volume(), self.way());
        DoctorReport {
            facts: vec![
                doctor::replica("replica", self.parts.hooks.failure().or_else(|| volume.failure())),
                self.link_fact(),
                self.home_fact(),
                self.disk_fact(),
                doctor::way_home("room on the way home", volume),
                self.kernel_fact(),
                not_safe_fact(&ledger, way),
                at_station_fact(&ledger, way),
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
        let directory = self.parts.fs.files().directory();
        match rustix::fs::statvfs(directory) {
            Ok(disk) => {
                let free = disk.f_bavail.saturating_mul(disk.f_frsize);
                let place = format!("on the disk of {}", directory.display());
                let refused_at = self.parts.fs.settings().free_min;
                doctor::room("cache disk", &place, doctor::DiskRoom { free, refused_at })
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

    /// What the facts about the ledger need to know besides it.
    fn way(&self) -> Way {
        Way {
            is_connected: self.parts.link.status().state == LinkState::Connected,
            is_full: self.volume().full().is_some(),
        }
    }
}

/// The way to the home.
#[derive(Debug, Clone, Copy)]
struct Way {
    is_connected: bool,
    /// A disk on it has no room.
    is_full: bool,
}

/// What is on this machine only, by the same account and in the same words as `status` has it, whatever else is to be said. It is
/// well while it is under way, and not while it cannot go.
fn not_safe_fact(ledger: &LedgerReport, way: Way) -> DoctorFact {
    let amount = ledger.unsafe_amount();
    if ledger.is_safe() {
        return fact("data at risk", Verdict::Good, "nothing is on this machine only", "");
    }
    let age = amount.oldest_ms.unwrap_or(0);
    let detail = format!(
        "{} updates, the contents of {} files, {} open files, {} KiB are on this machine only, the oldest for {} s: {}",
        amount.records,
        amount.versions,
        ledger.open_files,
        amount.bytes.div_ceil(1024),
        age / 1000,
        ledger.why
    );
    match (way, age < OLD_MS) {
        (Way { is_full: true, .. }, _) => fact("data at risk", Verdict::Bad, detail, &ledger.next_step),
        (Way { is_connected: true, .. }, true) => fact("data at risk", Verdict::Good, detail, &ledger.next_step),
        (Way { is_connected: true, .. }, false) => {
            fact("data at risk", Verdict::Warning, detail, "`wayfs queue` shows what waits and why.")
        }
        (Way { is_connected: false, .. }, _) => fact("data at risk", Verdict::Warning, detail, &ledger.next_step),
    }
}

/// What has one copy at a station.
fn at_station_fact(ledger: &LedgerReport, way: Way) -> DoctorFact {
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
    if way.is_full {
        let detail = format!("{detail}: {}", ledger.why);
        return fact("data not at the home", Verdict::Warning, detail, &ledger.next_step);
    }
    let next = "They go home by the volume's policy; `wayfs sync --until stable` sends them now.";
    fact("data not at the home", Verdict::Good, detail, next)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wayfs_control::report::AmountReport;

    /// What stands at a station and not at the home is not on this machine only, be a disk on the way full or not.
    #[test]
    fn doctor_and_status_say_the_same_of_what_is_only_here() {
        let one = AmountReport { versions: 2, bytes: 9, ..AmountReport::default() };
        for (here, at_station, open_files) in
            [(false, false, 0), (false, true, 0), (true, false, 0), (true, true, 0), (false, true, 1)]
        {
            let amount = |is_there: bool| if is_there { one } else { AmountReport::default() };
            let (not_safe, at) = (amount(here), amount(at_station));
            let home_lacks = not_safe.plus(at);
            let ledger = LedgerReport {
                not_safe: Some(not_safe),
                at_station: Some(at),
                home_lacks,
                open_files,
                ..LedgerReport::default()
            };
            for (is_connected, is_full) in [(true, true), (true, false), (false, true), (false, false)] {
                let way = Way { is_connected, is_full };
                let (risk, station) = (not_safe_fact(&ledger, way), at_station_fact(&ledger, way));
                let is_safe = risk.detail == "nothing is on this machine only";
                assert_eq!(is_safe, ledger.is_safe(), "{way:?} {ledger:?}: {}", risk.detail);
                assert!(is_safe || !here || risk.detail.contains("contents of 2 files"), "{}", risk.detail);
                assert_eq!(station.detail == "none", !at_station, "{way:?} {ledger:?}: {}", station.detail);
            }
        }
    }
}
