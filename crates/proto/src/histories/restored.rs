//! A parent that was put back to an older copy: what it lost is written again by whoever still has it.
//!
//! ```text
//!   home (older copy)   ──Welcome: went back──▶ station
//!                       ──its whole state─────▶ station: what differs from what the home had said before
//!   home                ◀──records of the station's own: files made again, contents stored again
//! ```
//!
//! A station holds the whole metadata, so it finds what the home lost by comparing: files and directories that the home
//! had and does not name any more are made again; files of which it names an older version get the newer contents; names
//! that it shows again go or move to where they were, and attributes are set again. A client finds what it wrote itself and
//! still has in its cache. How it is written is in `restoring`.
//!
//! **What is older.** A station that knows the records which made something what the home shows now had seen it, so what it
//! had instead came later. What the home shows by a record that nobody had told the station of was made since: it stays, and
//! contents go beside it. **What the home has heard of** (it may be another, which took the place of the former one) is not
//! written again: what it does not show of that was removed or written over there.

use crate::api::Output;
use crate::histories::Histories;
use crate::histories::lost::{Lost, Moved, Named};
use crate::replica::Replica;
use crate::replica::core::Core;
use crate::state::tables::{KeyKind, kind_range, parse_image_key, table};
use crate::upstream::{FORMER_NAMED_MAX, Uplink};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use wayfs_types::{FileId, Image, Inode, Key, Kind, MetaStore, Op, Origin, OriginId, Place, RecordId, StorageError};
use wayfs_wire::KeyImage;

impl<S: MetaStore> Replica<S> {
    /// Says, once in a life, that a child knows more of us than we do.
    pub(crate) fn note_went_back(&mut self, child: OriginId) {
        if !std::mem::replace(&mut self.histories.lives.edit().went_back, true) {
            tracing::warn!(%child, "this store was put back to an older copy: a child knows more than it");
            self.core.state.stage_output(Output::WentBack { child });
            self.tell_who_came_before();
        }
    }

    /// Whoever came from another server before we knew, and saw there what is lost, begins anew and is told so.
    fn tell_who_came_before(&mut self) {
        for peer in self.children.peers_from_another() {
            self.disconnect(peer, crate::histories::openings::BEGIN_ANEW.to_owned());
        }
    }
}

impl Histories {
    /// What the parent, which was put back, lacks of what it had confirmed under the origins that this client had before: the last
    /// record of each that it has. What was written again before is not among it.
    pub(crate) fn lost_of_former<S: MetaStore>(
        core: &mut Core<S>,
        uplink: &Uplink,
    ) -> Result<BTreeMap<OriginId, u64>, StorageError> {
        let mut lost = BTreeMap::new();
        for origin in Self::former_origins(core, FORMER_NAMED_MAX)? {
            let has = uplink.applied_of(origin);
            let left = uplink.lost_after(origin);
            let had = left.min(core.state.confirmed_applied(origin)?);
            if has < had {
                lost.insert(origin, has);
            }
        }
        Ok(lost)
    }

