//! Stations, volumes, members, copies, events.

use super::file::path_text;
use super::quantity::{Now, age, bit_rate, bytes, count, date, milliseconds};
use super::table::{clean, table};
use std::fmt::Write;
use wayfs_control::report::{
    BackupReport, CopyReport, DeleteReport, GivenUpReport, MemberReport, MembersReport, PromoteReport, RestoreReport,
    StationReport, StationsReport, UsageReport, VolumeReport, VolumesReport, WhyReport,
};
use wayfs_control::{Event, EventKind, Owner, TicketLimits, TicketRole};

/// Files shown of those whose contents are missing.
const MISSING_SHOWN: usize = 20;

/// Known stations.
pub(crate) fn stations(report: &StationsReport) -> String {
    if report.stations.is_empty() { "No stations are known yet.\n".to_owned() } else { station_table(&report.stations) }
}

fn station_table(stations: &[StationReport]) -> String {
    let rows: Vec<Vec<String>> = stations
        .iter()
        .map(|station| {
            let mark = if station.chosen { "*" } else { " " };
            let dash = || "-".to_owned();
            vec![
                format!("{mark} {}", clean(&station.name)),
                station.role.clone(),
                station.rtt_ms.map_or_else(dash, milliseconds),
                station.up_bits_per_second.map_or_else(dash, bit_rate),
                station.down_bits_per_second.map_or_else(dash, bit_rate),
                station.confidence.map_or_else(dash, |c| format!("{:.0} %", c.clamp(0.0, 1.0) * 100.0)),
                clean(station.addresses.join(", ")),
                clean(&station.note),
            ]
        })
        .collect();
    table(&["  NAME", "ROLE", "RTT", "UP", "DOWN", "SURE", "ADDRESSES", "NOTE"], &rows)
}

/// Why this station.
pub(crate) fn why(report: &WhyReport) -> String {
    let mut text = match &report.chosen {
        Some(name) => format!("In use: {}\n", clean(name)),
        None => "No station is in use.\n".to_owned(),
    };
    for reason in &report.reasons {
        let _ = writeln!(text, "  - {}", clean(reason));
    }
    if !report.candidates.is_empty() {
        text.push_str(&station_table(&report.candidates));
    }
    text
}

/// One volume.
pub(crate) fn volume(report: &VolumeReport) -> String {
    format!("{} ({}), this server is its {}\n", clean(&report.name), report.id, report.role)
}

/// Volumes of a server.
pub(crate) fn volumes(report: &VolumesReport) -> String {
    if report.volumes.is_empty() {
        return "No volumes yet: make one with `wayfs volume create NAME`.\n".to_owned();
    }
    let rows: Vec<Vec<String>> = report
        .volumes
        .iter()
        .map(|volume| {
            vec![
                clean(&volume.name),
                volume.role.to_string(),
                volume.members.to_string(),
                bytes(volume.stored_bytes),
                volume.created_unix_ms.map_or_else(|| "-".to_owned(), date),
                volume.id.clone(),
            ]
        })
        .collect();
    table(&["NAME", "ROLE", "MEMBERS", "STORED", "SINCE", "ID"], &rows)
}

/// Members of a volume.
pub(crate) fn members(report: &MembersReport, now: Now) -> String {
    let rows: Vec<Vec<String>> = report
        .members
        .iter()
        .map(|member| {
            let seen = match (member.connected, member.seen_unix_ms) {
                (true, _) => "connected".to_owned(),
                (false, Some(at)) => age(at, now),
                (false, None) => "-".to_owned(),
            };
            let node = member.node.chars().take(8).collect();
            vec![
                member.origin.to_string(),
                clean(&member.label),
                member.role.clone(),
                seen,
                member.records_applied.to_string(),
                node,
                used(&member.usage),
                limits(&member.limits),
            ]
        })
        .collect();
    let mut text = table(&["ORIGIN", "LABEL", "ROLE", "SEEN", "RECORDS", "NODE", "USED", "LIMITS"], &rows);
    let _ = writeln!(text, "All together: {}.", used(&report.usage));
    text
}

/// What is taken up, and of how much.
fn used(usage: &UsageReport) -> String {
    let of = |max: Option<String>| max.map_or_else(String::new, |max| format!(" of {max}"));
    let files = count(usage.files, "file");
    format!(
        "{}{}, {files}{}",
        bytes(usage.bytes),
        of(usage.bytes_max.map(bytes)),
        of(usage.files_max.map(|max| max.to_string()))
    )
}

/// What a member may do less than others, in the words of the ticket's options.
fn limits(limits: &TicketLimits) -> String {
    let mut words = Vec::new();
    words.extend(limits.squash.map(|Owner { uid, gid }| format!("squash {uid}:{gid}")));
    words.extend(limits.no_setid.then(|| "no-setid".to_owned()));
    words.extend(limits.path.as_deref().map(|path| format!("path {}", path_text(path))));
    if words.is_empty() { "-".to_owned() } else { words.join(", ") }
}

