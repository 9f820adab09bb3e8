//! Conflicts: listing, showing, settling.

use super::asking::Asker;
use super::{PATIENCE, Target, glob, refused, stopped, storage};
use crate::events::{About, unix_ms};
use crate::notices::Stale;
use crate::paths::path_of;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use wayfs_control::report::{
    ConflictReport, ConflictsReport, DiffReport, ResolveFailure, ResolveReport, ResolvedConflict, SideReport,
};
use wayfs_control::{ConflictRef, ControlError, ErrorKind, EventKind, Keep, Progress, Selection, Sink};
use wayfs_proto::OpenConflict;
use wayfs_types::request::{Answer, Change, Request};
use wayfs_types::{Conflict, ConflictKind, FileId, FsError, Inode, OriginId, RecordId};

/// Most conflicts handled by one command.
const CONFLICTS_MAX: usize = 10_000;

/// Whether to settle, or only to say how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    DryRun,
    Apply,
}

/// Which side stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Choice {
    Winner,
    Other,
    Both,
}

/// A conflict with what is known of its sides.
struct Case {
    id: RecordId,
    conflict: Conflict,
    winner: SideReport,
    other: SideReport,
}

impl Target {
    fn open_conflicts(&self) -> Result<Vec<OpenConflict>, ControlError> {
        let open = self.volume().look(|replica| replica.conflicts(None, CONFLICTS_MAX)).ok_or_else(stopped)?;
        open.map_err(|error| storage(&error))
    }

    fn cases(&self) -> Result<Vec<Case>, ControlError> {
        let open = self.open_conflicts()?;
        let labels = &self.parts.labels;
        labels.learn(&self.parts.link, &self.volume().settings().runtime, writers(&open));
        Ok(open.into_iter().map(|open| self.case(open)).collect())
    }

    fn case(&self, open: OpenConflict) -> Case {
        let OpenConflict { id, conflict } = open;
        let label = |record: RecordId| {
            let known = self.parts.labels.label(record.origin());
            known.unwrap_or_else(|| format!("member {}", record.origin()))
        };
        let side = |file: Option<FileId>, version: RecordId| {
            let inode = file.and_then(|file| self.inode_of(file));
            SideReport {
                by: label(version),
                version: version.to_string(),
                path: file.and_then(|file| path_of(self.volume(), file)),
                size_bytes: inode.as_ref().map_or(0, |inode| inode.content.size()),
                modified_unix_ms: inode.as_ref().map_or(0, |inode| unix_ms(inode.mtime)),
            }
        };
        let winner = side(Some(conflict.file), conflict.winner);
        let mut other = side(conflict.copy, conflict.record);
        if conflict.copy.is_none() {
            other.modified_unix_ms = unix_ms(conflict.time);
        }
        Case { id, conflict, winner, other }
    }

    fn inode_of(&self, file: FileId) -> Option<Inode> {
        self.volume().look(|replica| replica.inode(file))?.ok().flatten().map(|inode| *inode)
    }

    /// The conflicts that a file takes part in.
    pub(super) fn conflicts_of(&self, file: FileId) -> Vec<String> {
        let open = self.open_conflicts().unwrap_or_default();
        let about = open.iter().filter(|open| open.conflict.file == file || open.conflict.copy == Some(file));
        about.map(|open| open.id.to_string()).collect()
    }

    /// Open conflicts; for somebody who asks those of which he may see all that they name.
    pub(super) fn conflicts(&self, asker: Option<&Asker<'_>>) -> Result<ConflictsReport, ControlError> {
        let cases = self.cases_for(asker)?;
        Ok(ConflictsReport { conflicts: cases.iter().map(|case| self.report(case)).collect() })
    }

    pub(super) fn conflict(
        &self,
        which: &ConflictRef,
        asker: Option<&Asker<'_>>,
    ) -> Result<ConflictReport, ControlError> {
        self.find(which, asker).map(|case| self.report(&case))
    }

    pub(super) fn diff(&self, which: &ConflictRef, asker: Option<&Asker<'_>>) -> Result<DiffReport, ControlError> {
        let case = self.find(which, asker)?;
        // Both sides are files in the mount; the tool compares them there.
        Ok(DiffReport { winner: case.winner, other: case.other, text: None })
    }

