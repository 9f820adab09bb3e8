//! What was written over, at a home that was put back to before it was written.
//!
//! A version that others wrote over stays with the station that made it safe as long as the later one's bytes are at no server: if these
//! die with their writer, it is what the file's users have left (`contents/previous.rs`). A home that was put back has forgotten that it is
//! waiting for either, and what a station finds to write again is what its view shows: the later version. So the station writes again
//! what it keeps, too, and then the later version upon that:
//!
//! ```text
//!   the copy's content ◀── what the station shows (nowhere) ◀── what it had kept ◀── what it shows, again
//! ```
//!
//! The home keeps then what every missing version took the place of, as ever, and shows the newest that somebody has. A station keeps
//! whole small contents for that as the home does, and knows of large ones by what it owes.

use crate::contents::owed::Owed;
use crate::contents::replaced::Previous;
use crate::histories::Histories;
use crate::histories::lost::Lost;
use crate::replica::Replica;
use crate::replica::core::Core;
use crate::state::tables::table::PREVIOUS;
use crate::state::tables::{parse_record_key, table, unpack};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use wayfs_tree::ALIAS_CHAIN_MAX;
use wayfs_types::{Content, FileId, Inode, MetaStore, Op, Origin, OriginId, RecordId, StorageError, WallTime};

/// Contents of one file that a later version took the place of, and that the home has forgotten, in the order in which they came as far
/// as that is known.
#[derive(Debug)]
pub(crate) struct WrittenOver {
    /// The later version, before anything was written again.
    shown: Shown,
    contents: Vec<Kept>,
}

/// What a file is to show again.
#[derive(Debug)]
struct Shown {
    version: RecordId,
    content: Content,
    mtime: WallTime,
}

impl Shown {
    fn of(inode: &Inode) -> Self {
        Self { version: inode.version, content: inode.content.clone(), mtime: inode.mtime }
    }
}

#[derive(Debug)]
struct Kept {
    content: Content,
    mtime: WallTime,
    /// Under which name it is owed.
    owed_as: Option<RecordId>,
}

/// What the home has of each origin, as far as that was looked for; `None`: it does not know it.
#[derive(Debug, Default)]
pub(crate) struct Confirmed(BTreeMap<OriginId, Option<Arc<Origin>>>);

impl<S: MetaStore> Replica<S> {
    /// Writes again what was written over, and then upon it what is shown. Answers how many records that took.
    pub(crate) fn write_over_again(&mut self, found: BTreeMap<FileId, WrittenOver>) -> Result<u64, StorageError> {
        let mut count = 0;
        for (file, WrittenOver { shown, contents }) in found {
            let Some((file, now)) = self.histories.file_that_shows(&mut self.core, file, &shown)? else { continue };
            let mut upon = now.version;
            for Kept { content, mtime, owed_as } in contents {
                count += self.write_op(Op::Store { file, base: upon, content, mtime }, now.uid, owed_as)?;
                upon = Histories::last_written(&self.core)?;
            }
            let op = Op::Store { file, base: upon, content: shown.content, mtime: shown.mtime };
            count += self.write_op(op, now.uid, Some(shown.version))?;
        }
        Ok(count)
    }
}

