//! The last whole content of a file whose newest bytes are not at the home yet.
//!
//! A record may come home long before its bytes. If these die with their writer, what the file held before is what its
//! users have left, so the home keeps that until the newer bytes are here. If what it held before is not here either, but
//! at a station, say, that does not let it go before the newer bytes are at a server, too: the home remembers whose
//! place each missing version took, and shows the newest of them that somebody has when it declares the later ones lost.
//! The oldest missing version took the place of what is whole: its name tells what comes later, and is older or newer than that.
//!
//! A station notes what its clients' records took the place of, too: for a home that is put back to before both (`histories/written_over.rs`).

use crate::contents::Contents;
use crate::contents::answers::Found;
use crate::contents::missing::Missing;
use crate::contents::owed::{Owed, size_of};
use crate::contents::replaced::{Older, Previous, Replaced, Superseded};
use crate::replica::core::Core;
use crate::state::of_record::content_of;
use crate::state::tables::table::{OLDER, PREVIOUS};
use crate::state::tables::{pack, parse_root_key, record_key, root_prefix, table, unpack};
use std::collections::BTreeSet;
use wayfs_tree::{Effect, Outcome};
use wayfs_types::{Content, FileId, Kind, MetaStore, Op, Record, RecordId, StorageError};
use wayfs_wire::HeldVersion;

/// Most versions that are followed from one to the one before: more at a time are not kept for one file.
const OLDER_MAX: usize = 4096;