    fn cases_for(&self, asker: Option<&Asker<'_>>) -> Result<Vec<Case>, ControlError> {
        let mut cases = self.cases()?;
        if let Some(asker) = asker {
            cases.retain(|case| {
                let named = [case.winner.path.clone(), case.other.path.clone(), self.place_of(case)];
                named.into_iter().flatten().all(|path| asker.sees(&path))
            });
        }
        Ok(cases)
    }

    fn find(&self, which: &ConflictRef, asker: Option<&Asker<'_>>) -> Result<Case, ControlError> {
        let found = self.cases_for(asker)?.into_iter().find(|case| match which {
            ConflictRef::Id(id) => case.id == *id,
            ConflictRef::Path(path) => case.is_about(path),
        });
        found.ok_or_else(|| {
            ControlError::new(
                ErrorKind::NotFound,
                "there is no such open conflict",
                "`wayfs conflicts list` shows those that are.",
            )
        })
    }

    fn report(&self, case: &Case) -> ConflictReport {
        ConflictReport {
            id: case.id.to_string(),
            volume: self.parts.name.clone(),
            kind: case.conflict.kind,
            path: self.place_of(case),
            winner: case.winner.clone(),
            other: case.other.clone(),
            unix_ms: unix_ms(case.conflict.time),
            summary: case.summary(),
        }
    }

    fn place_of(&self, case: &Case) -> Option<PathBuf> {
        let place = case.conflict.place.as_ref()?;
        path_of(self.volume(), place.parent).map(|parent| parent.join(place.name.as_os_str()))
    }

    pub(super) fn resolve_conflicts(
        &self,
        which: &Selection,
        keep: &Keep,
        mode: Mode,
        out: &mut dyn Sink,
    ) -> Result<ResolveReport, ControlError> {
        let cases = match which {
            Selection::One(which) => vec![self.find(which, None)?],
            Selection::All { glob: None } => self.cases()?,
            Selection::All { glob: Some(pattern) } => {
                self.cases()?.into_iter().filter(|case| case.matches(pattern)).collect()
            }
        };
        let mut report = ResolveReport { dry_run: mode == Mode::DryRun, ..ResolveReport::default() };
        let mut progress =
            Progress { what: "settling".to_owned(), total_items: cases.len() as u64, ..Progress::default() };
        for case in &cases {
            if out.progress(&progress).is_err() || out.is_gone() {
                break;
            }
            match self.resolve_one(case, keep, mode) {
                Ok(action) => {
                    report.resolved.push(ResolvedConflict {
                        id: case.id.to_string(),
                        path: self.place_of(case),
                        action,
                    });
                }
                Err(reason) => report.failed.push(ResolveFailure { id: case.id.to_string(), reason }),
            }
            progress.done_items += 1;
        }
        Ok(report)
    }

    /// Settles one; answers what was done, in a sentence.
    fn resolve_one(&self, case: &Case, keep: &Keep, mode: Mode) -> Result<String, String> {
        let choice = case.choose(keep)?;
        let action = case.action(choice);
        if mode == Mode::DryRun {
            return Ok(action);
        }
        let done = match choice {
            Choice::Both => Ok(()),
            Choice::Winner => self.drop_copy(case),
            Choice::Other => self.take_other(case).and_then(|()| self.drop_copy(case)),
        };
        done.and_then(|()| self.change(Change::Resolve { conflict: case.id }).map(|_| ()))?;
        let (path, detail) = (self.place_of(case), action.clone());
        let about = About { record: Some(case.id), path, detail, ..About::default() };
        self.parts.hooks.events.tell(EventKind::Resolved, about);
        Ok(action)
    }

    fn change(&self, change: Change) -> Result<Answer, String> {
        let user = rustix::process::geteuid().as_raw();
        self.volume()
            .request(Request::Change { user, change }, PATIENCE)
            .map_err(|error| refused("settle", error).message)
    }

    /// Takes the copy's names away; the kernel did not do it, so it is told.
    fn drop_copy(&self, case: &Case) -> Result<(), String> {
        let Some(copy) = case.conflict.copy else { return Ok(()) };
        let names = self.volume().look(|replica| replica.names_of(copy)).and_then(Result::ok);
        for place in names.unwrap_or_default() {
            let answer = self.change(Change::Unlink { parent: place.parent, name: place.name.clone() })?;
            if let Answer::Changed { removed: Some(removed), .. } = answer {
                self.parts.vfs.files().removed(removed);
            }
            self.parts.hooks.notices.entry(place.parent, place.name);
            self.parts.hooks.notices.inode(place.parent, Stale::Pages);
        }
        Ok(())
    }

