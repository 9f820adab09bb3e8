//! What a request needs to know before it can be worked off, and the questions to the parent about it.

use crate::api::Role;
use crate::replica::{Replica, Trouble};
use crate::requests::{Attempt, FIRST_SESSION_MAX, Need, On, Waiting};
use std::collections::BTreeMap;
use wayfs_types::request::Change;
use wayfs_types::{FileId, FsError, MetaStore, Name, OriginId, RecordId, StorageError};
use wayfs_wire::{AskId, Question, Up};

/// Questions asked for one request before it is served from what is there.
pub(crate) const QUESTIONS_MAX: u8 = 8;
/// Records seen on what is asked for that are named in a question.
const SEEN_MAX: usize = 32;

impl<S: MetaStore> Replica<S> {
    /// The first thing that is not known, as something to wait for; `None`: go ahead.
    pub(crate) fn missing_need(&mut self, waiting: &mut Waiting, needs: &[Need]) -> Result<Option<Attempt>, Trouble> {
        if self.config.role != Role::Client {
            return Ok(None);
        }
        if !waiting.offline {
            if self.is_trusted() {
                for need in needs {
                    if let Some(question) = self.untrusted(need)? {
                        return self.ask_or_go_offline(waiting, question, needs);
                    }
                }
                return Ok(None);
            }
            if self.is_connecting() {
                return Ok(Some(Attempt::Park(On::Session)));
            }
            if self.upstream.is_none() && self.now < self.opened + FIRST_SESSION_MAX && !self.all_cached(needs)? {
                return Ok(Some(Attempt::Park(On::FirstSession)));
            }
        }
        Ok(if self.all_cached(needs)? { None } else { Some(self.without_parent(waiting)) })
    }

    /// What is asked for is not cached, and the parent cannot be asked now.
    pub(crate) fn without_parent(&self, waiting: &mut Waiting) -> Attempt {
        if self.is_catching_up() && self.now < waiting.deadline {
            waiting.offline = false;
            return Attempt::Park(On::Session);
        }
        Attempt::Done(Err(self.offline_error(waiting)))
    }

    fn offline_error(&self, waiting: &Waiting) -> FsError {
        if self.upstream.is_some() && self.now >= waiting.deadline { FsError::TimedOut } else { FsError::Unreachable }
    }

    pub(crate) fn ask_or_go_offline(
        &mut self,
        waiting: &mut Waiting,
        question: Question,
        needs: &[Need],
    ) -> Result<Option<Attempt>, Trouble> {
        waiting.questions += 1;
        if waiting.questions <= QUESTIONS_MAX {
            return Ok(Some(Attempt::Park(On::Ask(self.ask(question)?))));
        }
        Ok(if self.all_cached(needs)? { None } else { Some(Attempt::Done(Err(FsError::TimedOut))) })
    }

