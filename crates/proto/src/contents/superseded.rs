//! Contents that no view of the future can show: the home drops its claim on them, and says so to who keeps them.
//!
//! What left the view in one step of the home is let go with the next one. A version that was written over stays while the bytes that
//! took its place are at no server (`contents/previous.rs`).

use crate::children::Children;
use crate::contents::Contents;
use crate::contents::missing::Missing;
use crate::contents::replaced::Superseded;
use crate::histories::Histories;
use crate::replica::core::Core;
use crate::state::tables::{parse_record_key, table, unpack};
use wayfs_types::{FileId, MetaStore, RecordId, StorageError, Top};

impl Contents {
    /// The home drops its claim on contents that no view of the future can show.
    pub(crate) fn release_superseded<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        children: &mut Children,
    ) -> Result<(), StorageError> {
        while let Some(superseded) = self.keeper_mut().and_then(|keeper| keeper.superseded.pop()) {
            for record in Self::records_with(core, superseded.top)? {
                let Some(missing) = Self::missing(core, record)? else { continue };
                if missing.version != superseded.version || Self::is_kept(core, superseded, record)? {
                    continue;
                }
                self.settle_missing(core, children, record, &missing);
                Self::tell_who_waits(children, record, &missing);
                self.let_go_older(core, record)?;
            }
        }
        Ok(())
    }

    /// Versions whose file was removed or overwritten with the very batch that brought them never stood in the view, so
    /// nobody sees them leave it.
    pub(crate) fn supersede_unseen<S: MetaStore>(&mut self, core: &Core<S>, noted: Vec<(FileId, RecordId, Top)>) {
        for (file, version, top) in noted {
            let Ok(inode) = core.state.inode(file) else { continue };
            let shown = inode.filter(|inode| !inode.is_removed());
            if shown.as_ref().is_some_and(|inode| inode.version == version) {
                continue;
            }
            let by = shown.filter(|inode| inode.content.root().is_some()).map(|inode| inode.version);
            self.supersede([Superseded { version, top, by }]);
        }
    }

    /// A home that is opened: what left the view in the last batches before a crash may have been let go in those that were lost.
    /// (What was declared lost, and what came before its record, is in no view either, and is waited for.)
    pub(crate) fn supersede_unshown<S: MetaStore>(&mut self, core: &mut Core<S>) -> Result<(), StorageError> {
        let mut waiting: Vec<(RecordId, Missing)> = Vec::new();
        let mut instead = Vec::new();
        core.state.each(&[table::MISSING], &[table::MISSING + 1], |key, value| {
            let (record, missing) = (parse_record_key(key)?, unpack::<Missing>(value)?);
            if missing.version != record && missing.version.origin() == core.config.origin {
                instead.push(missing.version);
            }
            if !Self::is_shown(core, missing.file, missing.version)? {
                waiting.push((record, missing));
            }
            Ok(())
        })?;
        if let Some(keeper) = self.keeper_mut() {
            instead.into_iter().for_each(|version| keeper.note_shown_instead(version));
        }
        for (record, missing) in waiting {
            if Histories::has_record(core, record)? && Self::lost(core, record)?.is_none() {
                let noted = missing.content.top().map(|top| (missing.file, missing.version, top));
                self.supersede_unseen(core, noted.into_iter().collect());
            }
        }
        Ok(())
    }

    /// Whether a file shows a version, or the copy that was made of this does.
    fn is_shown<S: MetaStore>(core: &Core<S>, file: FileId, version: RecordId) -> Result<bool, StorageError> {
        for file in [file, FileId::made_by(version)] {
            let inode = core.state.inode(file)?;
            if inode.is_some_and(|inode| inode.version == version && !inode.is_removed()) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether a version that was overwritten is not to be let go yet: the bytes that took its place are at no server, and
    /// may be lost. Its client would be told that it is safe while the bytes of neither version are.
    fn is_kept<S: MetaStore>(
        core: &mut Core<S>,
        superseded: Superseded,
        record: RecordId,
    ) -> Result<bool, StorageError> {
        let Some(by) = superseded.by else { return Ok(false) };
        let is_at_writer_only = Self::missing(core, by)?.is_some_and(|missing| missing.safe.is_none());
        Ok(is_at_writer_only && Self::is_older_than(core, by, record)?)
    }
}
