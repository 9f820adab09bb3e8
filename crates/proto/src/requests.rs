//! Requests of this replica's own user, and those of them that wait.

use crate::api::{Output, Role};
use crate::claims::Made;
use crate::contents::Source;
use crate::needs::QUESTIONS_MAX;
use crate::replica::{Replica, StepError};
use crate::tables::{entries_from, entries_until, parse_image_key, table};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use wayfs_tree::{Author, BuildError};
use wayfs_types::request::{Answer, Change, Outcome, Removed, Request, RequestId};
use wayfs_types::{FileId, FsError, Inode, Key, MetaStore, Name, Op, RecordId, StorageError, Ticket, Time, UserId};
use wayfs_wire::{AskId, Question, Verdict};

/// How long a request may wait for the first session after the replica was opened.
pub(crate) const FIRST_SESSION_MAX: Duration = Duration::from_secs(2);
/// Most entries in an answer.
const LIST_MAX: usize = 4096;

/// What a request waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum On {
    Ask(AskId),
    /// The session with the parent.
    Session,
    /// The first session, for a moment after the replica was opened.
    FirstSession,
    Level,
    /// A lock, here or at the parent.
    Lock,
    /// What becomes of a question about a lock that its asker took back.
    LockEnd,
    /// A claim in an exclusive directory.
    Claim,
}

#[derive(Debug, Clone)]
pub(crate) struct Waiting {
    request: Request,
    pub(crate) deadline: Time,
    on: On,
    /// When to stop waiting for a session and serve from the cache; the deadline at the latest.
    patience: Time,
    pub(crate) questions: u8,
    /// Claims made for it.
    pub(crate) claims: u8,
    /// Served from the cache, verified or not.
    pub(crate) offline: bool,
    /// The parent's answer to a list: whether the directory ends, and the last name.
    listed: Option<(bool, Option<Name>)>,
    /// The parent said last that there is no such thing.
    is_absent: bool,
    /// How often its claims were begun anew.
    pub(crate) rounds: u8,
    /// A change that was made in an exclusive directory.
    pub(crate) made: Option<Made>,
}

impl Waiting {
    /// Whether the parent answered the question that was put for it.
    pub(crate) const fn is_answered(&self) -> bool {
        self.listed.is_some()
    }
}

/// All requests that wait.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    waiting: BTreeMap<RequestId, Waiting>,
    deadlines: BTreeSet<(Time, RequestId)>,
    by_ask: BTreeMap<AskId, Vec<RequestId>>,
    on_level: BTreeSet<RequestId>,
    ready: BTreeSet<RequestId>,
    /// Own records whose batch may not be durable: the batch, and the sequence.
    own_pending: VecDeque<(Ticket, u64)>,
}

