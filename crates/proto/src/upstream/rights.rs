//! The right to change alone, at the client that has it.
//!
//! Between the clients of one parent a look sees all that was closed, made, renamed or removed before it, and of two who
//! make the same name one is told that it is there. Neither costs anything where one client works by itself:
//!
//! ```text
//!   client                                        parent
//!     Ask ────────────────────────────────────────▶  nobody else looks there:
//!     ◀───────────────────────────────── Alone, Answer
//!       changes what it likes, and waits for nobody
//!     ◀────────────────────────────────────── GiveBack  another looks (then Look), or wants to change it (then Ask)
//!       what was closed goes into the log, the log goes up
//!     Records, GivenBack ─────────────────────────▶  the other is answered
//!     Claim ──────────────────────────────────────▶  before the next change: all others give back first
//!     ◀──────────────────────────── Images, Claimed
//! ```
//!
//! A right is about a directory: the names in it, and the files that stand there with attributes and contents. Rights
//! are of one session, and of no use beyond it: without the parent everybody works on by himself, and conflicts are
//! settled as ever. A change whose right cannot be had in time is made without it, too.
//!
//! Looser than that are the times and the link count of a directory, seen through the directory above it.
//!
//! Several clients that look at a directory which nobody changes keep it in their kernels, too: whoever is to change it
//! calls them first. Where somebody did so lately nothing is kept, since with each call a kernel asks for all names again.

use crate::api::{Output, Sharing};
use crate::replica::Replica;
use crate::replica::core::Core;
use crate::requests::{Attempt, On, Waiting};
use crate::state::names::seen_at;
use crate::upstream::Uplink;
use crate::upstream::line::UplinkState;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use wayfs_types::request::Change;
use wayfs_types::{FileId, Inode, MetaStore, Name, StorageError};
use wayfs_wire::{AskId, CLAIM_MAX, Down, RecallId, Then, Up, Verdict};

/// Claims for one request before it goes on without the right.
const CLAIMS_MAX: u8 = 8;
/// Directories of which a kernel is remembered to keep what it was told, before it is asked to forget all.
const KEPT_MAX: usize = 4096;

/// How the kernel may keep what it is told of a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keeping {
    /// Not at all: others change it unasked, or what is told there is to be seen at once.
    No,
    /// Until it is told otherwise: callbacks are all that is promised.
    Relaxed,
    /// Until it is told otherwise. No other client of the parent looks at it before this machine is asked.
    Alone,
    /// Until it is told otherwise. Others look at it, too, and whoever changes it asks this machine before.
    Shared,
}

impl<S: MetaStore> Replica<S> {
    /// How the kernel may keep what it is told of a directory.
    pub fn keeping(&self, directory: FileId) -> Keeping {
        if !self.may_keep(directory) {
            return Keeping::No;
        }
        match (self.uplink.is_close_to_open(&self.core), self.uplink.has_alone(directory)) {
            (false, _) => Keeping::Relaxed,
            (true, true) => Keeping::Alone,
            (true, false) => Keeping::Shared,
        }
    }

    /// Whether the kernel may keep what it is told of a directory: nobody else changes it before we are asked. Without
    /// rights, callbacks break what it keeps.
    pub fn may_keep(&self, directory: FileId) -> bool {
        let Some(upstream) = &self.uplink.session else { return true };
        let rights = &upstream.rights;
        let is_watched = || self.watches.since(directory).is_some();
        let may = match rights.takes {
            true if rights.is_called(directory) => false,
            true => rights.alone.contains(&directory) || rights.is_shared(directory, self.core.now) && is_watched(),
            false => is_watched(),
        };
        // What is told there behind a lock is to be seen at once.
        may && Uplink::is_exclusive(&self.core, directory).is_ok_and(|is_exclusive| !is_exclusive)
    }

