//! Backups of a home's volume, online and incremental by content, and the way back.
//!
//! ```text
//! BACKUP/backup.json      what it is of, and which tables it goes with; written last
//! BACKUP/volume.json      as in the data directory
//! BACKUP/identity         the home's key: a secret
//! BACKUP/servers.json     who served the volume, and where, if the home knew
//! BACKUP/tables-TIME      all rows of the replica at one moment (`tables`)
//! BACKUP/chunks/xy/NAME   contents, each under its digest
//! ```
//!
//! A second backup into the same directory writes only the chunks that are not there yet, then the tables, then
//! `backup.json`, and removes what the new tables do not need. Cut short at any point it is still the former backup.
//! As a tar archive the same files come in this order: `volume.json`, `identity`, `servers.json`, chunks, tables, `backup.json`; an
//! archive that does not end with `backup.json` is not whole.
//!
//! Tickets are left out: a ticket that was used since would admit a second machine.

mod make;
mod restore;
mod sinks;
mod tables;

pub(crate) use make::{BackupError, run};
pub use restore::{RestoreError, Source, restore};

use serde::{Deserialize, Serialize};

/// The format that this program writes and reads.
const FORMAT: u32 = 2;
/// Names in a backup.
const FACTS: &str = "backup.json";
const VOLUME: &str = "volume.json";
const IDENTITY: &str = "identity";
const SERVERS: &str = "servers.json";
const CHUNKS: &str = "chunks";
const TABLES: &str = "tables-";

/// Reads bytes as the files of a backup, for the fuzzer.
pub(crate) fn read_files(bytes: &[u8]) {
    let _ = serde_json::from_slice::<Facts>(bytes);
    if let Ok(mut rows) = tables::Reader::new(bytes) {
        while let Ok(Some(_)) = rows.next() {}
    }
    let _ = sinks::parse(&String::from_utf8_lossy(bytes));
}

/// `backup.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Facts {
    format: u32,
    /// Id and name of the volume.
    volume: String,
    name: String,
    made_unix_ms: i64,
    /// Name of the file of tables, and its BLAKE3 digest.
    tables: String,
    tables_digest: String,
    rows: u64,
    chunks: u64,
    chunk_bytes: u64,
    /// Versions whose contents the home did not have: stations or clients hold them.
    versions_missing: u64,
}