impl Requests {
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.deadlines.first().map(|(time, _)| *time)
    }

    /// Whether a request waits.
    pub(crate) fn is_waiting(&self, id: RequestId) -> bool {
        self.waiting.contains_key(&id)
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// What is asked by those that wait.
    pub(crate) fn waiting_requests(&mut self) -> impl Iterator<Item = &mut Request> {
        self.waiting.values_mut().map(|waiting| &mut waiting.request)
    }

    /// The parent answered a question.
    pub(crate) fn answered(&mut self, ask: AskId, verdict: Verdict, listed: Option<(bool, Option<Name>)>) {
        for id in self.by_ask.remove(&ask).unwrap_or_default() {
            if let Some(waiting) = self.waiting.get_mut(&id) {
                waiting.offline |= matches!(verdict, Verdict::Behind | Verdict::Unready);
                waiting.listed.clone_from(&listed);
                waiting.is_absent = verdict == Verdict::NotFound;
                self.ready.insert(id);
            }
        }
    }

    /// What the parent answered could not be kept: it is asked again.
    pub(crate) fn forget_answers(&mut self) {
        for id in &self.ready {
            if let Some(waiting) = self.waiting.get_mut(id) {
                waiting.listed = None;
            }
        }
    }

    /// The parent answered a question whose answer is no images.
    pub(crate) fn answered_plainly(&mut self, ask: AskId) {
        self.answered(ask, Verdict::Found, Some((true, None)));
    }

    /// The parent cannot answer.
    pub(crate) fn refused(&mut self, ask: AskId) {
        self.answered(ask, Verdict::Unready, None);
    }

    /// The session with the parent changed: whoever waits for it, or for an answer of the last one, looks again.
    pub(crate) fn wake_parked(&mut self) {
        let parked =
            self.waiting.iter().filter(|(_, waiting)| !matches!(waiting.on, On::Level | On::Lock | On::LockEnd));
        self.ready.extend(parked.map(|(id, _)| *id));
    }

    /// Whoever waits for a lock asks again.
    pub(crate) fn wake_locks(&mut self) {
        let parked = self.waiting.iter().filter(|(_, waiting)| waiting.on == On::Lock);
        self.ready.extend(parked.map(|(id, _)| *id));
    }

    /// Those look again.
    pub(crate) fn wake(&mut self, ids: Vec<RequestId>) {
        self.ready.extend(ids);
    }

    /// Who waits for a lock.
    pub(crate) fn lock_waiters(&self) -> Vec<RequestId> {
        self.parked_on(On::Lock)
    }

    /// Who took a question about a lock back and waits for what becomes of it.
    pub(crate) fn hurried_locks(&self) -> Vec<RequestId> {
        self.parked_on(On::LockEnd)
    }

    fn parked_on(&self, on: On) -> Vec<RequestId> {
        self.waiting.iter().filter(|(_, waiting)| waiting.on == on).map(|(id, _)| *id).collect()
    }

    /// A waiter for a lock took its question back: it waits until then at most.
    pub(crate) fn hurry_lock(&mut self, id: RequestId, patience: Time) {
        if let Some(mut waiting) = self.take(id) {
            waiting.on = On::LockEnd;
            waiting.patience = patience;
            self.park(id, waiting);
        }
    }

    /// Whether anybody waits for a change to come somewhere.
    pub(crate) fn has_level_waiters(&self) -> bool {
        !self.on_level.is_empty()
    }

    fn park(&mut self, id: RequestId, waiting: Waiting) {
        self.deadlines.insert((waiting.deadline.min(waiting.patience), id));
        match waiting.on {
            On::Ask(ask) => self.by_ask.entry(ask).or_default().push(id),
            On::Level => {
                self.on_level.insert(id);
            }
            On::Session | On::FirstSession | On::Lock | On::LockEnd | On::Claim => {}
        }
        self.waiting.insert(id, waiting);
    }

    fn take(&mut self, id: RequestId) -> Option<Waiting> {
        let waiting = self.waiting.remove(&id)?;
        self.deadlines.remove(&(waiting.deadline.min(waiting.patience), id));
        self.on_level.remove(&id);
        self.ready.remove(&id);
        if let On::Ask(ask) = waiting.on
            && let Some(ids) = self.by_ask.get_mut(&ask)
        {
            ids.retain(|other| *other != id);
            if ids.is_empty() {
                self.by_ask.remove(&ask);
            }
        }
        Some(waiting)
    }

    pub(crate) fn note_own(&mut self, ticket: Ticket, sequence: u64) {
        self.own_pending.push_back((ticket, sequence));
    }

    /// Own records are numbered anew.
    pub(crate) fn forget_own(&mut self) {
        self.own_pending.clear();
    }

    /// First own sequence that is not durable.
    pub(crate) fn first_undurable(&mut self, stored: Ticket) -> Option<u64> {
        while self.own_pending.front().is_some_and(|(ticket, _)| *ticket <= stored) {
            self.own_pending.pop_front();
        }
        self.own_pending.front().map(|(_, sequence)| *sequence)
    }

    /// As [`Requests::first_undurable`], for those who only look.
    pub(crate) fn peek_undurable(&self, stored: Ticket) -> Option<u64> {
        let at = self.own_pending.partition_point(|(ticket, _)| *ticket <= stored);
        self.own_pending.get(at).map(|(_, sequence)| *sequence)
    }
}

/// How an attempt at a request went.
pub(crate) enum Attempt {
    Done(Outcome),
    Park(On),
}

/// Something that must be known before a request can be served.
pub(crate) enum Need {
    Inode(FileId),
    /// What a name stands for, and that file's inode.
    Name(FileId, Name),
    /// Whether anything is in a directory.
    Emptiness(FileId),
}

