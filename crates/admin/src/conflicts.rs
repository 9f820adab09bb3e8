//! Conflicts: listing, finding, showing.

use crate::errors::{stopped, storage};
use crate::local::LocalVolume;
use crate::words::unix_ms;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use wayfs_control::report::{ConflictReport, ConflictsReport, DiffReport, SideReport};
use wayfs_control::{ConflictRef, ControlError, ErrorKind};
use wayfs_node::paths::{at_path, path_of};
use wayfs_node::{LiveReplica, Volume};
use wayfs_proto::OpenConflict;
use wayfs_types::{Conflict, ConflictKind, FileId, Inode, OriginId, RecordId};

/// Most conflicts of a volume handled by one command.
const OPEN_MAX: usize = 100_000;
/// Conflicts read from the tables at a time.
const PAGE: usize = 1024;

/// A conflict and what its report says.
#[derive(Debug, Clone)]
pub struct Case {
    pub(crate) conflict: Conflict,
    pub(crate) id: RecordId,
    /// As tools show it.
    pub report: ConflictReport,
}

impl Case {
    /// What it is filed under.
    pub fn id(&self) -> RecordId {
        self.id
    }

    /// All paths that its report names.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        let ConflictReport { path, winner, other, .. } = &self.report;
        [path, &winner.path, &other.path].into_iter().flatten().map(PathBuf::as_path)
    }

    /// Whether it is the one that is meant. `file`: what is at the path that was given.
    fn is(&self, which: &ConflictRef, file: Option<FileId>) -> bool {
        match which {
            ConflictRef::Id(id) => self.id == *id,
            ConflictRef::Path(path) => file.is_some_and(|file| is_about(&self.conflict, file)) || self.is_of_side(path),
        }
    }

    fn is_of_side(&self, path: &Path) -> bool {
        [&self.report.winner.path, &self.report.other.path].into_iter().flatten().any(|side| side == path)
    }
}

/// Open conflicts of volumes, oldest first in each, as far as the one who asks may see all that they name.
///
/// # Errors
/// If a volume has stopped, or its tables cannot be read.
pub fn list<V: LocalVolume>(volumes: &[V]) -> Result<ConflictsReport, ControlError> {
    let mut report = ConflictsReport::default();
    for local in volumes {
        report.conflicts.extend(cases(local)?.into_iter().map(|case| case.report));
    }
    Ok(report)
}

/// The conflict that is meant, and its volume.
///
/// # Errors
/// [`ErrorKind::NotFound`] if none is open; else as [`list`].
pub fn find<'a, V: LocalVolume>(volumes: &'a [V], which: &ConflictRef) -> Result<(&'a V, Case), ControlError> {
    for local in volumes {
        let file = match which {
            ConflictRef::Id(_) => None,
            ConflictRef::Path(path) => {
                let found = local.volume().look(|replica| at_path(replica, path)).ok_or_else(stopped)?;
                found.map_err(|error| storage(&error))?
            }
        };
        if let Some(case) = cases(local)?.into_iter().find(|case| case.is(which, file)) {
            return Ok((local, case));
        }
    }
    let next = "`wayfs conflicts list` shows those that are.";
    Err(ControlError::new(ErrorKind::NotFound, "no such conflict is open", next))
}

/// What the two sides of a conflict are; at a mount both are files, which the tool compares.
pub fn diff(case: Case) -> DiffReport {
    DiffReport { winner: case.report.winner, other: case.report.other, text: None }
}

/// The conflicts that a file takes part in. Of a volume that stopped there are none.
pub fn of_file(volume: &Volume, file: FileId) -> Vec<String> {
    let open = open(volume).unwrap_or_default();
    open.iter().filter(|open| is_about(&open.conflict, file)).map(|open| open.id.to_string()).collect()
}

/// Who wrote the sides of conflicts.
pub fn writers(open: &[OpenConflict]) -> BTreeSet<OriginId> {
    let records = open.iter().flat_map(|open| [open.conflict.winner, open.conflict.record]);
    records.map(RecordId::origin).filter(|origin| *origin != OriginId::GENESIS).collect()
}

fn is_about(conflict: &Conflict, file: FileId) -> bool {
    conflict.file == file || conflict.copy == Some(file)
}

