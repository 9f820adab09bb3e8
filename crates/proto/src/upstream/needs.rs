//! What a request needs to know before it can be worked off, and the questions to the parent about it.

use crate::replica::Replica;
use crate::replica::core::Core;
use crate::replica::errors::StepError;
use crate::requests::seen::{Asked, Seen};
use crate::requests::{Attempt, FIRST_SESSION_MAX, Need, On, Waiting};
use crate::upstream::Uplink;
use wayfs_types::request::{Change, RenameTarget};
use wayfs_types::{CommitNumber, FileId, FsError, Inode, MetaStore, Name, RecordId, StorageError};
use wayfs_wire::{AskId, Question, Up};

/// Questions asked for one request before it is served from what is there.
pub(crate) const QUESTIONS_MAX: u8 = 8;
/// Names of a listing that are looked through for what was seen, as long as one parent told us all that we know.
const LISTED_MAX: usize = 32;

impl<S: MetaStore> Replica<S> {
    /// The first thing that is not known, as something to wait for; `None`: go ahead.
    pub(crate) fn missing_need(&mut self, waiting: &mut Waiting, needs: &[Need]) -> Result<Option<Attempt>, StepError> {
        if self.core.state.holds_all() {
            return Ok(None);
        }
        if !waiting.offline {
            if self.core.is_trusted() {
                for need in needs {
                    if let Some(question) = self.untrusted(need)? {
                        return self.ask_or_go_offline(waiting, question, needs);
                    }
                }
                return Ok(None);
            }
            if self.uplink.is_connecting(&self.core) {
                return Ok(Some(Attempt::Park(On::Session)));
            }
            if self.uplink.session.is_none()
                && self.core.now < self.core.opened + FIRST_SESSION_MAX
                && !self.all_cached(needs)?
            {
                return Ok(Some(Attempt::Park(On::FirstSession)));
            }
        }
        if !self.all_cached(needs)? {
            return Ok(Some(self.uplink.without_parent(&self.core, waiting)));
        }
        self.requests.note_unvouched();
        Ok(None)
    }

    pub(crate) fn ask_or_go_offline(
        &mut self,
        waiting: &mut Waiting,
        question: Question,
        needs: &[Need],
    ) -> Result<Option<Attempt>, StepError> {
        waiting.questions += 1;
        if waiting.questions <= QUESTIONS_MAX {
            return Ok(Some(Attempt::Park(On::Ask(self.uplink.ask(&mut self.core, question)?))));
        }
        if !self.all_cached(needs)? {
            return Ok(Some(Attempt::Done(Err(FsError::TimedOut))));
        }
        self.requests.note_unvouched();
        Ok(None)
    }

    /// The question that would settle a need which the trusted part of the cache does not.
    pub(crate) fn untrusted(&mut self, need: &Need) -> Result<Option<Question>, StorageError> {
        Ok(match need {
            Need::Inode(file) if self.uplink.is_doubted(*file) => Some(Question::Attributes { file: *file }),
            Need::Inode(file) => match self.trusted_inode(*file)? {
                Some(_) => None,
                None => Some(self.uplink.question_about(&self.core, *file)?),
            },
            Need::Name(parent, name) => {
                let lookup = || Some(Question::Lookup { parent: *parent, name: name.clone() });
                match self.trusted_entry(*parent, name)? {
                    None => lookup(),
                    Some(None) => {
                        // Nobody tells the kernel of what has stood there all the time, when the parent has put that removal into order.
                        if self.is_removed_unseen(*parent, name)? {
                            self.requests.note_unvouched();
                        }
                        None
                    }
                    Some(Some(file)) => {
                        if self.trusted_inode(file)?.is_none() {
                            lookup()
                        } else {
                            None
                        }
                    }
                }
            }
            Need::Emptiness(directory) => {
                let known = !self.uplink.is_doubted(*directory)
                    && (self.watches.is_fresh(*directory)
                        || wayfs_tree::View::first_entry(&self.core.state.tx(), *directory)?.is_some());
                let (directory, after) = (*directory, None);
                (!known).then_some(Question::List { directory, after, limit: 64 })
            }
        })
    }