impl<S: MetaStore> Replica<S> {
    pub(crate) fn handle_request(&mut self, id: RequestId, request: Request, deadline: Time) {
        let waiting = Waiting {
            request: self.as_called_now(request),
            deadline,
            on: On::Session,
            patience: deadline,
            questions: 0,
            claims: 0,
            offline: false,
            listed: None,
            is_absent: false,
            rounds: 0,
            made: None,
        };
        self.run_request(id, waiting);
    }

    pub(crate) fn handle_cancel(&mut self, id: RequestId) {
        if self.cancel_lock(id) {
            return;
        }
        self.end_request(id, Err(FsError::Interrupted));
    }

    /// Ends a waiting request with an outcome.
    pub(crate) fn end_request(&mut self, id: RequestId, outcome: Outcome) {
        if let Some(waiting) = self.requests.take(id) {
            if matches!(waiting.on, On::Lock | On::LockEnd) && outcome.is_err() {
                self.locks_give_up(id);
            }
            self.answer_request(id, outcome);
        }
    }

    fn answer_request(&mut self, id: RequestId, outcome: Outcome) {
        if self.config.role == Role::Client {
            self.end_claims(id);
        }
        self.outputs.push_back(Output::Answer { id, outcome });
    }

    /// Tries a request; answers it or parks it.
    fn run_request(&mut self, id: RequestId, mut waiting: Waiting) {
        let attempt = match self.attempt(id, &mut waiting) {
            Ok(attempt) => attempt,
            Err(StepError::Storage(StorageError::NoSpace)) => {
                self.abandon();
                Attempt::Done(Err(FsError::NoSpace))
            }
            // Nothing was kept and nothing is broken: whoever asked may ask again.
            Err(StepError::Storage(StorageError::Busy(_))) => {
                self.abandon();
                Attempt::Done(Err(FsError::TimedOut))
            }
            Err(error) => {
                self.settle(Err(error));
                Attempt::Done(Err(FsError::Io))
            }
        };
        match attempt {
            Attempt::Done(outcome) => self.answer_request(id, outcome),
            Attempt::Park(on) if self.requests.len() >= self.config.requests_waiting_max => {
                if on == On::Lock {
                    self.locks_give_up(id);
                }
                self.answer_request(id, Err(FsError::TimedOut));
            }
            Attempt::Park(on) => {
                waiting.on = on;
                waiting.patience = match on {
                    On::Session => self.now + FIRST_SESSION_MAX,
                    On::FirstSession => self.opened + FIRST_SESSION_MAX,
                    On::Ask(_) | On::Level | On::Lock | On::LockEnd | On::Claim => waiting.deadline,
                };
                self.requests.park(id, waiting);
            }
        }
    }

    /// Looks again at requests whose time or condition came.
    pub(crate) fn retry_requests(&mut self) {
        self.call_waiting_by_new_names();
        self.check_deadlines();
        if std::mem::take(&mut self.levels_moved) {
            let waiting: Vec<RequestId> = self.requests.on_level.iter().copied().collect();
            self.requests.ready.extend(waiting);
        }
        while let Some(id) = self.requests.ready.pop_first() {
            if let Some(waiting) = self.requests.take(id) {
                if self.failed {
                    self.answer_request(id, Err(FsError::Io));
                } else {
                    self.run_request(id, waiting);
                }
            }
        }
    }

    fn check_deadlines(&mut self) {
        while let Some((time, id)) = self.requests.deadlines.first().copied() {
            if time > self.now {
                return;
            }
            let Some(mut waiting) = self.requests.take(id) else {
                self.requests.deadlines.remove(&(time, id));
                continue;
            };
            let over = self.now >= waiting.deadline;
            let may_serve = matches!(waiting.on, On::Ask(_) | On::Session | On::FirstSession) && !waiting.offline;
            if may_serve {
                // What is cached is better than an error; what is not fails below.
                waiting.offline = true;
                self.run_request(id, waiting);
                continue;
            }
            if matches!(waiting.on, On::Lock | On::LockEnd) {
                self.locks_give_up(id);
            }
            if waiting.on == On::LockEnd {
                self.answer_request(id, Err(FsError::Interrupted));
                continue;
            }
            let error = if over && self.upstream.is_some() { FsError::TimedOut } else { FsError::Unreachable };
            let error =
                if self.config.role == Role::Home || waiting.on == On::Lock { FsError::TimedOut } else { error };
            self.answer_request(id, Err(error));
        }
    }