impl Histories {
    /// The file in which something is shown again: itself, what it was made again as, or what was made of its last version.
    fn file_that_shows<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        file: FileId,
        shown: &Shown,
    ) -> Result<Option<(FileId, Arc<Inode>)>, StorageError> {
        let again = [file.maker(), shown.version].map(|record| self.written_now(core, record).map(FileId::made_by));
        for candidate in [Some(file)].into_iter().chain(again).flatten() {
            let file = Self::file_become(core, candidate)?;
            let inode = wayfs_tree::inode(&core.state.tx(), file)?;
            if let Some(inode) = inode.filter(|inode| !inode.is_removed() && inode.content == shown.content) {
                return Ok(Some((file, inode)));
            }
        }
        Ok(None)
    }

    /// Whether a home that was put back does not know a record of somebody else's, which nobody is about to send it.
    pub(crate) fn is_forgotten_there<S: MetaStore>(
        core: &mut Core<S>,
        record: RecordId,
        known: &mut Confirmed,
    ) -> Result<bool, StorageError> {
        let origin = record.origin();
        if origin == core.config.origin || core.state.log().position_of(record).is_some() {
            return Ok(false);
        }
        let image = match known.0.entry(origin) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => unknown.insert(Self::confirmed_origin(core, origin)?),
        };
        // A writer that was put back, too, may have gone on behind it: then its number lies in a gap (seed 174500311).
        Ok(!image.as_ref().is_some_and(|image| image.has(record.sequence())))
    }

    /// What is kept of what was written over. To be asked before anything is written again.
    pub(crate) fn find_written_over<S: MetaStore>(
        core: &mut Core<S>,
        lost: &Lost,
    ) -> Result<BTreeMap<FileId, WrittenOver>, StorageError> {
        let mut found: BTreeMap<FileId, WrittenOver> = BTreeMap::new();
        let mut known = Confirmed::default();
        let mut owed_tops = BTreeSet::new();
        for (key, value) in core.state.tx().scan_raw(&[table::OWED], &[table::OWED + 1], usize::MAX / 2)? {
            let (version, owed): (RecordId, Owed) = (parse_record_key(&key)?, unpack(&value)?);
            owed_tops.extend(owed.content.top());
            if Self::is_forgotten_there(core, version, &mut known)? {
                Self::add_written_over(core, &mut found, lost, owed.file, (owed.content, None, Some(version)))?;
            }
        }
        // What the version that is shown took the place of is the newest of these.
        for (key, value) in core.state.tx().scan_raw(&[PREVIOUS], &[PREVIOUS + 1], usize::MAX / 2)? {
            let (version, previous): (RecordId, Previous) = (parse_record_key(&key)?, unpack(&value)?);
            if Self::is_forgotten_there(core, version, &mut known)? {
                let kept = (previous.content, Some(previous.mtime), None);
                Self::add_written_over(core, &mut found, lost, previous.file, kept)?;
            }
        }
        // What is shown may be here, or travel in its record.
        found.retain(|_, over| over.shown.content.top().is_some_and(|top| !owed_tops.contains(&top)));
        Ok(found)
    }

    fn add_written_over<S: MetaStore>(
        core: &mut Core<S>,
        found: &mut BTreeMap<FileId, WrittenOver>,
        lost: &Lost,
        file: FileId,
        (content, mtime, owed_as): (Content, Option<WallTime>, Option<RecordId>),
    ) -> Result<(), StorageError> {
        let there = wayfs_tree::inode(&core.state.tx(), file)?.filter(|inode| !inode.is_removed());
        let before = lost.older.get(&file).map(|(_, inode)| &**inode).or_else(|| lost.gone.get(&file));
        let Some(shown) = before.or(there.as_deref()).map(Shown::of) else { return Ok(()) };
        if shown.content == content || there.is_some_and(|there| there.content == content) {
            return Ok(());
        }
        let mtime = mtime.unwrap_or(shown.mtime);
        let over = found.entry(file).or_insert_with(|| WrittenOver { shown, contents: Vec::new() });
        let same = over.contents.extract_if(.., |other| other.content == content).last();
        let owed_as = owed_as.or(same.and_then(|same| same.owed_as));
        over.contents.push(Kept { content, mtime, owed_as });
        Ok(())
    }

    /// The file that one became, which was found equal to another.
    fn file_become<S: MetaStore>(core: &mut Core<S>, mut file: FileId) -> Result<FileId, StorageError> {
        for _ in 0..ALIAS_CHAIN_MAX {
            let Some(into) = wayfs_tree::inode(&core.state.tx(), file)?.and_then(|inode| inode.merged_into) else {
                break;
            };
            file = into;
        }
        Ok(file)
    }

    /// The last record that was written under our own name.
    fn last_written<S: MetaStore>(core: &Core<S>) -> Result<RecordId, StorageError> {
        let last = RecordId::new(core.config.origin, core.state.sequence());
        last.map_err(|error| StorageError::Corrupt(error.to_string()))
    }
}
