//! What is known of one version whose bytes were said to be gone.
//!
//! Its writer's marks pass it once the home has decided, so that what came later is not held up: they say nothing of it. The home
//! keeps a row for what it declared lost until it turns up; whoever else hears of it by the report keeps one as well, and the writer
//! one from the moment that the home tells it to wait no longer. While the report is there the version is lost; without it, it is
//! not known what became of it: the file was written anew, or the report is on its way.

use crate::contents::Contents;
use crate::contents::losses::{LossNews, Lost, Vanished};
use crate::contents::missing::Missing;
use crate::replica::core::Core;
use crate::report::LostContent;
use crate::state::tables::table::{LOST, VANISHED};
use crate::state::tables::{pack, parse_record_key, record_key, table, unpack};
use wayfs_types::{Content, Fact, Facts, Image, Key, MetaStore, RecordId, StorageError};

/// In place of the report of a loss: it is not here yet, or there is none.
const UNREPORTED: RecordId = RecordId::GENESIS;

/// What became of a version, as far as is known here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// Nobody said that its bytes are gone, or somebody here has them after all.
    Told,
    /// They are lost.
    Lost,
    /// They were gone, and it is not known what the home found.
    Unknown,
}

impl Contents {
    /// Client: what it wrote, whose bytes are gone here, and of which the home has decided what became of it, while this replica has not heard
    /// yet what; at most so many. What was written over is not among it.
    pub(crate) fn undecided<S: MetaStore>(core: &Core<S>, limit: usize) -> Result<Vec<LostContent>, StorageError> {
        let mut undecided = Vec::new();
        for (key, value) in core.state.store().scan(&[LOST], &[LOST + 1], limit)? {
            let (version, Lost { file, report, mtime, .. }) = (parse_record_key(&key)?, unpack(&value)?);
            let is_shown = core.state.inode(file)?.is_some_and(|inode| inode.version == version);
            if report == UNREPORTED && is_shown && Self::fate(core, version)? == Fate::Unknown {
                let path = core.state.path_of(file)?;
                undecided.push(LostContent { version, file, path, report: None, since: mtime, shows_older: false });
            }
        }
        Ok(undecided)
    }

    /// Client: the home has decided what became of a version whose bytes are gone here. Whether it is lost its report says.
    pub(crate) fn settle_vanished<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        version: RecordId,
    ) -> Result<(), StorageError> {
        let Some(bytes) = core.state.tx().get_raw(&record_key(VANISHED, version))? else { return Ok(()) };
        let file = unpack::<Vanished>(&bytes)?.file;
        self.take_vanished(core, version)?;
        Self::put_declared(core, LossNews { file, version, report: UNREPORTED, is_replaced: false }, None)
    }

    /// Whether this version's bytes are lost, as far as this replica was told: gone at their writer (which this is), or
    /// declared lost by the home, be it that the file shows another version since.
    pub(crate) fn is_lost<S: MetaStore>(core: &Core<S>, version: RecordId) -> Result<bool, StorageError> {
        // While a server waits for it, others may have it.
        if Self::has_row(core, VANISHED, version)? && !Self::has_row(core, table::MISSING, version)? {
            return Ok(true);
        }
        let image = core.state.image(&Key::Conflict(version))?;
        let is_shown = matches!(image, Some(Image::Conflict(report)) if report.is_bare_loss());
        Ok(is_shown || Self::fate(core, version)? == Fate::Lost)
    }

    /// Whether the home declared this version lost, as far as this replica was told, and it has not turned up: nobody tells any more
    /// how far it came.
    pub(crate) fn is_declared_lost<S: MetaStore>(core: &Core<S>, version: RecordId) -> Result<bool, StorageError> {
        Ok(Self::fate(core, version)? == Fate::Lost)
    }

    /// What is known of a version, without what is not so of lost bytes.
    pub(crate) fn as_fate_says<S: MetaStore>(
        core: &Core<S>,
        version: RecordId,
        facts: Facts,
    ) -> Result<Facts, StorageError> {
        if Self::is_lost(core, version)? {
            return Ok(Facts { safe: Fact::No, stable: Fact::No, ..facts });
        }
        Ok(match Self::fate(core, version)? {
            Fate::Unknown => Facts { safe: Fact::Unknown, stable: Fact::Unknown, ..facts },
            Fate::Told | Fate::Lost => facts.completed(),
        })
    }

    fn fate<S: MetaStore>(core: &Core<S>, version: RecordId) -> Result<Fate, StorageError> {
        // The mark of what is stable may be ahead of the home's word on a version whose writer said that it is gone.
        if core.relays() && Self::has_row(core, VANISHED, version)? {
            return Ok(Fate::Unknown);
        }
        let Some(bytes) = core.state.store().get(&record_key(LOST, version))? else { return Ok(Fate::Told) };
        for of in [table::OWED, table::LENT, table::MISSING] {
            if Self::has_row(core, of, version)? {
                return Ok(Fate::Told);
            }
        }
        let report = unpack::<Lost>(&bytes)?.report;
        if core.orders() && report != UNREPORTED {
            return Ok(Fate::Lost);
        }
        let report = core.state.image(&Key::Conflict(report))?;
        let is_there = matches!(report, Some(Image::Conflict(report)) if report.is_loss() && report.record == version);
        Ok(if is_there { Fate::Lost } else { Fate::Unknown })
    }

    fn has_row<S: MetaStore>(core: &Core<S>, of: u8, version: RecordId) -> Result<bool, StorageError> {
        Ok(core.state.store().get(&record_key(of, version))?.is_some())
    }

    /// Station: the home says that nobody need wait for a version. If its writer said that its bytes are gone, the report says whether
    /// they are lost.
    pub(crate) fn note_decided<S: MetaStore>(
        core: &mut Core<S>,
        version: RecordId,
        missing: &Missing,
    ) -> Result<(), StorageError> {
        if Self::is_vanished(core, version)? {
            let (file, content) = (missing.file, missing.content.clone());
            let news = LossNews { file, version, report: UNREPORTED, is_replaced: false };
            return Self::put_declared(core, news, Some(content));
        }
        // Somebody had it after all, and there was no report.
        let key = record_key(LOST, version);
        if let Some(bytes) = core.state.tx().get_raw(&key)?
            && unpack::<Lost>(&bytes)?.report == UNREPORTED
        {
            core.state.delete_row(key);
        }
        Ok(())
    }

    /// Notes that a version is lost by the home's word. `content`: what it names, if that is known.
    pub(crate) fn put_declared<S: MetaStore>(
        core: &mut Core<S>,
        news: LossNews,
        content: Option<Content>,
    ) -> Result<(), StorageError> {
        let LossNews { file, version, report, is_replaced } = news;
        let known: Option<Lost> =
            core.state.tx().get_raw(&record_key(LOST, version))?.map(|bytes| unpack(&bytes)).transpose()?;
        if known.as_ref().is_some_and(|known| known.report == report || report == UNREPORTED) {
            return Ok(());
        }
        let content = content.or(known.map(|known| known.content)).unwrap_or(Content::EMPTY);
        let lost = Lost { file, content, report, is_replaced, mtime: core.wall };
        core.state.put_row(record_key(LOST, version), pack(&lost));
        Self::limit_lost(core)
    }
}
