//! Rights of the children to change alone, at their parent. `rights` tells what they are.
//!
//! Who looks at a directory that another has alone waits until that one gave it back; who claims it waits until all
//! others gave back that they look at it. Claims are granted in the order in which they came, as far as they are about
//! the same directories, and a look waits for the claims before it. Nobody waits for a child that does not take rights,
//! and for no child longer than a lease.

use crate::children::rights_table::{CLAIMS_MAX, Call, Claim};
use crate::children::{ChildState, Children};
use crate::replica::Replica;
use crate::replica::core::Core;
use crate::state::names::directories_of;
use std::collections::BTreeSet;
use wayfs_types::{FileId, MetaStore, OriginId, StorageError, Time};
use wayfs_wire::{AskId, Down, Question, RecallId, Then, Up};

impl<S: MetaStore> Replica<S> {
    /// What a child says about rights.
    pub(crate) fn handle_child_rights(&mut self, child: OriginId, up: Up) {
        if let Up::TakesRights { takes } = up {
            if takes {
                self.children.take_rights(child);
            } else {
                self.children.take_no_rights(child);
            }
        } else if let Up::Claim { ask, files } = up {
            self.children.handle_claim(child, ask, files);
        } else if let Up::GivenBack { serial } = up {
            self.children.rights.end_call(child, serial);
            self.end_return(child, serial);
        }
    }

    /// Grants what can be granted. A client that nobody answers for a lease is waited for no more.
    pub(crate) fn pump_rights(&mut self) {
        self.children.end_late_calls(&self.core);
        self.end_late_returns();
        let mut taken: BTreeSet<FileId> = BTreeSet::new();
        let mut at = 0;
        while let Some(claim) = self.children.rights.claims.get(at) {
            let (child, ask, files) = (claim.child, claim.ask, claim.files.clone());
            // What it is to give back is not given to it before it did: its word would take away what was given since.
            let waits = self.children.rights.is_called(child, |file| files.contains(file))
                || files.iter().any(|file| taken.contains(file) || self.children.returning.is_anothers(child, file))
                || self.children.waits_for_others(&self.core, at, child, &files);
            if waits {
                taken.extend(files);
                at += 1;
                continue;
            }
            self.children.rights.claims.remove(at);
            self.children.rights.alone.extend(files.into_iter().map(|file| (file, child)));
            self.children.grant_claim(child, ask);
        }
    }
}

impl Children {
    fn take_rights(&mut self, origin: OriginId) {
        let Some(child) = self.by_origin.get_mut(&origin) else { return };
        if child.is_station {
            return self.take_no_rights(origin);
        }
        child.takes_rights = true;
        let watched: Vec<FileId> = child.watches.iter().copied().collect();
        self.doubt_what_others_have(origin, &watched);
    }

    fn take_no_rights(&mut self, origin: OriginId) {
        let Some(child) = self.by_origin.get_mut(&origin) else { return };
        child.takes_rights = false;
        self.rights.forget(origin);
    }

    fn handle_claim(&mut self, child: OriginId, ask: AskId, files: Vec<FileId>) {
        if self.rights.claims.len() >= CLAIMS_MAX {
            return self.grant_claim(child, ask);
        }
        let (files, called) = (files.into_iter().collect(), BTreeSet::new());
        self.rights.claims.push_back(Claim { child, ask, files, called });
    }

    /// A child says what it looks at: in a new session, or of a directory that it made.
    pub(crate) fn note_child_watches(&mut self, origin: OriginId, files: &[FileId]) {
        let Some(child) = self.by_origin.get(&origin).filter(|child| child.takes_rights) else { return };
        if child.state == ChildState::Ready {
            return self.doubt_what_others_have(origin, files);
        }
        for file in files {
            if self.others_among(origin, &BTreeSet::from([*file])).is_empty() {
                self.rights.alone.insert(*file, origin);
            }
        }
    }

    /// What others have alone a child must not show from its cache.
    fn doubt_what_others_have(&mut self, origin: OriginId, files: &[FileId]) {
        let rights = &self.rights;
        let is_claimed = |file: &FileId| rights.claims.iter().any(|claim| claim.files.contains(file));
        let returning = &self.returning;
        let is_anothers = |file: &FileId| {
            rights.alone.get(file).is_some_and(|holder| *holder != origin) || returning.is_anothers(origin, file)
        };
        let files: Vec<FileId> = files.iter().filter(|file| is_anothers(file) || is_claimed(file)).copied().collect();
        if !files.is_empty() {
            self.post_rights(origin, Down::GiveBack { serial: RecallId::default(), files, then: Then::Ask });
        }
    }

    /// Children that look at one of these, or have it alone.
    fn others_among(&self, but: OriginId, files: &BTreeSet<FileId>) -> BTreeSet<OriginId> {
        let takes = |origin: &OriginId| self.by_origin.get(origin).is_some_and(|child| child.takes_rights);
        let mut others = BTreeSet::new();
        for file in files {
            others.extend(self.rights.alone.get(file).copied());
            others.extend(self.watchers.get(file).into_iter().flatten().copied());
        }
        others.retain(|origin| *origin != but && takes(origin));
        others
    }

    /// Asks a child to give back. Answers `false` for one without a session, which is waited for as long as its lease.
    fn call<S: MetaStore>(&mut self, core: &Core<S>, child: OriginId, files: Vec<FileId>, then: Then) -> bool {
        let is_there = |row: &crate::children::Child| row.peer.is_some() && row.state != ChildState::Greeting;
        if !self.by_origin.get(&child).is_some_and(is_there) {
            return false;
        }
        let serial = self.rights.next_recall();
        self.rights.calls.insert((child, serial), Call { files: files.clone(), since: core.now });
        self.post_rights(child, Down::GiveBack { serial, files, then });
        true
    }

