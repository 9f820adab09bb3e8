//! Opening the tables on disk: what is there, and whether it is what was promised.

use crate::chain::{CHAIN_KEY, Chain};
use crate::descriptors::TABLE_FILES_MAX;
use crate::disk_meta::MetaConfig;
use crate::error::OpenError;
use crate::journal_inspection::{Inspection, cut};
use fjall::{Database, Keyspace, KeyspaceCreateOptions};
use std::fs::File;
use std::path::{Path, PathBuf};
use wayfs_types::Ticket;

pub(crate) fn journal_path(engine: &Path, id: u64) -> PathBuf {
    engine.join(format!("{id}.jnl"))
}

pub(crate) fn newest_journal(engine: &Path) -> std::io::Result<(u64, File)> {
    let mut newest = None;
    for entry in std::fs::read_dir(engine)? {
        let name = entry?.file_name();
        let id = name.to_str().and_then(|name| name.strip_suffix(".jnl")).and_then(|id| id.parse().ok());
        newest = newest.max(id);
    }
    let id = newest.ok_or_else(|| std::io::Error::other("there is no journal"))?;
    Ok((id, File::open(journal_path(engine, id))?))
}

/// Removes an engine directory whose making was cut short: the engine cannot take it up again.
pub(crate) fn discard_half_made(engine: &Path, promised: Option<Chain>) -> Result<(), OpenError> {
    let exists = engine.exists();
    let is_made = engine.join("version").metadata().is_ok_and(|version| version.len() > 0);
    if !exists || is_made {
        return Ok(());
    }
    if let Some(chain) = promised.filter(|chain| chain.ticket > Ticket(0)) {
        return Err(OpenError::LostBatches { durable: chain.ticket, found: Ticket(0) });
    }
    std::fs::remove_dir_all(engine).map_err(OpenError::io("remove half-made", engine))
}

pub(crate) fn accepted_before(path: &Path) -> Ticket {
    let note = std::fs::read_to_string(path).unwrap_or_default();
    Ticket(note.trim().parse().unwrap_or(0))
}

pub(crate) fn open_engine(
    path: &Path,
    config: MetaConfig,
    inspection: &Inspection,
    promised: Option<Chain>,
) -> Result<(Database, Keyspace), OpenError> {
    let build = || {
        Database::builder(path)
            .cache_size(config.cache_bytes)
            .max_cached_files(Some(TABLE_FILES_MAX))
            .journal_compression(fjall::CompressionType::None)
            // With a second worker the engine's first one spins for as long as the second merges tables.
            .worker_threads(1)
            .open()
    };
    let database = match build() {
        // The last batch can be torn in the one field that only the engine can check. If nobody was
        // told that the batch is durable, it goes the way of every half-written batch.
        Err(fjall::Error::JournalRecovery(error)) => {
            let promised = promised.unwrap_or_default().ticket;
            match (&inspection.last_begins, inspection.last) {
                (Some((journal, begins)), Some(last)) if last.ticket > promised => {
                    cut(journal, *begins)?;
                    build()?
                }
                _ => return Err(fjall::Error::JournalRecovery(error).into()),
            }
        }
        other => other?,
    };
    let options = || KeyspaceCreateOptions::default().max_memtable_size(config.memtable_bytes);
    let tables = database.keyspace("tables", options)?;
    Ok((database, tables))
}

pub(crate) fn read_chain(tables: &Keyspace) -> Result<Chain, OpenError> {
    match tables.get(CHAIN_KEY)? {
        None => Ok(Chain::default()),
        Some(bytes) => {
            Chain::decode(&bytes).ok_or_else(|| OpenError::Damaged("its chain record does not decode".to_owned()))
        }
    }
}

/// What is missing of what was promised.
pub(crate) fn loss(inspection: &Inspection, promised: Option<Chain>, found: Chain) -> Option<OpenError> {
    if let Some(promised) = promised {
        if promised.ticket > found.ticket {
            return Some(OpenError::LostBatches { durable: promised.ticket, found: found.ticket });
        }
        if promised.ticket == found.ticket && promised != found {
            return Some(OpenError::Damaged(format!("batch {} is not the one that was written", found.ticket)));
        }
    }
    if let Some(damage) = &inspection.damage {
        return Some(OpenError::Damaged(damage.clone()));
    }
    // A torn engine checksum may have cost the one batch that `open_engine` cut.
    let seen = inspection.last.unwrap_or_default().ticket.0;
    let is_short = seen > found.ticket.0.saturating_add(1);
    is_short.then(|| OpenError::Damaged(format!("journals reach batch {seen}, tables batch {}", found.ticket)))
}