/// The public keys of a volume's members in groups of four, to be read to each other.
pub(crate) fn fingerprint(report: &MembersReport) -> String {
    let groups = |key: &str| {
        let letters: Vec<char> = key.chars().collect();
        letters.chunks(4).map(|group| group.iter().collect::<String>()).collect::<Vec<_>>().join(" ")
    };
    let row = |member: &MemberReport| vec![member.role.clone(), clean(&member.label), groups(&member.node)];
    table(&["ROLE", "LABEL", "KEY"], &report.members.iter().map(row).collect::<Vec<_>>())
}

/// What deleting a volume would take away.
pub(crate) fn to_be_deleted(report: &DeleteReport) -> String {
    let mut text = format!("{} ({}): {}\n", clean(&report.name), report.id, contents(report));
    for member in &report.members {
        let connected = if member.connected { ", connected" } else { "" };
        let _ = writeln!(text, "  {} ({}{connected})", clean(&member.label), member.role);
    }
    text.push_str(
        "Deleting it removes all of this here, and at its stations when they hear of it. There is no way back.\n",
    );
    text
}

/// What a station lacks that takes the place of its home, and what to do next.
pub(crate) fn promoted(report: &PromoteReport) -> String {
    let mut text = match report.promoted {
        true => format!("This server is the home of {} now.\n", clean(&report.name)),
        false => format!("As the home of {}, this station would lack what is named here:\n", clean(&report.name)),
    };
    if !report.is_whole {
        text.push_str("  metadata: it never had all of it, or is taking it over just now\n");
    }
    let unconfirmed = count(report.unconfirmed_records, "record");
    let _ = writeln!(
        text,
        "  {unconfirmed} that the old home had not confirmed become part of the volume as they stand here"
    );
    let files = count(report.missing_files, "file");
    let _ = writeln!(
        text,
        "  contents of {files}, {}: they are read again if a machine that has them joins",
        bytes(report.missing_bytes)
    );
    for path in report.missing_paths.iter().take(MISSING_SHOWN) {
        let _ = writeln!(text, "    {}", clean(path));
    }
    if report.missing_paths.len() > MISSING_SHOWN {
        text.push_str("    … `--json` names up to a thousand\n");
    }
    text.push_str("  what stations and clients have beyond that comes with them when they join with a new ticket\n");
    for step in &report.next_steps {
        let _ = writeln!(text, "→ {}", clean(step));
    }
    text
}

/// What a deletion took away, or would.
pub(crate) fn deleted(report: &DeleteReport) -> String {
    let word = if report.deleted { "Deleted" } else { "Would delete" };
    format!("{word} {}: {}.\n", clean(&report.name), contents(report))
}

/// Contents that are given up, file by file.
pub(crate) fn given_up(report: &GivenUpReport) -> String {
    if report.contents.is_empty() && report.left == 0 {
        return "Nothing waits for a machine that is away.\n".to_owned();
    }
    let mut text = String::new();
    for content in &report.contents {
        let path = content.path.as_deref().map_or_else(|| "(removed)".to_owned(), clean);
        let then = if content.has_older { "shows what it held before" } else { "cannot be read" };
        let waits_for = clean(content.waits_for.join(", "));
        let _ =
            writeln!(text, "{path}  {} of version {} at {waits_for}: {then}", bytes(content.bytes), content.version);
    }
    let verb = if report.declared { "declared lost" } else { "would be declared lost" };
    let _ = writeln!(text, "{} {verb}.", count(report.contents.len() as u64, "version"));
    if report.left > 0 {
        let left = count(report.left as u64, "version");
        let _ = writeln!(
            text,
            "{left} left: a machine that is there has the bytes, the home has no room for them, or not all could be asked \
             within a minute. Say it again to go on with what still waits then."
        );
    }
    text
}

fn contents(report: &DeleteReport) -> String {
    let members = count(report.members.len() as u64, "member");
    format!("{}, {}, {members}", count(report.files, "file"), bytes(report.bytes))
}

/// What a ticket admits, in words.
pub(crate) fn admitted(role: TicketRole) -> &'static str {
    match role {
        TicketRole::Client => "machine",
        TicketRole::Station => "station",
        TicketRole::Reader => "machine that may only read",
    }
}

/// What was copied.
pub(crate) fn copied(report: &CopyReport) -> String {
    let mut text = format!(
        "Copied {} and {}, {}.\n",
        count(report.files, "file"),
        count(report.directories, "directory"),
        bytes(report.bytes)
    );
    for line in &report.skipped {
        let _ = writeln!(text, "  left out: {}", clean(line));
    }
    text
}

/// What a backup holds.
pub(crate) fn backed_up(report: &BackupReport) -> String {
    let mut text = format!(
        "Backed up {}: {} of contents, {} of them new.\n",
        clean(&report.volume),
        bytes(report.chunk_bytes),
        bytes(report.written_bytes)
    );
    text.push_str(&not_in_backup(NotInBackup { chunks: report.damaged_chunks, versions: report.versions_missing }));
    text
}

