//! What happens when the parent's images arrive.
//!
//! ```text
//!   confirmed state ──(our tentative records)──▶ view
//!         │ images                                │
//!         ▼                                       ▼
//!   confirmed' ──(those not yet confirmed)──▶ view'
//! ```
//!
//! The images of one cut come together with the marks of our own records that
//! they include. Nearly always they are an **echo**: the parent did with our
//! records what we did. Then each key that those touched looks as it did after
//! the last of them (by its hash in the log), the view is right already, and
//! what has a shadow row moves on: work in proportion to the images. Otherwise the view
//! is taken back to what the parent confirmed and the rest of the log is replayed
//! through the same rules.

use crate::replica::Replica;
use crate::replica::core::Core;
use crate::requests::watches::Watches;
use crate::state::State;
use crate::state::log::echo_hash;
use crate::state::log_entry::{Attached, Shadow};
use crate::state::position::{LogPosition, log_key};
use crate::state::tables::table::TOUCH;
use crate::state::tables::{image_key, pack, parse_image_key, table, unpack};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use wayfs_tree::View;
use wayfs_types::{CommitNumber, FileId, Image, Inode, Key, MetaStore, OriginId, Place, RecordId, StorageError};
use wayfs_wire::KeyImage;

/// A key that tentative records touched, as a new cut finds it.
pub(crate) struct TouchedKey {
    key: Key,
    /// What the parent had confirmed.
    before: Option<Image>,
    /// What it confirms now.
    after: Option<Image>,
    /// When it vouched for that; `None`: with this cut; zero: never, it is our guess.
    number: Option<CommitNumber>,
}

/// Whether a name leads to a file of which images tell that it has other names only: our record of it met another there.
fn is_elsewhere(key: &Key, view: Option<&Image>, images: &BTreeMap<Key, Option<Image>>) -> bool {
    let (Key::Entry(parent, name), Some(Image::Entry(entry))) = (key, view) else { return false };
    let Some(Some(Image::Inode(inode))) = images.get(&Key::Inode(entry.file)) else { return false };
    let is_here = |place: &Place| place.parent == *parent && place.name == *name;
    // Who was merged with its twin is found by the twin's names.
    !inode.is_crowded() && inode.merged_into.is_none() && !inode.places.iter().any(is_here)
}

/// At this number nobody vouched for a key: it is asked for before it is trusted.
const UNVOUCHED: CommitNumber = CommitNumber::ZERO;

/// A cut, sorted by what it meets.
#[derive(Default)]
pub(crate) struct Cut {
    /// Keys that nothing tentative touched.
    direct: Vec<(Key, Option<Image>)>,
    touched: Vec<TouchedKey>,
    /// Positions of the log that it confirms.
    confirmed: Vec<LogPosition>,
    /// How far each origin is confirmed.
    applied: BTreeMap<OriginId, u64>,
    /// Keys that confirmed records touched, and later ones again, of which the parent does not tell us.
    untold: Vec<Key>,
    is_echo: bool,
}

impl<S: MetaStore> Replica<S> {
    /// Takes over a cut of the parent's state.
    pub(crate) fn take_images(&mut self, images: Vec<KeyImage>) -> Result<(), StorageError> {
        let incoming: BTreeMap<Key, Option<Image>> = images.into_iter().map(|pair| (pair.key, pair.image)).collect();
        let cut = self.sort_cut(incoming)?;
        for (origin, through) in &cut.applied {
            if let Ok(record) = wayfs_types::RecordId::new(*origin, *through) {
                self.core.state.staged.confirmed.push(record);
            }
            self.core.state.staged.marks.insert(*origin);
        }
        if self.core.relays() {
            for (origin, through) in &cut.applied {
                self.release_cancelled(*origin, *through)?;
            }
            for position in &cut.confirmed {
                self.core.state.overlay.delete_raw(log_key(*position));
                self.core.state.staged.forgotten.push(*position);
            }
        }
        if cut.is_echo { self.core.advance(cut) } else { self.rebuild(cut) }
    }

