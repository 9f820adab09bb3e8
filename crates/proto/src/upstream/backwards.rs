//! What a parent that we moved to may not undo.
//!
//! A client that moves brings its own records along, not those of others that it has seen. If the new parent has not heard
//! of those, it says of what they changed how it was before: the echo of our own records, above all. Such an image
//! is true, and old. What we have seen is newer, so it stays; nobody vouches for it, so it is asked for before it is
//! trusted, and the question names the records that an answer must know of (`upstream/needs.rs`).
//!
//! Whatever came since the move this parent vouched for itself, and may change: its stream knows the order.

use crate::replica::Replica;
use crate::replica::core::Core;
use crate::requests::seen::Seen;
use crate::state::position::LogPosition;
use crate::state::tables::{FORGOT_AT, LOST_AFTER, MOVED_AT, pack};
use crate::upstream::Uplink;
use crate::upstream::past::KeptPast;
use std::sync::Arc;
use wayfs_types::{
    CommitNumber, Entry, FileId, Image, Inode, Key, MetaStore, Name, Op, OriginId, Place, RecordId, StorageError,
};
use wayfs_wire::KeyImage;

/// Records that left the log since the move of which is known what they were built upon. Of others what was seen stays until the
/// parent was asked.
const BUILT_UPON_MAX: usize = 16_384;

impl Uplink {
    /// The last record of a former origin of ours after which all were lost.
    pub(crate) fn lost_after(&self, origin: OriginId) -> u64 {
        self.past.kept.lost_after.get(&origin).map_or(u64::MAX, |(after, _)| *after)
    }

    pub(crate) fn read_past<S: MetaStore>(&mut self, core: &Core<S>) -> Result<(), StorageError> {
        *self.past.kept.as_stored() = KeptPast::read(core)?;
        Ok(())
    }

    /// What was noted with this input is in the store.
    pub(crate) fn committed(&mut self) {
        self.past.kept.committed();
    }

    /// It came to nothing.
    pub(crate) fn abandon(&mut self) {
        self.past.kept.abandon();
    }

    /// What is kept in memory of former parents and is not what the store says, if anything is.
    pub(crate) fn wrongly_kept<S: MetaStore>(&self, core: &Core<S>) -> Result<Option<String>, StorageError> {
        let stored = KeptPast::read(core)?;
        let kept = &*self.past.kept;
        Ok((*kept != stored).then(|| format!("of former parents {kept:?} is kept, and {stored:?} stored")))
    }

    /// The parent, or the home behind it, went back: what others made meanwhile and we saw may be lost. What is known until
    /// now stays readable, and no answer has to know of it: it would never come.
    pub(crate) fn forget_what_was_seen<S: MetaStore>(&mut self, core: &mut Core<S>) {
        let change = core.state.change().next();
        self.forget_seen_before(core, change);
    }

    /// The same of what was known before this change.
    pub(crate) fn forget_seen_before<S: MetaStore>(&mut self, core: &mut Core<S>, change: CommitNumber) {
        let kept = self.past.kept.edit();
        kept.forgot_at = kept.forgot_at.max(change);
        core.state.put_row(FORGOT_AT.to_vec(), pack(&kept.forgot_at));
    }

    /// Whether an image was known before the home went back.
    fn is_forgotten<S: MetaStore>(&self, core: &Core<S>, key: &Key) -> Result<bool, StorageError> {
        if self.past.kept.forgot_at == CommitNumber::ZERO {
            return Ok(false);
        }
        let known = core.state.row_of(key)?;
        Ok(known.is_some_and(|known| known.number < self.past.kept.forgot_at))
    }

    /// An entry, if a parent's answer has to know of it.
    pub(crate) fn seen_entry<S: MetaStore>(
        &self,
        core: &Core<S>,
        parent: FileId,
        name: &Name,
    ) -> Result<Option<Entry>, StorageError> {
        let key = Key::Entry(parent, name.clone());
        if self.is_forgotten(core, &key)? { Ok(None) } else { core.state.entry(parent, name) }
    }