    fn waits_for_others<S: MetaStore>(
        &mut self,
        core: &Core<S>,
        claim: usize,
        child: OriginId,
        files: &BTreeSet<FileId>,
    ) -> bool {
        let mut waits = false;
        for other in self.others_among(child, files) {
            if self.rights.is_called(other, |file| files.contains(file)) {
                waits = true;
                continue;
            }
            let Some(asked) = self.rights.claims.get_mut(claim) else { return false };
            if asked.called.contains(&other) {
                continue;
            }
            waits = true;
            if self.call(core, other, files.iter().copied().collect(), Then::Ask)
                && let Some(asked) = self.rights.claims.get_mut(claim)
            {
                asked.called.insert(other);
            }
        }
        waits
    }

    fn grant_claim(&mut self, child: OriginId, ask: AskId) {
        self.post_rights(child, Down::Claimed { ask });
    }

    pub(crate) fn post_rights(&mut self, child: OriginId, message: Down) {
        if let Some(row) = self.by_origin.get_mut(&child) {
            row.rights_mail.push_back(message);
            self.rights.posted.insert(child);
        }
    }

    fn end_late_calls<S: MetaStore>(&mut self, core: &Core<S>) {
        let lease = core.config.lease;
        let late = |call: &Call| core.now >= call.since + lease;
        let over: Vec<(OriginId, RecallId)> =
            self.rights.calls.iter().filter(|(_, call)| late(call)).map(|(key, _)| *key).collect();
        for (child, serial) in over {
            tracing::warn!(%child, "a client did not give back what it changes alone for a lease");
            self.rights.end_call(child, serial);
        }
    }

    pub(crate) fn rights_timeout<S: MetaStore>(&self, core: &Core<S>) -> Option<Time> {
        let first = self.rights.first_call().into_iter().chain(self.returning.first()).min();
        first.map(|since| since + core.config.lease)
    }

    /// Whether a child may be answered: nobody changes alone what it asks for. If somebody does, he is asked to give it
    /// back.
    pub(crate) fn may_look<S: MetaStore>(
        &mut self,
        core: &Core<S>,
        origin: OriginId,
        question: &Question,
    ) -> Result<bool, StorageError> {
        if !self.by_origin.get(&origin).is_some_and(|child| child.takes_rights) {
            return Ok(true);
        }
        let part = self.by_origin.get(&origin).and_then(|child| child.part);
        if let Some(part) = part
            && Self::is_hidden(core, part, question)?
        {
            return Ok(true);
        }
        let files = Self::looked_at(core, question)?;
        Ok(self.may_look_at(core, origin, &files))
    }

    /// The same for directories, or crowded files.
    pub(crate) fn may_look_at<S: MetaStore>(
        &mut self,
        core: &Core<S>,
        origin: OriginId,
        files: &BTreeSet<FileId>,
    ) -> bool {
        if !self.by_origin.get(&origin).is_some_and(|child| child.takes_rights) {
            return true;
        }
        let is_claimed = |claim: &Claim| claim.child != origin && claim.files.iter().any(|file| files.contains(file));
        let mut may = !self.rights.claims.iter().any(is_claimed);
        may &= !files.iter().any(|file| self.returning.is_anothers(origin, file));
        for file in files {
            let Some(holder) = self.rights.alone.get(file).copied().filter(|holder| *holder != origin) else {
                continue;
            };
            if !self.by_origin.contains_key(&holder) {
                self.rights.leave(holder, *file);
                continue;
            }
            may = false;
            if !self.rights.is_called(holder, |called| called == file) {
                self.call(core, holder, vec![*file], Then::Look);
            }
        }
        may
    }

    /// A child is answered about a directory that nobody else looks at: it may change it, too.
    pub(crate) fn give_alone<S: MetaStore>(&mut self, core: &mut Core<S>, origin: OriginId, directory: FileId) {
        let takes = self.by_origin.get(&origin).is_some_and(|child| child.takes_rights);
        let is_claimed = self.rights.claims.iter().any(|claim| claim.files.contains(&directory));
        // Whoever claimed it may be gone. The child's word that it gives back would take away what is given now.
        let is_called = self.rights.is_called(origin, |file| *file == directory);
        if !takes || is_claimed || is_called || !self.others_among(origin, &BTreeSet::from([directory])).is_empty() {
            return;
        }
        if self.rights.alone.insert(directory, origin) != Some(origin) {
            self.send_child(core, origin, Down::Alone { files: vec![directory] });
        }
    }

    /// What a child watches that asks for a file. If it takes rights, it looks at the directories where that stands, too: others
    /// change the file by their rights to those, and would not wait for it.
    pub(crate) fn watched_with<S: MetaStore>(
        &self,
        core: &Core<S>,
        origin: OriginId,
        question: &Question,
        file: FileId,
    ) -> Result<Vec<FileId>, StorageError> {
        if !self.by_origin.get(&origin).is_some_and(|child| child.takes_rights) {
            return Ok(vec![file]);
        }
        Ok(Self::looked_at(core, question)?.into_iter().collect())
    }

    /// The directories in which that stands what a question is about.
    fn looked_at<S: MetaStore>(core: &Core<S>, question: &Question) -> Result<BTreeSet<FileId>, StorageError> {
        Ok(match question {
            Question::Lookup { parent, .. } => BTreeSet::from([*parent]),
            Question::List { directory, .. } => BTreeSet::from([*directory]),
            Question::Attributes { file } => {
                let inode = core.state.inode(*file)?;
                let plain = inode.iter().filter(|inode| !inode.is_directory());
                plain.flat_map(|inode| directories_of(inode)).chain([*file]).collect()
            }
        })
    }
}