/// Open conflicts with their reports, as far as the one who asks may see them.
pub(crate) fn cases(local: &impl LocalVolume) -> Result<Vec<Case>, ControlError> {
    let open = open(local.volume())?;
    let labels = local.labels(&writers(&open));
    // The lock is taken for each anew: others work meanwhile.
    let described = open
        .into_iter()
        .map(|open| local.volume().look(|replica| describe(replica, open, local.name(), &labels)).ok_or_else(stopped));
    let mut cases = described.collect::<Result<Vec<Case>, _>>()?;
    cases.retain(|case| case.paths().all(|path| local.may_see(path)));
    Ok(cases)
}

fn open(volume: &Volume) -> Result<Vec<OpenConflict>, ControlError> {
    let mut all: Vec<OpenConflict> = Vec::new();
    loop {
        let after = all.last().map(|conflict| conflict.id);
        let page = volume.look(|replica| replica.conflicts(after, PAGE)).ok_or_else(stopped)?;
        let page = page.map_err(|error| storage(&error))?;
        let is_last = page.len() < PAGE;
        all.extend(page);
        if is_last || all.len() >= OPEN_MAX {
            return Ok(all);
        }
    }
}

fn describe(replica: &LiveReplica, open: OpenConflict, volume: &str, labels: &BTreeMap<OriginId, String>) -> Case {
    let OpenConflict { id, conflict } = open;
    let winner = side(replica, Some(conflict.file), conflict.winner, labels);
    let mut other = side(replica, conflict.copy, conflict.record, labels);
    if conflict.copy.is_none() {
        other.modified_unix_ms = unix_ms(conflict.time);
    }
    let place = conflict.place.as_ref();
    let at = place.and_then(|place| path_of(replica, place.parent).map(|parent| parent.join(place.name.as_os_str())));
    let report = ConflictReport {
        id: id.to_string(),
        volume: volume.to_owned(),
        kind: conflict.kind,
        path: at.or_else(|| winner.path.clone()).or_else(|| other.path.clone()),
        unix_ms: unix_ms(conflict.time),
        summary: summary(&conflict, &winner.by, &other.by),
        winner,
        other,
    };
    Case { conflict, id, report }
}

fn side(
    replica: &LiveReplica,
    file: Option<FileId>,
    version: RecordId,
    labels: &BTreeMap<OriginId, String>,
) -> SideReport {
    let inode: Option<Arc<Inode>> = file.and_then(|file| replica.inode(file).ok().flatten());
    let writer = version.origin();
    SideReport {
        by: labels.get(&writer).cloned().unwrap_or_else(|| format!("member {writer}")),
        version: version.to_string(),
        path: file.and_then(|file| path_of(replica, file)),
        size_bytes: inode.as_ref().map_or(0, |inode| inode.content.size()),
        modified_unix_ms: inode.as_ref().map_or(0, |inode| unix_ms(inode.mtime)),
    }
}

fn summary(conflict: &Conflict, winner: &str, other: &str) -> String {
    match conflict.kind {
        ConflictKind::StoreStore => {
            format!("{winner} and {other} wrote the same file; {other}'s version is kept beside it.")
        }
        ConflictKind::CreateCreate => {
            format!("{winner} and {other} made files of one name; {other}'s has a conflict name.")
        }
        ConflictKind::StoreUnlink => format!("{winner} wrote a file that {other} removed; the file stays."),
        ConflictKind::InsideRmdir => format!("{other} removed a directory in which something was made; it stays."),
        ConflictKind::RenameRename => {
            format!("{winner} and {other} renamed the same thing; {winner}'s name stands.")
        }
        ConflictKind::RenameCycle => {
            format!("{other}'s rename would have put a directory into itself and was left out.")
        }
        ConflictKind::SetAttrSetAttr => {
            format!("{winner} and {other} changed the attributes of one file; the later stand.")
        }
        ConflictKind::ContentLost if conflict.is_bare_loss() => {
            format!("nobody has the bytes that {other} wrote, and no older ones; the file cannot be read.")
        }
        ConflictKind::ContentLost => {
            format!("nobody has the bytes that {other} wrote; the file shows the last content that is whole.")
        }
        ConflictKind::Limited => {
            format!("{other}'s ticket does not allow it; it was left out, or put where {other} may work.")
        }
        ConflictKind::Homeless => {
            format!("the directory of {other}'s file was removed; the file was put into the nearest one left.")
        }
    }
}