    /// A file, if a parent's answer has to know of what it is.
    pub(crate) fn seen_inode<S: MetaStore>(
        &self,
        core: &Core<S>,
        file: FileId,
    ) -> Result<Option<Arc<Inode>>, StorageError> {
        if self.is_forgotten(core, &Key::Inode(file))? { Ok(None) } else { core.state.inode(file) }
    }

    /// From now on another parent vouches.
    pub(crate) fn note_move<S: MetaStore>(&mut self, core: &mut Core<S>) {
        if !core.state.holds_all() && core.state.synced() {
            let kept = self.past.kept.edit();
            kept.moved_at = core.state.change().next();
            core.state.put_row(MOVED_AT.to_vec(), pack(&kept.moved_at));
            self.past.moved_since = None;
        }
    }

    /// What was seen before a move and the home still does not have, long after: whoever had it is gone with it, or away
    /// for longer than anybody waits to look at a directory. From then on the parent's word counts.
    pub(crate) fn forget_unheard<S: MetaStore>(&mut self, core: &mut Core<S>) {
        if self.past.kept.moved_at == CommitNumber::ZERO {
            return;
        }
        let since = *self.past.moved_since.get_or_insert(core.now);
        let is_home_there = core.is_trusted() && self.is_home_reachable(core, core.now) == Some(true);
        if is_home_there && core.now >= since + core.config.seen_kept {
            tracing::debug!("what was seen before a move and never came is forgotten");
            self.past.kept.edit().moved_at = CommitNumber::ZERO;
            self.past.moved_since = None;
            core.state.delete_row(MOVED_AT.to_vec());
        }
    }