    /// Begins to take rights, if the settings have it so and the parent is as near as they want it. Said before anything is
    /// shown in a session, or as soon as a message went to the parent and back fast enough.
    pub(crate) fn begin_rights(&mut self) {
        let (Some(upstream), Some(line)) = (self.uplink.session.as_mut(), self.core.line.as_mut()) else { return };
        let takes = match self.core.config.sharing {
            Sharing::Relaxed => false,
            Sharing::CloseToOpen => true,
            Sharing::Near(rtt_max) => upstream.rights.rtt_min.is_some_and(|rtt| rtt <= rtt_max),
        };
        if !takes || upstream.rights.takes {
            return;
        }
        upstream.rights.takes = true;
        upstream.rights.first_ask = Some(line.coming_ask());
        self.core.tell_parent(Up::TakesRights { takes });
        // The kernel was told to keep things that it is to ask about from now on.
        self.core.state.stage_output(Output::InvalidateAll);
        self.requests.note_unvouched();
    }

    /// A message came back from the parent after so long.
    pub(crate) fn note_rtt(&mut self, rtt: Duration) {
        let (Some(upstream), Some(line)) = (self.uplink.session.as_mut(), self.core.line.as_mut()) else { return };
        upstream.rights.note_rtt(rtt);
        if matches!(line.state, UplinkState::CatchingUp | UplinkState::Live) {
            self.begin_rights();
        }
    }

    /// What the parent says about rights.
    pub(crate) fn handle_rights_said(&mut self, said: Down) {
        if let Down::Alone { files } = said {
            self.uplink.handle_alone(files);
        } else if let Down::Claimed { ask } = said {
            self.handle_claimed(ask);
        } else if let Down::GiveBack { serial, files, then } = said {
            self.handle_give_back(serial, files, then);
        }
    }

    fn handle_claimed(&mut self, ask: AskId) {
        let Some(files) = self.uplink.session.as_mut().and_then(|up| up.rights.claims.remove(&ask)) else { return };
        self.uplink.handle_alone(files);
        self.requests.answered(ask, Verdict::Found, None);
    }

    /// The parent wants rights back. What was closed under them goes into the log first, by the driver's doing; where we
    /// looked with others there is nothing, and to wait for what is to be changed there would be to wait for whom we keep waiting.
    fn handle_give_back(&mut self, serial: RecallId, files: Vec<FileId>, then: Then) {
        // Where we go on looking, the kernel keeps what it has: we are called before anybody changes it.
        let is_left = |file: &FileId| then == Then::Ask || self.watches.since(*file).is_none();
        let is_kept = |file: &FileId| self.may_keep(*file) || self.uplink.kept_before(*file);
        let kept: Vec<FileId> = files.iter().filter(|file| is_kept(file)).copied().collect();
        let expire = kept.iter().any(is_left);
        let now = self.core.now;
        let Some(upstream) = self.uplink.session.as_mut() else { return };
        let rights = &mut upstream.rights;
        let alone: Vec<FileId> = files.iter().filter(|file| rights.alone.contains(file)).copied().collect();
        if then == Then::Ask {
            files.iter().for_each(|file| rights.stir(*file, now));
        }
        let expire = expire || rights.kept.len() > KEPT_MAX;
        if expire {
            rights.kept.clear();
        } else {
            rights.kept.extend(kept);
        }
        // Who only hears that others have these alone keeps nobody waiting: they change them from now on.
        if serial == RecallId::default() && then == Then::Ask {
            rights.doubted.extend(&files);
        }
        rights.given.insert(serial, (files, then));
        if !alone.is_empty() || expire {
            self.core.state.stage_output(Output::GiveBack { serial, files: alone, expire });
        } else {
            self.handle_given_back(serial);
        }
    }

    /// What was closed under the rights is in the log: they end when all of it was sent.
    pub(crate) fn handle_given_back(&mut self, serial: RecallId) {
        let Some(upstream) = self.uplink.session.as_mut() else { return };
        let Some((files, then)) = upstream.rights.given.remove(&serial) else { return };
        // Of nothing: the parent waits for what we did before the session began.
        let mut was_alone = files.is_empty();
        for file in files {
            was_alone |= upstream.rights.alone.remove(&file);
            if then == Then::Ask {
                upstream.rights.doubted.insert(file);
            }
        }
        let after = if was_alone { self.core.state.sequence() } else { 0 };
        self.locks.post_after(&mut self.core, after, Up::GivenBack { serial });
    }