    fn attempt(&mut self, id: RequestId, waiting: &mut Waiting) -> Result<Attempt, StepError> {
        if let Some(made) = waiting.made.clone() {
            return self.attempt_made(waiting, made);
        }
        let request = waiting.request.clone();
        match request {
            Request::Lookup { parent, name } => {
                let parent = self.resolve_merged(parent)?;
                if let Some(on) = self.missing_need(waiting, &[Need::Name(parent, name.clone())])? {
                    return Ok(on);
                }
                Ok(Attempt::Done(self.serve_lookup(parent, &name)?))
            }
            Request::Attributes { file } => {
                // What is known of the one says nothing of the one that it was merged into.
                let resolved = self.resolve_merged(file)?;
                waiting.request = Request::Attributes { file: resolved };
                // Of what is not there nothing is kept that could be trusted: asked again, the parent says the same.
                if waiting.is_absent && self.inode(resolved)?.is_none() {
                    return Ok(Attempt::Done(Err(FsError::NotFound)));
                }
                if let Some(on) = self.missing_need(waiting, &[Need::Inode(resolved)])? {
                    return Ok(on);
                }
                Ok(Attempt::Done(self.serve_attributes(resolved)?))
            }
            Request::List { directory, after, limit } => self.attempt_list(waiting, directory, after, limit),
            Request::Change { .. } if self.config.read_only => Ok(Attempt::Done(Err(FsError::ReadOnly))),
            Request::Change { change, .. } if !self.has_room_for(&change) => Ok(Attempt::Done(Err(FsError::NoSpace))),
            Request::Change { change, .. } if !self.quota_allows(&change)? => Ok(Attempt::Done(Err(FsError::Quota))),
            Request::Change { user, change } => {
                let change = self.with_directories_meant(change)?;
                let needs = self.needs_of(&change)?;
                if let Some(on) = self.missing_need(waiting, &needs)? {
                    return Ok(on);
                }
                if let Some(on) = self.missing_claim(id, waiting, &change)? {
                    return Ok(on);
                }
                if let Some(on) = self.missing_right(waiting, &change)? {
                    return Ok(on);
                }
                let outcome = self.change(UserId(user), &change)?;
                Ok(self.end_claimed(id, waiting, &change, outcome))
            }
            Request::Wait { record, until } => self.attempt_wait(record, until),
            Request::Facts { versions } => self.attempt_facts(waiting, &versions),
            Request::Refresh => self.attempt_refresh(waiting),
            Request::Lock(request) => Ok(match self.lock(id, request) {
                Some(outcome) => Attempt::Done(outcome),
                None => Attempt::Park(On::Lock),
            }),
            Request::TestLock(request) => Ok(match self.test_lock(id, request) {
                Some(outcome) => Attempt::Done(outcome),
                None => Attempt::Park(On::Lock),
            }),
            Request::Unlock { file, family, owner, range } => {
                Ok(Attempt::Done(self.unlock(file, family, owner, range).map(|()| Answer::Done)))
            }
        }
    }

    fn serve_lookup(&self, parent: FileId, name: &Name) -> Result<Outcome, StorageError> {
        match self.inode(parent)? {
            None => return Ok(Err(FsError::NotFound)),
            Some(inode) if !inode.is_directory() => return Ok(Err(FsError::NotDirectory)),
            Some(_) => {}
        }
        let Some(entry) = self.entry(parent, name)? else { return Ok(Err(FsError::NotFound)) };
        Ok(match self.inode(entry.file)? {
            Some(inode) => Ok(Answer::File(entry.file, inode)),
            None => Err(FsError::NotFound),
        })
    }

    fn serve_attributes(&self, file: FileId) -> Result<Outcome, StorageError> {
        Ok(match self.inode(file)? {
            Some(inode) => Ok(Answer::File(file, inode)),
            None => Err(FsError::NotFound),
        })
    }

