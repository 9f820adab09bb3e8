//! Single files, the queue, pins, waits.

use super::ledger::amount;
use super::quantity::{Now, bytes, count, date, date_and_age, duration};
use super::table::{clean, table};
use std::fmt::Write;
use std::path::Path;
use wayfs_control::report::{
    FileInfo, Known, LostReport, PinsReport, QueueItem, QueueReport, RefreshReport, SyncReport, UmountReport,
};
use wayfs_control::{LOST_NEXT, Level, lost_text};

/// How far, in a word.
pub(crate) fn level(level: Level) -> &'static str {
    match level {
        Level::Modified => "modified",
        Level::Safe => "safe",
        Level::Visible => "visible",
        Level::Stable => "stable",
    }
}

fn lost(lost: &LostReport) -> String {
    let by = lost.by.as_ref().map(|by| format!(" by {}", clean(by))).unwrap_or_default();
    let since = match lost.declared_unix_ms {
        Some(at) => format!("declared by the home on {}", date(at)),
        None => "gone on this machine; the home asks whether somebody else has them".to_owned(),
    };
    let shown = if lost.shows_older { "the last whole content is shown" } else { "the file cannot be read" };
    format!("the bytes of version {}{by}: {since}; {shown}", lost.version)
}

/// A path from the volume's root as people write it.
pub(crate) fn path_text(path: &Path) -> String {
    if path.as_os_str().is_empty() { "/".to_owned() } else { clean(path.display()) }
}

/// All about one file.
pub(crate) fn info(report: &FileInfo, now: Now) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: &str| {
        if !value.is_empty() {
            let _ = writeln!(text, "{name:<12}{value}");
        }
    };
    line("path", &path_text(&report.path));
    line("volume", &clean(&report.volume));
    line("kind", &report.kind);
    line("size", &format!("{} ({} bytes)", bytes(report.size_bytes), report.size_bytes));
    line("inode", &report.inode.to_string());
    let writer = report.written_by.as_ref().map(|by| format!(" by {}", clean(by))).unwrap_or_default();
    line("version", &format!("{}{writer}", report.version));
    line("state", level(report.state));
    let at = report.safe_at.as_ref().map(|at| format!("at {}, ", clean(at))).unwrap_or_default();
    let since = |time: Option<i64>| time.map(|ms| format!("since {}", date_and_age(ms, now)));
    line("safe", &known(report.safe, &at, since(report.safe_unix_ms)));
    line("visible", &known(report.visible, "", since(report.visible_unix_ms)));
    line("stable", &known(report.stable, "", since(report.stable_unix_ms)));
    line("told by", &told_by(report));
    line("lost", &report.lost.as_ref().map(lost).unwrap_or_default());
    line("waits for", &clean(&report.waiting_for));
    line("held by", &clean(report.holders.join(", ")));
    line("cached", &format!("{} of {}", bytes(report.cached_bytes), bytes(report.size_bytes)));
    line("pinned", if report.pinned { "yes" } else { "" });
    line("exclusive", if report.exclusive { "yes: the home decides at once" } else { "" });
    line("conflicts", &clean(report.conflicts.join(", ")));
    text
}

/// Whose word that is, and how new the home's own is.
fn told_by(report: &FileInfo) -> String {
    let age = report.home_word_age_ms.map(duration);
    match (report.told_by.as_str(), age) {
        ("", None) => String::new(),
        ("", Some(age)) => format!("nobody is connected; the home's word is {age} old"),
        ("home", None) => "the home".to_owned(),
        ("home", Some(age)) => format!("the home's word, {age} old"),
        (_, None) => "my station says".to_owned(),
        (_, Some(age)) => format!("my station says; the home's own word that it is there is {age} old"),
    }
}

fn known(fact: Known, before: &str, since: Option<String>) -> String {
    match fact {
        Known::Yes => format!("{before}{}", since.unwrap_or_else(|| fact.to_string())),
        Known::No | Known::Unknown => fact.to_string(),
    }
}

