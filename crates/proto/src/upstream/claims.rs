//! Changes in exclusive directories, at the client: the home decides each at once.
//!
//! ```text
//!   program      client                       home (by way of the station)
//!     mkdir ───▶   Lock (Claim, directory) ────▶  others who change something there wait
//!                  ◀── images, LockAnswer          all that was done there before is here
//!                  checks, writes the record
//!                  Records, Unlock ─────────────▶  orders it; the next one is granted
//!     ◀── done    ◀── Marks: visible
//! ```
//!
//! A claim is a lock of a family of its own, so whatever holds of locks holds of it: it orders data, it is taken along over a
//! session that breaks, it ends with a lease. Several are taken in the order of their numbers, which no cycle can come of.
//!
//! Names are answered when the home has ordered them: were they answered before, a line that breaks and a lease that ends could
//! give one name to two. If it came to that before the home had the record, the record met another, and its maker is told that
//! the name is taken. Contents are answered at once, since whoever stores them keeps them until that worked; their driver waits
//! for the home where a program does. An append upon an older version is refused with `Changed` and made anew by its driver; it keeps
//! its claim meanwhile, or whoever writes faster would be first each time.
//!
//! Without the home nothing is changed: `Unreachable`. Who is not told within the time of a request is told `TimedOut`, and does
//! not know what became of it.

use crate::locks::asks::{LockAsk, lock_error};
use crate::replica::Replica;
use crate::replica::core::Core;
use crate::replica::errors::StepError;
use crate::requests::{Attempt, On, Waiting};
use crate::state::names::directories_of;
use crate::state::tables::Numbered;
use crate::upstream::Uplink;
use crate::upstream::claimed::{Claims, Held, Kept, Made};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use wayfs_types::request::{
    Answer, Change, LockFamily, LockKind, LockOwner, LockRange, LockRequest, Outcome, RequestId,
};
use wayfs_types::{FileId, FsError, Image, Key, MetaStore, Name, StorageError, Time};
use wayfs_wire::{LockVerdict, Question, Up};

/// How often a request begins its claims anew, because what it is about moved meanwhile.
const ROUNDS_MAX: u8 = 8;

/// How long an append that is to be made anew keeps its claims: others wait so long for a driver that does not come back.
const KEPT_MAX: Duration = Duration::from_secs(2);

fn claim(id: RequestId, file: FileId) -> LockRequest {
    let (family, owner, range) = (LockFamily::Claim, LockOwner(id.0), LockRange::WHOLE);
    LockRequest { file, family, owner, pid: 0, range, kind: LockKind::Write, wait: true }
}

/// The name that a change makes.
fn place_of(change: &Change) -> Option<(FileId, Name)> {
    match change {
        Change::Create { parent, name, .. }
        | Change::Publish { parent, name, .. }
        | Change::Mkdir { parent, name, .. }
        | Change::Link { parent, name, .. } => Some((*parent, name.clone())),
        Change::Rename { to_parent, to_name, .. } => Some((*to_parent, to_name.clone())),
        Change::Unlink { .. }
        | Change::Rmdir { .. }
        | Change::SetAttr { .. }
        | Change::SetXattr { .. }
        | Change::Store { .. }
        | Change::Append { .. }
        | Change::Resolve { .. } => None,
    }
}

