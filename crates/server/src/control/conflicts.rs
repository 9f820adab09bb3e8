//! Conflicts at a server: listing and settling them.

use super::files::at_path;
use super::status::unix_ms;
use super::target::failed;
use crate::served::Served;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use wayfs_control::report::{
    ConflictReport, ConflictsReport, DiffReport, ResolveFailure, ResolveReport, ResolvedConflict, SideReport,
};
use wayfs_control::{ConflictRef, ControlError, ErrorKind, Keep, Selection};
use wayfs_proto::OpenConflict;
use wayfs_types::request::{Change, Request};
use wayfs_types::{ConflictKind, FileId, FsError, Inode, RecordId, WallTime};

/// Most conflicts listed.
const LIST_MAX: usize = 100_000;
const PAGE: usize = 1024;
/// Longest wait for a change of a server's own volume, which needs nobody else.
const CHANGE_MAX: Duration = Duration::from_secs(10);

/// What to settle and how.
pub(super) struct Args {
    pub(super) which: Selection,
    pub(super) keep: Keep,
    pub(super) dry_run: bool,
}

pub(super) fn list(volumes: &[Arc<Served>]) -> Result<ConflictsReport, ControlError> {
    let mut report = ConflictsReport::default();
    for served in volumes {
        report.conflicts.extend(open(served)?.iter().map(|conflict| self::report(served, conflict)));
    }
    Ok(report)
}

fn open(served: &Served) -> Result<Vec<OpenConflict>, ControlError> {
    let mut all: Vec<OpenConflict> = Vec::new();
    loop {
        let after = all.last().map(|conflict| conflict.id);
        let page = served.volume.look(|replica| replica.conflicts(after, PAGE));
        let page = page.ok_or_else(|| failed("list conflicts", "the volume has stopped"))?;
        let page = page.map_err(|error| failed("list conflicts", error))?;
        let is_last = page.len() < PAGE;
        all.extend(page);
        if is_last || all.len() >= LIST_MAX {
            return Ok(all);
        }
    }
}

pub(super) fn find(volumes: &[Arc<Served>], which: &ConflictRef) -> Result<(Arc<Served>, OpenConflict), ControlError> {
    for served in volumes {
        let file = match which {
            ConflictRef::Id(_) => None,
            ConflictRef::Path(path) => {
                served.volume.look(|replica| at_path(replica, path)).and_then(Result::ok).flatten()
            }
        };
        let found = open(served)?.into_iter().find(|open| match which {
            ConflictRef::Id(id) => open.id == *id,
            ConflictRef::Path(_) => file.is_some() && (Some(open.conflict.file) == file || open.conflict.copy == file),
        });
        if let Some(found) = found {
            return Ok((Arc::clone(served), found));
        }
    }
    Err(ControlError::new(
        ErrorKind::NotFound,
        "no such conflict is open",
        "`wayfs conflicts list` shows those that are.",
    ))
}

pub(super) fn report(served: &Served, open: &OpenConflict) -> ConflictReport {
    let conflict = &open.conflict;
    let winner = side(served, conflict.file, conflict.winner);
    let other = side(served, conflict.copy.unwrap_or(conflict.file), conflict.record);
    let summary = format!("{}: {} and {}", words(conflict.kind), winner.by, other.by);
    ConflictReport {
        id: open.id.to_string(),
        volume: served.name().to_owned(),
        kind: conflict.kind,
        path: winner.path.clone().or_else(|| other.path.clone()),
        winner,
        other,
        unix_ms: unix_ms(conflict.time),
        summary,
    }
}

pub(super) fn diff(served: &Served, open: &OpenConflict) -> DiffReport {
    let report = report(served, open);
    DiffReport { winner: report.winner, other: report.other, text: None }
}