    /// The rights that a change needs and we have not; `None`: go ahead.
    pub(crate) fn missing_right(
        &mut self,
        waiting: &mut Waiting,
        change: &Change,
    ) -> Result<Option<Attempt>, StorageError> {
        if waiting.offline
            || !self.uplink.is_close_to_open(&self.core)
            || !self.core.is_trusted()
            || waiting.claims >= CLAIMS_MAX
        {
            return Ok(None);
        }
        let files = Uplink::rights_for(&self.core, change)?;
        let (Some(upstream), Some(line)) = (self.uplink.session.as_mut(), self.core.line.as_mut()) else {
            return Ok(None);
        };
        if files.len() > CLAIM_MAX || files.iter().all(|file| upstream.rights.alone.contains(file)) {
            return Ok(None);
        }
        waiting.claims += 1;
        let files: Vec<FileId> = files.into_iter().collect();
        let same = upstream.rights.claims.iter().find(|(_, claimed)| **claimed == files).map(|(ask, _)| *ask);
        if let Some(ask) = same {
            return Ok(Some(Attempt::Park(On::Ask(ask))));
        }
        let ask = line.next_ask();
        upstream.rights.claims.insert(ask, files.clone());
        // Behind what is being given back: that would take away what this asks for.
        self.locks.post_in_turn(&mut self.core, Up::Claim { ask, files });
        Ok(Some(Attempt::Park(On::Ask(ask))))
    }

    /// We gave a file more names than it lists, with the right to all directories where it stood: the right to itself will be
    /// needed next time. Nobody waits for it now.
    pub(crate) fn claim_crowded(&mut self, file: FileId) {
        if !self.uplink.is_close_to_open(&self.core) {
            return;
        }
        let (Some(upstream), Some(line)) = (self.uplink.session.as_mut(), self.core.line.as_mut()) else { return };
        let is_claimed = upstream.rights.claims.values().any(|files| files.contains(&file));
        if is_claimed || upstream.rights.alone.contains(&file) {
            return;
        }
        let ask = line.next_ask();
        upstream.rights.claims.insert(ask, vec![file]);
        self.locks.post_in_turn(&mut self.core, Up::Claim { ask, files: vec![file] });
    }
}

impl Uplink {
    /// Whether what this client closed is seen by the next look of any other at the same parent, and the other way round.
    pub(crate) fn is_close_to_open<S: MetaStore>(&self, core: &Core<S>) -> bool {
        core.standing() == Some(UplinkState::Live) && self.session.as_ref().is_some_and(|up| up.rights.takes)
    }

    /// Whether the kernel keeps what it was told of a directory before that ended.
    fn kept_before(&self, directory: FileId) -> bool {
        self.session.as_ref().is_some_and(|up| up.rights.kept.contains(&directory))
    }

    /// Whether nobody else looks at a directory, as far as that is promised.
    pub(crate) fn has_alone(&self, directory: FileId) -> bool {
        self.session.as_ref().is_none_or(|up| !up.rights.takes || up.rights.alone.contains(&directory))
    }

    /// Whether a change of a file is made at once, without a question to the parent.
    pub(crate) fn is_change_free<S: MetaStore>(&self, core: &Core<S>, file: FileId) -> bool {
        if Self::is_the_homes(core, file).unwrap_or(true) {
            return false;
        }
        if !self.is_close_to_open(core) {
            return true;
        }
        let inode = core.state.inode(file).ok().flatten();
        inode.iter().flat_map(|inode| seen_at(file, inode)).all(|directory| self.has_alone(directory))
    }

