//! The parent's answers to our questions.

use crate::api::PeerId;
use crate::replica::Replica;
use crate::replica::core::Core;
use crate::replica::errors::StepError;
use crate::requests::listed::Listed;
use crate::requests::seen::Asked;
use crate::state::names::{crowded_in, directories_of};
use crate::state::tables::{image_key, table};
use crate::upstream::Uplink;
use crate::upstream::line::UplinkState;
use crate::upstream::needs::QUESTIONS_MAX;
use std::collections::BTreeSet;
use wayfs_types::{CommitNumber, FileId, Image, Key, MetaStore, Name, StorageError};
use wayfs_wire::{AskId, FrameSerial, KeyImage, Question, Resume, Up, Verdict};

/// Where nobody changed anything alone when the parent answered: in what was asked for and, of a file, where it stands; and in
/// files with names that they do not list.
fn looked_at(question: &Question, images: &[KeyImage]) -> impl Iterator<Item = FileId> {
    let (Question::Lookup { parent: about, .. }
    | Question::Attributes { file: about }
    | Question::List { directory: about, .. }) = *question;
    let is_file = matches!(question, Question::Attributes { .. });
    let image = images.iter().find(|pair| is_file && pair.key == Key::Inode(about));
    let inode = image.and_then(|pair| match &pair.image {
        Some(Image::Inode(inode)) if !inode.is_directory() => Some(inode),
        _ => None,
    });
    inode.into_iter().flat_map(|inode| directories_of(inode)).chain([about]).chain(crowded_in(images))
}

impl<S: MetaStore> Replica<S> {
    pub(crate) fn handle_answer(
        &mut self,
        peer: PeerId,
        serial: FrameSerial,
        (ask, verdict): (AskId, Verdict),
        through: CommitNumber,
        images: Vec<KeyImage>,
    ) -> Result<(), StepError> {
        let (Some(upstream), Some(line)) = (self.uplink.session.as_mut(), self.core.line.as_mut()) else {
            return Ok(());
        };
        if line.state != UplinkState::Live || !upstream.partial.is_empty() {
            return Err(StepError::Peer(peer, "answered out of turn".to_owned()));
        }
        let Some(asked) = upstream.asks.remove(&ask) else {
            return Err(StepError::Peer(peer, "answered what nobody asked".to_owned()));
        };
        let stamp = line.stamp;
        Uplink::check_own_mark(&mut self.core, peer, &images)?;
        self.core.check_believable(peer, &images)?;
        self.core.state.set_resume(stamp.map(|stamp| Resume { stamp, cursor: through }));
        self.core.stage_to_parent(Up::Received { serial });
        let unheard = self.unheard_in(&images, &asked.seen)?;
        if !unheard.is_empty() && asked.times < QUESTIONS_MAX {
            let seen = asked.seen.extended_by(&unheard);
            self.uplink.put_question(&mut self.core, ask, Asked { seen, times: asked.times + 1, ..asked });
            return Ok(());
        }
        let verdict = if unheard.is_empty() { verdict } else { Verdict::Behind };
        if let Some(upstream) = self.uplink.session.as_mut() {
            upstream.by_question.remove(&asked.question);
        }
        let mut listed = None;
        match verdict {
            Verdict::Behind => self.take_behind(images)?,
            Verdict::Unready => {}
            Verdict::Found | Verdict::NotFound | Verdict::More | Verdict::End => {
                self.watch_around(ask, &asked.question, &images);
                listed = self.take_answer(&asked.question, verdict, images)?;
            }
        }
        self.core.state.stage_answered((ask, verdict, listed));
        Ok(())
    }

    /// The parent has not heard of all that we have seen, and says how it is there. What it does not know says nothing; what undoes nothing is
    /// news. It is no answer: nobody vouches for the rest.
    fn take_behind(&mut self, mut images: Vec<KeyImage>) -> Result<(), StorageError> {
        if self.uplink.past.kept.moved_at == CommitNumber::ZERO {
            return Ok(());
        }
        images.retain(|pair| pair.image.is_some());
        self.keep_what_was_seen(&mut images)?;
        self.take_cut(images)
    }

    /// Who asked for a file, rather than for a name in a directory, looks at the directories where that stands from then on, as the
    /// parent notes it (`children/stream.rs`): others change the file by their rights to those.
    fn watch_around(&mut self, ask: AskId, question: &Question, images: &[KeyImage]) {
        let is_noted = self.uplink.session.as_ref().is_some_and(|upstream| upstream.rights.counts_from(ask));
        if is_noted && matches!(question, Question::Attributes { .. }) {
            looked_at(question, images).for_each(|directory| self.begin_watch(directory));
        }
    }

