//! What is damaged in the tables of a data directory, what that costs, and the way on.
//!
//! Two kinds of damage have two ways on. The log is cut before the damage: the store is then what it once was. Tables
//! that cannot be read leave nothing that hangs together: they are set aside as a whole, and whoever owns the store begins
//! with empty ones and learns anew. Nothing is removed: what is cut or set aside lies in `damaged/`.

use crate::directory::DataDir;
use crate::disk_meta::DiskMetaStore;
use crate::disk_opening::Places;
use crate::durable_marker::DurableMarker;
use crate::error::OpenError;
use crate::index::Index;
use crate::log::inspection::{Inspection, inspect};
use crate::log::repair::free_name;
use crate::meta_config::MetaConfig;
use std::path::PathBuf;
use wayfs_types::{MetaStore, StorageError, Ticket};

/// Rows read at a time.
const ROWS: usize = 1024;

/// A damaged file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DamagedFile {
    /// Where it is.
    pub path: PathBuf,
    /// What is wrong with it, in words.
    pub what: String,
}

/// What helps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remedy {
    /// Nothing is damaged.
    None,
    /// The store goes on from an earlier state: [`DiskMetaStore::open_accepting_loss`].
    Cut {
        /// Batches of updates that were durable and are not there any more; `None`: it cannot be told how many.
        lost_batches: Option<u64>,
    },
    /// The tables cannot be read as a whole: [`set_tables_aside`].
    Empty,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Examination {
    /// The damaged files, in the order in which they were met.
    pub damaged: Vec<DamagedFile>,
    /// What helps.
    pub remedy: Remedy,
    /// Rows that were read and are whole.
    pub rows: u64,
}

/// Looks at the log and, if it is whole, at each row of the tables. Changes nothing but what every open changes.
/// `tell` hears how many rows are done.
///
/// # Errors
/// [`OpenError::Io`]: the directory cannot be read.
pub fn examine(directory: &DataDir, tell: &mut dyn FnMut(u64)) -> Result<Examination, OpenError> {
    let places = Places::of(directory);
    let promised =
        DurableMarker::read(directory.disk(), &places.marker).map_err(OpenError::io("read", &places.marker))?;
    let promised = promised.unwrap_or_default().ticket;
    let mut found = Examination { damaged: Vec::new(), remedy: Remedy::None, rows: 0 };
    if !places.index.exists() {
        if promised > Ticket(0) {
            found.note(places.index, "it is not there");
            found.remedy = Remedy::Empty;
        }
        return Ok(found);
    }
    match look(directory, &places) {
        Ok(inspection) => found.judge_log(&inspection, promised),
        Err(OpenError::Engine(error)) => found.give_up(places.index, &format!("the tables cannot be opened: {error}")),
        Err(OpenError::Damaged(what)) => found.give_up(places.meta, &what),
        Err(other) => return Err(other),
    }
    if found.remedy == Remedy::None {
        found.judge_tables(directory, tell)?;
    }
    Ok(found)
}

fn look(directory: &DataDir, places: &Places) -> Result<Inspection, OpenError> {
    let index = Index::open(&places.index, MetaConfig::default())?;
    inspect((directory.disk(), &places.log), index.chain()?, &mut |_| ())
}

/// Puts the tables into `damaged/`, so that the next open makes empty ones. Says where they are; `None`: there were none.
///
/// # Errors
/// [`OpenError::Io`]; then they are where they were.
pub fn set_tables_aside(directory: &DataDir) -> Result<Option<PathBuf>, OpenError> {
    let (places, disk) = (Places::of(directory), directory.disk());
    let aside = free_name(disk, &places.damaged, "meta");
    let moved = match disk.rename(&places.meta, &aside) {
        Ok(()) => Some(aside),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => return Err(OpenError::io("set aside", &places.meta)(error)),
    };
    match disk.remove(&places.marker) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(OpenError::io("remove", &places.marker)(error));
        }
        Ok(()) | Err(_) => {}
    }
    disk.sync_directory(directory.path()).map_err(OpenError::io("sync directory", directory.path()))?;
    Ok(moved)
}

impl Examination {
    fn note(&mut self, path: PathBuf, what: &str) {
        self.damaged.push(DamagedFile { path, what: what.to_owned() });
    }

    /// Notes damage that leaves nothing to go on from.
    fn give_up(&mut self, path: PathBuf, what: &str) {
        self.note(path, what);
        self.remedy = Remedy::Empty;
    }

    fn judge_log(&mut self, inspection: &Inspection, promised: Ticket) {
        let Some(gap) = &inspection.gap else { return };
        let whole = inspection.last.ticket;
        if inspection.damage.is_none() && promised <= whole {
            return;
        }
        let len = gap.written_until - gap.at;
        self.note(gap.path.clone(), &format!("damaged from byte {} on ({len} bytes)", gap.at));
        for later in &gap.later {
            self.note(later.clone(), "follows a damaged file, so that it cannot be used");
        }
        let lost = promised.max(inspection.seen).0.saturating_sub(whole.0);
        self.remedy = Remedy::Cut { lost_batches: Some(lost) };
    }

    fn judge_tables(&mut self, directory: &DataDir, tell: &mut dyn FnMut(u64)) -> Result<(), OpenError> {
        let places = Places::of(directory);
        let store = match DiskMetaStore::open(directory, MetaConfig::default()) {
            Ok(store) => store,
            Err(OpenError::LostBatches { durable, found }) => {
                self.note(places.log, &format!("batches {} to {durable} are not in it", found.0 + 1));
                self.remedy = Remedy::Cut { lost_batches: Some(durable.0.saturating_sub(found.0)) };
                return Ok(());
            }
            Err(OpenError::Damaged(what)) => {
                self.note(places.meta, &what);
                self.remedy = Remedy::Cut { lost_batches: None };
                return Ok(());
            }
            Err(OpenError::Engine(error)) => {
                self.give_up(places.index, &format!("the tables cannot be opened: {error}"));
                return Ok(());
            }
            Err(other) => return Err(other),
        };
        let mut from = Vec::new();
        loop {
            match store.scan(&from, b"", ROWS) {
                Ok(rows) if rows.is_empty() => return Ok(()),
                Ok(rows) => {
                    self.rows += rows.len() as u64;
                    tell(self.rows);
                    if let Some((key, _)) = rows.into_iter().last() {
                        from = key;
                        from.push(0);
                    }
                }
                Err(StorageError::NoSpace) => return Ok(()),
                Err(error) => {
                    self.give_up(places.index, &format!("a row after the first {} cannot be read: {error}", self.rows));
                    return Ok(());
                }
            }
        }
    }
}