fn side(served: &Served, file: FileId, version: RecordId) -> SideReport {
    let looked = served.volume.look(|replica| {
        let origin = replica.origins().ok().and_then(|all| all.into_iter().find(|(id, _)| *id == version.origin()));
        let path = wayfs_node::paths::path_of(replica, file);
        let inode = replica.inode(file).ok().flatten();
        (origin.map(|(_, origin)| origin.label), path, inode)
    });
    let (label, path, inode) = looked.unwrap_or_default();
    SideReport {
        by: label.unwrap_or_else(|| version.origin().to_string()),
        version: version.to_string(),
        path,
        size_bytes: inode.as_ref().map_or(0, |inode| inode.content.size()),
        modified_unix_ms: inode.map_or(0, |inode| unix_ms(inode.mtime)),
    }
}

fn words(kind: ConflictKind) -> &'static str {
    match kind {
        ConflictKind::StoreStore => "both wrote the file",
        ConflictKind::CreateCreate => "both made a file of this name",
        ConflictKind::StoreUnlink => "one wrote what the other removed: the file stays",
        ConflictKind::InsideRmdir => "one worked inside what the other removed: the directory stays",
        ConflictKind::RenameRename => "both moved it: the first move holds",
        ConflictKind::RenameCycle => "a move would have made a cycle and was refused",
        ConflictKind::SetAttrSetAttr => "both changed its attributes: the later change holds",
        ConflictKind::ContentLost => "nobody has the bytes of a version; an older content is shown if there is one",
        ConflictKind::Limited => {
            "the ticket of its writer does not allow it: left out, or put where the writer may work"
        }
        ConflictKind::Homeless => "its directory was removed: it was put into the nearest one left",
    }
}

pub(super) fn resolve(volumes: &[Arc<Served>], args: &Args) -> Result<ResolveReport, ControlError> {
    let mut chosen = Vec::new();
    match &args.which {
        Selection::One(which) => chosen.push(find(volumes, which)?),
        Selection::All { glob } => {
            for served in volumes {
                for open in open(served)? {
                    let path = report(served, &open).path.unwrap_or_default();
                    if glob.as_ref().is_none_or(|glob| matches(glob, &path)) {
                        chosen.push((Arc::clone(served), open));
                    }
                }
            }
        }
    }
    let mut result = ResolveReport { dry_run: args.dry_run, ..ResolveReport::default() };
    for (served, open) in chosen {
        let described = report(&served, &open);
        let settled = decide(&described, &open, &args.keep).and_then(|action| {
            let words = action.words(&described);
            if !args.dry_run {
                carry_out(&served, &open, &action).map_err(|error| error.to_string())?;
            }
            Ok(words)
        });
        match settled {
            Ok(action) => result.resolved.push(ResolvedConflict { id: described.id, path: described.path, action }),
            Err(reason) => result.failed.push(ResolveFailure { id: described.id, reason }),
        }
    }
    Ok(result)
}

/// What settling does.
enum Action {
    /// Only the report goes.
    Both,
    /// The copy goes.
    Winner,
    /// The file gets the copy's content, and the copy goes.
    Other,
}

impl Action {
    fn words(&self, report: &ConflictReport) -> String {
        match self {
            Self::Both => "keeps both, removes the report".into(),
            Self::Winner => format!("keeps what {} wrote", report.winner.by),
            Self::Other => format!("keeps what {} wrote", report.other.by),
        }
    }
}

fn decide(report: &ConflictReport, open: &OpenConflict, keep: &Keep) -> Result<Action, String> {
    if open.conflict.copy.is_none() {
        // There is one file only: whatever is to be kept is there.
        return Ok(Action::Both);
    }
    match keep {
        Keep::Both => Ok(Action::Both),
        Keep::Newest if report.other.modified_unix_ms > report.winner.modified_unix_ms => Ok(Action::Other),
        Keep::Newest => Ok(Action::Winner),
        Keep::Name(name) => match (is_of(&report.winner, name), is_of(&report.other, name)) {
            (true, false) => Ok(Action::Winner),
            (false, true) => Ok(Action::Other),
            (true, true) => Err(say_which(report, name)),
            (false, false) => Err(format!("`{name}` is neither {} nor {}", report.winner.by, report.other.by)),
        },
    }
}