    pub(crate) fn is_doubted(&self, directory: FileId) -> bool {
        self.session.as_ref().is_some_and(|up| up.rights.doubts(directory))
    }

    /// A directory of our own making, which nobody can know of yet.
    pub(crate) fn note_own_directory<S: MetaStore>(&mut self, core: &Core<S>, directory: FileId) {
        if let (Some(upstream), Some(line)) = (self.session.as_mut(), core.line.as_ref())
            && line.state == UplinkState::Live
            && upstream.rights.takes
        {
            upstream.rights.alone.insert(directory);
        }
    }

    fn handle_alone(&mut self, files: Vec<FileId>) {
        let Some(upstream) = self.session.as_mut() else { return };
        if !upstream.rights.takes {
            return;
        }
        for file in files {
            upstream.rights.doubted.remove(&file);
            upstream.rights.alone.insert(file);
        }
    }

    /// The directories that others may look at to see a change. A file that was removed comes back to where it was last with
    /// what is stored in it.
    pub(crate) fn rights_for<S: MetaStore>(core: &Core<S>, change: &Change) -> Result<BTreeSet<FileId>, StorageError> {
        let mut files = BTreeSet::new();
        match change {
            Change::Create { .. } | Change::Publish { .. } | Change::Mkdir { .. } | Change::Resolve { .. } => {}
            Change::Link { file, .. } | Change::Store { file, .. } | Change::Append { file, .. } => {
                Self::add_seen(core, *file, &mut files)?;
            }
            Change::SetAttr { file, .. } | Change::SetXattr { file, .. } => {
                let inode = Self::add_seen(core, *file, &mut files)?;
                files.extend(inode.filter(|inode| inode.is_directory()).map(|_| *file));
            }
            Change::Unlink { parent, name } | Change::Rmdir { parent, name } => {
                Self::add_victim(core, (*parent, name), &mut files)?;
            }
            Change::Rename { from_parent, from_name, to_parent, to_name, .. } => {
                Self::add_victim(core, (*to_parent, to_name), &mut files)?;
                if let Some(entry) = core.state.entry(*from_parent, from_name)?
                    && core.state.inode(entry.file)?.is_some_and(|inode| !inode.is_directory())
                {
                    Self::add_seen(core, entry.file, &mut files)?;
                }
            }
        }
        match change {
            Change::Create { parent, .. }
            | Change::Publish { parent, .. }
            | Change::Mkdir { parent, .. }
            | Change::Link { parent, .. }
            | Change::Unlink { parent, .. }
            | Change::Rmdir { parent, .. } => {
                files.insert(*parent);
            }
            Change::Rename { from_parent, to_parent, .. } => files.extend([*from_parent, *to_parent]),
            Change::SetAttr { .. }
            | Change::SetXattr { .. }
            | Change::Store { .. }
            | Change::Append { .. }
            | Change::Resolve { .. } => {}
        }
        Ok(files)
    }

    /// Of a name that goes: where else its file is seen; a directory must not be filled meanwhile.
    fn add_victim<S: MetaStore>(
        core: &Core<S>,
        (parent, name): (FileId, &Name),
        files: &mut BTreeSet<FileId>,
    ) -> Result<(), StorageError> {
        let Some(entry) = core.state.entry(parent, name)? else { return Ok(()) };
        match core.state.inode(entry.file)? {
            Some(inode) if inode.is_directory() => {
                files.insert(entry.file);
            }
            Some(_) => drop(Self::add_seen(core, entry.file, files)?),
            None => {}
        }
        Ok(())
    }

    /// Where others see a file.
    fn add_seen<S: MetaStore>(
        core: &Core<S>,
        file: FileId,
        files: &mut BTreeSet<FileId>,
    ) -> Result<Option<Arc<Inode>>, StorageError> {
        let inode = core.state.inode(file)?;
        if let Some(inode) = &inode {
            files.extend(seen_at(file, inode));
            files.extend(core.state.unlisted_exclusive(file, inode)?);
        }
        Ok(inode)
    }
}