    /// The directory that an id means: of two that were merged, programs may still stand in the other.
    fn resolve_merged(&mut self, directory: FileId) -> Result<FileId, StorageError> {
        wayfs_tree::resolve(&self.tx(), directory)
    }

    fn with_directories_meant(&mut self, mut change: Change) -> Result<Change, StorageError> {
        match &mut change {
            Change::Create { parent, .. }
            | Change::Publish { parent, .. }
            | Change::Mkdir { parent, .. }
            | Change::Link { parent, .. }
            | Change::Unlink { parent, .. }
            | Change::Rmdir { parent, .. } => *parent = self.resolve_merged(*parent)?,
            Change::Rename { from_parent, to_parent, .. } => {
                *from_parent = self.resolve_merged(*from_parent)?;
                *to_parent = self.resolve_merged(*to_parent)?;
            }
            Change::SetAttr { .. }
            | Change::SetXattr { .. }
            | Change::Store { .. }
            | Change::Append { .. }
            | Change::Resolve { .. } => {}
        }
        Ok(change)
    }

    fn attempt_list(
        &mut self,
        waiting: &mut Waiting,
        directory: FileId,
        after: Option<Name>,
        limit: usize,
    ) -> Result<Attempt, StepError> {
        let directory = self.resolve_merged(directory)?;
        let limit = limit.clamp(1, LIST_MAX);
        let need = [Need::Inode(directory)];
        if waiting.listed.is_none() {
            if let Some(on) = self.missing_need(waiting, &need)? {
                return Ok(on);
            }
            let trusted = self.config.role != Role::Client || (self.is_trusted() && !waiting.offline);
            if trusted && self.config.role == Role::Client && !self.watches.is_fresh(directory) {
                waiting.questions += 1;
                if waiting.questions <= QUESTIONS_MAX {
                    let limit = u32::try_from(limit).expect("at most 4096");
                    return Ok(Attempt::Park(On::Ask(self.ask(Question::List { directory, after, limit })?)));
                }
            }
            if !trusted && !self.watches.is_complete(directory) {
                return Ok(self.without_parent(waiting));
            }
            // Also where the questions came to an end without an answer.
            let is_vouched = self.config.role != Role::Client || (trusted && self.watches.is_fresh(directory));
            self.unvouched += u64::from(!is_vouched);
        }
        match self.inode(directory)? {
            None => return Ok(Attempt::Done(Err(FsError::NotFound))),
            Some(inode) if !inode.is_directory() => return Ok(Attempt::Done(Err(FsError::NotDirectory))),
            Some(_) => {}
        }
        let (answer, is_whole) = self.serve_list(waiting.listed.as_ref(), directory, after.as_ref(), limit)?;
        // Our own removals can leave nothing of the parent's page; an answer without names would read as the end.
        if let (Answer::List { entries, end: false }, Some((false, Some(last)))) = (&answer, &waiting.listed)
            && entries.is_empty()
            && waiting.questions < QUESTIONS_MAX
        {
            let (after, limit) = (Some(last.clone()), u32::try_from(limit).expect("at most 4096"));
            waiting.questions += 1;
            waiting.listed = None;
            return Ok(Attempt::Park(On::Ask(self.ask(Question::List { directory, after, limit })?)));
        }
        // A listing is vouched for by its directory, crowded files are not.
        let is_from_cache = self.config.role == Role::Client && waiting.listed.is_none();
        if is_from_cache && self.is_trusted() && !waiting.offline && (!is_whole || self.doubts_listed(&answer)?) {
            waiting.questions += 1;
            if waiting.questions <= QUESTIONS_MAX {
                let limit = u32::try_from(limit).expect("at most 4096");
                return Ok(Attempt::Park(On::Ask(self.ask(Question::List { directory, after, limit })?)));
            }
            self.unvouched += 1;
        }
        Ok(Attempt::Done(Ok(answer)))
    }

