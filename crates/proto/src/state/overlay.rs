//! What one input changes, before it is committed.
//!
//! Every input is worked out in an overlay over the store. Only when all of it
//! is known is it committed as one batch; if the store has no room, the overlay
//! is dropped and nothing happened.

use crate::members::usage_sums::UsageChange;
use crate::replica::composition::Below;
use crate::state::names::{index, stored_names};
use crate::state::tables::{self, Numbered, entries_from, entries_until, image_key, table};
use crate::state::view_cache::{ViewCache, Written};
use std::collections::{BTreeMap, BTreeSet};
use wayfs_tree::{NameCursor, View, ViewMut};
use wayfs_types::{Batch, CommitNumber, FileId, Image, Key, MetaStore, Name, Pairs, Place, StorageError};

/// A key of the view as it was before the input and as it is after.
#[derive(Debug, Clone)]
pub(crate) struct Slot {
    pub(crate) old: Option<Numbered>,
    pub(crate) new: Option<Image>,
}

/// A key that an input changed.
#[derive(Debug, Clone)]
pub(crate) struct Changed {
    pub(crate) key: Key,
    pub(crate) old: Option<Image>,
    pub(crate) new: Option<Image>,
    pub(crate) number: CommitNumber,
}

/// Uncommitted changes.
#[derive(Debug, Default)]
pub(crate) struct Overlay {
    slots: BTreeMap<Key, Slot>,
    raw: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    /// Keys that get a new number even if their image is the same: the parent has just vouched for them.
    renewed: BTreeSet<Key>,
    /// Keys of a client that come back from their shadow rows, with the number at which the parent vouched for them.
    pinned: BTreeMap<Key, CommitNumber>,
    /// While a record is applied: what it touched, with the image before.
    touched: Option<BTreeMap<Key, Option<Image>>>,
}

impl Overlay {
    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty() && self.raw.is_empty()
    }

    pub(crate) fn put_raw(&mut self, key: Vec<u8>, value: Vec<u8>) {
        self.raw.insert(key, Some(value));
    }

    pub(crate) fn delete_raw(&mut self, key: Vec<u8>) {
        self.raw.insert(key, None);
    }

    /// The keys that are put, as they were and as they are.
    pub(crate) fn changes(&self) -> impl Iterator<Item = (&Key, Option<&Image>, Option<&Image>)> {
        self.slots.iter().map(move |(key, slot)| (key, slot.old.as_ref().map(|old| &old.image), slot.new.as_ref()))
    }

    /// Whether this input puts a key.
    pub(crate) fn is_touched(&self, key: &Key) -> bool {
        self.slots.contains_key(key)
    }

    pub(crate) fn renew(&mut self, key: Key) {
        self.renewed.insert(key);
    }

    pub(crate) fn pin(&mut self, key: Key, number: CommitNumber) {
        self.pinned.insert(key, number);
    }
}

/// The store seen through the overlay.
pub(crate) struct Tx<'a, S> {
    pub(crate) store: &'a S,
    pub(crate) views: &'a ViewCache,
    pub(crate) overlay: &'a mut Overlay,
    /// Whether the whole volume is in it.
    pub(crate) is_whole: bool,
}

impl<S: MetaStore> Tx<'_, S> {
    pub(crate) fn get_raw(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StorageError> {
        match self.overlay.raw.get(key) {
            Some(value) => Ok(value.clone()),
            None => self.store.get(key),
        }
    }

    /// Up to `limit` pairs of the store and the overlay together.
    pub(crate) fn scan_raw(&self, from: &[u8], until: &[u8], limit: usize) -> Result<Pairs, StorageError> {
        let range =
            self.overlay.raw.range::<[u8], _>((std::ops::Bound::Included(from), std::ops::Bound::Excluded(until)));
        let mut mine: BTreeMap<Vec<u8>, Option<Vec<u8>>> = range.map(|(k, v)| (k.clone(), v.clone())).collect();
        // Each overlaid key can hide at most one stored pair.
        for (key, value) in self.store.scan(from, until, limit.saturating_add(mine.len()))? {
            mine.entry(key).or_insert(Some(value));
        }
        Ok(mine.into_iter().filter_map(|(k, v)| Some((k, v?))).take(limit).collect())
    }

    /// The image of a key with the change that put it there; zero if it is of this input.
    pub(crate) fn numbered(&self, key: &Key) -> Result<Option<Numbered>, StorageError> {
        if let Some(slot) = self.overlay.slots.get(key) {
            return Ok(slot.new.clone().map(|image| Numbered { number: CommitNumber::MAX, image }));
        }
        self.views.look(self.store, key, |row| row.cloned())
    }

    /// Change at which the parent vouched for a key as it was before this input's own changes; a key of which
    /// nothing is known but that it is not there counts as vouched for now.
    pub(crate) fn vouched_at(&self, key: &Key) -> Result<CommitNumber, StorageError> {
        if let Some(number) = self.overlay.pinned.get(key) {
            return Ok(*number);
        }
        let old = match self.overlay.slots.get(key) {
            Some(slot) => slot.old.as_ref().map(|old| old.number),
            None => self.views.look(self.store, key, |row| row.map(|row| row.number))?,
        };
        Ok(old.unwrap_or(CommitNumber::MAX))
    }

    /// Starts to note what is touched.
    pub(crate) fn note_touches(&mut self) {
        self.overlay.touched = Some(BTreeMap::new());
    }

    /// What was touched since [`Tx::note_touches`], with the images before.
    pub(crate) fn take_touches(&mut self) -> BTreeMap<Key, Option<Image>> {
        self.overlay.touched.take().unwrap_or_default()
    }
}

