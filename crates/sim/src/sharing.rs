//! What clients of one station see of each other where they take rights to change alone: `[S-close-open]` and
//! `[S-exclusive]` of SEMANTICS.md, for names, listings and versions.
//!
//! Every change that a client was answered is noted with the session in which that was. A look that is asked for later,
//! at the same station, must not show what was there before. Only what the promise is about is compared: both sessions
//! live to this moment, their lines never were slow, no answer was late, and nobody else ever touched the name (a client of
//! another station, or one without a station, may have changed it by the rules).
//!
//! What is stored into a file that was removed brings it back as long as servers keep a trace of it, which they do for 100,000
//! changes. Where a seed has them forget sooner, they do so while the one who has the right to its directory stores into
//! it: that store is a file of its own then and reported, and no name stays that the file was given with it
//! (`docs/conflicts.md`, Homeless).

use crate::plan::Limits;
use crate::shared_changes::{Asked, Moment, Stored, Touch};
use crate::violation::Violation;
use crate::world::World;
use std::collections::BTreeSet;
use wayfs_proto::PeerId;
use wayfs_types::request::{Answer, Change, Outcome, RenameTarget, Request};
use wayfs_types::{FileId, Kind, Name, Op, RecordId, Time};

/// Records that leave well within a lease, one after the other.
const QUICK_MAX: u64 = 10;
/// Changes that no seed makes while a record is on its way. Traces that are kept for so many are there when it comes.
const TRACES_KEPT: u64 = 1000;

impl World {
    /// Notes what is asked, if seeds of this kind promise anything of it.
    pub(crate) fn note_asked(&self, index: usize, request: &Request, deadline: Time) -> Option<Asked> {
        // Nobody is waited for longer than a lease: with a short one, little is promised. Where the home decides at once, what was
        // not answered may have been done (`exclusive`).
        let is_promised =
            self.plan.close_to_open && !self.plan.exclusive && self.plan.limits.lease >= Limits::USUAL.lease;
        let is_client = is_promised && self.hosts[index].is_client();
        is_client.then(|| Asked { request: request.clone(), at: self.now, deadline, moment: self.moment(index) })
    }

    fn moment(&self, index: usize) -> Option<Moment> {
        let host = &self.hosts[index];
        let replica = host.replica.as_ref()?;
        let (session, parent) = (host.parent_session?, self.parent_of(index)?);
        let vouches = replica.is_close_to_open() && replica.is_trusted();
        vouches.then(|| Moment { session, parent, unvouched: replica.unvouched() })
    }

    /// Whether the promise holds between what was done in a session and one who looks at the same station now.
    fn is_shared(&self, moment: Option<Moment>, looker: Moment) -> bool {
        // What waits on its machine for a quota nobody else sees.
        let is_held = |session: PeerId| {
            let host = self.hosts.iter().find(|host| host.parent_session == Some(session));
            let replica = host.and_then(|host| host.replica.as_ref());
            replica.is_some_and(|replica| replica.is_over_quota() && replica.progress().records_waiting > 0)
        };
        let is_good = |session: PeerId| {
            self.sessions.get(&session).is_some_and(|session| session.alive == [true; 2] && !session.is_slow)
        };
        moment
            .is_some_and(|moment| moment.parent == looker.parent && is_good(moment.session) && !is_held(moment.session))
            && is_good(looker.session)
    }

    /// A client gives back what it changes alone. With much to send before, that may take longer than others wait.
    pub(crate) fn note_give_back(&mut self, index: usize) {
        let waiting = self.hosts[index].replica.as_ref().map_or(0, |replica| replica.progress().records_waiting);
        let session = self.hosts[index].parent_session;
        if let Some(session) = session.and_then(|peer| self.sessions.get_mut(&peer)) {
            session.is_slow |= waiting > QUICK_MAX;
        }
    }