/// What was restored, and what to do now.
pub(crate) fn restored(report: &RestoreReport) -> String {
    let mut text = format!(
        "Restored {} as it was at {}: {} of contents.\n",
        clean(&report.volume),
        date(report.made_unix_ms),
        bytes(report.chunk_bytes)
    );
    text.push_str(&not_in_backup(NotInBackup { chunks: report.damaged_chunks, versions: report.versions_missing }));
    text.push_str(
        "Start the server on it with `wayfs serve --data DIR`, and issue new tickets: old ones are not in a backup.\n",
    );
    text
}

/// How much of a volume is not in its backup.
struct NotInBackup {
    /// Damaged ones.
    chunks: u64,
    /// Those of which the home had no contents.
    versions: u64,
}

fn not_in_backup(missing: NotInBackup) -> String {
    let mut text = String::new();
    if missing.chunks > 0 {
        let _ = writeln!(text, "  not in it: {}, damaged", count(missing.chunks, "chunk"));
    }
    if missing.versions > 0 {
        let held = "of which the home had no contents: stations or clients hold them";
        let _ = writeln!(text, "  not in it: {} {held}", count(missing.versions, "version"));
    }
    text
}

/// One event on one line.
pub(crate) fn event(event: &Event) -> String {
    let kind = match event.kind {
        EventKind::Created => "created",
        EventKind::Edited => "edited",
        EventKind::Renamed => "renamed",
        EventKind::Removed => "removed",
        EventKind::Attributes => "attributes",
        EventKind::Applied => "applied",
        EventKind::Safe => "safe",
        EventKind::Visible => "visible",
        EventKind::Stable => "stable",
        EventKind::Conflict => "conflict",
        EventKind::Resolved => "resolved",
        EventKind::Connected => "connected",
        EventKind::Disconnected => "disconnected",
        EventKind::Moved => "moved",
        EventKind::Fetched => "fetched",
        EventKind::Member => "member",
        EventKind::Attention => "attention",
        EventKind::Lost => "lost",
    };
    let mut text = format!("{}  {kind:<12}", date(event.unix_ms));
    let from = event.from.as_deref().map(|from| format!("from {}", path_text(from)));
    let path = event.path.as_deref().map(path_text);
    for part in [event.volume.clone(), path, from, event.by.clone(), event.record.clone()] {
        if let Some(part) = part.filter(|part| !part.is_empty()) {
            let _ = write!(text, "  {}", clean(part));
        }
    }
    if let Some(size) = event.size_bytes {
        let _ = write!(text, "  {}", bytes(size));
    }
    if !event.detail.is_empty() {
        let _ = write!(text, "  {}", clean(&event.detail));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use wayfs_control::report::{MemberReport, VolumeRole};

    #[test]
    fn the_station_in_use_is_marked() {
        let near = StationReport {
            name: "office".into(),
            role: "station".into(),
            chosen: true,
            rtt_ms: Some(0.5),
            up_bits_per_second: Some(10_000_000),
            confidence: Some(0.9),
            ..StationReport::default()
        };
        let far = StationReport { name: "home".into(), role: "home".into(), ..StationReport::default() };
        let text = stations(&StationsReport { stations: vec![near.clone(), far] });
        assert!(text.contains("* office  station  0.50 ms  10 Mb/s  -     90 %"), "{text}");
        let reasons =
            WhyReport { chosen: Some("office".into()), reasons: vec!["it is near".into()], candidates: vec![near] };
        assert!(why(&reasons).starts_with("In use: office\n  - it is near\n"));
    }

    #[test]
    fn members_and_volumes_are_listed() {
        let member = MemberReport {
            origin: 2,
            label: "ann@lap".into(),
            node: "abcdefghijk".into(),
            role: "client".into(),
            records_applied: 9,
            connected: false,
            seen_unix_ms: Some(0),
            limits: TicketLimits { squash: Some(Owner { uid: 5, gid: 6 }), no_setid: true, path: Some("a/b".into()) },
            usage: UsageReport { bytes: 5, files: 1, bytes_max: Some(1 << 20), files_max: Some(9) },
        };
        let report = MembersReport { members: vec![member], usage: UsageReport::default() };
        assert!(
            members(&report, Now(5000))
                .contains("2       ann@lap  client  5.0 s ago  9        abcdefgh  5 B of 1.0 MiB, 1 file of 9  squash 5:6, no-setid, path a/b")
        );
        assert!(fingerprint(&report).contains("client  ann@lap  abcd efgh ijk"));
        let report = VolumeReport {
            id: "id".into(),
            name: "v".into(),
            role: VolumeRole::Home,
            members: 3,
            stored_bytes: 0,
            created_unix_ms: None,
        };
        assert_eq!(volume(&report), "v (id), this server is its home\n");
        assert!(volumes(&VolumesReport { volumes: vec![report] }).contains("v     home  3        0 B     -      id"));
    }

    #[test]
    fn an_event_fits_on_a_line() {
        let line = event(&Event {
            unix_ms: 0,
            kind: EventKind::Conflict,
            volume: Some("v".into()),
            path: Some("a\nb".into()),
            from: Some("c".into()),
            record: None,
            by: Some("ann@lap".into()),
            size_bytes: None,
            detail: "kept".into(),
        });
        assert_eq!(line, "1970-01-01 00:00:00 UTC  conflict      v  a\u{fffd}b  from c  ann@lap  kept");
    }
}
