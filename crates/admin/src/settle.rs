//! Settling conflicts.

use crate::conflicts::{Case, cases, find};
use crate::contents::fetch_whole;
use crate::local::{LocalVolume, Touched};
use crate::pattern::Pattern;
use std::sync::Arc;
use std::time::Duration;
use wayfs_control::report::{ResolveFailure, ResolveReport, ResolvedConflict, SideReport};
use wayfs_control::{ControlError, Keep, Progress, Selection, Sink};
use wayfs_types::request::{Answer, Change, Request};
use wayfs_types::{FileId, FsError, Inode};

/// Longest wait for one change.
const CHANGE_WAIT_MAX: Duration = Duration::from_secs(10);

/// Whether to settle, or only to say how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settling {
    /// Only say it.
    DryRun,
    /// Do it.
    Apply,
}

/// Which side stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Choice {
    Winner,
    Other,
    Both,
}

/// Settles the conflicts of volumes that are meant.
///
/// # Errors
/// If none is meant, the pattern cannot be read, or a volume has stopped. What cannot be settled is in the report.
pub fn resolve<V: LocalVolume>(
    volumes: &[V],
    which: &Selection,
    keep: &Keep,
    settling: Settling,
    out: &mut dyn Sink,
) -> Result<ResolveReport, ControlError> {
    let chosen = select(volumes, which)?;
    let mut report = ResolveReport { dry_run: settling == Settling::DryRun, ..ResolveReport::default() };
    let mut progress =
        Progress { what: "settling".to_owned(), total_items: chosen.len() as u64, ..Progress::default() };
    for (local, case) in &chosen {
        if out.progress(&progress).is_err() || out.is_gone() {
            break;
        }
        let (id, path) = (case.report.id.clone(), case.report.path.clone());
        match resolve_one(*local, case, keep, settling) {
            Ok(action) => report.resolved.push(ResolvedConflict { id, path, action }),
            Err(reason) => report.failed.push(ResolveFailure { id, reason }),
        }
        progress.done_items += 1;
    }
    Ok(report)
}

fn select<'a, V: LocalVolume>(volumes: &'a [V], which: &Selection) -> Result<Vec<(&'a V, Case)>, ControlError> {
    let glob = match which {
        Selection::One(which) => return Ok(vec![find(volumes, which)?]),
        Selection::All { glob } => glob.as_deref().map(Pattern::new).transpose()?,
    };
    let mut chosen = Vec::new();
    for local in volumes {
        let open = cases(local)?.into_iter();
        let meant = open.filter(|case| glob.as_ref().is_none_or(|glob| case.paths().any(|path| glob.matches(path))));
        chosen.extend(meant.map(|case| (local, case)));
    }
    Ok(chosen)
}

/// Settles one; answers what was done, in a sentence.
fn resolve_one(local: &impl LocalVolume, case: &Case, keep: &Keep, settling: Settling) -> Result<String, String> {
    let choice = choose(case, keep)?;
    let action = action(case, choice);
    if settling == Settling::DryRun {
        return Ok(action);
    }
    match choice {
        Choice::Both => {}
        Choice::Winner => drop_copy(local, case)?,
        Choice::Other => {
            take_other(local, case)?;
            drop_copy(local, case)?;
        }
    }
    change(local, Change::Resolve { conflict: case.id })?;
    local.settled(case, &action);
    Ok(action)
}

fn change(local: &impl LocalVolume, change: Change) -> Result<Answer, String> {
    let user = rustix::process::geteuid().as_raw();
    let done = local.volume().request(Request::Change { user, change }, CHANGE_WAIT_MAX);
    done.map_err(|error| format!("settle: {error}"))
}

/// Takes the copy's names away.
fn drop_copy(local: &impl LocalVolume, case: &Case) -> Result<(), String> {
    let Some(copy) = case.conflict.copy else { return Ok(()) };
    let names = local.volume().look(|replica| replica.names_of(copy)).ok_or("the volume has stopped")?;
    for place in names.map_err(|error| error.to_string())? {
        let answer = change(local, Change::Unlink { parent: place.parent, name: place.name.clone() })?;
        let removed = if let Answer::Changed { removed, .. } = answer { removed } else { None };
        local.touched(Touched::Name(place, removed));
    }
    Ok(())
}

/// Puts the other side's content into the file that kept its name. All of it is here first: the copy goes, and with it what its
/// holder is asked for.
fn take_other(local: &impl LocalVolume, case: &Case) -> Result<(), String> {
    let copy = case.conflict.copy.ok_or("the other side left no copy to take")?;
    let file = case.conflict.file;
    let (Some(other), Some(winner)) = (inode_of(local, copy), inode_of(local, file)) else {
        return Err(FsError::NotFound.to_string());
    };
    fetch_whole(local.volume(), copy, &other)?;
    change(local, Change::Store { file, base: winner.version, content: other.content, mtime: other.mtime })?;
    local.touched(Touched::Bytes(file));
    Ok(())
}

fn inode_of(local: &impl LocalVolume, file: FileId) -> Option<Inode> {
    local.volume().look(|replica| replica.inode(file))?.ok().flatten().map(Arc::unwrap_or_clone)
}

fn choose(case: &Case, keep: &Keep) -> Result<Choice, String> {
    let (winner, other) = (&case.report.winner, &case.report.other);
    let has_copy = case.conflict.copy.is_some();
    match keep {
        Keep::Both => Ok(Choice::Both),
        Keep::Newest if has_copy && other.modified_unix_ms > winner.modified_unix_ms => Ok(Choice::Other),
        Keep::Newest => Ok(Choice::Winner),
        Keep::Name(name) => match (is_named(winner, name), is_named(other, name)) {
            (true, false) => Ok(Choice::Winner),
            (false, true) if has_copy => Ok(Choice::Other),
            (false, true) => Err(format!("{name} wrote what was not applied, and no copy of it was made")),
            (true, true) => Err(say_which(case, name)),
            (false, false) => Err(format!("neither side is {name}'s: they are {} and {}", winner.by, other.by)),
        },
    }
}

/// For a name that means both sides.
fn say_which(case: &Case, name: &str) -> String {
    let file = |side: &SideReport| {
        let name = side.path.as_ref().and_then(|path| path.file_name()).map(|name| name.to_string_lossy());
        name.map(|name| format!("--keep '{name}'"))
    };
    match (file(&case.report.winner), file(&case.report.other)) {
        (Some(winner), Some(other)) => format!("both sides are {name}'s: say {winner} or {other}"),
        _ => format!("both sides are {name}'s, and there is one file only: say --keep both"),
    }
}

/// Whether a side is meant by a writer's label, host or user, or by its file name or path.
fn is_named(side: &SideReport, name: &str) -> bool {
    let by_part = side.by.split_once('@').is_some_and(|(user, host)| user == name || host == name);
    let by_file = side.path.as_ref().is_some_and(|path| {
        path.as_os_str() == name.trim_start_matches('/') || path.file_name().is_some_and(|own| own == name)
    });
    side.by == name || by_part || by_file
}

fn action(case: &Case, choice: Choice) -> String {
    let (winner, other) = (&case.report.winner.by, &case.report.other.by);
    match (choice, case.conflict.copy) {
        (Choice::Both, Some(_)) => "both files stay; the report goes".to_owned(),
        (Choice::Both | Choice::Winner, None) => "the report goes".to_owned(),
        (Choice::Winner, Some(_)) => format!("{winner}'s version stays; the copy is removed"),
        (Choice::Other, _) => format!("{other}'s version takes the name; the copy is removed"),
    }
}