    /// Puts the other side's content into the file that kept its name.
    fn take_other(&self, case: &Case) -> Result<(), String> {
        let copy = case.conflict.copy.ok_or("the other side left no copy to take")?;
        let file = case.conflict.file;
        let (Some(other), Some(winner)) = (self.inode_of(copy), self.inode_of(file)) else {
            return Err(FsError::NotFound.to_string());
        };
        self.fetch_whole(copy, &other)?;
        self.change(Change::Store { file, base: winner.version, content: other.content, mtime: other.mtime })?;
        self.parts.vfs.files().changed_elsewhere(file);
        self.parts.hooks.notices.inode(file, Stale::Pages);
        Ok(())
    }
}

impl Case {
    fn is_about(&self, path: &Path) -> bool {
        self.winner.path.as_deref() == Some(path) || self.other.path.as_deref() == Some(path)
    }

    fn matches(&self, pattern: &str) -> bool {
        let paths = [&self.winner.path, &self.other.path];
        paths.into_iter().flatten().any(|path| glob::matches(pattern, &path.to_string_lossy()))
    }

    fn choose(&self, keep: &Keep) -> Result<Choice, String> {
        match keep {
            Keep::Both => Ok(Choice::Both),
            Keep::Newest if self.conflict.copy.is_none() => Ok(Choice::Winner),
            Keep::Newest if self.other.modified_unix_ms > self.winner.modified_unix_ms => Ok(Choice::Other),
            Keep::Newest => Ok(Choice::Winner),
            Keep::Name(name) => match (is_named(&self.winner, name), is_named(&self.other, name)) {
                (true, false) => Ok(Choice::Winner),
                (false, true) if self.conflict.copy.is_some() => Ok(Choice::Other),
                (false, true) => Err(format!("{name} wrote what was not applied, and no copy of it was made")),
                (true, true) => Err(self.say_which(name)),
                (false, false) => {
                    Err(format!("neither side is {name}'s: they are {} and {}", self.winner.by, self.other.by))
                }
            },
        }
    }

    /// For a name that means both sides.
    fn say_which(&self, name: &str) -> String {
        let file = |side: &SideReport| {
            let name = side.path.as_ref().and_then(|path| path.file_name()).map(|name| name.to_string_lossy());
            name.map(|name| format!("--keep '{name}'"))
        };
        match (file(&self.winner), file(&self.other)) {
            (Some(winner), Some(other)) => format!("both sides are {name}'s: say {winner} or {other}"),
            _ => format!("both sides are {name}'s, and there is one file only: say --keep both"),
        }
    }

    fn action(&self, choice: Choice) -> String {
        match (choice, self.conflict.copy) {
            (Choice::Both, Some(_)) => "both files stay; the report goes".to_owned(),
            (Choice::Both | Choice::Winner, None) => "the report goes".to_owned(),
            (Choice::Winner, Some(_)) => format!("{}'s version stays; the copy is removed", self.winner.by),
            (Choice::Other, _) => format!("{}'s version takes the name; the copy is removed", self.other.by),
        }
    }

    fn summary(&self) -> String {
        let (winner, other) = (&self.winner.by, &self.other.by);
        match self.conflict.kind {
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
            ConflictKind::ContentLost if self.conflict.is_bare_loss() => {
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
}

/// Who wrote the sides of conflicts.
pub(crate) fn writers(open: &[OpenConflict]) -> BTreeSet<OriginId> {
    let records = open.iter().flat_map(|open| [open.conflict.winner, open.conflict.record]);
    records.map(RecordId::origin).filter(|origin| *origin != OriginId::GENESIS).collect()
}

/// Whether a side is meant by a writer's label, host or user, or by its file name.
fn is_named(side: &SideReport, name: &str) -> bool {
    let by_part = side.by.split_once('@').is_some_and(|(user, host)| user == name || host == name);
    let by_file = side.path.as_ref().is_some_and(|path| {
        path.as_os_str() == name.trim_start_matches('/') || path.file_name().is_some_and(|own| own == name)
    });
    side.by == name || by_part || by_file
}