    /// What the parent, that was put back, shows otherwise than it had shown it.
    pub(crate) fn find_older<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        cut: &[KeyImage],
    ) -> Result<(), StorageError> {
        if !core.state.rescues() {
            return Ok(());
        }
        for pair in cut {
            match (&pair.key, &pair.image) {
                (Key::Inode(file), Some(Image::Inode(now))) if *file != FileId::ROOT => {
                    match Self::confirmed_image(core, &pair.key)? {
                        Some(Image::Inode(before)) => self.compare_with_before(core, *file, now, before)?,
                        // Even the trace of its removal is gone.
                        _ if Self::was_known(core, file.maker())?
                            && Self::was_known(core, now.version)?
                            && !now.is_removed() =>
                        {
                            let stale = now.is_crowded().then(Vec::new);
                            let moved = Moved { to: Vec::new(), stale, by: Vec::new(), user: now.uid };
                            self.fork.lost.add_moved(*file, moved);
                        }
                        _ => {}
                    }
                }
                (Key::Entry(parent, name), Some(Image::Entry(entry))) => {
                    let was_known = Self::was_known(core, entry.version)?;
                    if !was_known {
                        self.fork.lost.add_placed_since(entry.file);
                    }
                    self.note_name(
                        core,
                        &Place { parent: *parent, name: name.clone() },
                        Some(Named { file: entry.file, was_known }),
                    )?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// What the parent shows under a name. If that is another file than before, or
    /// none, it is noted: crowded files do not say themselves which names they lost.
    pub(crate) fn note_name<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        place: &Place,
        now: Option<Named>,
    ) -> Result<(), StorageError> {
        let before = match Self::confirmed_image(core, &Key::Entry(place.parent, place.name.clone()))? {
            Some(Image::Entry(entry)) => Some(entry),
            _ => None,
        };
        if before.map(|entry| entry.file) == now.map(|now| now.file) {
            return Ok(());
        }
        if let Some(before) = before {
            let renamed = self.fork.lost.names.entry(before.file).or_default();
            renamed.lost.push((place.clone(), before.version));
        }
        // What was put there since stays.
        if let Some(Named { file: now, was_known: true }) = now {
            self.fork.lost.names.entry(now).or_default().again.push(place.clone());
        }
        Ok(())
    }

    fn compare_with_before<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        file: FileId,
        now: &Inode,
        before: Arc<Inode>,
    ) -> Result<(), StorageError> {
        if before.merged_into.is_some() || now.merged_into.is_some() || before.kind != now.kind {
            return Ok(());
        }
        let (knew_version, knew_attributes) =
            (Self::was_known(core, now.version)?, Self::was_known(core, now.attr_version.0)?);
        let is_moved = before.places != now.places || before.unlisted != now.unlisted;
        if is_moved && !now.is_removed() && (knew_version || !before.is_removed()) {
            let moved = Self::moved(core, now, &before)?;
            self.fork.lost.add_moved(file, moved);
        }
        if before.is_removed() {
            return Ok(());
        }
        let is_changed = before.attr_version != now.attr_version || before.xattrs != now.xattrs;
        if is_changed && knew_attributes && !now.is_removed() {
            self.fork.lost.add_changed(file, now.attr_version, before.clone());
        }
        if before.kind == Kind::File && before.content != now.content {
            // A version that we never heard of was made since: then ours goes beside it.
            // So is what was a copy beside this file here, and is its content there: the parent got them in another order.
            let had_seen = knew_version && !now.is_removed() && !Self::was_copy(core, file, now.version)?;
            let upon = if had_seen { now.version } else { before.version };
            self.fork.lost.add_older(file, upon, before);
        }
        Ok(())
    }

    /// A key that the parent, that was put back, does not name any more.
    pub(crate) fn find_gone<S: MetaStore>(&mut self, core: &mut Core<S>, key: &Key) -> Result<(), StorageError> {
        if core.state.rescues()
            && let Key::Inode(file) = key
            && let Some(inode) = wayfs_tree::inode(&core.state.tx(), *file)?
        {
            let names = wayfs_tree::names_of(&core.state.tx(), *file, &inode)?;
            self.fork.lost.add_gone(*file, inode, names);
        }
        if core.state.rescues()
            && let Key::Entry(parent, name) = key
        {
            self.note_name(core, &Place { parent: *parent, name: name.clone() }, None)?;
        }
        Ok(())
    }

    /// What the parent had confirmed of a key.
    pub(crate) fn confirmed_image<S: MetaStore>(core: &mut Core<S>, key: &Key) -> Result<Option<Image>, StorageError> {
        match core.state.shadow(key)? {
            Some(shadow) => Ok(shadow.image),
            None => wayfs_tree::View::image(&core.state.tx(), key),
        }
    }

    /// Whether the parent had told us of a record before: not if its number lies in a gap that another copy of its writer's store left.
    fn was_known<S: MetaStore>(core: &mut Core<S>, record: RecordId) -> Result<bool, StorageError> {
        let origin = record.origin();
        if origin == OriginId::GENESIS {
            return Ok(true);
        }
        Ok(Self::confirmed_origin(core, origin)?.is_some_and(|image| image.has(record.sequence())))
    }

    /// Whether what was stored into a file stands in a file that it made, and as which it may have been written over: the parent had not
    /// got that file, or shows a conflict. What is known of the former is older then.
    fn is_file_of_its_own<S: MetaStore>(
        core: &mut Core<S>,
        file: FileId,
        version: RecordId,
    ) -> Result<bool, StorageError> {
        let own = FileId::made_by(version);
        Ok(own != file && wayfs_tree::inode(&core.state.tx(), own)?.is_some_and(|inode| inode.merged_into.is_none()))
    }

    /// Whether what was stored into a file became a copy beside it, as the parent had told it.
    fn was_copy<S: MetaStore>(core: &mut Core<S>, file: FileId, version: RecordId) -> Result<bool, StorageError> {
        let copy = FileId::made_by(version);
        Ok(copy != file && Self::confirmed_image(core, &Key::Inode(copy))?.is_some())
    }

    /// Of the files that went without a trace, those that the parent shows as copies under a report: of the record that made such a
    /// one it may have become a copy there only, since the parent got the records in another order than we.
    fn copies_there<S: MetaStore>(core: &mut Core<S>, lost: &Lost) -> Result<BTreeSet<FileId>, StorageError> {
        let traceless = lost.moved.iter().filter(|(_, moved)| moved.is_traceless()).map(|(file, _)| *file);
        let mut copies = BTreeSet::new();
        for file in traceless {
            if wayfs_tree::View::image(&core.state.tx(), &Key::Conflict(file.maker()))?.is_some() {
                copies.insert(file);
            }
        }
        Ok(copies)
    }

    fn moved<S: MetaStore>(core: &mut Core<S>, now: &Inode, before: &Inode) -> Result<Moved, StorageError> {
        let mut by = Vec::new();
        if before.is_removed() {
            by.push(before.attr_version.0);
        }
        if before.is_crowded() || now.is_crowded() {
            return Ok(Moved { to: Vec::new(), stale: Some(Vec::new()), by, user: before.uid });
        }
        for place in before.places.iter().filter(|place| !now.places.contains(place)) {
            if let Some(Image::Entry(entry)) =
                Self::confirmed_image(core, &Key::Entry(place.parent, place.name.clone()))?
            {
                by.push(entry.version);
            }
        }
        Ok(Moved { to: before.places.clone(), stale: None, by, user: before.uid })
    }

    /// Without what the parent has heard of: what it does not name of that any more was removed, and what it has otherwise
    /// was written over, by somebody of whom we had not heard.
    pub(crate) fn without_known<S: MetaStore>(core: &mut Core<S>, mut lost: Lost) -> Result<Lost, StorageError> {
        let given = Self::settle_names(core, &mut lost)?;
        let made = lost.gone.keys().map(|file| file.maker());
        let others =
            lost.older.values().map(|(_, inode)| &**inode).chain(lost.changed.values().map(|(_, inode)| &**inode));
        let stored = lost.gone.values().chain(others).flat_map(|inode| [inode.version, inode.attr_version.0]);
        let moved = lost.moved.values().flat_map(|moved| moved.by.iter().copied());
        let moved = moved.chain(given.values().flatten().map(|(_, record)| *record));
        let mut known: BTreeMap<OriginId, Option<Arc<Origin>>> = BTreeMap::new();
        for record in made.chain(stored).chain(moved).collect::<BTreeSet<RecordId>>() {
            if let Entry::Vacant(unknown) = known.entry(record.origin()) {
                unknown.insert(Self::confirmed_origin(core, record.origin())?);
            }
        }
        let has = |record: RecordId| {
            let image = known.get(&record.origin()).and_then(Option::as_ref);
            record.origin() == OriginId::GENESIS || image.is_some_and(|image| image.has(record.sequence()))
        };
        // The record that made it may have become an edit there, and a copy beside the file here only: what was stored into the copy
        // since is lost all the same.
        lost.gone.retain(|file, inode| !has(file.maker()) || (inode.kind == Kind::File && !has(inode.version)));
        lost.older.retain(|_, (_, inode)| !has(inode.version));
        lost.changed.retain(|_, (_, inode)| !has(inode.attr_version.0));
        let placed_since = std::mem::take(&mut lost.placed_since);
        let copies = Self::copies_there(core, &lost)?;
        for (file, names) in given {
            let Some(moved) = lost.moved.get_mut(&file) else { continue };
            moved.to = names.into_iter().filter(|(_, record)| !has(*record)).map(|(place, _)| place).collect();
        }
        lost.moved.retain(|file, moved| {
            // Who gives a crowded file one more name says nothing of the others.
            let was_placed = moved.stale.is_none() && placed_since.contains(file);
            !was_placed && !copies.contains(file) && !moved.by.iter().any(|record| has(*record))
        });
        Ok(lost)
    }

    /// Sorts what was noted of names to the crowded files among what is lost. Answers which names these had and by which records.
    fn settle_names<S: MetaStore>(
        core: &mut Core<S>,
        lost: &mut Lost,
    ) -> Result<BTreeMap<FileId, Vec<(Place, RecordId)>>, StorageError> {
        let mut given = BTreeMap::new();
        for (file, names) in std::mem::take(&mut lost.names) {
            if let Some(gone) = lost.gone.get_mut(&file) {
                let known: BTreeSet<Place> = std::mem::take(&mut gone.places).into_iter().collect();
                gone.places = known.into_iter().chain(names.lost.into_iter().map(|(place, _)| place)).collect();
                gone.places.sort_unstable();
                gone.places.dedup();
                continue;
            }
            if let Entry::Vacant(vacant) = lost.moved.entry(file)
                && let Some(inode) = wayfs_tree::inode(&core.state.tx(), file)?.filter(|inode| inode.is_crowded())
            {
                vacant.insert(Moved { to: Vec::new(), stale: Some(Vec::new()), by: Vec::new(), user: inode.uid });
            }
            if let Some(stale) = lost.moved.get_mut(&file).and_then(|moved| moved.stale.as_mut()) {
                *stale = names.again;
                given.insert(file, names.lost);
            }
        }
        Ok(given)
    }

    /// What a client made, stored or removed itself under its origins after these records, as far as its cache knows.
    pub(crate) fn find_own_lost<S: MetaStore>(
        core: &mut Core<S>,
        after: &BTreeMap<OriginId, u64>,
    ) -> Result<Lost, StorageError> {
        let is_lost = |record: RecordId| after.get(&record.origin()).is_some_and(|after| record.sequence() > *after);
        if after.is_empty() {
            return Ok(Lost::default());
        }
        let mut files = Vec::new();
        let (from, until) = kind_range(table::VIEW, KeyKind::Inode);
        core.state.each(&from, &until, |key, _| {
            if let Key::Inode(file) = parse_image_key(key)? {
                files.push(file);
            }
            Ok(())
        })?;
        let mut lost = Lost::default();
        for file in files {
            let Some(inode) = wayfs_tree::inode(&core.state.tx(), file)? else { continue };
            if is_lost(file.maker()) {
                let names = wayfs_tree::names_of(&core.state.tx(), file, &inode)?;
                lost.add_gone(file, inode, names);
            } else if let Some((op, user)) = removal_of(file, &inode).filter(|_| is_lost(inode.attr_version.0)) {
                lost.removed.insert(inode.attr_version.0, (op, user));
            } else if inode.kind == Kind::File
                && !inode.is_removed()
                && is_lost(inode.version)
                && !Self::is_file_of_its_own(core, file, inode.version)?
            {
                lost.add_older(file, inode.version, inode);
            }
        }
        Ok(lost)
    }
}

/// How the last name of a file was taken away, if its marker tells.
fn removal_of(file: FileId, marker: &Inode) -> Option<(Op, u32)> {
    let Place { parent, name } = marker.removed_from.clone()?;
    let op = match marker.kind {
        Kind::Directory => Op::Rmdir { parent, name, file },
        // Who had removed what he had written himself had seen all of his own before: whatever of that the parent shows now.
        Kind::File | Kind::Symlink(_) | Kind::Fifo | Kind::Socket | Kind::CharDevice(_) | Kind::BlockDevice(_) => {
            let is_his = marker.version.origin() == marker.attr_version.0.origin();
            let version = if is_his { marker.attr_version.0 } else { marker.version };
            Op::Unlink { parent, name, file, version }
        }
    };
    Some((op, marker.uid))
}