fn least_name() -> Name {
    Name::new([1]).expect("one byte that is neither zero nor a separator")
}

impl<S: MetaStore> View for Tx<'_, S> {
    fn image(&self, key: &Key) -> Result<Option<Image>, StorageError> {
        Ok(self.numbered(key)?.map(|numbered| numbered.image))
    }

    fn first_entry(&self, directory: FileId) -> Result<Option<Name>, StorageError> {
        let least = least_name();
        let overlaid = self.overlay.slots.range(Key::Entry(directory, least)..).map_while(|(key, slot)| match key {
            Key::Entry(at, name) if *at == directory => Some((name, slot.new.is_some())),
            Key::Inode(_) | Key::Entry(..) | Key::Conflict(_) | Key::Origin(_) => None,
        });
        let overlaid: BTreeMap<&Name, bool> = overlaid.collect();
        let mine = overlaid.iter().find(|(_, there)| **there).map(|(name, _)| (*name).clone());
        let pairs = self.store.scan(
            &entries_from(table::VIEW, directory, None),
            &entries_until(table::VIEW, directory),
            overlaid.len() + 1,
        )?;
        for (key, _) in pairs {
            if let Key::Entry(_, name) = tables::parse_image_key(&key)?
                && !overlaid.contains_key(&name)
            {
                return Ok(Some(match mine {
                    Some(mine) => mine.min(name),
                    None => name,
                }));
            }
        }
        Ok(mine)
    }

    fn names_after(&self, file: FileId, cursor: &NameCursor, limit: usize) -> Result<Vec<Place>, StorageError> {
        let mut overlaid: BTreeMap<Place, bool> = BTreeMap::new();
        for (key, slot) in self.overlay.slots.range(Key::Entry(FileId::ROOT, least_name())..) {
            let Key::Entry(parent, name) = key else { break };
            let names = |image: Option<&Image>| matches!(image, Some(Image::Entry(entry)) if entry.file == file);
            let is_there = names(slot.new.as_ref());
            if is_there || names(slot.old.as_ref().map(|old| &old.image)) {
                overlaid.insert(Place { parent: *parent, name: name.clone() }, is_there);
            }
        }
        // Each overlaid name can hide at most one stored one.
        let stored = stored_names(self.store, file, cursor, limit.saturating_add(overlaid.len()))?;
        for place in stored {
            overlaid.entry(place).or_insert(true);
        }
        let there = overlaid.into_iter().filter(|(place, is_there)| *is_there && cursor.takes(place));
        Ok(there.take(limit).map(|(place, _)| place).collect())
    }

    fn is_whole(&self) -> bool {
        self.is_whole
    }
}

impl<S: MetaStore> ViewMut for Tx<'_, S> {
    fn put(&mut self, key: Key, image: Option<Image>) -> Result<(), StorageError> {
        let old = match self.overlay.slots.get(&key) {
            Some(slot) => slot.old.clone(),
            None => self.numbered(&key)?,
        };
        if self.overlay.touched.as_ref().is_some_and(|touched| !touched.contains_key(&key)) {
            let before = self.image(&key)?;
            if let Some(touched) = self.overlay.touched.as_mut() {
                touched.insert(key.clone(), before);
            }
        }
        self.overlay.slots.insert(key, Slot { old, new: image });
        Ok(())
    }
}