    fn sort_cut(&mut self, incoming: BTreeMap<Key, Option<Image>>) -> Result<Cut, StorageError> {
        let mut cut = Cut { is_echo: true, ..Cut::default() };
        for (key, image) in &incoming {
            if let (Key::Origin(origin), Some(Image::Origin(image))) = (key, image)
                && !self.histories.is_parted(*origin)
            {
                let positions =
                    self.core.state.left_in_log(self.core.state.log.tentative_through(*origin, image.applied));
                if !positions.is_empty() {
                    cut.applied.insert(*origin, image.applied);
                    cut.confirmed.extend(positions);
                }
            }
        }
        cut.confirmed.sort_unstable();
        let first_left =
            if cut.confirmed.is_empty() { None } else { self.core.state.log.first_tentative_after(&cut.applied) };
        if let (Some(last), Some(first)) = (cut.confirmed.last(), first_left)
            && *last > first
        {
            // Confirmed out of our order (an origin that moved between stations): replay settles it.
            cut.is_echo = false;
        }
        let mut expected: BTreeMap<Key, u64> = BTreeMap::new();
        for position in cut.confirmed.clone() {
            expected.extend(self.core.state.log_entry(position)?.touched);
        }
        self.compare(incoming, &expected, &mut cut)?;
        for (origin, goes) in self.histories.parted() {
            // Of these nothing will be confirmed any more: the view goes back behind all of them.
            cut.is_echo = false;
            let Some(last) = self.core.state.log.tentative_of(origin).last().map(|(_, item)| item.id.sequence()) else {
                continue;
            };
            let through = goes.through(last);
            cut.confirmed.extend(self.core.state.log.tentative_through(origin, through));
            cut.applied.insert(origin, through);
        }
        if cut.is_echo && self.core.state.log.is_structural() && self.core.state.is_hazard(&cut.direct)? {
            cut.is_echo = false;
        }
        Ok(cut)
    }

    /// Finds for each key what the parent has now, and whether that is what we expected.
    fn compare(
        &mut self,
        mut incoming: BTreeMap<Key, Option<Image>>,
        expected: &BTreeMap<Key, u64>,
        cut: &mut Cut,
    ) -> Result<(), StorageError> {
        for (key, hash) in expected {
            if !incoming.contains_key(key)
                && let Some(shadow) = self.core.state.shadow(key)?
            {
                self.compare_unnamed(key, *hash, shadow, (&incoming, cut))?;
            }
        }
        while let Some((key, after)) = incoming.pop_first() {
            let Some(Shadow { image: before, .. }) = self.core.state.shadow(&key)? else {
                cut.direct.push((key, after));
                continue;
            };
            let wanted = expected.get(&key).copied().unwrap_or_else(|| echo_hash(before.as_ref()));
            cut.is_echo &= wanted == echo_hash(after.as_ref());
            cut.touched.push(TouchedKey { key, before, after, number: None });
        }
        Ok(())
    }

    /// A key that confirmed records touched and that the cut does not name. If this parent vouched for what was there
    /// before and would tell of a change, it left it as it was. If not (we have moved: what we know is of another
    /// parent, or our records came to this one by another way), silence means nothing, least of all that what we
    /// made is not there: what our own records made of it stands as a guess.
    fn compare_unnamed(
        &mut self,
        key: &Key,
        hash: u64,
        shadow: Shadow,
        (incoming, cut): (&BTreeMap<Key, Option<Image>>, &mut Cut),
    ) -> Result<(), StorageError> {
        let key = key.clone();
        let is_told = self.is_told(&key, &shadow);
        let Shadow { number, image: before } = shadow;
        if is_told {
            self.histories.note_unnamed(&self.core, &key, number);
            cut.is_echo &= hash == echo_hash(before.as_ref());
            let after = before.clone();
            cut.touched.push(TouchedKey { key, before, after, number: Some(number) });
        } else if self.core.state.last_touch(&key)? <= cut.confirmed.last().copied().unwrap_or_default() {
            let view = self.core.state.tx().image(&key)?;
            let is_contradicted = is_elsewhere(&key, view.as_ref(), incoming);
            cut.is_echo &= !is_contradicted;
            let after = view.filter(|_| !is_contradicted);
            cut.touched.push(TouchedKey { key, before, after, number: Some(UNVOUCHED) });
        } else {
            cut.is_echo = false;
            cut.untold.push(key);
        }
        Ok(())
    }

