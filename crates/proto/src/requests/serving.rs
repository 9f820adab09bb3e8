//! How requests of this replica's own user are served, as soon as what they need is known.

use crate::children::Children;
use crate::contents::Source;
use crate::replica::Replica;
use crate::replica::core::Core;
use crate::replica::errors::StepError;
use crate::requests::listed::Listed;
use crate::requests::{Attempt, LIST_MAX, Need, On, Requests, Waiting};
use crate::state::log_entry::Attached;
use crate::state::tables::{entries_from, entries_until, parse_image_key, table};
use crate::upstream::Uplink;
use crate::upstream::needs::QUESTIONS_MAX;
use std::sync::Arc;
use wayfs_tree::{Author, BuildError};
use wayfs_types::request::{Answer, Change, Outcome, Removed, Request, RequestId};
use wayfs_types::{FileId, FsError, Inode, Key, MetaStore, Name, Op, RecordId, StorageError, UserId};
use wayfs_wire::Question;

impl<S: MetaStore> Replica<S> {
    pub(super) fn attempt(&mut self, id: RequestId, waiting: &mut Waiting) -> Result<Attempt, StepError> {
        if let Some(made) = waiting.made.clone() {
            return self.uplink.attempt_made(&mut self.core, waiting, made);
        }
        let request = waiting.request.clone();
        match request {
            Request::Lookup { parent, name } => {
                let parent = Requests::resolve_merged(&mut self.core, parent)?;
                if let Some(on) = self.missing_need(waiting, &[Need::Name(parent, name.clone())])? {
                    return Ok(on);
                }
                Ok(Attempt::Done(Requests::serve_lookup(&self.core, parent, &name)?))
            }
            Request::Attributes { file } => {
                // What is known of the one says nothing of the one that it was merged into.
                let resolved = Requests::resolve_merged(&mut self.core, file)?;
                waiting.request = Request::Attributes { file: resolved };
                // Of what is not there nothing is kept that could be trusted: asked again, the parent says the same.
                if waiting.is_absent && self.core.state.inode(resolved)?.is_none() {
                    return Ok(Attempt::Done(Err(FsError::NotFound)));
                }
                if let Some(on) = self.missing_need(waiting, &[Need::Inode(resolved)])? {
                    return Ok(on);
                }
                Ok(Attempt::Done(Requests::serve_attributes(&self.core, resolved)?))
            }
            Request::List { directory, after, limit } => self.attempt_list(waiting, directory, after, limit),
            Request::Change { .. } if self.core.config.read_only => Ok(Attempt::Done(Err(FsError::ReadOnly))),
            Request::Change { change, .. } if !self.members.has_room_for(&change) => {
                Ok(Attempt::Done(Err(FsError::NoSpace)))
            }
            Request::Change { change, .. } if !self.members.quota_allows(&self.core, &change)? => {
                Ok(Attempt::Done(Err(FsError::Quota)))
            }
            Request::Change { user, change } => {
                let change = Requests::with_directories_meant(&mut self.core, change)?;
                let needs = Uplink::needs_of(&self.core, &change)?;
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
            Request::Refresh => self.uplink.attempt_refresh(&mut self.core, waiting),
            Request::Lock(request) => {
                let outcome = self.locks.lock(&mut self.core, &mut self.children, id, request);
                Ok(self.attempted_lock(outcome))
            }
            Request::TestLock(request) => {
                let outcome = self.locks.test_lock(&mut self.core, &mut self.children, id, request);
                Ok(self.attempted_lock(outcome))
            }
            Request::Unlock { file, family, owner, range } => {
                let done = self.locks.unlock(&mut self.core, &mut self.children, file, family, owner, range);
                Ok(self.attempted_lock(Some(done.map(|()| Answer::Done))))
            }
        }
    }

    /// What became of a request about a lock; `None`: it waits. Others that waited may have been granted theirs.
    fn attempted_lock(&mut self, outcome: Option<Outcome>) -> Attempt {
        self.settle_requests();
        outcome.map_or(Attempt::Park(On::Lock), Attempt::Done)
    }

    fn attempt_list(
        &mut self,
        waiting: &mut Waiting,
        directory: FileId,
        after: Option<Name>,
        limit: usize,
    ) -> Result<Attempt, StepError> {
        let directory = Requests::resolve_merged(&mut self.core, directory)?;
        let limit = limit.clamp(1, LIST_MAX);
        let need = [Need::Inode(directory)];
        if waiting.listed.is_none() {
            if let Some(on) = self.missing_need(waiting, &need)? {
                return Ok(on);
            }
            let trusted = self.core.state.holds_all() || (self.core.is_trusted() && !waiting.offline);
            let is_fresh = self.watches.is_fresh(directory);
            if trusted && !is_fresh {
                waiting.questions += 1;
                if waiting.questions <= QUESTIONS_MAX {
                    let limit = u32::try_from(limit).expect("at most 4096");
                    return Ok(Attempt::Park(On::Ask(
                        self.uplink.ask(&mut self.core, Question::List { directory, after, limit })?,
                    )));
                }
            }
            if !trusted && !self.watches.is_complete(directory) {
                return Ok(self.uplink.without_parent(&self.core, waiting));
            }
            // Also where the questions came to an end without an answer.
            if !trusted || !is_fresh {
                self.requests.note_unvouched();
            }
        }
        match self.core.state.inode(directory)? {
            None => return Ok(Attempt::Done(Err(FsError::NotFound))),
            Some(inode) if !inode.is_directory() => return Ok(Attempt::Done(Err(FsError::NotDirectory))),
            Some(_) => {}
        }
        let (answer, is_whole) =
            Requests::serve_list(&self.core, waiting.listed.as_ref(), directory, after.as_ref(), limit)?;
        // Our own removals can leave nothing of the parent's page; an answer without names would read as the end.
        if let (Answer::List { entries, end: false }, Some(Listed { ended: false, last: Some(last) })) =
            (&answer, &waiting.listed)
            && entries.is_empty()
            && waiting.questions < QUESTIONS_MAX
        {
            let (after, limit) = (Some(last.clone()), u32::try_from(limit).expect("at most 4096"));
            waiting.questions += 1;
            waiting.listed = None;
            return Ok(Attempt::Park(On::Ask(
                self.uplink.ask(&mut self.core, Question::List { directory, after, limit })?,
            )));
        }
        // A listing is vouched for by its directory, crowded files are not.
        let is_from_cache = !self.core.state.holds_all() && waiting.listed.is_none();
        if is_from_cache && self.core.is_trusted() && !waiting.offline && (!is_whole || self.doubts_listed(&answer)?) {
            waiting.questions += 1;
            if waiting.questions <= QUESTIONS_MAX {
                let limit = u32::try_from(limit).expect("at most 4096");
                return Ok(Attempt::Park(On::Ask(
                    self.uplink.ask(&mut self.core, Question::List { directory, after, limit })?,
                )));
            }
            self.requests.note_unvouched();
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

    /// Builds a record of a change, applies it, logs it, and answers from the result.
    fn change(&mut self, user: UserId, change: &Change) -> Result<Outcome, StepError> {
        let origin = self.core.config.origin;
        if Children::origin_image(&mut self.core, origin)?.is_none() || self.core.state.inode(FileId::ROOT)?.is_none() {
            return Ok(Err(FsError::Unreachable));
        }
        let Ok(id) = RecordId::new(self.core.config.origin, self.next_sequence()) else {
            return Ok(Err(FsError::NoSpace));
        };
        let author = Author { id, user, time: self.core.wall };
        let record = match wayfs_tree::build(&self.core.state.tx(), change, author) {
            Ok(record) => record,
            Err(BuildError::Refused(error)) => return Ok(Err(error)),
            Err(BuildError::Storage(error)) => return Err(error.into()),
        };
        self.skip_lost()?;
        self.core.state.set_sequence(id.sequence());
        let loser = Requests::loser_of(&mut self.core, &record.op)?;
        let effect = self.core.take_record(record.clone(), Attached::OWN)?;
        self.contents.note_content(&mut self.core, &mut self.children, &record, &effect, Source::Own)?;
        // What the asker did, its kernel knows; only a copy beside it would be news.
        self.core.state.stage_own(effect.conflict());
        self.core.state.stage_marks(self.core.config.origin);
        let file = effect.file.or_else(|| crate::state::of_record::file_of(&record.op, id)).unwrap_or(FileId::ROOT);
        let inode = Requests::inode_after(&mut self.core, file)?;
        if matches!(record.op, Op::Mkdir { .. }) {
            self.watch_own_directory(FileId::made_by(id));
        }
        if matches!(record.op, Op::Link { .. }) && inode.as_ref().is_some_and(|inode| inode.is_crowded()) {
            self.claim_crowded(file);
        }
        self.members.note_growth(&self.core, id.sequence());
        self.commit()?;
        // What became durable meanwhile is let go, or this would grow with every change that nobody waits for.
        self.core.state.trim_own();
        self.core.state.note_own(id.sequence());
        let Some(inode) = inode else { return Ok(Err(FsError::NotFound)) };
        let removed = effect.removed.zip(loser).map(|(file, inode)| Removed { file, inode });
        Ok(Ok(Answer::Changed { record: id, file, inode, removed }))
    }
}

impl Requests {
    fn serve_lookup<S: MetaStore>(core: &Core<S>, parent: FileId, name: &Name) -> Result<Outcome, StorageError> {
        match core.state.inode(parent)? {
            None => return Ok(Err(FsError::NotFound)),
            Some(inode) if !inode.is_directory() => return Ok(Err(FsError::NotDirectory)),
            Some(_) => {}
        }
        let Some(entry) = core.state.entry(parent, name)? else { return Ok(Err(FsError::NotFound)) };
        Ok(match core.state.inode(entry.file)? {
            Some(inode) => Ok(Answer::File(entry.file, inode)),
            None => Err(FsError::NotFound),
        })
    }

    fn serve_attributes<S: MetaStore>(core: &Core<S>, file: FileId) -> Result<Outcome, StorageError> {
        Ok(match core.state.inode(file)? {
            Some(inode) => Ok(Answer::File(file, inode)),
            None => Err(FsError::NotFound),
        })
    }

    /// The directory that an id means: of two that were merged, programs may still stand in the other.
    fn resolve_merged<S: MetaStore>(core: &mut Core<S>, directory: FileId) -> Result<FileId, StorageError> {
        wayfs_tree::resolve(&core.state.tx(), directory)
    }

    fn with_directories_meant<S: MetaStore>(core: &mut Core<S>, mut change: Change) -> Result<Change, StorageError> {
        match &mut change {
            Change::Create { parent, .. }
            | Change::Publish { parent, .. }
            | Change::Mkdir { parent, .. }
            | Change::Link { parent, .. }
            | Change::Unlink { parent, .. }
            | Change::Rmdir { parent, .. } => *parent = Self::resolve_merged(core, *parent)?,
            Change::Rename { from_parent, to_parent, .. } => {
                *from_parent = Self::resolve_merged(core, *from_parent)?;
                *to_parent = Self::resolve_merged(core, *to_parent)?;
            }
            Change::SetAttr { .. }
            | Change::SetXattr { .. }
            | Change::Store { .. }
            | Change::Append { .. }
            | Change::Resolve { .. } => {}
        }
        Ok(change)
    }

    /// A page of a directory, and whether what all of its names stand for is known.
    fn serve_list<S: MetaStore>(
        core: &Core<S>,
        listed: Option<&Listed>,
        directory: FileId,
        after: Option<&Name>,
        limit: usize,
    ) -> Result<(Answer, bool), StorageError> {
        // Beyond the last name of the parent's page our cache may have holes.
        let (known_end, until) = match listed {
            Some(Listed { ended: false, last: Some(last) }) => {
                (false, entries_from(table::VIEW, directory, Some(last)))
            }
            Some(Listed { ended: false, last: None }) => (false, entries_from(table::VIEW, directory, after)),
            Some(Listed { ended: true, .. }) | None => (true, entries_until(table::VIEW, directory)),
        };
        let rows = core.state.store().scan(&entries_from(table::VIEW, directory, after), &until, limit + 1)?;
        let end = known_end && rows.len() <= limit;
        let (mut entries, mut is_whole) = (Vec::new(), true);
        for (key, value) in rows.into_iter().take(limit) {
            let Key::Entry(_, name) = parse_image_key(&key)? else { continue };
            let wayfs_types::Image::Entry(entry) = crate::state::tables::unpack_view(&value)?.image else { continue };
            match core.state.inode(entry.file)? {
                Some(inode) => entries.push((name, entry.file, inode)),
                None => is_whole = false,
            }
        }
        Ok((Answer::List { entries, end }, is_whole))
    }

    /// The file that a record unlinks or puts another in place of, as it is now.
    fn loser_of<S: MetaStore>(core: &mut Core<S>, op: &Op) -> Result<Option<Arc<Inode>>, StorageError> {
        let file = if let Op::Unlink { file, .. } = op {
            *file
        } else if let Op::Rename { replaced: Some(replaced), .. } = op {
            replaced.file
        } else {
            return Ok(None);
        };
        let loser = wayfs_tree::inode(&core.state.tx(), file)?;
        Ok(loser.map(|inode| Arc::new(Inode { places: Vec::new(), unlisted: 0, ..Arc::unwrap_or_clone(inode) })))
    }

    fn inode_after<S: MetaStore>(core: &mut Core<S>, file: FileId) -> Result<Option<Arc<Inode>>, StorageError> {
        wayfs_tree::inode(&core.state.tx(), file)
    }
}
