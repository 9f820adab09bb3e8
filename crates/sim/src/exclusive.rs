//! Exclusive directories: in some seeds all are. Of two who make a name there one is told that it is there, at whatever
//! stations they are and whatever breaks: `[S-exclusive-mode]` of SEMANTICS.md.
//!
//! A name that somebody was told he made is his until somebody asks to take it away. What is asked and not answered for certain
//! (in time, or at all) may happen at any moment from then on: of such a name nothing is known any more. A name that was asked to
//! be taken away while its maker waited for the answer may be another's by the time that the maker hears: of that answer nothing follows.

use crate::coverage::Branch;
use crate::history::Removal;
use crate::makers::{Making, Place};
use crate::plan::Disaster;
use crate::planted::Bug;
use crate::violation::Violation;
use crate::world::World;
use wayfs_types::request::{Answer, Change, Outcome, RenameTarget, Request};
use wayfs_types::{ConflictKind, FileId, FsError, Inode, Op, RecordId, XattrName};

/// Records that one input makes, at most.
const INPUT_RECORDS_MAX: u64 = 64;

/// The names that a change may take away.
fn taken(change: &Change) -> Vec<Place> {
    match change {
        Change::Unlink { parent, name } | Change::Rmdir { parent, name } => vec![(*parent, name.clone())],
        Change::Rename { from_parent, from_name, to_parent, to_name, .. } => {
            vec![(*from_parent, from_name.clone()), (*to_parent, to_name.clone())]
        }
        Change::Create { .. }
        | Change::Publish { .. }
        | Change::Mkdir { .. }
        | Change::Link { .. }
        | Change::SetAttr { .. }
        | Change::SetXattr { .. }
        | Change::Store { .. }
        | Change::Append { .. }
        | Change::Resolve { .. } => Vec::new(),
    }
}

/// The name that a change makes only if nothing is there.
fn made(change: &Change) -> Option<Place> {
    match change {
        Change::Create { parent, name, .. }
        | Change::Publish { parent, name, .. }
        | Change::Mkdir { parent, name, .. }
        | Change::Link { parent, name, .. } => Some((*parent, name.clone())),
        Change::Rename { from_parent, from_name, to_parent, to_name, target: RenameTarget::MustBeFree } => {
            let is_moved = (from_parent, from_name) != (to_parent, to_name);
            is_moved.then(|| (*to_parent, to_name.clone()))
        }
        Change::Rename { .. }
        | Change::Unlink { .. }
        | Change::Rmdir { .. }
        | Change::SetAttr { .. }
        | Change::SetXattr { .. }
        | Change::Store { .. }
        | Change::Append { .. }
        | Change::Resolve { .. } => None,
    }
}

impl World {
    /// The volume is made: its root is exclusive, and so is what is made below.
    pub(crate) fn make_exclusive(&mut self) {
        if !self.plan.exclusive || self.bug == Some(Bug::ExclusiveIgnored) {
            return;
        }
        let Ok(name) = XattrName::new(Inode::EXCLUSIVE) else { return };
        let (value, presence) = (Some(bytes::Bytes::from_static(b"1")), wayfs_types::request::XattrPresence::Any);
        let change = Change::SetXattr { file: FileId::ROOT, name, value, presence };
        self.ask(0, Request::Change { user: 0, change }, crate::host::Expectation::Nothing);
    }

    /// Whether what was told is kept: nobody's disk went back, and nobody is there twice.
    fn keeps_makers(&self) -> bool {
        const FORGET: [Disaster; 5] =
            [Disaster::HomeGone, Disaster::HomeBack, Disaster::StationBack, Disaster::ClientBack, Disaster::Clone];
        self.plan.exclusive && !FORGET.iter().any(|disaster| self.plan.disasters.contains(disaster))
    }

