//! From a backup to a data directory that a server can serve. The server must not run.

use super::sinks::parse;
use super::tables::Reader;
use super::{CHUNKS, FACTS, FORMAT, Facts, IDENTITY, SERVERS, TABLES, VOLUME};
use crate::error::StartError;
use crate::layout::{Layout, VolumeFile};
use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, Read, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Component, Path, PathBuf};
use wayfs_control::report::RestoreReport;
use wayfs_store::{ChunkConfig, ChunkError, ChunkStore, DataDir, DiskMetaStore, MetaConfig, Role};
use wayfs_types::{Batch, Digest, MetaStore as _, StorageError};

/// Longest small file of a backup.
const SMALL_MAX: u64 = 1 << 20;
/// Rows put into the store at once.
const BATCH_ROWS: usize = 2048;
/// Where a restore that is not whole yet lies, below `volumes`. No volume has such a name.
const STAGING: &str = "restoring";

/// Where a backup is.
pub enum Source<'a> {
    /// In a directory.
    Directory(PathBuf),
    /// In an archive that comes through a stream.
    Archive(&'a mut dyn Read),
}

/// Why nothing was restored. The data directory is as it was.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// It is no backup, or not whole.
    #[error("this is not a whole backup: {0}")]
    NotWhole(String),
    /// It was made by a program that writes another format.
    #[error("the backup has format {0}, and this program reads {FORMAT}: use the program that made it")]
    OtherFormat(u32),
    /// The volume is there.
    #[error("volume `{0}` is in this data directory already")]
    Exists(String),
    /// The data directory is of another server.
    #[error("this data directory has a key of its own, and members of the volume know the key in the backup")]
    OtherKey,
    /// The data directory cannot be used.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The store cannot be made.
    #[error("make the store: {0}")]
    Open(#[from] wayfs_store::OpenError),
    /// The tables could not be written.
    #[error("write the tables: {0}")]
    Tables(#[from] StorageError),
    /// A chunk could not be written.
    #[error("write contents: {0}")]
    Contents(#[from] ChunkError),
    /// The backup could not be read, or the data directory not be written.
    #[error("{what}: {source}")]
    Io {
        /// Doing what.
        what: String,
        /// The system's answer.
        source: io::Error,
    },
}

fn doing(what: impl std::fmt::Display) -> impl FnOnce(io::Error) -> RestoreError {
    move |source| RestoreError::Io { what: what.to_string(), source }
}

/// Restores a backup into a server's data directory, which is made if it is not there. `tell` hears how many bytes of
/// contents are done.
///
/// # Errors
/// [`RestoreError`]; the data directory is as it was.
pub fn restore(source: Source<'_>, data: &Path, tell: &mut dyn FnMut(u64)) -> Result<RestoreReport, RestoreError> {
    let layout = Layout::open(data)?;
    let staging = data.join("volumes").join(STAGING);
    let _ = std::fs::remove_dir_all(&staging);
    let restored = Restoring::new(&staging, tell).and_then(|mut restoring| {
        match source {
            Source::Directory(path) => restoring.directory(&path)?,
            Source::Archive(stream) => restoring.archive(stream)?,
        }
        restoring.end()
    });
    let settled = restored.and_then(|restored| restored.settle(&layout, &staging));
    if settled.is_err() {
        let _ = std::fs::remove_dir_all(&staging);
    }
    settled
}

struct Restoring<'a> {
    chunks: ChunkStore,
    meta: DiskMetaStore,
    volume: Option<Vec<u8>>,
    identity: Option<Vec<u8>>,
    servers: Option<Vec<u8>>,
    facts: Option<Vec<u8>>,
    tables: Option<(String, String)>,
    report: RestoreReport,
    tell: &'a mut dyn FnMut(u64),
}

/// All of a backup, in its store.
struct Restored {
    volume: VolumeFile,
    identity: Vec<u8>,
    servers: Option<Vec<u8>>,
    report: RestoreReport,
}

impl<'a> Restoring<'a> {
    fn new(staging: &Path, tell: &'a mut dyn FnMut(u64)) -> Result<Self, RestoreError> {
        let directory = DataDir::open(&staging.join("store"), Role::Server)?;
        let meta = DiskMetaStore::open(&directory, MetaConfig::default())?;
        let (chunks, _) = ChunkStore::open(&directory, ChunkConfig::default())?;
        let report = RestoreReport::default();
        Ok(Self { chunks, meta, volume: None, identity: None, servers: None, facts: None, tables: None, report, tell })
    }

    fn directory(&mut self, path: &Path) -> Result<(), RestoreError> {
        for name in [VOLUME, IDENTITY, FACTS] {
            let open = || File::open(path.join(name));
            self.file(Path::new(name), &mut open().map_err(doing(format_args!("open {name} of the backup")))?)?;
        }
        match File::open(path.join(SERVERS)) {
            Ok(mut file) => self.file(Path::new(SERVERS), &mut file)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(doing(format_args!("open {SERVERS} of the backup"))(error)),
        }
        let facts = self.facts()?;
        // What a later backup that was cut short left is not of this one.
        let tables = path.join(&facts.tables);
        let mut file = File::open(&tables).map_err(doing(format_args!("open {}", tables.display())))?;
        self.file(Path::new(&facts.tables), &mut file)?;
        let chunks = path.join(CHUNKS);
        let list = |path: &Path| std::fs::read_dir(path).map_err(doing(format!("list {}", path.display())));
        for directory in list(&chunks)? {
            let directory = directory.map_err(doing("list chunks"))?.path();
            for chunk in list(&directory)? {
                let chunk = chunk.map_err(doing("list chunks"))?;
                let name = Path::new(CHUNKS).join("xx").join(chunk.file_name());
                let mut file = File::open(chunk.path()).map_err(doing("open a chunk"))?;
                self.file(&name, &mut file)?;
            }
        }
        Ok(())
    }

    fn archive(&mut self, stream: &mut dyn Read) -> Result<(), RestoreError> {
        let mut archive = tar::Archive::new(stream);
        for entry in archive.entries().map_err(doing("read the archive"))? {
            let mut entry = entry.map_err(doing("read the archive"))?;
            let name = entry.path().map_err(doing("read the archive"))?.into_owned();
            self.file(&name, &mut entry)?;
        }
        Ok(())
    }

    fn file(&mut self, name: &Path, from: &mut dyn Read) -> Result<(), RestoreError> {
        let mut parts = name.components().filter_map(|part| match part {
            Component::Normal(part) => part.to_str(),
            _ => None,
        });
        match (parts.next(), parts.next_back()) {
            (Some(VOLUME), None) => self.volume = Some(small(name, from)?),
            (Some(IDENTITY), None) => self.identity = Some(small(name, from)?),
            (Some(SERVERS), None) => self.servers = Some(small(name, from)?),
            (Some(FACTS), None) => self.facts = Some(small(name, from)?),
            (Some(CHUNKS), Some(chunk)) => self.chunk(chunk, from)?,
            (Some(tables), None) if tables.starts_with(TABLES) => self.rows(tables.to_owned(), from)?,
            _ => return Err(RestoreError::NotWhole(format!("`{}` has no place in one", name.display()))),
        }
        Ok(())
    }

    /// A chunk that is damaged is left out and counted: the volume asks others for it.
    fn chunk(&mut self, name: &str, from: &mut dyn Read) -> Result<(), RestoreError> {
        let mut bytes = Vec::new();
        let len_max = wayfs_store::CHUNK_LEN_MAX as u64;
        from.take(len_max + 1).read_to_end(&mut bytes).map_err(doing("read a chunk"))?;
        let digest = Digest::of(&bytes);
        if bytes.len() as u64 > len_max || parse(name) != Some(digest) {
            self.report.damaged_chunks += 1;
            return Ok(());
        }
        self.chunks.put_known(&digest, &bytes)?;
        self.report.chunks += 1;
        self.report.chunk_bytes += bytes.len() as u64;
        (self.tell)(self.report.chunk_bytes);
        Ok(())
    }

    fn rows(&mut self, name: String, from: &mut dyn Read) -> Result<(), RestoreError> {
        if self.tables.is_some() {
            return Err(RestoreError::NotWhole("it has two sets of tables".into()));
        }
        let reading = || doing("read the tables");
        let mut reader = Reader::new(BufReader::new(from)).map_err(reading())?;
        let mut batch = Batch::default();
        while let Some((key, value)) = reader.next().map_err(reading())? {
            batch.put(key, value);
            self.report.rows += 1;
            if batch.changes.len() >= BATCH_ROWS {
                self.meta.commit(std::mem::take(&mut batch))?;
            }
        }
        if !batch.is_empty() {
            self.meta.commit(batch)?;
        }
        self.tables = Some((name, reader.digest()));
        Ok(())
    }

    fn facts(&self) -> Result<Facts, RestoreError> {
        let bytes = self.facts.as_deref().ok_or_else(|| RestoreError::NotWhole(format!("{FACTS} is missing")))?;
        let facts: Facts =
            serde_json::from_slice(bytes).map_err(|error| RestoreError::NotWhole(format!("{FACTS}: {error}")))?;
        if facts.format != FORMAT {
            return Err(RestoreError::OtherFormat(facts.format));
        }
        Ok(facts)
    }

    /// Everything came: it is checked and made durable.
    fn end(mut self) -> Result<Restored, RestoreError> {
        let facts = self.facts()?;
        let missing = |what: &str| RestoreError::NotWhole(format!("{what} is missing"));
        let (tables, digest) = self.tables.take().ok_or_else(|| missing(&facts.tables))?;
        if tables != facts.tables || digest != facts.tables_digest || self.report.rows != facts.rows {
            return Err(RestoreError::NotWhole("its tables are not those that it was made with".into()));
        }
        self.report.damaged_chunks = self.report.damaged_chunks.max(facts.chunks.saturating_sub(self.report.chunks));
        let volume = self.volume.take().ok_or_else(|| missing(VOLUME))?;
        let volume: VolumeFile =
            serde_json::from_slice(&volume).map_err(|error| RestoreError::NotWhole(format!("{VOLUME}: {error}")))?;
        if volume.ids().is_none() {
            return Err(RestoreError::NotWhole(format!("the ids in {VOLUME} are damaged")));
        }
        let identity = self.identity.take().ok_or_else(|| missing(IDENTITY))?;
        self.chunks.sync()?;
        self.meta.syncer().sync_to(self.meta.committed())?;
        self.report.volume.clone_from(&volume.name);
        self.report.id.clone_from(&facts.volume);
        self.report.made_unix_ms = facts.made_unix_ms;
        self.report.versions_missing = facts.versions_missing;
        Ok(Restored { volume, identity, servers: self.servers, report: self.report })
    }
}

impl Restored {
    /// Gives the store its place. The volume exists when its file is written, which is last.
    fn settle(self, layout: &Layout, staging: &Path) -> Result<RestoreReport, RestoreError> {
        let (id, _) = self.volume.ids().expect("checked when all was there");
        let directory = layout.volume(id);
        if directory.exists() {
            return Err(RestoreError::Exists(self.volume.name));
        }
        match std::fs::read(layout.identity()) {
            Ok(own) if own == self.identity => {}
            Ok(_) => return Err(RestoreError::OtherKey),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let mut file = OpenOptions::new()
                    .write(true)
                    .create_new(true)
                    .mode(0o600)
                    .open(layout.identity())
                    .map_err(doing("write the key"))?;
                file.write_all(&self.identity).and_then(|()| file.sync_all()).map_err(doing("write the key"))?;
            }
            Err(error) => return Err(doing("read the key")(error)),
        }
        if let Some(servers) = &self.servers {
            std::fs::write(staging.join("store").join(SERVERS), servers)
                .map_err(doing("write who serves the volume"))?;
        }
        std::fs::rename(staging, &directory).map_err(doing("give the volume its place"))?;
        layout.save(id, &self.volume)?;
        Ok(self.report)
    }
}

fn small(name: &Path, from: &mut dyn Read) -> Result<Vec<u8>, RestoreError> {
    let mut bytes = Vec::new();
    from.take(SMALL_MAX + 1).read_to_end(&mut bytes).map_err(doing(format_args!("read {}", name.display())))?;
    if bytes.len() as u64 > SMALL_MAX {
        return Err(RestoreError::NotWhole(format!("{} is too long", name.display())));
    }
    Ok(bytes)
}