    /// Whether the parent vouched for what it confirmed of a key, and names the key in a cut when that changes: the
    /// other side is `children/interest.rs`.
    fn is_told(&self, key: &Key, confirmed: &Shadow) -> bool {
        // Nobody vouched for what nobody knew of; the highest number stands for that.
        let number = Some(confirmed.number).filter(|number| *number < CommitNumber::MAX);
        let vouched = |since: Option<CommitNumber>| number.zip(since).is_some_and(|(number, since)| number >= since);
        let Watches::Kept(watches) = &self.watches else { return true };
        let watched = |file| vouched(watches.since(file));
        let seen_from = |image: &Option<Image>| match image {
            Some(Image::Inode(inode)) => crate::state::names::directories_of(inode).any(watched),
            _ => false,
        };
        match key {
            Key::Entry(parent, _) => watched(*parent) || watches.is_fresh(*parent),
            Key::Inode(file) if watched(*file) || seen_from(&confirmed.image) => true,
            Key::Inode(file) => {
                let is_maker = file.maker().origin() == self.core.config.origin;
                is_maker && vouched(self.core.vouched_since())
            }
            Key::Conflict(_) | Key::Origin(_) => true,
        }
    }

    /// Back to what the parent confirmed, then the rest of the log through the rules.
    pub(crate) fn rebuild(&mut self, mut cut: Cut) -> Result<(), StorageError> {
        self.core.state.guess_untold(&mut cut)?;
        let mut confirmed: BTreeMap<Key, (Option<Image>, Option<CommitNumber>)> =
            cut.touched.into_iter().map(|touched| (touched.key, (touched.after, touched.number))).collect();
        let mut from = vec![table::SHADOW];
        loop {
            let pairs = self.core.state.tx().scan_raw(&from, &[table::SHADOW + 1], crate::state::tables::PAGE)?;
            let Some((last, _)) = pairs.last() else { break };
            from.clone_from(last);
            from.push(0);
            for (key, value) in pairs {
                let parsed = parse_image_key(&key)?;
                let vouched = self.core.state.counters.change.next();
                let Shadow { number, image } = match confirmed.remove(&parsed) {
                    Some((image, number)) => Shadow { number: number.unwrap_or(vouched), image },
                    None => {
                        let shadow: Shadow = unpack(&value)?;
                        self.histories.note_unnamed(&self.core, &parsed, shadow.number);
                        shadow
                    }
                };
                self.core.state.overlay.delete_raw(image_key(TOUCH, &parsed));
                self.core.state.overlay.delete_raw(key);
                if image.is_some() {
                    self.core.state.overlay.pin(parsed.clone(), number);
                }
                self.core.state.put_image(parsed, image)?;
            }
        }
        let vouched = self.core.state.counters.change.next();
        for (key, image) in cut.direct {
            // A record that is replayed notes in the shadow row when the parent vouched for what it touches: now.
            if image.is_some() {
                self.core.state.overlay.pin(key.clone(), vouched);
            }
            self.core.state.put_image(key, image)?;
        }
        let left: Vec<LogPosition> = self
            .core
            .state
            .log
            .from(LogPosition::START)
            .filter(|(_, item)| {
                let through = cut.applied.get(&item.id.origin()).copied().unwrap_or(0);
                item.tentative && item.id.sequence() > through
            })
            .map(|(position, _)| position)
            .collect();
        let left = self.core.state.left_in_log(left);
        self.core.state.replays += u64::from(!left.is_empty());
        tracing::debug!(records = left.len(), "replaying tentative records");
        for position in left {
            let entry = self.core.state.log_entry(position)?;
            let attached = Attached { held: entry.held, seal: entry.seal };
            let applied = self.core.state.apply_tentative(position, entry.record, attached)?;
            self.core.state.staged.replayed.push((position, applied));
        }
        Ok(())
    }
}

