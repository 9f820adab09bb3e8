//! Members that see a part of the tree only: one directory and what lies below it.
//!
//! All that a client is told goes through [`Children::shown`]: what lies outside of its part is told as absent, but for the
//! directories on the way from the root, of which it sees themselves and the one name that leads on. So its mount has a root
//! and a path to its part like any other, and nothing else in it.
//!
//! Such a client never resumes: each of its sessions begins anew, and one ends when a directory is moved into or out of the
//! part. What it cached of it may have changed while it was not told, and looks the same as what it was told.

use crate::api::PeerId;
use crate::children::Children;
use crate::replica::Replica;
use crate::replica::core::Core;
use crate::replica::errors::StepError;
use crate::state::names::Committed;
use crate::state::overlay::Changed;
use wayfs_tree::{Lies, View, lies};
use wayfs_types::request::LockRequest;
use wayfs_types::{FileId, Image, Inode, Key, MetaStore, Name, OriginId, Place, StorageError};
use wayfs_wire::{KeyImage, Question, Up, Verdict};

/// The directories from the root down to a part, each with the name that leads on and what that names.
#[derive(Debug)]
struct Way(Vec<(Place, FileId)>);

impl Way {
    fn passes(&self, directory: FileId) -> bool {
        self.0.iter().any(|(place, _)| place.parent == directory)
    }

    fn leads(&self, directory: FileId, name: &Name) -> bool {
        self.0.iter().any(|(place, _)| place.parent == directory && place.name == *name)
    }
}

impl<S: MetaStore> Replica<S> {
    /// Ends the sessions of those whose part a directory came into, or left.
    pub(crate) fn end_moved_parts(&mut self, changed: &[Changed]) -> Result<(), StorageError> {
        let parts: Vec<(OriginId, PeerId, FileId)> = (self.children.by_origin.iter())
            .filter_map(|(origin, child)| Some((*origin, child.peer?, child.part?)))
            .collect();
        if parts.is_empty() {
            return Ok(());
        }
        for (_, peer, part) in parts {
            let mut is_moved = false;
            for change in changed {
                is_moved = is_moved || Children::crosses(&self.core, change, part)?;
            }
            if is_moved {
                self.disconnect(peer, "what lies in its part of the volume has changed: it begins anew".to_owned());
            }
        }
        Ok(())
    }
}

impl Children {
    /// What a child says, as far as it may: see [`Children::confine`].
    pub(crate) fn confined<S: MetaStore>(
        &self,
        core: &Core<S>,
        peer: PeerId,
        origin: OriginId,
        up: Up,
    ) -> Result<Up, StepError> {
        match self.by_origin.get(&origin).and_then(|child| child.part) {
            Some(part) => Self::confine(core, peer, part, up),
            None => Ok(up),
        }
    }

    /// The directory below which a member works; `None`: the whole volume.
    pub(crate) fn part_of<S: MetaStore>(core: &Core<S>, origin: OriginId) -> Result<Option<FileId>, StorageError> {
        Ok(match core.state.image(&Key::Origin(origin))? {
            Some(Image::Origin(origin)) => origin.limits.below,
            _ => None,
        })
    }

    /// Whether a file lies in a member's part of the volume.
    pub(crate) fn is_in_part<S: MetaStore>(
        core: &Core<S>,
        origin: OriginId,
        file: FileId,
    ) -> Result<bool, StorageError> {
        match Self::part_of(core, origin)? {
            Some(top) => Self::lies_within(core, file, top),
            None => Ok(true),
        }
    }

    fn lies_within<S: MetaStore>(core: &Core<S>, file: FileId, top: FileId) -> Result<bool, StorageError> {
        Ok(lies(&Committed(core.state.store()), file, top)? == Lies::Within)
    }

    fn way_to<S: MetaStore>(core: &Core<S>, top: FileId) -> Result<Way, StorageError> {
        let (view, mut at, mut way) = (Committed(core.state.store()), top, Vec::new());
        while way.len() < wayfs_tree::PART_DEPTH_MAX {
            let inode = wayfs_tree::inode(&view, at)?.filter(|inode| !inode.is_removed());
            let Some(place) = inode.and_then(|inode| inode.places.first().cloned()) else { break };
            let parent = place.parent;
            way.push((place, at));
            at = parent;
        }
        Ok(Way(way))
    }

    /// What a child is told of a key.
    pub(crate) fn shown<S: MetaStore>(
        core: &Core<S>,
        part: Option<FileId>,
        pair: KeyImage,
    ) -> Result<KeyImage, StorageError> {
        let Some(top) = part.filter(|_| pair.image.is_some()) else { return Ok(pair) };
        let is_shown = match (&pair.key, &pair.image) {
            (Key::Inode(file), _) => Self::lies_within(core, *file, top)? || Self::way_to(core, top)?.passes(*file),
            (Key::Entry(directory, name), _) => {
                Self::lies_within(core, *directory, top)? || Self::way_to(core, top)?.leads(*directory, name)
            }
            (Key::Conflict(_), Some(Image::Conflict(report))) => {
                Self::lies_within(core, report.file, top)?
                    && match &report.place {
                        Some(place) => Self::lies_within(core, place.parent, top)?,
                        None => true,
                    }
            }
            (Key::Conflict(_) | Key::Origin(_), _) => true,
        };
        Ok(if is_shown { pair } else { KeyImage { image: None, ..pair } })
    }