    pub(crate) fn all_cached(&mut self, needs: &[Need]) -> Result<bool, StorageError> {
        for need in needs {
            let known = match need {
                Need::Inode(file) => self.core.state.inode(*file)?.is_some(),
                Need::Name(parent, name) => match self.watches.cached_entry(&self.core, *parent, name)? {
                    None => false,
                    Some(None) => self.core.state.inode(*parent)?.is_some(),
                    Some(Some(file)) => self.core.state.inode(file)?.is_some(),
                },
                Need::Emptiness(directory) => {
                    self.watches.is_complete(*directory)
                        || wayfs_tree::View::first_entry(&self.core.state.tx(), *directory)?.is_some()
                }
            };
            if !known {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl Uplink {
    /// What is asked for is not cached, and the parent cannot be asked now.
    pub(crate) fn without_parent<S: MetaStore>(&self, core: &Core<S>, waiting: &mut Waiting) -> Attempt {
        if self.is_catching_up(core) && core.now < waiting.deadline {
            waiting.offline = false;
            return Attempt::Park(On::Session);
        }
        Attempt::Done(Err(self.offline_error(core, waiting)))
    }

    fn offline_error<S: MetaStore>(&self, core: &Core<S>, waiting: &Waiting) -> FsError {
        if self.session.is_some() && core.now >= waiting.deadline { FsError::TimedOut } else { FsError::Unreachable }
    }

    /// How the parent is asked about a file: by its name where others may change it alone, since that is by directories.
    fn question_about<S: MetaStore>(&self, core: &Core<S>, file: FileId) -> Result<Question, StorageError> {
        if self.is_close_to_open(core)
            && let Some(inode) = core.state.inode(file)?.filter(|inode| !inode.is_directory())
        {
            let doubted = inode.places.iter().find(|place| self.is_doubted(place.parent));
            if let Some(place) = doubted.or(inode.places.first())
                && core.state.entry(place.parent, &place.name)?.is_some_and(|entry| entry.file == file)
            {
                return Ok(Question::Lookup { parent: place.parent, name: place.name.clone() });
            }
        }
        Ok(Question::Attributes { file })
    }

    /// Asks the parent, or joins a question that is under way.
    pub(crate) fn ask<S: MetaStore>(&mut self, core: &mut Core<S>, question: Question) -> Result<AskId, StorageError> {
        if let Some(ask) = self.session.as_ref().and_then(|up| up.by_question.get(&question).copied()) {
            return Ok(ask);
        }
        let seen = self.seen_on(core, &question)?.bounded();
        let (Some(upstream), Some(line)) = (self.session.as_mut(), core.line.as_mut()) else {
            return Ok(AskId(0));
        };
        let ask = line.next_ask();
        upstream.by_question.insert(question.clone(), ask);
        self.put_question(core, ask, Asked { question, seen, times: 1 });
        Ok(ask)
    }

    /// Puts a question to the parent, for the first time or once more.
    pub(crate) fn put_question<S: MetaStore>(&mut self, core: &mut Core<S>, ask: AskId, asked: Asked) {
        let Some(upstream) = self.session.as_mut() else { return };
        let (question, seen) = (asked.question.clone(), asked.seen.records());
        upstream.asks.insert(ask, asked);
        core.tell_parent(Up::Ask { ask, question, seen });
    }

    /// Foreign records whose effect our cache shows on what is asked for.
    fn seen_on<S: MetaStore>(&self, core: &Core<S>, question: &Question) -> Result<Seen, StorageError> {
        let mut seen = Seen::default();
        // What our parent told us itself it knows; of files that somebody else told of, their own versions count, too.
        let has_moved = self.past.kept.moved_at > CommitNumber::ZERO;
        if !has_moved {
            return Ok(seen);
        }
        let files = match question {
            Question::Lookup { parent, name } => {
                let entry = self.seen_entry(core, *parent, name)?;
                self.note_seen(core, entry.as_ref().map(|entry| entry.version), &mut seen);
                let directory = has_moved.then_some(*parent);
                directory.into_iter().chain(entry.map(|entry| entry.file)).collect()
            }
            Question::Attributes { file } => vec![*file],
            Question::List { directory, after, limit } => {
                let limit = if has_moved { *limit as usize } else { LISTED_MAX };
                let listed = core.state.list(*directory, after.as_ref(), limit)?;
                for (name, _) in &listed {
                    self.note_seen(
                        core,
                        self.seen_entry(core, *directory, name)?.map(|entry| entry.version),
                        &mut seen,
                    );
                }
                let files = listed.into_iter().map(|(_, entry)| entry.file);
                files.chain([*directory]).filter(|_| has_moved).collect()
            }
        };
        for file in files {
            if let Some(inode) = self.seen_inode(core, file)? {
                self.note_seen_file(core, &inode, &mut seen)?;
            }
        }
        Ok(seen)
    }

    /// Notes the records of others that made a file what it is, and put it where it is.
    pub(crate) fn note_seen_file<S: MetaStore>(
        &self,
        core: &Core<S>,
        inode: &Inode,
        seen: &mut Seen,
    ) -> Result<(), StorageError> {
        self.note_seen(core, [inode.version, inode.attr_version.0], seen);
        for place in &inode.places {
            self.note_seen(core, self.seen_entry(core, place.parent, &place.name)?.map(|entry| entry.version), seen);
        }
        Ok(())
    }

    pub(crate) fn note_seen<S: MetaStore>(
        &self,
        core: &Core<S>,
        records: impl IntoIterator<Item = RecordId>,
        seen: &mut Seen,
    ) {
        records.into_iter().filter(|record| self.is_foreign(core, *record)).for_each(|record| seen.note(record));
    }

    /// What a change must know.
    pub(crate) fn needs_of<S: MetaStore>(core: &Core<S>, change: &Change) -> Result<Vec<Need>, StorageError> {
        let directory_under = |parent: FileId, name: &Name| -> Result<Option<FileId>, StorageError> {
            let Some(entry) = core.state.entry(parent, name)? else { return Ok(None) };
            Ok(core.state.inode(entry.file)?.filter(|inode| inode.is_directory()).map(|_| entry.file))
        };
        Ok(match change {
            Change::Create { parent, name, .. }
            | Change::Publish { parent, name, .. }
            | Change::Mkdir { parent, name, .. } => {
                vec![Need::Inode(*parent), Need::Name(*parent, name.clone())]
            }
            Change::Link { file, parent, name } => {
                vec![Need::Inode(*file), Need::Inode(*parent), Need::Name(*parent, name.clone())]
            }
            Change::Unlink { parent, name } => vec![Need::Inode(*parent), Need::Name(*parent, name.clone())],
            Change::Rmdir { parent, name } => {
                let mut needs = vec![Need::Inode(*parent), Need::Name(*parent, name.clone())];
                needs.extend(directory_under(*parent, name)?.map(Need::Emptiness));
                needs
            }
            Change::Rename { from_parent, from_name, to_parent, to_name, target } => {
                let mut needs = vec![
                    Need::Inode(*from_parent),
                    Need::Name(*from_parent, from_name.clone()),
                    Need::Inode(*to_parent),
                    Need::Name(*to_parent, to_name.clone()),
                ];
                if *target != RenameTarget::Exchange {
                    needs.extend(directory_under(*to_parent, to_name)?.map(Need::Emptiness));
                }
                needs
            }
            Change::SetAttr { file, .. }
            | Change::SetXattr { file, .. }
            | Change::Store { file, .. }
            | Change::Append { file, .. } => {
                vec![Need::Inode(*file)]
            }
            Change::Resolve { .. } => Vec::new(),
        })
    }
}