/// What is under way.
pub(crate) fn queue(report: &QueueReport) -> String {
    let mut text = waiting(report);
    if report.versions_lost > 0 {
        // What is lost waits for nothing, and whoever reads that nothing waits takes all for saved.
        let _ = writeln!(text, "Lost: {}. {}", lost_text(report.versions_lost), LOST_NEXT);
    }
    text
}

fn waiting(report: &QueueReport) -> String {
    let waits = amount(&report.ledger.home_lacks);
    let shared = shared_reason(&report.items);
    let why = shared.unwrap_or(&report.ledger.why);
    let why = if why.is_empty() { String::new() } else { format!(": {}", clean(why)) };
    if report.items_total == 0 {
        // The list is of single updates; what has left it may not have come home yet.
        return if report.ledger.is_nothing() {
            "Nothing is waiting.\n".to_owned()
        } else {
            format!("Not at the home yet: {waits}{why}.\n")
        };
    }
    let rows: Vec<Vec<String>> =
        report.items.iter().map(|item| queue_row(item, if shared.is_some() { "" } else { &item.reason })).collect();
    let mut text = table(&["AGE", "STATE", "WHAT", "SENT", "PATH"], &rows);
    let shown = report.items.len() as u64;
    let more = if shown < report.items_total { format!(" ({shown} shown)") } else { String::new() };
    let _ = writeln!(
        text,
        "{}{more}, {} not at the home yet",
        count(report.items_total, "item"),
        bytes(report.bytes_total)
    );
    if !why.is_empty() {
        let _ = writeln!(text, "Why{why}");
    }
    text
}

/// Why all of several items wait, if it is the same: that is said once.
fn shared_reason(items: &[QueueItem]) -> Option<&str> {
    let [first, rest @ ..] = items else { return None };
    let is_shared = !rest.is_empty() && rest.iter().all(|item| item.reason == first.reason);
    is_shared.then_some(first.reason.as_str()).filter(|reason| !reason.is_empty())
}

fn queue_row(item: &QueueItem, reason: &str) -> Vec<String> {
    let state = if item.stuck { "stuck".to_owned() } else { level(item.state).to_owned() };
    let sent = if item.size_bytes == 0 {
        "-".to_owned()
    } else {
        format!("{} of {}", bytes(item.sent_bytes), bytes(item.size_bytes))
    };
    let path = item.path.as_deref().map_or_else(|| "(removed since)".to_owned(), path_text);
    let reason = if reason.is_empty() { String::new() } else { format!("  ({})", clean(reason)) };
    vec![duration(item.age_ms), state, item.operation.clone(), sent, format!("{path}{reason}")]
}

/// How a wait ended.
pub(crate) fn sync(report: &SyncReport) -> String {
    if report.reached {
        return format!("Everything is {} (waited {}).\n", level(report.until), duration(report.elapsed_ms));
    }
    let reason = if report.reason.is_empty() { String::new() } else { format!(": {}", clean(&report.reason)) };
    if report.lost > 0 && report.remaining_items == 0 {
        return format!("Not all is {} (waited {}){reason}.\n", level(report.until), duration(report.elapsed_ms));
    }
    format!(
        "Not {} after {}{reason}. {} ({}) are left.\n",
        level(report.until),
        duration(report.elapsed_ms),
        count(report.remaining_items, "item"),
        bytes(report.remaining_bytes)
    )
}

/// How a refresh ended.
pub(crate) fn refreshed(report: &RefreshReport) -> String {
    let took = duration(report.elapsed_ms);
    format!("All that was visible before is seen here (asked the home, {took}).\n")
}

/// What is pinned.
pub(crate) fn pins(report: &PinsReport) -> String {
    if report.pins.is_empty() {
        return "Nothing is pinned.\n".to_owned();
    }
    let rows: Vec<Vec<String>> = report
        .pins
        .iter()
        .map(|pin| {
            let here = format!("{} of {}", bytes(pin.cached_bytes), bytes(pin.total_bytes));
            vec![here, count(pin.files, "file"), path_text(&pin.path)]
        })
        .collect();
    table(&["HERE", "FILES", "PATH"], &rows)
}