impl<S: MetaStore> State<S> {
    /// The last place in the log whose record touched a key that has a shadow row.
    /// Where the log has the last record that touched a key and is not confirmed; the start: none.
    pub(crate) fn last_touch(&mut self, key: &Key) -> Result<LogPosition, StorageError> {
        self.tx().get_raw(&image_key(TOUCH, key))?.map_or(Ok(LogPosition::START), |bytes| unpack(&bytes))
    }

    /// What the confirmed records make of the untold keys upon what the parent had confirmed before.
    fn guess_untold(&mut self, cut: &mut Cut) -> Result<(), StorageError> {
        if cut.untold.is_empty() {
            return Ok(());
        }
        let mut from = vec![table::SHADOW];
        loop {
            let pairs = self.tx().scan_raw(&from, &[table::SHADOW + 1], crate::state::tables::PAGE)?;
            let Some((last, _)) = pairs.last() else { break };
            from.clone_from(last);
            from.push(0);
            for (key, value) in pairs {
                self.put_image(parse_image_key(&key)?, unpack::<Shadow>(&value)?.image)?;
            }
        }
        let met = self.put_told(cut)?;
        self.tx().note_touches();
        for position in cut.confirmed.clone() {
            let record = self.log_entry(position)?.record;
            if !met.contains(&record.id) {
                wayfs_tree::apply(&mut self.tx(), &record)?;
            }
        }
        let before = self.tx().take_touches();
        for key in std::mem::take(&mut cut.untold) {
            let after = self.tx().image(&key)?;
            let before = before.get(&key).cloned().flatten();
            cut.touched.push(TouchedKey { key, before, after, number: Some(UNVOUCHED) });
        }
        before.into_iter().try_for_each(|(key, image)| self.put_image(key, image))
    }

    /// Puts what the parent tells of a cut into the view, and answers which records lost a conflict there: those made
    /// nothing of the file that they were for, and what was built upon them follows to their copies. One that won made of it
    /// what it meant: it brought a removed file back, or set attributes after another. How far the parent has
    /// come with an origin is left out: the records that it confirms are yet to be applied.
    fn put_told(&mut self, cut: &Cut) -> Result<BTreeSet<RecordId>, StorageError> {
        let direct = cut.direct.iter().map(|(key, image)| (key, image));
        let touched = cut.touched.iter().map(|touched| (&touched.key, &touched.after));
        let mut met = BTreeSet::new();
        for (key, image) in direct.chain(touched) {
            if let (Key::Conflict(record), Some(Image::Conflict(conflict))) = (key, image)
                && conflict.winner != *record
            {
                met.insert(*record);
            }
            if !matches!(key, Key::Origin(_)) {
                self.put_image(key.clone(), image.clone())?;
            }
        }
        Ok(met)
    }

    /// What the parent confirmed of a key that tentative records touched.
    pub(crate) fn shadow(&mut self, key: &Key) -> Result<Option<Shadow>, StorageError> {
        self.tx().get_raw(&image_key(table::SHADOW, key))?.map(|bytes| unpack(&bytes)).transpose()
    }

    /// Whether foreign changes could clash with a directory that we moved or removed, without touching
    /// a key that we touched: directories that moved, and entries in what we removed.
    fn is_hazard(&mut self, direct: &[(Key, Option<Image>)]) -> Result<bool, StorageError> {
        for (key, image) in direct {
            match (key, image) {
                (Key::Inode(_), Some(Image::Inode(new))) if new.is_directory() => {
                    let same = match self.tx().image(key)? {
                        Some(Image::Inode(old)) => old.places == new.places,
                        _ => false,
                    };
                    if !same {
                        return Ok(true);
                    }
                }
                (Key::Entry(parent, _), Some(_))
                    if wayfs_tree::inode(&self.tx(), *parent)?.is_some_and(|inode| inode.is_removed()) =>
                {
                    return Ok(true);
                }
                _ => {}
            }
        }
        Ok(false)
    }