    /// Notes what a client's newest records took names from. Where the home decides at once, the answer comes when they are not in
    /// the log any more, or never.
    pub(crate) fn note_taken_names(&mut self, index: usize) {
        let host = &self.hosts[index];
        let Some(replica) = host.replica.as_ref().filter(|_| self.plan.exclusive && host.is_client()) else { return };
        let Some(last) = replica.progress().last_record.filter(|last| host.noted != Some(*last)) else { return };
        let noted = host.noted.filter(|noted| noted.origin() == last.origin()).map_or(0, |noted| noted.sequence());
        let mut removals = Vec::new();
        for sequence in last.sequence().saturating_sub(INPUT_RECORDS_MAX).max(noted) + 1..=last.sequence() {
            let Ok(id) = RecordId::new(last.origin(), sequence) else { continue };
            let taken = match replica.logged(id).ok().flatten().map(|record| record.op) {
                Some(Op::Unlink { file, version, .. }) => Some((file, version)),
                Some(Op::Rename { replaced: Some(replaced), .. }) => Some((replaced.file, replaced.version)),
                _ => None,
            };
            let Some((file, version)) = taken else { continue };
            let is_last = replica.inode(file).ok().flatten().is_none_or(|inode| inode.is_removed());
            removals.push((id, Removal { file, version, is_last }));
        }
        self.hosts[index].noted = Some(last);
        for (id, removal) in removals {
            self.history.removed(index, id, removal);
        }
    }

    /// Somebody asks for a change.
    pub(crate) fn note_change_asked(&mut self, index: usize, request: &Request) {
        if !self.keeps_makers() {
            return;
        }
        let Request::Change { change, .. } = request else { return };
        for place in taken(change) {
            self.makers.made.remove(&place);
            *self.makers.removals.entry(place.clone()).or_insert(0) += 1;
            *self.makers.asked.entry(place).or_insert(0) += 1;
        }
        if let Some(place) = made(change) {
            let removals = self.makers.is_known(&place).then(|| self.makers.removals_of(&place));
            self.makers.waiting.entry((index, place)).or_default().push(Making { change: change.clone(), removals });
        }
    }

    /// What became of it.
    pub(crate) fn check_makers(&mut self, index: usize, request: &Request, outcome: &Outcome) {
        if !self.keeps_makers() {
            return;
        }
        let Request::Change { change, .. } = request else { return };
        let unknown = [FsError::TimedOut, FsError::Unreachable, FsError::Interrupted, FsError::Io];
        let is_certain = outcome.as_ref().err().is_none_or(|error| !unknown.contains(error));
        for place in taken(change) {
            self.makers.taken_away(&place);
            if !is_certain {
                self.makers.lost.insert(place);
            }
        }
        let is_sole = made(change).is_some_and(|place| self.makers.heard(index, &place, change));
        let (Some(place), Ok(Answer::Changed { file, .. })) = (made(change), outcome) else {
            let is_beaten = made(change).is_some() && outcome == &Err(FsError::Exists);
            if is_beaten {
                self.cover(Branch::MakerBeaten);
            }
            return;
        };
        if !is_sole || !self.makers.is_known(&place) {
            return;
        }
        if let Some((other, there)) = self.makers.made.insert(place.clone(), (index, *file))
            && there != *file
        {
            let line = format!("host {index} made {place:?} as {file}, which host {other} had made as {there}");
            self.violate("of two who make a name in an exclusive directory one wins", line);
        }
    }

    /// Where nothing ever broke, nothing met there but contents that were stored upon an older version.
    pub(crate) fn check_nothing_met(&mut self) {
        let is_calm = self.plan.fault_every.is_none() && self.plan.loss == 0.0 && self.plan.disasters.is_empty();
        if !is_calm || !self.keeps_makers() {
            return;
        }
        let home = self.hosts[0].replica.as_ref();
        let reports = home.and_then(|home| home.conflicts(None, usize::MAX).ok()).unwrap_or_default();
        let is_of_contents = |kind| matches!(kind, ConflictKind::StoreStore | ConflictKind::StoreUnlink);
        if let Some(report) = reports.into_iter().find(|report| !is_of_contents(report.conflict.kind)) {
            let violation = Violation::new("names never meet in an exclusive directory", format!("{report:?}"));
            self.violations.push(violation);
        }
    }
}