    /// An answer as a child may have it. `about`: the key that decides whether it found anything, if not a listing was asked for.
    pub(crate) fn shown_answer<S: MetaStore>(
        core: &Core<S>,
        part: FileId,
        about: Option<&Key>,
        (verdict, images): (Verdict, Vec<KeyImage>),
    ) -> Result<(Verdict, Vec<KeyImage>), StorageError> {
        let images: Vec<KeyImage> =
            images.into_iter().map(|pair| Self::shown(core, Some(part), pair)).collect::<Result<_, StorageError>>()?;
        let is_hidden = |key: &Key| images.iter().any(|pair| pair.key == *key && pair.image.is_none());
        match about {
            Some(key) if is_hidden(key) => Ok((Verdict::NotFound, images)),
            Some(_) | None => Ok((verdict, images)),
        }
    }

    /// A listing for a child that does not see the whole directory: the one name that leads on, or nothing. `None`: it
    /// sees all of it.
    pub(crate) fn listing_in_part<S: MetaStore>(
        core: &Core<S>,
        part: FileId,
        directory: FileId,
        after: Option<&Name>,
    ) -> Result<Option<Vec<KeyImage>>, StorageError> {
        if Self::lies_within(core, directory, part)? {
            return Ok(None);
        }
        let way = Self::way_to(core, part)?;
        let mut images = Vec::new();
        for (place, file) in way.0.iter().filter(|(place, _)| place.parent == directory) {
            if after.is_some_and(|after| place.name <= *after) {
                continue;
            }
            for key in [Key::Entry(directory, place.name.clone()), Key::Inode(*file)] {
                let image = Committed(core.state.store()).image(&key)?;
                images.push(KeyImage { key, image });
            }
        }
        Ok(Some(images))
    }

    /// Whether a question is about something that a child does not see at all: nobody is waited for to answer it.
    pub(crate) fn is_hidden<S: MetaStore>(
        core: &Core<S>,
        part: FileId,
        question: &Question,
    ) -> Result<bool, StorageError> {
        let (Question::Lookup { parent: about, .. }
        | Question::Attributes { file: about }
        | Question::List { directory: about, .. }) = *question;
        Ok(!Self::lies_within(core, about, part)? && !Self::way_to(core, part)?.passes(about))
    }

    /// Refuses what a child asks for outside of its part, and takes from lists what it may not look at.
    fn confine<S: MetaStore>(core: &Core<S>, peer: PeerId, part: FileId, up: Up) -> Result<Up, StepError> {
        let outside = || Err(StepError::Peer(peer, "asks for what lies outside of its part of the volume".to_owned()));
        let is_seen = |file: FileId| -> Result<bool, StorageError> {
            Ok(Self::lies_within(core, file, part)? || Self::way_to(core, part)?.passes(file))
        };
        match up {
            Up::Watch { files } => {
                let mut seen = Vec::new();
                for file in files {
                    if is_seen(file)? {
                        seen.push(file);
                    }
                }
                Ok(Up::Watch { files: seen })
            }
            Up::Lock { request: LockRequest { file, .. }, .. }
            | Up::KeepLock { request: LockRequest { file, .. }, .. }
            | Up::TestLock { request: LockRequest { file, .. }, .. }
                if !is_seen(file)? =>
            {
                outside()
            }
            Up::Claim { ref files, .. } => {
                for file in files {
                    if !is_seen(*file)? {
                        return outside();
                    }
                }
                Ok(up)
            }
            // Records are looked at one by one, and answers are cut, where they are made.
            other @ (Up::Hello { .. }
            | Up::Unwatch { .. }
            | Up::Refresh { .. }
            | Up::Start
            | Up::Records { .. }
            | Up::Received { .. }
            | Up::Ask { .. }
            | Up::Have { .. }
            | Up::Want { .. }
            | Up::Lock { .. }
            | Up::TestLock { .. }
            | Up::Unlock { .. }
            | Up::LockCancel { .. }
            | Up::Ping { .. }
            | Up::Cancelled { .. }
            | Up::Holds { .. }
            | Up::Lent { .. }
            | Up::Chains { .. }
            | Up::Renew { .. }
            | Up::Facts { .. }
            | Up::Catch { .. }
            | Up::TakesRights { .. }
            | Up::GivenBack { .. }
            | Up::Gone { .. }
            | Up::Seals { .. }
            | Up::KeepLock { .. }
            | Up::GiveLock { .. }
            | Up::LockGiven { .. }
            | Up::BringsLocks { .. }
            | Up::ReturnLocks { .. }) => Ok(other),
        }
    }

    fn crosses<S: MetaStore>(core: &Core<S>, change: &Changed, part: FileId) -> Result<bool, StorageError> {
        let (Key::Inode(file), Some(Image::Inode(old)), Some(Image::Inode(new))) =
            (&change.key, &change.old, &change.new)
        else {
            return Ok(false);
        };
        let (Some(from), Some(to)) = (stands_at(old), stands_at(new)) else { return Ok(false) };
        if !old.is_directory() || from == to {
            return Ok(false);
        }
        if *file == part || Self::way_to(core, part)?.0.iter().any(|(_, at)| at == file) {
            return Ok(true);
        }
        Ok(Self::lies_within(core, from.parent, part)? != Self::lies_within(core, to.parent, part)?)
    }
}

fn stands_at(inode: &Inode) -> Option<&Place> {
    inode.places.first().or(inode.removed_from.as_ref())
}