/// How an unmount ended.
pub(crate) fn umount(report: &UmountReport) -> String {
    if report.unsent_records == 0 && report.unsent_bytes == 0 {
        return "Unmounted; everything is safe.\n".to_owned();
    }
    format!(
        "Unmounted. {} ({}) exist on this machine only: mount the volume again to send them.\n",
        count(report.unsent_records, "record"),
        bytes(report.unsent_bytes)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_lines_up() {
        let item = QueueItem {
            path: Some("a/b".into()),
            volume: "v".into(),
            record: "2.3".into(),
            operation: "store".into(),
            size_bytes: 4096,
            sent_bytes: 1024,
            age_ms: 1500,
            state: Level::Modified,
            safe: Known::No,
            visible: Known::No,
            stable: Known::No,
            stuck: true,
            reason: "no station".into(),
        };
        let text = queue(&QueueReport {
            items: vec![item.clone()],
            items_total: 3,
            bytes_total: 8192,
            ..QueueReport::default()
        });
        let expected = "\
AGE    STATE  WHAT   SENT                PATH
1.5 s  stuck  store  1.0 KiB of 4.0 KiB  a/b  (no station)
3 items (1 shown), 8.0 KiB not at the home yet
";
        assert_eq!(text, expected);
        assert_eq!(queue(&QueueReport::default()), "Nothing is waiting.\n");
        let two = vec![item.clone(), QueueItem { path: Some("c".into()), ..item }];
        let text = queue(&QueueReport { items: two, items_total: 2, bytes_total: 8192, ..QueueReport::default() });
        let expected = "\
AGE    STATE  WHAT   SENT                PATH
1.5 s  stuck  store  1.0 KiB of 4.0 KiB  a/b
1.5 s  stuck  store  1.0 KiB of 4.0 KiB  c
2 items, 8.0 KiB not at the home yet
Why: no station
";
        assert_eq!(text, expected, "a reason that all share is told once");
        let text = queue(&QueueReport { versions_lost: 1, ..QueueReport::default() });
        assert!(text.starts_with("Nothing is waiting.\nLost: nobody has the bytes of one version"), "{text}");
    }

    #[test]
    fn a_file_that_is_safe_says_what_is_missing() {
        let report = FileInfo {
            path: "x".into(),
            volume: "v".into(),
            inode: 5,
            kind: "file".into(),
            size_bytes: 10,
            version: "2.3".into(),
            written_by: Some("ann@lap".into()),
            state: Level::Safe,
            safe: Known::Yes,
            visible: Known::No,
            stable: Known::Unknown,
            safe_at: Some("office".into()),
            safe_unix_ms: Some(0),
            visible_unix_ms: None,
            stable_unix_ms: None,
            told_by: "home".into(),
            home_word_age_ms: Some(4000),
            lost: None,
            waiting_for: "the next reconciliation".into(),
            holders: vec!["here".into(), "parent".into()],
            cached_bytes: 10,
            pinned: false,
            exclusive: false,
            conflicts: vec![],
        };
        let text = info(&report, Now(3_000));
        assert!(text.contains("safe        at office, since 1970-01-01 00:00:00 UTC (3.0 s ago)\n"), "{text}");
        assert!(text.contains("stable      unknown here\n"), "{text}");
        assert!(text.contains("visible     not yet\n") && text.contains("held by     here, parent\n"), "{text}");
        assert!(text.contains("told by     the home's word, 4.0 s old\n"), "{text}");
        assert!(!text.contains("pinned"));
    }

    #[test]
    fn waits_say_how_they_ended() {
        let mut report = SyncReport {
            reached: true,
            until: Level::Safe,
            remaining_items: 0,
            remaining_bytes: 0,
            lost: 0,
            elapsed_ms: 400,
            reason: String::new(),
        };
        assert_eq!(sync(&report), "Everything is safe (waited 0.4 s).\n");
        report.reached = false;
        report.remaining_items = 2;
        report.reason = "no station answers".into();
        assert_eq!(sync(&report), "Not safe after 0.4 s: no station answers. 2 items (0 B) are left.\n");
        report.remaining_items = 0;
        report.lost = 1;
        report.reason = wayfs_control::lost_text(1);
        assert_eq!(sync(&report), "Not all is safe (waited 0.4 s): nobody has the bytes of one version of a file.\n");
    }
}
