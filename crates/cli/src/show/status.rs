//! The one screen.

use super::quantity::{Now, age, bytes, duration, milliseconds};
use super::table::clean;
use std::fmt::Write;
use wayfs_control::report::{StationReport, StatusReport, VolumeStatus};

/// Daemons one after the other.
pub(crate) fn statuses(reports: &[StatusReport], now: Now) -> String {
    if reports.is_empty() {
        return "No daemon of yours runs on this machine. Start one with `wayfs mount` or `wayfs serve`.\n".to_owned();
    }
    let texts: Vec<String> = reports.iter().map(|report| status(report, now)).collect();
    texts.join("\n")
}

fn status(report: &StatusReport, now: Now) -> String {
    let listening = if report.listening.is_empty() {
        String::new()
    } else {
        format!(", listens at {}", report.listening.join(", "))
    };
    let node: String = report.node.chars().take(8).collect();
    let mut text = format!(
        "{} {} (pid {}, up {}{listening}), wayfs {}\n",
        report.kind,
        node,
        report.pid,
        duration(report.uptime_ms),
        report.version
    );
    if report.volumes.is_empty() {
        text.push_str("  no volumes yet: `wayfs volume create NAME`\n");
    }
    for volume in &report.volumes {
        text.push_str(&volume_status(volume, now));
    }
    text
}

fn volume_status(volume: &VolumeStatus, now: Now) -> String {
    let mut text = String::new();
    let place = volume.mountpoint.as_ref().map(|dir| format!(" at {}", clean(dir.display()))).unwrap_or_default();
    // It may be offline though it was told to be online, since nobody answers.
    let mode = if matches!(volume.mode.as_str(), "" | "auto") {
        String::new()
    } else {
        format!(" (told to be {})", volume.mode)
    };
    let mut line = |name: &str, value: String| {
        if !value.is_empty() {
            let _ = writeln!(text, "    {name:<13}{value}");
        }
    };
    line("parent", volume.parent.as_ref().map(parent).unwrap_or_default());
    line("home", home(volume));
    line("room", volume.full.as_deref().map(clean).unwrap_or_default());
    for (name, value) in super::ledger::lines(&volume.ledger, volume.role) {
        line(name, value);
    }
    line("reconciled", volume.reconciled_unix_ms.map(|at| age(at, now)).unwrap_or_default());
    line("lost", lost(volume.versions_lost));
    line("conflicts", conflicts(volume.conflicts_open));
    line("children", if volume.children > 0 { volume.children.to_string() } else { String::new() });
    line("sharing", clean(&volume.sharing));
    line("cache", cache(volume));
    line("scrub", super::scrub::line(&volume.scrub, now));
    line("why", clean(&volume.cause));
    line("what to do", clean(&volume.next_step));
    let read_only = if volume.read_only { ", read-only" } else { "" };
    format!("  {} ({}{read_only}){place}: {}{mode}\n{text}", clean(&volume.name), volume.role, volume.word)
}

fn parent(station: &StationReport) -> String {
    let rtt = station.rtt_ms.map(|ms| format!(", {}", milliseconds(ms))).unwrap_or_default();
    let link = if station.connected { "connected" } else { "not connected" };
    let note = if station.note.is_empty() { String::new() } else { format!("; {}", clean(&station.note)) };
    format!("{} ({}), {link}{rtt}{note}", clean(&station.name), station.role)
}

/// How the home is, as far as the parent tells.
fn home(volume: &VolumeStatus) -> String {
    let has_parent = volume.parent.as_ref().is_some_and(|parent| parent.connected);
    let seen = match (volume.home_reachable, volume.home_seen_ms) {
        (None, _) => return String::new(),
        (Some(true), None) => "reachable".to_owned(),
        (Some(true), Some(ms)) => format!("reachable, seen {} ago", duration(ms)),
        (Some(false), None) => "not reachable".to_owned(),
        (Some(false), Some(ms)) if has_parent => format!("away for {}", duration(ms)),
        (Some(false), Some(ms)) => format!("not heard for {}", duration(ms)),
    };
    let Some(age) = volume.home_word_age_ms else {
        let is_hearsay = volume.home_seen_ms.is_some() && volume.parent.as_ref().is_some_and(|p| p.role == "station");
        return if is_hearsay { format!("{seen} (my station says)") } else { seen };
    };
    format!("{seen} (the home's word, {} old)", duration(age))
}

fn lost(versions: u64) -> String {
    if versions == 0 { String::new() } else { format!("{versions}, whose bytes nobody has (`wayfs conflicts list`)") }
}

fn conflicts(open: u64) -> String {
    if open == 0 { String::new() } else { format!("{open} open (`wayfs conflicts list`)") }
}

fn cache(volume: &VolumeStatus) -> String {
    let limit = volume.cache_limit_bytes.map(|limit| format!(" of {}", bytes(limit))).unwrap_or_default();
    let pinned =
        if volume.pinned_bytes > 0 { format!(", {} pinned", bytes(volume.pinned_bytes)) } else { String::new() };
    format!("{}{limit}{pinned}", bytes(volume.cache_used_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use wayfs_control::DaemonKind;
    use wayfs_control::report::{AmountReport, LedgerReport, StatusWord, VolumeRole};

    #[test]
    fn one_screen_says_it_all() {
        let station = StationReport {
            name: "office".into(),
            role: "station".into(),
            connected: true,
            rtt_ms: Some(1.23),
            ..StationReport::default()
        };
        let here = AmountReport { records: 2, versions: 0, bytes: 2048, oldest_ms: Some(3000) };
        let ledger = LedgerReport { not_safe: Some(here), home_lacks: here, ..LedgerReport::default() };
        let volume = VolumeStatus {
            name: "photos".into(),
            role: VolumeRole::Client,
            mountpoint: Some("/mnt".into()),
            word: StatusWord::Dirty,
            cause: "2 files are on their way".into(),
            parent: Some(station),
            home_reachable: Some(false),
            ledger,
            conflicts_open: 1,
            cache_limit_bytes: Some(10 << 30),
            mode: "auto".into(),
            read_only: true,
            ..VolumeStatus::default()
        };
        let report = StatusReport {
            kind: DaemonKind::Mount,
            version: "0.1.0".into(),
            pid: 7,
            uptime_ms: 61_000,
            node: "abcdefghijkl".into(),
            listening: vec![],
            volumes: vec![volume],
        };
        let expected = "\
mount abcdefgh (pid 7, up 61 s), wayfs 0.1.0
  photos (client, read-only) at /mnt: dirty
    parent       office (station), connected, 1.2 ms
    home         not reachable
    only here    2 updates, 2.0 KiB, the oldest for 3.0 s (`wayfs queue`)
    conflicts    1 open (`wayfs conflicts list`)
    cache        0 B of 10 GiB
    why          2 files are on their way
";
        assert_eq!(statuses(&[report], Now(0)), expected);
    }

    #[test]
    fn nothing_running_says_what_to_do() {
        assert!(statuses(&[], Now(0)).contains("wayfs mount"));
    }
}