impl<S: MetaStore> Replica<S> {
    /// The next claim that a change needs and has not; `None`: go ahead.
    pub(crate) fn missing_claim(
        &mut self,
        id: RequestId,
        waiting: &mut Waiting,
        change: &Change,
    ) -> Result<Option<Attempt>, StepError> {
        let Some(claims) = &mut self.uplink.claims else { return Ok(None) };
        claims.take_over(id, change);
        if let Some(error) = claims.refused.remove(&id) {
            return Ok(Some(Attempt::Done(Err(error))));
        }
        let held: BTreeSet<FileId> = claims.held.get(&id).into_iter().flat_map(BTreeMap::keys).copied().collect();
        let wanted = Uplink::exclusive_among(&self.core, change)?;
        if wanted.is_empty() {
            return Ok(None);
        }
        if !self.core.is_trusted() {
            let may_come = !waiting.offline && self.core.now < waiting.deadline;
            let otherwise = Attempt::Done(Err(FsError::Unreachable));
            return Ok(Some(if may_come { Attempt::Park(On::Session) } else { otherwise }));
        }
        let Some(next) = wanted.difference(&held).next().copied() else { return Ok(None) };
        if held.last().is_some_and(|last| *last > next) {
            // Out of order two could wait for each other.
            self.let_go_of_claims(id);
            waiting.rounds += 1;
            if waiting.rounds > ROUNDS_MAX {
                return Ok(Some(Attempt::Done(Err(FsError::TimedOut))));
            }
            return self.missing_claim(id, waiting, change);
        }
        let request = claim(id, next);
        let ask = self.locks.ask_lock(&mut self.core, LockAsk::Claim(id, request));
        self.locks.post_in_turn(&mut self.core, Up::Lock { ask, request });
        Ok(Some(Attempt::Park(On::Claim)))
    }

    /// The home's word on a claim.
    pub(crate) fn handle_claim_answer(&mut self, id: RequestId, request: &LockRequest, verdict: LockVerdict) {
        if !self.requests.is_waiting(id) {
            if verdict == LockVerdict::Granted {
                let LockRequest { file, family, owner, range, .. } = *request;
                self.locks.post_in_turn(&mut self.core, Up::Unlock { file, family, owner, range });
            }
            return;
        }
        let Some(claims) = &mut self.uplink.claims else { return };
        if verdict == LockVerdict::Granted {
            claims.held.entry(id).or_default().insert(request.file, id);
        } else {
            claims.refused.insert(id, lock_error(verdict));
        }
        self.requests.wake(vec![id]);
    }

    /// A change was made, or refused by the rules, under the claims that it needed.
    pub(crate) fn end_claimed(
        &mut self,
        id: RequestId,
        waiting: &mut Waiting,
        change: &Change,
        outcome: Outcome,
    ) -> Attempt {
        let Some(held) = self.uplink.claims.as_mut().and_then(|claims| claims.held.remove(&id)) else {
            return Attempt::Done(outcome);
        };
        if let (Change::Append { file, .. }, Err(FsError::Changed)) = (change, &outcome) {
            self.keep_claims(*file, held);
            return Attempt::Done(outcome);
        }
        for (file, owner) in held {
            let request = claim(owner, file);
            let (family, owner, range) = (request.family, request.owner, request.range);
            // In a new session it is taken again, until the record is there; never waited for.
            let held = vec![LockRequest { wait: false, ..request }];
            self.locks.post_unlock(&mut self.core, Up::Unlock { file, family, owner, range }, held);
        }
        match (change, outcome) {
            (Change::Store { .. } | Change::Append { .. }, outcome) => Attempt::Done(outcome),
            (_, Ok(answer @ Answer::Changed { record, .. })) => {
                waiting.made = Some(Made { record, answer, place: place_of(change), is_asked: false });
                Attempt::Park(On::Level)
            }
            (_, outcome) => Attempt::Done(outcome),
        }
    }

    /// A request is over: what it claimed is for others.
    pub(crate) fn end_claims(&mut self, id: RequestId) {
        let Some(claims) = &mut self.uplink.claims else { return };
        claims.refused.remove(&id);
        self.let_go_of_claims(id);
        for ask in self.locks.abandon_claims(id) {
            self.locks.post_in_turn(&mut self.core, Up::LockCancel { ask });
        }
    }

    fn let_go_of_claims(&mut self, id: RequestId) {
        let held = self.uplink.claims.as_mut().and_then(|claims| claims.held.remove(&id));
        self.let_go_of(held.unwrap_or_default());
    }

    fn let_go_of(&mut self, held: Held) {
        for (file, owner) in held {
            let LockRequest { family, owner, range, .. } = claim(owner, file);
            self.locks.post_in_turn(&mut self.core, Up::Unlock { file, family, owner, range });
        }
    }