    /// Compares an answer with what others were answered before it was asked for, and notes what it changed.
    pub(crate) fn check_sharing(&mut self, index: usize, asked: &Asked, outcome: &Outcome) {
        let is_late = self.now >= asked.deadline || self.now >= asked.at + self.hosts[index].config.lease / 2;
        let moment = asked.moment.filter(|moment| !is_late && self.moment(index) == Some(*moment));
        match (&asked.request, outcome) {
            // Between two names of one file nothing is renamed.
            (
                Request::Change { change: Change::Rename { from_parent, from_name, .. }, .. },
                Ok(Answer::Changed { inode, .. }),
            ) if inode.places.iter().any(|place| (&place.parent, &place.name) == (from_parent, from_name)) => {}
            (Request::Change { change, .. }, Ok(Answer::Changed { record, file, inode: _, removed })) => {
                let gone = removed.as_ref().map(|removed| removed.file);
                self.note_change(index, asked, moment, (change, *record, *file, gone));
            }
            (Request::Lookup { parent, name }, Ok(Answer::File(file, _))) => {
                self.check_name(index, asked, moment, (*parent, name.clone()), Some(*file));
            }
            (Request::Lookup { parent, name }, Err(wayfs_types::FsError::NotFound)) => {
                self.check_name(index, asked, moment, (*parent, name.clone()), None);
            }
            (Request::List { directory, after: None, .. }, Ok(Answer::List { entries, end })) => {
                let last = entries.last().map(|(name, ..)| name.clone());
                let keys: Vec<(FileId, Name)> = self.sharing.names.keys().cloned().collect();
                for key in keys.into_iter().filter(|(parent, _)| parent == directory) {
                    let shown = entries.iter().find(|(name, ..)| *name == key.1).map(|(_, file, _)| *file);
                    if *end || last.as_ref().is_some_and(|last| key.1 <= *last) {
                        self.check_name(index, asked, moment, key, shown);
                    }
                }
            }
            (Request::Attributes { .. }, Ok(Answer::File(file, inode))) if inode.kind == Kind::File => {
                self.check_version(index, asked, moment, (*file, inode.version));
            }
            _ => {}
        }
    }

    fn note_change(
        &mut self,
        index: usize,
        asked: &Asked,
        moment: Option<Moment>,
        (change, record, file, gone): (&Change, RecordId, FileId, Option<FileId>),
    ) {
        let at = self.now;
        let touch = |before, after| Touch { at, before, after, moment };
        let touches = match change {
            Change::Create { parent, name, .. }
            | Change::Publish { parent, name, .. }
            | Change::Mkdir { parent, name, .. }
            | Change::Link { parent, name, .. } => {
                self.check_exclusive(index, asked, moment, &(*parent, name.clone()));
                vec![((*parent, name.clone()), touch(None, Some(file)))]
            }
            Change::Unlink { parent, name } | Change::Rmdir { parent, name } => {
                vec![((*parent, name.clone()), touch(Some(file), None))]
            }
            Change::Rename { from_parent, from_name, to_parent, to_name, target } => {
                let (from, to) = ((*from_parent, from_name.clone()), (*to_parent, to_name.clone()));
                if *target == RenameTarget::MustBeFree && from != to {
                    self.check_exclusive(index, asked, moment, &to);
                }
                if *target == RenameTarget::Exchange {
                    return self.note_exchange(index, record, moment, [from, to]);
                }
                let both = vec![(from.clone(), touch(Some(file), None)), (to.clone(), touch(gone, Some(file)))];
                if from == to { Vec::new() } else { both }
            }
            Change::Store { .. } | Change::Append { .. } => {
                let stored = Stored { version: record, at: self.now, moment };
                self.sharing.stored.entry(file).or_default().push(stored);
                Vec::new()
            }
            Change::SetAttr { .. } | Change::SetXattr { .. } | Change::Resolve { .. } => Vec::new(),
        };
        for (key, touch) in touches {
            self.sharing.names.entry(key).or_default().push(touch);
        }
    }

    fn note_exchange(
        &mut self,
        index: usize,
        record: RecordId,
        moment: Option<Moment>,
        [from, to]: [(FileId, Name); 2],
    ) {
        let at = self.now;
        let record = self.hosts[index].replica.as_ref().and_then(|replica| replica.logged(record).ok()).flatten();
        // Two names of one file, or a record that is not in the log any more: what stands where is not known.
        let Some(Op::Exchange { file, other, .. }) = record.map(|record| record.op) else {
            let unknown = Touch { at, before: None, after: None, moment: None };
            for key in [from, to] {
                self.sharing.names.entry(key).or_default().push(unknown.clone());
            }
            return;
        };
        for (key, before, after) in [(from, file, other), (to, other, file)] {
            let touch = Touch { at, before: Some(before), after: Some(after), moment };
            self.sharing.names.entry(key).or_default().push(touch);
        }
    }