    /// The question that would settle a need which the trusted part of the cache does not.
    pub(crate) fn untrusted(&mut self, need: &Need) -> Result<Option<Question>, StorageError> {
        Ok(match need {
            Need::Inode(file) => self.trusted_inode(*file)?.is_none().then_some(Question::Attributes { file: *file }),
            Need::Name(parent, name) => {
                let lookup = || Some(Question::Lookup { parent: *parent, name: name.clone() });
                match self.trusted_entry(*parent, name)? {
                    None => lookup(),
                    Some(None) => None,
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
                let known = self.watches.is_fresh(*directory)
                    || wayfs_tree::View::first_entry(&self.tx(), *directory)?.is_some();
                let (directory, after) = (*directory, None);
                (!known).then_some(Question::List { directory, after, limit: 64 })
            }
        })
    }

    pub(crate) fn all_cached(&mut self, needs: &[Need]) -> Result<bool, StorageError> {
        for need in needs {
            let known = match need {
                Need::Inode(file) => self.inode(*file)?.is_some(),
                Need::Name(parent, name) => match self.cached_entry(*parent, name)? {
                    None => false,
                    Some(None) => self.inode(*parent)?.is_some(),
                    Some(Some(file)) => self.inode(file)?.is_some(),
                },
                Need::Emptiness(directory) => {
                    self.watches.is_complete(*directory)
                        || wayfs_tree::View::first_entry(&self.tx(), *directory)?.is_some()
                }
            };
            if !known {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Asks the parent, or joins a question that is under way.
    pub(crate) fn ask(&mut self, question: Question) -> Result<AskId, StorageError> {
        if let Some(ask) = self.upstream.as_ref().and_then(|up| up.by_question.get(&question).copied()) {
            return Ok(ask);
        }
        let seen = self.seen_on(&question)?;
        let Some(upstream) = self.upstream.as_mut() else { return Ok(AskId(0)) };
        let ask = AskId(upstream.next_ask);
        upstream.next_ask += 1;
        upstream.asks.insert(ask, question.clone());
        upstream.by_question.insert(question.clone(), ask);
        self.tell_parent(Up::Ask { ask, question, seen });
        Ok(ask)
    }

    /// Foreign records whose effect our cache shows on what is asked for.
    pub(crate) fn seen_on(&self, question: &Question) -> Result<Vec<RecordId>, StorageError> {
        let mut newest: BTreeMap<OriginId, u64> = BTreeMap::new();
        let mut note = |record: RecordId| {
            if self.is_foreign(record) {
                let sequence = newest.entry(record.origin()).or_insert(0);
                *sequence = (*sequence).max(record.sequence());
            }
        };
        let files = match question {
            Question::Lookup { parent, name } => {
                let entry = self.entry(*parent, name)?;
                entry.iter().for_each(|entry| note(entry.version));
                entry.map(|entry| entry.file).into_iter().collect()
            }
            Question::Attributes { file } => vec![*file],
            Question::List { directory, after, limit } => {
                // What our parent told us itself it knows; of files that somebody else told of, their own versions count, too.
                let has_moved = self.moved_at > 0;
                let limit = if has_moved { *limit as usize } else { SEEN_MAX };
                let listed = self.list(*directory, after.as_ref(), limit)?;
                listed.iter().for_each(|(_, entry)| note(entry.version));
                listed.into_iter().filter(|_| has_moved).map(|(_, entry)| entry.file).collect()
            }
        };
        for file in files {
            if let Some(inode) = self.inode(file)? {
                note(inode.version);
                note(inode.attr_version);
                for place in inode.places {
                    self.entry(place.parent, &place.name)?.iter().for_each(|entry| note(entry.version));
                }
            }
        }
        let seen = newest.into_iter().take(SEEN_MAX);
        Ok(seen.filter_map(|(origin, sequence)| RecordId::new(origin, sequence).ok()).collect())
    }

    /// What a change must know.
    pub(crate) fn needs_of(&self, change: &Change) -> Result<Vec<Need>, StorageError> {
        let directory_under = |parent: FileId, name: &Name| -> Result<Option<FileId>, StorageError> {
            let Some(entry) = self.entry(parent, name)? else { return Ok(None) };
            Ok(self.inode(entry.file)?.filter(|inode| inode.is_directory()).map(|_| entry.file))
        };
        Ok(match change {
            Change::Create { parent, name, .. } | Change::Mkdir { parent, name, .. } => {
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
            Change::Rename { from_parent, from_name, to_parent, to_name, .. } => {
                let mut needs = vec![
                    Need::Inode(*from_parent),
                    Need::Name(*from_parent, from_name.clone()),
                    Need::Inode(*to_parent),
                    Need::Name(*to_parent, to_name.clone()),
                ];
                needs.extend(directory_under(*to_parent, to_name)?.map(Need::Emptiness));
                needs
            }
            Change::SetAttr { file, .. } | Change::SetXattr { file, .. } | Change::Store { file, .. } => {
                vec![Need::Inode(*file)]
            }
            Change::Resolve { .. } => Vec::new(),
        })
    }
}