impl Contents {
    /// The bytes of a version are at a server, or nobody needs them any more: nor does anybody need what it took the
    /// place of.
    pub(crate) fn let_go_older<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        version: RecordId,
    ) -> Result<(), StorageError> {
        self.let_go_between(core, version, None)
    }

    /// The same as far as an older version, which is shown again.
    pub(crate) fn let_go_between<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        version: RecordId,
        shown: Option<RecordId>,
    ) -> Result<(), StorageError> {
        let mut at = version;
        while let Some(Older { record, .. }) = Self::older(core, at)? {
            core.state.delete_row(record_key(OLDER, at));
            if Some(record) == shown {
                break;
            }
            if let Some(missing) = Self::missing(core, record)? {
                self.supersede(Superseded::new(missing.version, &missing.content, None));
            }
            at = record;
        }
        Ok(())
    }

    /// What a server would show of a file if the bytes that a record names never came. To be asked before the record is
    /// applied.
    pub(crate) fn previous_of<S: MetaStore>(
        core: &mut Core<S>,
        record: &Record,
    ) -> Result<Option<Replaced>, StorageError> {
        let Op::Store { file, content, .. } = &record.op else { return Ok(None) };
        if core.writes() || content.root().is_none() {
            return Ok(None);
        }
        let file = *file;
        let Some(inode) = wayfs_tree::inode(&core.state.tx(), file)? else { return Ok(None) };
        if inode.is_removed() || inode.kind != Kind::File || inode.content == Content::EMPTY {
            return Ok(None);
        }
        let mtime = inode.mtime;
        if let Some(record) = Self::missing_as(core, inode.version, &inode.content)? {
            let previous = Self::previous(core, record)?;
            return Ok(Some(Replaced { file, previous, older: Some(Older { record, mtime }) }));
        }
        if Self::is_vanished(core, inode.version)? {
            return Ok(None);
        }
        let previous = Previous { file, content: inode.content.clone(), mtime };
        let older = Older { record: inode.version, mtime };
        Ok(Some(Replaced { file, previous: Some(previous), older: Some(older) }))
    }

    /// Keeps it, if the record took its place and its bytes are not here.
    pub(crate) fn keep_previous<S: MetaStore>(
        core: &mut Core<S>,
        record: &Record,
        effect: &Effect,
        replaced: Option<Replaced>,
    ) -> Result<(), StorageError> {
        let Some(Replaced { file, previous, older }) = replaced else { return Ok(()) };
        let stood = effect.stored.is_some_and(|stored| (stored.file, stored.version) == (file, record.id));
        if !stood || content_of(record).is_none() {
            return Ok(());
        }
        let Some(missing) = Self::missing(core, record.id)? else { return Ok(()) };
        if let Some(previous) = previous {
            core.state.put_row(record_key(PREVIOUS, record.id), pack(&previous));
        }
        if let Some(older) = older.filter(|_| missing.safe.is_none() && core.orders()) {
            core.state.put_row(record_key(OLDER, record.id), pack(&older));
        }
        Ok(())
    }

    /// A version that came late takes nobody's place, but as long as the bytes of what was built upon it are at no server, it is what
    /// is left if these are lost. Answers whether that is so, and notes it: right below what was built upon it, since that may be
    /// whole, or have been, and be the newer one that is left.
    pub(crate) fn is_last_whole<S: MetaStore>(
        core: &mut Core<S>,
        record: &Record,
        effect: &Effect,
    ) -> Result<bool, StorageError> {
        let (Outcome::Merged, Some(file), Op::Store { mtime, .. }) = (effect.outcome, effect.file, &record.op) else {
            return Ok(false);
        };
        let Some(inode) = wayfs_tree::inode(&core.state.tx(), file)?.filter(|inode| !inode.is_removed()) else {
            return Ok(false);
        };
        let Some(heir) = Self::missing_as(core, inode.version, &inode.content)? else { return Ok(false) };
        if Self::missing(core, heir)?.is_none_or(|missing| missing.safe.is_some()) {
            return Ok(false);
        }
        // What was built upon it named it, and that was all that was known of it.
        let named_by = wayfs_tree::inode(&core.state.tx(), FileId::made_by(record.id))?;
        let builder = named_by.map_or(heir, |alias| alias.attr_version.0);
        if Self::missing(core, builder)?.is_none_or(|missing| missing.safe.is_some()) {
            return Ok(false);
        }
        Self::put_below(core, builder, Older { record: record.id, mtime: *mtime })?;
        Ok(true)
    }

    /// A version stands right below another one that is missing.
    fn put_below<S: MetaStore>(core: &mut Core<S>, version: RecordId, below: Older) -> Result<(), StorageError> {
        if let Some(older) = Self::older(core, version)? {
            core.state.put_row(record_key(OLDER, below.record), pack(&older));
        }
        core.state.put_row(record_key(OLDER, version), pack(&below));
        Ok(())
    }

    /// Contents are offered whose record came without them, since their writer had replaced them before it sent that. It was put back to an
    /// older copy since, and brings them. As long as the bytes of what it wrote afterwards are at no server, they are what is left if
    /// these are lost. Notes that, and answers what is missing so (seed 178072086).
    pub(crate) fn take_left_out<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        HeldVersion { version, file, content }: HeldVersion,
    ) -> Result<Option<Missing>, StorageError> {
        if content.root().is_none() || !Self::put_between(core, version, file)? {
            return Ok(None);
        }
        core.state.stage_totals().missing += 1;
        core.state.stage_totals().missing_bytes += size_of(&content);
        Self::keep_root(core, version, &content);
        self.note_row(table::MISSING, version);
        Ok(Some(Missing::of(file, version, content)))
    }

    /// Puts a version that nobody saw stand between two of its writer that did, the later of which is missing. Answers whether there are such.
    fn put_between<S: MetaStore>(core: &mut Core<S>, version: RecordId, file: FileId) -> Result<bool, StorageError> {
        let Some(inode) = wayfs_tree::inode(&core.state.tx(), file)?.filter(|inode| !inode.is_removed()) else {
            return Ok(false);
        };
        if wayfs_tree::inode(&core.state.tx(), FileId::made_by(version))?.is_some() {
            // It stands in a copy, or is a file's first.
            return Ok(false);
        }
        let is_of_writer = |record: RecordId| record.origin() == version.origin();
        let heir = Self::missing_as(core, inode.version, &inode.content)?;
        let Some(heir) = heir.filter(|heir| is_of_writer(*heir) && *heir > version) else { return Ok(false) };
        if Self::missing(core, heir)?.is_none_or(|missing| missing.safe.is_some()) {
            return Ok(false);
        }
        let mut at = heir;
        for _ in 0..OLDER_MAX {
            // What stood upon another's contents is not known to be newer than those.
            let older = Self::older(core, at)?.filter(|older| is_of_writer(older.record));
            let Some(older) = older else { return Ok(false) };
            if older.record < version {
                Self::put_below(core, at, Older { record: version, mtime: inode.mtime })?;
                return Ok(true);
            }
            // What is whole is newer.
            if Self::missing(core, older.record)?.is_none() {
                return Ok(false);
            }
            at = older.record;
        }
        Ok(false)
    }

    fn older<S: MetaStore>(core: &mut Core<S>, version: RecordId) -> Result<Option<Older>, StorageError> {
        core.state.tx().get_raw(&record_key(OLDER, version))?.map(|bytes| unpack(&bytes)).transpose()
    }

    /// Whether one missing version took the place of another, by way of others or at once.
    pub(crate) fn is_older_than<S: MetaStore>(
        core: &mut Core<S>,
        version: RecordId,
        record: RecordId,
    ) -> Result<bool, StorageError> {
        let mut at = version;
        for _ in 0..OLDER_MAX {
            match Self::older(core, at)? {
                Some(older) if older.record == record => return Ok(true),
                Some(older) => at = older.record,
                None => return Ok(false),
            }
        }
        Ok(false)
    }

    /// The newest content that somebody has of those whose place a missing version took.
    pub(crate) fn newest_older<S: MetaStore>(
        core: &mut Core<S>,
        version: RecordId,
    ) -> Result<Option<(Older, Missing)>, StorageError> {
        newest_held(version, |key| core.state.tx().get_raw(key))
    }

    /// Whether there is something to show if a version is lost, as of the committed state, and what that is if it is to be read
    /// first: the home keeps it, and nobody else has a newer one.
    pub(crate) fn shown_instead<S: MetaStore>(
        core: &Core<S>,
        version: RecordId,
    ) -> Result<(bool, Option<Content>), StorageError> {
        if newest_held(version, |key| core.state.store().get(key))?.is_some() {
            return Ok((true, None));
        }
        let kept = core
            .state
            .store()
            .get(&record_key(PREVIOUS, version))?
            .map(|bytes| unpack::<Previous>(&bytes))
            .transpose()?;
        let content = kept.as_ref().map(|kept| kept.content.clone()).filter(|content| content.root().is_some());
        Ok((kept.is_some(), content))
    }

    /// Contents came whose successor is still missing: they are newer than what was kept for it.
    pub(crate) fn renew_previous<S: MetaStore>(
        core: &mut Core<S>,
        file: FileId,
        came: RecordId,
        content: &Content,
    ) -> Result<(), StorageError> {
        let Some(inode) = wayfs_tree::inode(&core.state.tx(), file)? else { return Ok(()) };
        if inode.version == came || Self::missing(core, inode.version)?.is_none() {
            return Ok(());
        }
        let previous = Previous { file, content: content.clone(), mtime: inode.mtime };
        core.state.put_row(record_key(PREVIOUS, inode.version), pack(&previous));
        Ok(())
    }

    /// A station takes the place of its home, which vouches for what it keeps: of what was noted that is what the station owed, and
    /// small contents. Other large ones the former home had.
    pub(crate) fn keep_previous_owed<S: MetaStore>(core: &mut Core<S>) -> Result<(), StorageError> {
        let (mut owed, mut noted) = (BTreeSet::new(), Vec::new());
        core.state.each(&[table::OWED], &[table::OWED + 1], |_, value| {
            owed.extend(unpack::<Owed>(value)?.content.top());
            Ok(())
        })?;
        core.state.each(&[PREVIOUS], &[PREVIOUS + 1], |key, value| {
            noted.extend(unpack::<Previous>(value)?.content.top().map(|top| (key.to_vec(), top)));
            Ok(())
        })?;
        for (key, _) in noted.into_iter().filter(|(_, top)| !owed.contains(top)) {
            core.state.delete_row(key);
        }
        Ok(())
    }

    pub(crate) fn previous<S: MetaStore>(
        core: &mut Core<S>,
        version: RecordId,
    ) -> Result<Option<Previous>, StorageError> {
        core.state.tx().get_raw(&record_key(PREVIOUS, version))?.map(|bytes| unpack(&bytes)).transpose()
    }

    /// What a file shows once a version is declared lost, if that has to be read first: it was kept, and nobody read it since. A content
    /// was just looked for; if that was what is kept, and it is nowhere, it is kept no longer.
    pub(crate) fn previous_to_read<S: MetaStore>(
        core: &mut Core<S>,
        version: RecordId,
        looked_for: &Content,
        found: Found,
    ) -> Result<Option<Previous>, StorageError> {
        let Some(previous) = Self::previous(core, version)? else { return Ok(None) };
        if previous.content == *looked_for {
            if found == Found::Nowhere {
                tracing::error!(%version, file = %previous.file, "what was kept in case this version is lost is nowhere");
                core.state.delete_row(record_key(PREVIOUS, version));
            }
            return Ok(None);
        }
        let is_shown = Self::newest_older(core, version)?.is_none() && previous.content.root().is_some();
        Ok(Some(previous).filter(|_| is_shown))
    }

    /// Under which record's name the contents of a version are missing here; `None`: they are not.
    fn missing_as<S: MetaStore>(
        core: &mut Core<S>,
        version: RecordId,
        content: &Content,
    ) -> Result<Option<RecordId>, StorageError> {
        let Some(root) = content.root() else { return Ok(None) };
        if Self::missing(core, version)?.is_some() {
            return Ok(Some(version));
        }
        let prefix = root_prefix(&root);
        let until = crate::state::tables::after_prefix(&prefix);
        for (key, _) in core.state.tx().scan_raw(&prefix, &until, crate::state::tables::PAGE)? {
            let record = parse_root_key(&key)?;
            if Self::missing(core, record)?.is_some_and(|missing| missing.content.top() == content.top()) {
                return Ok(Some(record));
            }
        }
        Ok(None)
    }
}

fn newest_held(
    version: RecordId,
    mut get: impl FnMut(&[u8]) -> Result<Option<Vec<u8>>, StorageError>,
) -> Result<Option<(Older, Missing)>, StorageError> {
    let mut at = version;
    for _ in 0..OLDER_MAX {
        let Some(bytes) = get(&record_key(OLDER, at))? else { return Ok(None) };
        let older: Older = unpack(&bytes)?;
        at = older.record;
        let Some(bytes) = get(&record_key(table::MISSING, at))? else { continue };
        let missing: Missing = unpack(&bytes)?;
        if missing.everybody().chain(missing.claimed).next().is_some() {
            return Ok(Some((older, missing)));
        }
    }
    Ok(None)
}