    /// The last that was done with a name, if all that ever was is known and in the order that the station saw.
    fn last_touch(&self, key: &(FileId, Name), looker: Moment) -> Option<Touch> {
        // A station that hears of a fence takes back what it showed behind it ([S-fence]).
        if self.fences.are_drawn() {
            return None;
        }
        let touches = self.sharing.names.get(key)?;
        let is_known = |touches: &Vec<Touch>| touches.iter().all(|touch| self.is_shared(touch.moment, looker));
        // A rename that met another one of the same file, made far away, gave the name to nobody.
        let files: BTreeSet<FileId> =
            touches.iter().flat_map(|touch| touch.before.into_iter().chain(touch.after)).collect();
        let is_of_file = |touch: &&Touch| touch.before.into_iter().chain(touch.after).any(|file| files.contains(&file));
        let mut others = self.sharing.names.values().flatten().filter(is_of_file);
        if !others.all(|touch| self.is_shared(touch.moment, looker)) {
            return None;
        }
        // A directory may be moved, merged or removed from far away without a word of its names.
        let is_whole = key.0 == FileId::ROOT || self.sharing.names.values().all(is_known);
        let last = touches.last().filter(|last| !self.sharing.met_since(looker.parent, last.at))?;
        // It came back, and its trace may have been forgotten before its server heard of that (seed 169039390).
        let is_forgotten = |file| self.plan.limits.tombstones < TRACES_KEPT && self.sharing.was_nameless(file, last.at);
        if last.after.is_some_and(is_forgotten) {
            return None;
        }
        // A copy beside another file stands where the home has it, and its server may hear first that it does not any more (seed 180115594).
        if last.after.is_some_and(|file| self.sharing.was_copy(looker.parent, file)) {
            return None;
        }
        (is_whole && is_known(touches)).then(|| last.clone())
    }

    fn check_exclusive(&mut self, index: usize, asked: &Asked, moment: Option<Moment>, key: &(FileId, Name)) {
        let Some(touch) = moment.and_then(|moment| self.last_touch(key, moment)) else { return };
        if let Some(there) = touch.after {
            let (at, since) = (touch.at.as_micros(), asked.at.as_micros());
            let line = format!("host {index} made {key:?}, which was {there} since {at} (asked at {since})");
            self.violations.push(Violation::new("of two who make a name one is told that it is there", line));
        }
    }

    fn check_name(
        &mut self,
        index: usize,
        asked: &Asked,
        moment: Option<Moment>,
        key: (FileId, Name),
        shown: Option<FileId>,
    ) {
        let Some(touch) = moment.and_then(|moment| self.last_touch(&key, moment)) else { return };
        if touch.at >= asked.at {
            return;
        }
        let is_missed = touch.after.is_some() && shown.is_none();
        let is_old = shown.is_some()
            && shown == touch.before
            && shown != touch.after
            && shown.is_some_and(|file| !self.may_come_back(file, &touch, moment));
        if is_missed || is_old {
            let line = format!("host {index} saw {shown:?} at {key:?}, asked at {}: {touch:?}", asked.at.as_micros());
            self.violations.push(Violation::new("a look sees what was closed at the station before", line));
        }
    }

    /// Whether a file may have come back under its name: somebody wrote it who had not seen, or did not mind, that it went
    /// (`docs/conflicts.md`, "writes `a`" against "removes `a`").
    fn may_come_back(&self, file: FileId, gone: &Touch, looker: Option<Moment>) -> bool {
        let may = |stored: &Stored| {
            stored.at >= gone.at || looker.is_none_or(|looker| !self.is_shared(stored.moment, looker))
        };
        self.sharing.stored.get(&file).is_some_and(|stored| stored.iter().any(may))
    }

    fn check_version(
        &mut self,
        index: usize,
        asked: &Asked,
        moment: Option<Moment>,
        (file, shown): (FileId, RecordId),
    ) {
        let (Some(moment), Some(stored)) = (moment, self.sharing.stored.get(&file)) else { return };
        if self.fences.are_drawn() {
            return;
        }
        // What was written far away may have come before, and what was closed here lies beside it.
        if !stored.iter().all(|stored| self.is_shared(stored.moment, moment)) {
            return;
        }
        let missed = stored.iter().find(|stored| {
            stored.at < asked.at
                && !self.sharing.met_since(moment.parent, stored.at)
                && self.history.descends(stored.version, shown)
                && !self.is_reported(index, stored.version, shown)
        });
        if let Some(Stored { version, at, .. }) = missed {
            let line = format!("host {index} saw {shown} of {file}; {version} was closed at {}", at.as_micros());
            self.violations.push(Violation::new("a look sees what was closed at the station before", line));
        }
    }
}