/// Which indexes a replica keeps of its changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Indexing {
    /// It has children: number to key, and what is gone.
    ForChildren,
    /// It has none.
    Nothing,
}

impl Indexing {
    /// What is needed for who may be below.
    pub(super) const fn of(below: Below) -> Self {
        match below {
            Below::Children => Self::ForChildren,
            Below::Nobody => Self::Nothing,
        }
    }
}

impl UsageChange {
    /// That of what is not committed yet.
    pub(crate) fn of(overlay: &Overlay) -> Self {
        let mut change = Self::default();
        for (key, old, new) in overlay.changes() {
            change.count(key, old, -1);
            change.count(key, new, 1);
        }
        change
    }
}

/// An overlay turned into a batch.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) batch: Batch,
    pub(crate) changed: Vec<Changed>,
    /// The rows of the view among what the batch writes.
    pub(crate) rows: Vec<Written>,
    pub(crate) last: CommitNumber,
}

/// Numbers the changes and writes them down as a batch.
///
/// At a client the number of a key tells when the parent vouched for it last: our own changes on top keep it,
/// unless they made the key.
pub(crate) fn finish<S: MetaStore>(
    store: &S,
    overlay: Overlay,
    last: CommitNumber,
    indexing: Indexing,
) -> Result<Finished, StorageError> {
    let mut done = Finished { batch: Batch::default(), changed: Vec::new(), rows: Vec::new(), last };
    let usage = UsageChange::of(&overlay);
    let Overlay { slots, raw, renewed, pinned, .. } = overlay;
    for (key, Slot { old, new }) in slots {
        let same = old.as_ref().map(|numbered| &numbered.image) == new.as_ref();
        let repinned = pinned.get(&key).is_some_and(|number| old.as_ref().is_none_or(|old| old.number != *number));
        if same && !repinned && !renewed.contains(&key) {
            continue;
        }
        done.last = done.last.next();
        let number = match (indexing, pinned.get(&key), &old) {
            (Indexing::ForChildren, ..) => done.last,
            (Indexing::Nothing, ..) if renewed.contains(&key) => done.last,
            (Indexing::Nothing, Some(number), _) => *number,
            (Indexing::Nothing, None, Some(old)) => old.number,
            (Indexing::Nothing, None, None) => done.last,
        };
        let len = write_view(store, &mut done.batch, &key, (&old, &new), number, indexing)?;
        let row = new.clone().map(|image| Numbered { number, image });
        done.rows.push(Written { key: key.clone(), row, len });
        if !same {
            let old = old.map(|numbered| numbered.image);
            index(&mut done.batch, &key, old.as_ref(), new.as_ref());
            done.changed.push(Changed { key, old, new, number: done.last });
        }
    }
    done.batch.changes.extend(raw);
    if indexing == Indexing::ForChildren {
        usage.write(store, &mut done.batch)?;
    }
    Ok(done)
}

/// Writes a row, and what indexes say of it. Answers how many bytes the row has.
fn write_view<S: MetaStore>(
    store: &S,
    batch: &mut Batch,
    key: &Key,
    (old, new): (&Option<Numbered>, &Option<Image>),
    number: CommitNumber,
    indexing: Indexing,
) -> Result<usize, StorageError> {
    let view_key = image_key(table::VIEW, key);
    let gone_key = image_key(table::GONE, key);
    if indexing == Indexing::ForChildren {
        let before = match old {
            Some(old) => Some(old.number),
            None => store.get(&gone_key)?.map(|bytes| tables::unpack::<CommitNumber>(&bytes)).transpose()?,
        };
        if let Some(before) = before {
            batch.delete(tables::change_key(table::CHANGE, before));
            batch.delete(tables::change_key(table::TOMBSTONE, before));
            if old.is_none() && new.is_some() {
                batch.delete(gone_key.clone());
            }
        }
        batch.put(tables::change_key(table::CHANGE, number), view_key[1..].to_vec());
        let marker = matches!(new, Some(Image::Inode(inode)) if inode.is_removed());
        if new.is_none() || marker {
            batch.put(tables::change_key(table::TOMBSTONE, number), view_key[1..].to_vec());
        }
        if new.is_none() {
            batch.put(gone_key, tables::pack(&number));
        }
    }
    match new {
        Some(image) => {
            let row = tables::pack_view(number, image);
            let len = row.len();
            batch.put(view_key, row);
            Ok(len)
        }
        None => {
            batch.delete(view_key);
            Ok(0)
        }
    }
}