    /// Takes an answer's images over. For a list: whether the directory ends, and the last name.
    pub(crate) fn take_answer(
        &mut self,
        question: &Question,
        verdict: Verdict,
        mut images: Vec<KeyImage>,
    ) -> Result<Option<Listed>, StorageError> {
        let watched = match question {
            Question::Lookup { parent, .. } => *parent,
            Question::Attributes { file } => *file,
            Question::List { directory, .. } => *directory,
        };
        let untold = self.untold(&images)?;
        self.core.state.stage_learned(untold);
        self.begin_watch(watched);
        crowded_in(&images).into_iter().for_each(|file| self.begin_watch(file));
        if let Some(upstream) = self.uplink.session.as_mut() {
            looked_at(question, &images).for_each(|directory| upstream.rights.trust(directory));
        }
        let mut listed = None;
        if let Question::List { directory, after, .. } = question {
            let last = images.iter().rev().find_map(|pair| match &pair.key {
                Key::Entry(parent, name) if parent == directory => Some(name.clone()),
                Key::Inode(_) | Key::Entry(..) | Key::Conflict(_) | Key::Origin(_) => None,
            });
            let ended = verdict == Verdict::End;
            Uplink::add_vanished(
                &mut self.core,
                *directory,
                after.as_ref(),
                if ended { None } else { last.as_ref() },
                &mut images,
            )?;
            listed = Some(Listed { ended, last });
        }
        let keys: Vec<Key> = images.iter().map(|pair| pair.key.clone()).collect();
        self.take_cut(images)?;
        let Some(watches) = self.watches.kept_mut() else { return Ok(listed) };
        for key in keys {
            if let Key::Entry(parent, name) = &key
                && wayfs_tree::entry(&self.core.state.tx(), *parent, name)?.is_none()
            {
                watches.note_absence(*parent, name.clone());
            }
        }
        if let (Question::List { directory, after, .. }, Some(page)) = (question, &listed) {
            watches.note_listed(&mut self.core, *directory, after.as_ref(), page);
        }
        Ok(listed)
    }

    /// Names that stand in an answer and of which nobody here was told anything, neither what they stand for nor that they stand for
    /// nothing. A directory of 100,000 names that is listed for the first time costs the kernel no notice for each, and no second look.
    fn untold(&self, images: &[KeyImage]) -> Result<Vec<(FileId, Name)>, StorageError> {
        let mut untold = Vec::new();
        let Some(watches) = self.watches.kept() else { return Ok(untold) };
        for pair in images.iter().filter(|pair| pair.image.is_some()) {
            if let Key::Entry(parent, name) = &pair.key
                && !watches.may_have_told(*parent, name)
                // What we removed ourselves stands for nothing.
                && self.core.state.store().get(&image_key(table::SHADOW, &pair.key))?.is_none()
            {
                untold.push((*parent, name.clone()));
            }
        }
        Ok(untold)
    }
}

impl Uplink {
    /// Names that we have cached in a listed range and that the answer does not hold are gone. So are those that lie aside, as
    /// their parent had confirmed them or as a guess, be they in our view or removed by a record of ours that is on its way: the
    /// listing vouches for all of its range from now on, and what had a shadow row would come back with that record.
    fn add_vanished<S: MetaStore>(
        core: &mut Core<S>,
        directory: FileId,
        after: Option<&Name>,
        last: Option<&Name>,
        images: &mut Vec<KeyImage>,
    ) -> Result<(), StorageError> {
        let named: BTreeSet<Key> = images.iter().map(|pair| pair.key.clone()).collect();
        let mut vanished = BTreeSet::new();
        for table in [table::VIEW, table::SHADOW] {
            let from = crate::state::tables::entries_from(table, directory, after);
            let until = match last {
                Some(last) => crate::state::tables::entries_from(table, directory, Some(last)),
                None => crate::state::tables::entries_until(table, directory),
            };
            core.state.each(&from, &until, |key, _| {
                let key = crate::state::tables::parse_image_key(key)?;
                if !named.contains(&key) {
                    vanished.insert(key);
                }
                Ok(())
            })?;
        }
        for key in vanished {
            // What was made here has nothing under it.
            if core.state.shadow(&key)?.is_none_or(|shadow| shadow.image.is_some()) {
                images.push(KeyImage { key, image: None });
            }
        }
        Ok(())
    }
}