    /// By how many subdirectories each directory has more or less by what confirmed records of ours did: as many as there are names
    /// of directories more or less among what those touched.
    fn counted_here(&mut self, touched: &[TouchedKey]) -> Result<BTreeMap<FileId, i64>, StorageError> {
        let mut counted = BTreeMap::new();
        for TouchedKey { key, before, after, .. } in touched.iter().filter(|touched| touched.before != touched.after) {
            let Key::Entry(parent, _) = key else { continue };
            for (image, by) in [(before, -1), (after, 1)] {
                let Some(Image::Entry(entry)) = image else { continue };
                if wayfs_tree::inode(&self.tx(), entry.file)?.is_some_and(|inode| inode.is_directory()) {
                    *counted.entry(*parent).or_default() += by;
                }
            }
        }
        Ok(counted)
    }

    /// Brings what others did to a directory's times and count into a view that has our own changes on top.
    /// It is exact again when the last record that touches the directory is confirmed.
    ///
    /// A time that one of those after the position `last` sets stays, be it long past: what the parent tells of was before.
    /// Subdirectories of our own making that it tells of are `counted` in the view already.
    fn merge_directory(
        &mut self,
        key: Key,
        (before, after): (Option<Image>, Option<Image>),
        (last, counted): (LogPosition, &BTreeMap<FileId, i64>),
    ) -> Result<(), StorageError> {
        let Key::Inode(file) = key else { return Ok(()) };
        let (Some(Image::Inode(before)), Some(Image::Inode(after))) = (before, after) else { return Ok(()) };
        let Some(Image::Inode(view)) = self.tx().image(&key)? else { return Ok(()) };
        if !view.is_directory() || !after.is_directory() {
            return Ok(());
        }
        let others = i64::from(after.subdirectories)
            - i64::from(before.subdirectories)
            - counted.get(&file).copied().unwrap_or_default();
        let subdirectories = (i64::from(view.subdirectories) + others).max(0);
        let is_set = self.log.is_dated_after(file, last);
        let merged = Inode {
            mtime: if is_set { view.mtime } else { view.mtime.max(after.mtime) },
            ctime: view.ctime.max(after.ctime),
            subdirectories: u32::try_from(subdirectories).unwrap_or(u32::MAX),
            ..Arc::unwrap_or_clone(view)
        };
        self.put_image(key, Some(Image::Inode(Arc::new(merged))))
    }
}

impl<S: MetaStore> Core<S> {
    /// The echo: the view is right but for what others did elsewhere.
    fn advance(&mut self, cut: Cut) -> Result<(), StorageError> {
        let last = cut.confirmed.last().copied().unwrap_or_default();
        let counted = self.state.counted_here(&cut.touched)?;
        for (key, image) in cut.direct {
            if image.is_some() && self.state.counters.reset.is_some() {
                // What is written again in the end of a takeover notes in the shadow row when the parent vouched for what it
                // touches: now, also for what was not there before.
                self.state.overlay.pin(key.clone(), self.state.counters.change.next());
            }
            self.state.put_image(key, image)?;
        }
        for TouchedKey { key, before, after, number } in cut.touched {
            if self.state.last_touch(&key)? <= last {
                self.state.overlay.delete_raw(image_key(table::SHADOW, &key));
                self.state.overlay.delete_raw(image_key(TOUCH, &key));
                if let Some(number) = number.filter(|_| after.is_some()) {
                    self.state.overlay.pin(key.clone(), number);
                }
                self.state.put_image(key, after)?;
                continue;
            }
            if number.is_none() {
                let number = self.state.counters.change.next();
                self.state
                    .overlay
                    .put_raw(image_key(table::SHADOW, &key), pack(&Shadow { number, image: after.clone() }));
            }
            if after != before {
                self.state.merge_directory(key, (before, after), (last, &counted))?;
            }
        }
        Ok(())
    }
}
