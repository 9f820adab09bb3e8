//! Conflicts in words.

use super::file::path_text;
use super::quantity::{bytes, count, date};
use super::table::{clean, table};
use std::fmt::Write;
use wayfs_control::report::{ConflictReport, ConflictsReport, ResolveReport, SideReport};
use wayfs_types::ConflictKind;

/// What met, in a few words.
pub(crate) fn kind(kind: ConflictKind) -> &'static str {
    match kind {
        ConflictKind::StoreStore => "two edits",
        ConflictKind::CreateCreate => "two new files of one name",
        ConflictKind::StoreUnlink => "edit and removal",
        ConflictKind::InsideRmdir => "removal of a directory in use",
        ConflictKind::RenameRename => "two renames",
        ConflictKind::RenameCycle => "renames into each other",
        ConflictKind::SetAttrSetAttr => "two attribute changes",
        ConflictKind::ContentLost => "contents lost",
        ConflictKind::Limited => "not allowed to its writer",
        ConflictKind::Homeless => "directory removed meanwhile",
    }
}

/// Open conflicts.
pub(crate) fn conflicts(report: &ConflictsReport) -> String {
    if report.conflicts.is_empty() {
        return "No open conflicts.\n".to_owned();
    }
    let rows: Vec<Vec<String>> = report
        .conflicts
        .iter()
        .map(|conflict| {
            let path = conflict.path.as_deref().map_or_else(|| "?".to_owned(), path_text);
            vec![
                conflict.id.clone(),
                date(conflict.unix_ms),
                kind(conflict.kind).to_owned(),
                clean(&conflict.other.by),
                path,
            ]
        })
        .collect();
    let mut text = table(&["ID", "WHEN", "WHAT", "BY", "PATH"], &rows);
    text.push_str(
        "See one with `wayfs conflicts show ID`, settle with `wayfs conflicts resolve ID --keep NAME|both|newest`.\n",
    );
    text
}

/// One conflict.
pub(crate) fn conflict(report: &ConflictReport) -> String {
    let path = report.path.as_deref().map_or_else(|| "?".to_owned(), path_text);
    let mut text = format!("conflict {} in {}: {}\n", report.id, clean(&report.volume), kind(report.kind));
    let _ = writeln!(text, "  path    {path}\n  when    {}", date(report.unix_ms));
    if !report.summary.is_empty() {
        let _ = writeln!(text, "  what    {}", clean(&report.summary));
    }
    let _ = writeln!(text, "  won     {}\n  other   {}", side(&report.winner), side(&report.other));
    text
}

fn side(side: &SideReport) -> String {
    let path = side.path.as_deref().map_or_else(|| "no file".to_owned(), path_text);
    let modified = date(side.modified_unix_ms);
    format!(
        "{} by {}, {}, modified {modified}, version {}",
        path,
        clean(&side.by),
        bytes(side.size_bytes),
        side.version
    )
}

/// What was settled.
pub(crate) fn resolved(report: &ResolveReport) -> String {
    let mut text = String::new();
    for item in &report.resolved {
        let path = item.path.as_deref().map_or_else(|| "?".to_owned(), path_text);
        let _ = writeln!(text, "{}  {path}: {}", item.id, clean(&item.action));
    }
    for item in &report.failed {
        let _ = writeln!(text, "{}  not settled: {}", item.id, clean(&item.reason));
    }
    let verb = if report.dry_run { "would be settled" } else { "settled" };
    let failed = if report.failed.is_empty() { String::new() } else { format!(", {} not", report.failed.len()) };
    let _ = writeln!(text, "{} {verb}{failed}", count(report.resolved.len() as u64, "conflict"));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use wayfs_control::report::{ResolveFailure, ResolvedConflict};

    #[test]
    fn conflicts_are_listed_with_a_next_step() {
        let report = ConflictReport {
            id: "2.7".into(),
            volume: "v".into(),
            kind: ConflictKind::StoreStore,
            path: Some("a.txt".into()),
            winner: SideReport { by: "ann@lap".into(), path: Some("a.txt".into()), ..SideReport::default() },
            other: SideReport { by: "bob@desk".into(), ..SideReport::default() },
            unix_ms: 0,
            summary: "Both edited it.".into(),
        };
        let text = conflicts(&ConflictsReport { conflicts: vec![report.clone()] });
        assert!(text.contains("2.7  1970-01-01 00:00:00 UTC  two edits  bob@desk  a.txt"), "{text}");
        assert!(text.contains("resolve ID"));
        assert!(conflict(&report).contains("won     a.txt by ann@lap"));
        assert_eq!(conflicts(&ConflictsReport::default()), "No open conflicts.\n");
    }

    #[test]
    fn what_was_not_settled_is_said() {
        let report = ResolveReport {
            dry_run: true,
            resolved: vec![ResolvedConflict { id: "2.7".into(), path: None, action: "keeps both".into() }],
            failed: vec![ResolveFailure { id: "2.8".into(), reason: "the copy is open".into() }],
        };
        assert_eq!(
            resolved(&report),
            "2.7  ?: keeps both\n2.8  not settled: the copy is open\n1 conflict would be settled, 1 not\n"
        );
    }
}
