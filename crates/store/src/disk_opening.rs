//! Opening the tables on disk: what is there, and whether it is what was promised.

use crate::chain::Chain;
use crate::directory::DataDir;
use crate::durable_marker::DurableMarker;
use crate::error::OpenError;
use crate::index::Index;
use crate::log::format::encode_header;
use crate::log::inspection::{FoundFile, Inspection};
use crate::log::repair::{keep_evidence, set_aside};
use crate::log::writer::{LogWriter, OlderFile, OpenFile, Prepare};
use crate::meta_config::{MetaConfig, MetaReport};
use crate::replaying::replay;
use crate::space::Space;
use crate::tables::{Tables, Tail};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use wayfs_disk::Disk;

/// Whether an open may go on after a loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnLoss {
    Refuse,
    Accept,
}

/// Where the parts of a store are.
pub(crate) struct Places {
    pub(crate) meta: PathBuf,
    pub(crate) index: PathBuf,
    pub(crate) log: PathBuf,
    pub(crate) marker: PathBuf,
    pub(crate) damaged: PathBuf,
}

impl Places {
    pub(crate) fn of(directory: &DataDir) -> Self {
        let meta = directory.join("meta");
        let (marker, damaged) = (directory.join("meta.durable"), directory.join("damaged"));
        Self { index: meta.join("index"), log: meta.join("log"), meta, marker, damaged }
    }
}

/// What an open found, ready to go on.
pub(crate) struct Opened {
    pub(crate) tables: Tables,
    pub(crate) marker: DurableMarker,
    pub(crate) report: MetaReport,
}

impl Opened {
    pub(crate) fn open(directory: &DataDir, config: MetaConfig, on_loss: OnLoss) -> Result<Self, OpenError> {
        let (places, disk) = (Places::of(directory), directory.disk());
        let opened = DurableMarker::open(disk, &places.marker).map_err(OpenError::io("open", &places.marker));
        let (mut marker, promised) = opened?;
        for path in [&places.meta, &places.log] {
            disk.make_directory(path).map_err(OpenError::io("make directory", path))?;
        }
        for path in [&places.meta, directory.path()] {
            disk.sync_directory(path).map_err(OpenError::io("sync directory", path))?;
        }
        let index = Index::open(&places.index, config)?;
        let (inspection, sealed_through) = replay((disk, &places.log), &index)?;
        let accepted = judge((disk, &places), &inspection, promised, on_loss)?;
        let found = inspection.last;
        let torn = inspection.gap.as_ref().filter(|gap| gap.later.is_empty());
        let torn_bytes = torn.map_or(0, |gap| gap.written_until - gap.at);
        let report = MetaReport { committed: found.ticket, torn_bytes, accepted };
        if report.accepted.is_some() {
            marker.clear().map_err(OpenError::io("clear", &places.marker))?;
        }
        let log = continue_log(&places.log, inspection, directory.shared_disk())
            .map_err(OpenError::io("open log in", &places.log))?;
        // A killed process leaves batches that it did not sync.
        log.file().sync().map_err(OpenError::io("sync log in", &places.log))?;
        marker.write(found).map_err(OpenError::io("write", &places.marker))?;
        let space = Space::watch(disk, &places.meta, config.min_free).map_err(OpenError::io("watch", &places.meta))?;
        let tail = Tail { chain: found, log, sealed_through };
        Ok(Self { tables: Tables::new(Arc::new(index), space, tail), marker, report })
    }
}

/// Whether what was found may be gone on with. What does not belong to it is taken out of the log; says what loss was accepted.
fn judge(
    (disk, places): (&dyn Disk, &Places),
    inspection: &Inspection,
    promised: Option<Chain>,
    on_loss: OnLoss,
) -> Result<Option<String>, OpenError> {
    if let Some(gap) = &inspection.gap {
        keep_evidence(disk, gap, &places.damaged)?;
    }
    let accepted = match (loss(inspection, promised), on_loss) {
        (None, _) => None,
        (Some(error), OnLoss::Refuse) => return Err(error),
        (Some(error), OnLoss::Accept) => {
            tracing::error!(%error, "metadata loss accepted");
            Some(error.to_string())
        }
    };
    if let Some(gap) = &inspection.gap {
        set_aside(disk, gap, &places.damaged)?;
    }
    Ok(accepted)
}

/// What is missing of what was promised.
fn loss(inspection: &Inspection, promised: Option<Chain>) -> Option<OpenError> {
    let found = inspection.last;
    if let Some(promised) = promised {
        if promised.ticket > found.ticket {
            return Some(OpenError::LostBatches { durable: promised.ticket, found: found.ticket });
        }
        if promised.ticket == found.ticket && promised != found {
            return Some(OpenError::Damaged(format!("batch {} is not the one that was written", found.ticket)));
        }
    }
    inspection.damage.clone().map(OpenError::Damaged)
}

/// Goes on behind the last batch: in its file, or in a new one if the index is ahead of the log or there is none.
fn continue_log(directory: &Path, found: Inspection, disk: Arc<dyn Disk>) -> std::io::Result<LogWriter> {
    for path in &found.idle {
        disk.remove(path)?;
    }
    if !found.idle.is_empty() {
        disk.sync_directory(directory)?;
    }
    let mut files = found.files;
    let newest = files.pop_if(|newest| newest.last == found.last);
    let current = match newest {
        Some(newest) => {
            let file = disk.open(&newest.number.path(directory))?;
            OpenFile { number: newest.number, file, at: newest.end, len: newest.len }
        }
        None => {
            let fresh = Prepare::of(found.next, directory.to_path_buf(), Arc::clone(&disk)).create()?;
            fresh.file.write_at(&encode_header(fresh.number, found.last), 0)?;
            fresh
        }
    };
    let older = |file: FoundFile| OlderFile { number: file.number, last: file.last.ticket, len: file.len };
    let older = files.into_iter().map(older).collect();
    Ok(LogWriter::new(disk, directory.to_path_buf(), current, older))
}