    /// Whether a listing from the cache shows a crowded file of which others may have changed something.
    fn doubts_listed(&self, answer: &Answer) -> Result<bool, StorageError> {
        let Answer::List { entries, .. } = answer else { return Ok(false) };
        for (_, file, _) in entries.iter().filter(|(_, _, inode)| inode.is_crowded()) {
            if self.trusted_inode(*file)?.is_none() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// A page of a directory, and whether what all of its names stand for is known.
    fn serve_list(
        &self,
        listed: Option<&(bool, Option<Name>)>,
        directory: FileId,
        after: Option<&Name>,
        limit: usize,
    ) -> Result<(Answer, bool), StorageError> {
        // Beyond the last name of the parent's page our cache may have holes.
        let (known_end, until) = match listed {
            Some((false, Some(last))) => (false, entries_from(table::VIEW, directory, Some(last))),
            Some((false, None)) => (false, entries_from(table::VIEW, directory, after)),
            Some((true, _)) | None => (true, entries_until(table::VIEW, directory)),
        };
        let rows = self.store.scan(&entries_from(table::VIEW, directory, after), &until, limit + 1)?;
        let end = known_end && rows.len() <= limit;
        let (mut entries, mut is_whole) = (Vec::new(), true);
        for (key, value) in rows.into_iter().take(limit) {
            let Key::Entry(_, name) = parse_image_key(&key)? else { continue };
            let wayfs_types::Image::Entry(entry) = crate::tables::unpack_view(&value)?.image else { continue };
            match self.inode(entry.file)? {
                Some(inode) => entries.push((name, entry.file, inode)),
                None => is_whole = false,
            }
        }
        Ok((Answer::List { entries, end }, is_whole))
    }

    /// Builds a record of a change, applies it, logs it, and answers from the result.
    fn change(&mut self, user: UserId, change: &Change) -> Result<Outcome, StepError> {
        if self.origin_image(self.config.origin)?.is_none() || self.inode(FileId::ROOT)?.is_none() {
            return Ok(Err(FsError::Unreachable));
        }
        let Ok(id) = RecordId::new(self.config.origin, self.next_sequence()) else {
            return Ok(Err(FsError::NoSpace));
        };
        let author = Author { id, user, time: self.wall };
        let record = match wayfs_tree::build(&self.tx(), change, author) {
            Ok(record) => record,
            Err(BuildError::Refused(error)) => return Ok(Err(error)),
            Err(BuildError::Storage(error)) => return Err(error.into()),
        };
        self.skip_lost()?;
        self.counters.sequence = id.sequence();
        let loser = self.loser_of(&record.op)?;
        let effect = self.take_record(record.clone(), true)?;
        self.note_content(&record, &effect, Source::Own)?;
        // What the asker did, its kernel knows; only a copy beside it would be news.
        self.staged.own = effect.conflict().is_none();
        self.staged.marks.insert(self.config.origin);
        let file = effect.file.or_else(|| crate::inspect::file_of(&record.op, id)).unwrap_or(FileId::ROOT);
        let inode = self.inode_after(file)?;
        if matches!(record.op, Op::Mkdir { .. }) && self.config.role == Role::Client {
            self.watch_own_directory(FileId::made_by(id));
        }
        if matches!(record.op, Op::Link { .. }) && inode.as_ref().is_some_and(|inode| inode.is_crowded()) {
            self.claim_crowded(file);
        }
        self.note_growth(id.sequence());
        self.commit()?;
        // What became durable meanwhile is let go, or this would grow with every change that nobody waits for.
        self.requests.first_undurable(self.stored);
        self.requests.note_own(self.ticket, id.sequence());
        let Some(inode) = inode else { return Ok(Err(FsError::NotFound)) };
        let removed = effect.removed.zip(loser).map(|(file, inode)| Removed { file, inode });
        Ok(Ok(Answer::Changed { record: id, file, inode, removed }))
    }

    /// The file that a record unlinks or puts another in place of, as it is now.
    fn loser_of(&mut self, op: &Op) -> Result<Option<Arc<Inode>>, StorageError> {
        let file = if let Op::Unlink { file, .. } = op {
            *file
        } else if let Op::Rename { replaced: Some(replaced), .. } = op {
            replaced.file
        } else {
            return Ok(None);
        };
        let loser = wayfs_tree::inode(&self.tx(), file)?;
        Ok(loser.map(|inode| Arc::new(Inode { places: Vec::new(), unlisted: 0, ..Arc::unwrap_or_clone(inode) })))
    }

    fn inode_after(&mut self, file: FileId) -> Result<Option<Arc<Inode>>, StorageError> {
        wayfs_tree::inode(&self.tx(), file)
    }
}