/// For a name that means both sides.
fn say_which(report: &ConflictReport, name: &str) -> String {
    let file = |side: &SideReport| {
        let name = side.path.as_ref().and_then(|path| path.file_name()).map(|name| name.to_string_lossy());
        name.map(|name| format!("--keep '{name}'"))
    };
    match (file(&report.winner), file(&report.other)) {
        (Some(winner), Some(other)) => format!("both sides are {name}'s: say {winner} or {other}"),
        _ => format!("both sides are {name}'s, and there is one file only: say --keep both"),
    }
}

fn is_of(side: &SideReport, name: &str) -> bool {
    let (user, host) = side.by.split_once('@').unwrap_or((&side.by, ""));
    let file = side.path.as_ref().and_then(|path| path.file_name()).map(|name| name.to_string_lossy().into_owned());
    side.by == name || user == name || host == name || file.as_deref() == Some(name)
}

fn carry_out(served: &Served, open: &OpenConflict, action: &Action) -> Result<(), FsError> {
    let copy = open.conflict.copy;
    match (action, copy) {
        (Action::Other, Some(copy)) => {
            if let (Some(kept), Some(file)) = (inode(served, copy), inode(served, open.conflict.file)) {
                let mtime = kept.mtime.max(file.mtime).max(WallTime::EPOCH);
                change(
                    served,
                    Change::Store { file: open.conflict.file, base: file.version, content: kept.content, mtime },
                )?;
            }
            remove(served, copy)?;
        }
        (Action::Winner, Some(copy)) => remove(served, copy)?,
        (Action::Both, _) | (_, None) => {}
    }
    change(served, Change::Resolve { conflict: open.id })
}

fn inode(served: &Served, file: FileId) -> Option<Inode> {
    served.volume.look(|replica| replica.inode(file)).and_then(Result::ok).flatten().map(|inode| *inode)
}

fn remove(served: &Served, file: FileId) -> Result<(), FsError> {
    let names = served.volume.look(|replica| replica.names_of(file)).and_then(Result::ok);
    for place in names.unwrap_or_default() {
        change(served, Change::Unlink { parent: place.parent, name: place.name })?;
    }
    Ok(())
}

fn change(served: &Served, change: Change) -> Result<(), FsError> {
    let user = rustix::process::geteuid().as_raw();
    served.volume.request(Request::Change { user, change }, CHANGE_MAX).map(|_| ())
}

/// `*` and `?` within a name, `**` over directories.
fn matches(glob: &str, path: &Path) -> bool {
    fn fits(glob: &[char], text: &[char]) -> bool {
        match glob {
            [] => text.is_empty(),
            ['*', '*', '/', rest @ ..] => {
                fits(rest, text) || text.iter().enumerate().any(|(at, c)| *c == '/' && fits(rest, &text[at + 1..]))
            }
            ['*', '*', rest @ ..] => (0..=text.len()).any(|at| fits(rest, &text[at..])),
            ['*', rest @ ..] => {
                let end = text.iter().position(|c| *c == '/').unwrap_or(text.len());
                (0..=end).any(|at| fits(rest, &text[at..]))
            }
            ['?', rest @ ..] => text.first().is_some_and(|c| *c != '/') && fits(rest, &text[1..]),
            [letter, rest @ ..] => text.first() == Some(letter) && fits(rest, &text[1..]),
        }
    }
    // Patterns longer than any path would only cost time.
    let glob: Vec<char> = glob.chars().take(1024).collect();
    let text: Vec<char> = path.to_string_lossy().chars().collect();
    fits(&glob, &text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_users_expect() {
        assert!(matches("*.txt", Path::new("a.txt")));
        assert!(!matches("*.txt", Path::new("d/a.txt")));
        assert!(matches("**/*.txt", Path::new("d/e/a.txt")));
        assert!(matches("**/*.txt", Path::new("a.txt")));
        assert!(matches("d/**", Path::new("d/e/f")));
        assert!(matches("?.c", Path::new("x.c")));
        assert!(!matches("?.c", Path::new("xy.c")));
    }
}