    /// Keeps claims for the next try to append to a file.
    fn keep_claims(&mut self, file: FileId, held: Held) {
        let until = self.core.now + KEPT_MAX;
        let Some(claims) = &mut self.uplink.claims else { return };
        if let Some(before) = claims.kept.insert(file, Kept { held, until }) {
            self.let_go_of(before.held);
        }
    }

    /// Lets go of claims that were kept for somebody who did not come.
    pub(crate) fn check_claims(&mut self) {
        let now = self.core.now;
        let Some(claims) = &mut self.uplink.claims else { return };
        let over: Vec<Kept> = claims.kept.extract_if(.., |_, kept| kept.until <= now).map(|(_, kept)| kept).collect();
        over.into_iter().for_each(|kept| self.let_go_of(kept.held));
    }

    pub(crate) fn claims_timeout(&self) -> Option<Time> {
        self.uplink.claims.as_ref().and_then(Claims::timeout)
    }
}

impl Uplink {
    /// Answers a change when the home has ordered it.
    pub(crate) fn attempt_made<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        waiting: &mut Waiting,
        mut made: Made,
    ) -> Result<Attempt, StepError> {
        let own = core.config.origin;
        if made.record.origin() != own || (waiting.offline && core.now >= waiting.deadline) {
            return Ok(Attempt::Done(Err(FsError::TimedOut)));
        }
        if core.state.marks_committed(own)?.visible < made.record.sequence() {
            if core.state.own_durable() < made.record.sequence() {
                core.state.want_sync();
            }
            return Ok(Attempt::Park(On::Level));
        }
        let Some((parent, name)) = made.place.clone() else { return Ok(Attempt::Done(Ok(made.answer))) };
        if !core.is_trusted() {
            made.is_asked = false;
            waiting.made = Some(made);
            return Ok(Attempt::Park(On::Level));
        }
        // What met it is told behind the mark, and before the answer to a question.
        if !made.is_asked {
            let ask = self.ask(core, Question::Lookup { parent, name })?;
            made.is_asked = true;
            waiting.made = Some(made);
            return Ok(Attempt::Park(On::Ask(ask)));
        }
        let is_met = Self::image_of(core, &Key::Conflict(made.record))?
            || core.state.inode(FileId::made_by(made.record))?.is_some_and(|inode| inode.merged_into.is_some());
        Ok(Attempt::Done(if is_met { Err(FsError::Exists) } else { Ok(made.answer) }))
    }

    /// Whether a file is, or stands in, a directory in which the home decides at once, as far as it is known here.
    pub(crate) fn is_the_homes<S: MetaStore>(core: &Core<S>, file: FileId) -> Result<bool, StorageError> {
        let Some(inode) = core.state.inode_meant(file)? else { return Ok(false) };
        if inode.is_exclusive() {
            return Ok(true);
        }
        for directory in directories_of(&inode) {
            if Self::is_exclusive(core, directory)? {
                return Ok(true);
            }
        }
        Ok(!core.state.unlisted_exclusive(file, &inode)?.is_empty())
    }

    pub(crate) fn is_exclusive<S: MetaStore>(core: &Core<S>, directory: FileId) -> Result<bool, StorageError> {
        let (is_exclusive, into) = core.state.look(&Key::Inode(directory), |row| match row {
            Some(Numbered { image: Image::Inode(inode), .. }) => (inode.is_exclusive(), inode.merged_into),
            Some(_) | None => (false, None),
        })?;
        if into.is_none() {
            return Ok(is_exclusive);
        }
        Ok(core.state.inode_meant(directory)?.is_some_and(|inode| inode.is_exclusive()))
    }

    /// The exclusive directories that a change is about.
    fn exclusive_among<S: MetaStore>(core: &Core<S>, change: &Change) -> Result<BTreeSet<FileId>, StorageError> {
        let mut exclusive = BTreeSet::new();
        for file in Self::rights_for(core, change)? {
            if Self::is_exclusive(core, file)? {
                exclusive.insert(file);
            }
        }
        Ok(exclusive)
    }

    fn image_of<S: MetaStore>(core: &mut Core<S>, key: &Key) -> Result<bool, StorageError> {
        Ok(wayfs_tree::View::image(&core.state.tx(), key)?.is_some())
    }
}