    fn note_unvouched<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        pair: &KeyImage,
        seen: &mut Seen,
    ) -> Result<(), StorageError> {
        let file = match (&pair.key, &pair.image) {
            (Key::Inode(file), _) => Some(*file),
            (Key::Entry(parent, name), image) => {
                let known = self.unvouched_entry(core, *parent, name)?;
                self.note_seen(core, known, seen);
                image.as_ref().and_then(|image| if let Image::Entry(entry) = image { Some(entry.file) } else { None })
            }
            _ => None,
        };
        if let Some(file) = file
            && let Some(inode) = self.unvouched_inode(core, file)?
        {
            self.note_seen_file(core, &inode, seen)?;
        }
        Ok(())
    }

    fn may_undo_inode<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        old: &Inode,
        new: &Inode,
    ) -> Result<bool, StorageError> {
        // A record of ours met a conflict there, which is reported: what follows from that is not to be taken apart.
        if new.merged_into.is_some() {
            return Ok(false);
        }
        for (old, new) in [(old.version, new.version), (old.attr_version.0, new.attr_version.0)] {
            if self.is_unheard(core, old, new) && !self.is_built_upon(core, new, old)? {
                return Ok(true);
            }
        }
        if old.is_removed() && !new.is_removed() {
            return Ok(true);
        }
        // A record that moves a file shows in the entry where it stands now.
        for place in old.places.iter().filter(|place| !new.places.contains(place)) {
            if self.is_put_by_others(core, place.parent, &place.name)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn is_put_by_others<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        parent: FileId,
        name: &Name,
    ) -> Result<bool, StorageError> {
        Ok(self.unvouched_entry(core, parent, name)?.is_some_and(|version| self.is_foreign(core, version)))
    }

    /// The version of an entry that we know without this parent's word.
    fn unvouched_entry<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        parent: FileId,
        name: &Name,
    ) -> Result<Option<RecordId>, StorageError> {
        Ok(match self.unvouched_image(core, &Key::Entry(parent, name.clone()))? {
            Some(Image::Entry(entry)) => Some(entry.version),
            _ => None,
        })
    }

    /// What we know of a file without this parent's word.
    fn unvouched_inode<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        file: FileId,
    ) -> Result<Option<Arc<Inode>>, StorageError> {
        Ok(match self.unvouched_image(core, &Key::Inode(file))? {
            Some(Image::Inode(inode)) => Some(inode),
            _ => None,
        })
    }

    /// What a former parent said last of a key, or what we guessed since.
    fn unvouched_image<S: MetaStore>(&mut self, core: &mut Core<S>, key: &Key) -> Result<Option<Image>, StorageError> {
        let known = match core.state.shadow(key)? {
            Some(shadow) => Some((shadow.number, shadow.image)),
            None => core.state.tx().numbered(key)?.map(|known| (known.number, Some(known.image))),
        };
        Ok(known
            .filter(|(number, _)| (self.past.kept.forgot_at..self.past.kept.moved_at).contains(number))
            .and_then(|(_, image)| image))
    }

    /// Whether `old` is the record of somebody else, and `new` does not tell that its writer knew of it.
    fn is_unheard<S: MetaStore>(&self, core: &Core<S>, old: RecordId, new: RecordId) -> bool {
        let is_later = new.origin() == old.origin() && new.sequence() >= old.sequence();
        self.is_foreign(core, old) && !is_later
    }

    /// Whether records of ours lead from one of somebody else to a later one: who has the later one has what it was built upon.
    fn is_built_upon<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        record: RecordId,
        old: RecordId,
    ) -> Result<bool, StorageError> {
        let mut at = record;
        while at != old {
            let Some(base) = self.base_of(core, at)? else { return Ok(false) };
            // Bases go back, so the walk ends.
            if base.origin() == at.origin() && base.sequence() >= at.sequence() {
                return Ok(false);
            }
            at = base;
        }
        Ok(true)
    }

    /// What a record of ours was built upon, as far as that is known.
    fn base_of<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        record: RecordId,
    ) -> Result<Option<RecordId>, StorageError> {
        if let Some(base) = self.past.built_upon.get(&record) {
            return Ok(Some(*base));
        }
        let Some(position) = core.state.log().place_of(record) else { return Ok(None) };
        Ok(core.state.log_entry_left(position)?.and_then(|entry| base_in(&entry.record.op)))
    }

    /// A record of ours leaves the log. Until the move is forgotten the parent may say for the first time what became of it.
    pub(crate) fn note_built_upon<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        position: LogPosition,
    ) -> Result<(), StorageError> {
        if self.past.kept.moved_at == CommitNumber::ZERO {
            self.past.built_upon.clear();
            return Ok(());
        }
        let Some(entry) = core.state.log_entry_left(position)? else { return Ok(()) };
        if let Some(base) = base_in(&entry.record.op) {
            self.past.built_upon.insert(entry.record.id, base);
        }
        if self.past.built_upon.len() > BUILT_UPON_MAX {
            self.past.built_upon.pop_first();
        }
        Ok(())
    }

    pub(crate) fn is_foreign<S: MetaStore>(&self, core: &Core<S>, record: RecordId) -> bool {
        let origin = record.origin();
        origin != core.config.origin && origin != OriginId::GENESIS && !self.was_written_again(record)
    }

    /// Whether a record of ours under a former origin is lost, or nobody has confirmed it: it was written again by another name.
    pub(crate) fn was_written_again(&self, record: RecordId) -> bool {
        let lost = self.past.kept.lost_after.get(&record.origin());
        lost.is_some_and(|(after, through)| *after < record.sequence() && record.sequence() <= *through)
    }
}

impl<S: MetaStore> Replica<S> {
    /// Our own records of an origin after the first of these and up to the second are lost, or nobody has confirmed them: they were
    /// written again under another.
    pub(crate) fn note_lost_after(&mut self, origin: OriginId, (after, through): (u64, u64)) {
        self.uplink.past.kept.edit().lost_after.insert(origin, (after, through));
        self.contents.call_looks_off(&self.uplink);
        let mut key = LOST_AFTER.to_vec();
        key.extend(origin.raw().to_be_bytes());
        self.core.state.put_row(key, pack(&(after, through)));
    }

    /// Takes images out of a cut that would undo what we have seen of others.
    pub(crate) fn keep_what_was_seen(&mut self, cut: &mut Vec<KeyImage>) -> Result<(), StorageError> {
        if self.uplink.past.kept.moved_at == CommitNumber::ZERO {
            return Ok(());
        }
        let mut kept = Vec::with_capacity(cut.len());
        for pair in cut.drain(..) {
            if self.may_undo(&pair)? {
                self.doubt(pair);
            } else {
                kept.push(pair);
            }
        }
        *cut = kept;
        Ok(())
    }

    /// What we have seen of others that an answer would undo, and that its question did not name. (An answer to a question
    /// that named it knows of it: what that says came after.)
    pub(crate) fn unheard_in(&mut self, images: &[KeyImage], named: &Seen) -> Result<Seen, StorageError> {
        let mut seen = Seen::default();
        if self.uplink.past.kept.moved_at == CommitNumber::ZERO {
            return Ok(seen);
        }
        for pair in images {
            if self.may_undo(pair)? {
                self.uplink.note_unvouched(&mut self.core, pair, &mut seen)?;
            }
        }
        Ok(seen.beyond(named))
    }

    /// What stays is not vouched for, and neither is a listing in which it stands.
    fn doubt(&mut self, refused: KeyImage) {
        let Some(watches) = self.watches.kept_mut() else { return };
        if let Key::Entry(parent, _) = refused.key {
            watches.doubt_listing(&mut self.core, parent);
        }
        if let Some(Image::Inode(inode)) = refused.image {
            inode.places.iter().for_each(|place| watches.doubt_listing(&mut self.core, place.parent));
        }
    }

    /// Whether the parent said that a name stands for nothing, and will tell when that changes.
    fn is_free(&self, parent: FileId, name: &Name) -> bool {
        self.watches.kept().is_some_and(|kept| kept.is_free(parent, name))
    }

    fn may_undo(&mut self, pair: &KeyImage) -> Result<bool, StorageError> {
        match (&pair.key, &pair.image) {
            (Key::Inode(file), Some(Image::Inode(new))) => match self.uplink.unvouched_inode(&mut self.core, *file)? {
                Some(old) => self.uplink.may_undo_inode(&mut self.core, &old, new),
                None => Ok(false),
            },
            (Key::Entry(parent, name), Some(Image::Entry(new))) => {
                self.may_undo_entry(*parent, name, Some((new.version, new.file)))
            }
            (Key::Entry(parent, name), _) => self.may_undo_entry(*parent, name, None),
            // A record of ours was about a file that is not known there: that is a conflict, and reported.
            (Key::Inode(_) | Key::Conflict(_) | Key::Origin(_), _) => Ok(false),
        }
    }

    fn may_undo_entry(
        &mut self,
        parent: FileId,
        name: &Name,
        new: Option<(RecordId, FileId)>,
    ) -> Result<bool, StorageError> {
        if let Some(old) = self.uplink.unvouched_entry(&mut self.core, parent, name)? {
            return Ok(self.uplink.is_unheard(&self.core, old, new.map_or(RecordId::GENESIS, |(version, _)| version)));
        }
        // The name is free as far as we know. The file may have been taken away from it.
        let Some((_, file)) = new.filter(|_| !self.is_free(parent, name)) else { return Ok(false) };
        let Some(inode) = self.uplink.unvouched_inode(&mut self.core, file)? else { return Ok(false) };
        let place = Place { parent, name: name.clone() };
        let is_there = wayfs_tree::has_name(&self.core.state.tx(), file, &inode, &place)?;
        let key = Key::Entry(parent, name.clone());
        if is_there || self.core.state.tx().numbered(&key)?.is_some() || self.core.state.shadow(&key)?.is_some() {
            return Ok(false);
        }
        let mut is_elsewhere = inode.is_removed();
        for place in &inode.places {
            is_elsewhere |= self.uplink.is_put_by_others(&mut self.core, place.parent, &place.name)?;
        }
        Ok(is_elsewhere)
    }
}

/// What a record was built upon, that makes one version of another.
fn base_in(op: &Op) -> Option<RecordId> {
    match op {
        Op::Store { base, .. } => Some(*base),
        Op::SetAttr { base, .. } => Some(base.0),
        Op::Create { .. }
        | Op::Mkdir { .. }
        | Op::Link { .. }
        | Op::Unlink { .. }
        | Op::Rmdir { .. }
        | Op::Rename { .. }
        | Op::SetXattr { .. }
        | Op::Resolve { .. }
        | Op::Touch
        | Op::Skip { .. }
        | Op::Lost { .. }
        | Op::Exchange { .. } => None,
    }
}
