//! The public face of the chunk store.

use crate::chunks::compaction::{self, Compacted, Dead};
use crate::chunks::error::ChunkError;
use crate::chunks::index::{Index, Located};
use crate::chunks::open::{OpenReport, Opened, open};
use crate::chunks::segment::{CHUNK_LEN_MAX, Kind, RECORD_HEADER, RecordHeader, TOMBSTONE_LEN, encode_tombstone};
use crate::chunks::writer::{Append, Writer};
use crate::directory::DataDir;
use crate::error::OpenError;
use crate::group_sync::GroupSync;
use crate::poison::Poison;
use crate::space::Space;
use bytes::Bytes;
use std::ops::Bound;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use wayfs_disk::DiskFile;
use wayfs_types::Digest;

/// Most damaged chunks that are kept aside for the curious.
const EVIDENCE_MAX: usize = 64;

/// How a chunk store uses the disk.
#[derive(Debug, Clone, Copy)]
pub struct ChunkConfig {
    /// Bytes that a segment file aims at. Default 64 MiB: what one open may have to hash,
    /// and what one compaction moves. At most 1 GiB; more is taken for 1 GiB.
    pub segment_bytes: u64,
    /// Bytes left free on the file system. Default 64 MiB; compaction and metadata live on it.
    pub min_free: u64,
}

impl Default for ChunkConfig {
    fn default() -> Self {
        Self { segment_bytes: 64 << 20, min_free: 64 << 20 }
    }
}

/// What a put did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stored {
    /// The chunk was appended.
    New,
    /// The chunk was there.
    Present,
}

/// What a removal did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removed {
    /// The chunk is gone.
    Gone,
    /// It was not there.
    Absent,
}

/// Counters since open, and sizes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ChunkStats {
    /// Chunks in the store.
    pub chunks: u64,
    /// Their bytes.
    pub live_bytes: u64,
    /// Bytes of all segment files.
    pub disk_bytes: u64,
    /// Bytes that compaction would win.
    pub dead_bytes: u64,
    /// Segment files.
    pub segments: u64,
    /// Chunks appended since open.
    pub puts: u64,
    /// Puts of chunks that were there.
    pub duplicates: u64,
    /// Chunks read and verified.
    pub gets: u64,
    /// Chunks found damaged.
    pub corrupt: u64,
    /// Syncs asked for.
    pub syncs: u64,
    /// Syncs of files made; fewer than asked for when syncs share.
    pub disk_syncs: u64,
    /// Segments rewritten by compaction.
    pub compactions: u64,
}

/// Counters behind [`ChunkStats`].
#[derive(Debug, Default)]
pub(crate) struct Counters {
    puts: AtomicU64,
    duplicates: AtomicU64,
    gets: AtomicU64,
    corrupt: AtomicU64,
    syncs: AtomicU64,
    disk_syncs: AtomicU64,
    pub(crate) compactions: AtomicU64,
}

/// Chunks by name, for any number of threads. Clones share the store.
#[derive(Clone)]
pub struct ChunkStore(pub(crate) Arc<Inner>);

/// Lock order: `compaction`, the lead of `group`, `writer`, `index`.
pub(crate) struct Inner {
    /// One compaction at a time.
    pub(crate) compaction: Mutex<()>,
    writer: Mutex<Writer>,
    index: RwLock<Index>,
    /// Appends that are durable, as [`Writer::appended`] counts them.
    group: GroupSync,
    pub(crate) space: Space,
    pub(crate) counters: Counters,
    poison: Poison,
    pub(crate) config: ChunkConfig,
    pub(crate) directory: PathBuf,
    damaged: PathBuf,
    /// Keeps the directory locked while the store lives.
    pub(crate) data: DataDir,
}

impl ChunkStore {
    /// Opens the chunks of a data directory.
    ///
    /// # Errors
    /// [`OpenError::TooNew`] for segments of a newer format; [`OpenError::Io`].
    pub fn open(directory: &DataDir, config: ChunkConfig) -> Result<(Self, OpenReport), OpenError> {
        let path = directory.join("chunks");
        let Opened { index, writer, report } = open(&directory.shared_disk(), &path)?;
        let config = ChunkConfig { segment_bytes: config.segment_bytes.min(1 << 30), ..config };
        let inner = Inner {
            compaction: Mutex::default(),
            writer: Mutex::new(writer),
            index: RwLock::new(index),
            group: GroupSync::default(),
            space: Space::watch(directory.disk(), &path, config.min_free).map_err(OpenError::io("watch", &path))?,
            counters: Counters::default(),
            poison: Poison::default(),
            config,
            directory: path,
            damaged: directory.join("damaged"),
            data: directory.clone(),
        };
        Ok((Self(Arc::new(inner)), report))
    }

    /// Keeps a chunk that came from elsewhere; durable after [`ChunkStore::sync`].
    ///
    /// # Errors
    /// [`ChunkError::Misnamed`], [`ChunkError::TooLarge`], [`ChunkError::NoSpace`], which
    /// changes nothing; [`ChunkError::Poisoned`], [`ChunkError::Io`].
    pub fn put(&self, digest: &Digest, bytes: &[u8]) -> Result<Stored, ChunkError> {
        if self.has(digest) {
            return self.0.count_duplicate();
        }
        wayfs_content::verify(digest, bytes)?;
        self.put_known(digest, bytes)
    }

    /// As [`ChunkStore::put`] for a chunk that the caller has just hashed.
    ///
    /// # Errors
    /// As for [`ChunkStore::put`], but a wrong name shows only when the chunk is read.
    pub fn put_known(&self, digest: &Digest, bytes: &[u8]) -> Result<Stored, ChunkError> {
        self.0.put(digest, bytes)
    }

    /// Returns when every put and removal that returned before is durable.
    ///
    /// # Errors
    /// [`ChunkError::Poisoned`] when this or an earlier sync failed.
    pub fn sync(&self) -> Result<(), ChunkError> {
        self.0.sync()
    }

    /// A chunk, checked against its name; `None` if it is not here.
    ///
    /// # Errors
    /// [`ChunkError::Corrupt`] when the stored bytes are not the chunk: it is put aside,
    /// and is not here from then on.
    pub fn get(&self, digest: &Digest) -> Result<Option<Bytes>, ChunkError> {
        self.0.get(digest)
    }

    /// Whether a chunk is here; what is not durable yet counts.
    pub fn has(&self, digest: &Digest) -> bool {
        self.0.index().chunks.contains_key(digest)
    }

    /// The length of a chunk that is here, in bytes.
    pub fn len(&self, digest: &Digest) -> Option<u32> {
        self.0.index().chunks.get(digest).map(|located| located.len)
    }

    /// Whether no chunk is here.
    pub fn is_empty(&self) -> bool {
        self.0.index().chunks.is_empty()
    }

    /// Up to `limit` chunks and their lengths after a name, in order of name.
    pub fn list(&self, after: Option<&Digest>, limit: usize) -> Vec<(Digest, u32)> {
        let index = self.0.index();
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let range = index.chunks.range::<Digest, _>((from, Bound::Unbounded));
        range.take(limit).map(|(digest, located)| (*digest, located.len)).collect()
    }

    /// Bytes of all chunks.
    pub fn total_bytes(&self) -> u64 {
        self.0.index().live_bytes
    }

    /// Forgets a chunk; its room is won back by [`ChunkStore::compact`].
    ///
    /// After a crash a removal that was not synced may be undone; so may one for which the
    /// disk had no room. Forget the reason to keep a chunk before the chunk.
    ///
    /// # Errors
    /// [`ChunkError::Poisoned`], [`ChunkError::Io`]; never [`ChunkError::NoSpace`].
    pub fn remove(&self, digest: &Digest) -> Result<Removed, ChunkError> {
        self.0.remove(digest)
    }

    /// Rewrites one segment that is more than half dead, if there is one.
    ///
    /// Moves at most one segment's bytes; call it from a background thread until it
    /// returns `None`. Reads and writes go on meanwhile.
    ///
    /// # Errors
    /// [`ChunkError::NoSpace`] when not even the reserve holds the live part;
    /// [`ChunkError::Poisoned`], [`ChunkError::Io`].
    pub fn compact(&self) -> Result<Option<Compacted>, ChunkError> {
        self.compact_from(Dead::Half)
    }

    /// The same for a segment with at least so much to win.
    ///
    /// # Errors
    /// As [`ChunkStore::compact`].
    pub fn compact_from(&self, least: Dead) -> Result<Option<Compacted>, ChunkError> {
        compaction::compact(&self.0, least)
    }

    /// Counters and sizes.
    pub fn stats(&self) -> ChunkStats {
        let index = self.0.index();
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counters = &self.0.counters;
        ChunkStats {
            chunks: index.chunks.len() as u64,
            live_bytes: index.live_bytes,
            disk_bytes: index.segments.values().map(|segment| segment.total).sum(),
            dead_bytes: index.segments.values().map(|segment| segment.dead()).sum(),
            segments: index.segments.len() as u64,
            puts: load(&counters.puts),
            duplicates: load(&counters.duplicates),
            gets: load(&counters.gets),
            corrupt: load(&counters.corrupt),
            syncs: load(&counters.syncs),
            disk_syncs: load(&counters.disk_syncs),
            compactions: load(&counters.compactions),
        }
    }

    /// Bytes that contents leave free on the disk.
    pub fn min_free(&self) -> u64 {
        self.0.space.min_free()
    }

    /// Bytes that may still be put.
    ///
    /// # Errors
    /// [`ChunkError::Io`].
    pub fn available_bytes(&self) -> Result<u64, ChunkError> {
        self.0.space.available().map_err(ChunkError::io("look at free space"))
    }
}

impl std::fmt::Debug for ChunkStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ChunkStore({} chunks)", self.0.index().chunks.len())
    }
}

impl Inner {
    // The index and the writer change in whole steps; a panic of another thread leaves them right.
    pub(crate) fn index(&self) -> RwLockReadGuard<'_, Index> {
        self.index.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn index_mut(&self) -> RwLockWriteGuard<'_, Index> {
        self.index.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn writer(&self) -> Result<MutexGuard<'_, Writer>, ChunkError> {
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        self.check()?;
        Ok(writer)
    }

    fn check(&self) -> Result<(), ChunkError> {
        self.poison.cause().map_or(Ok(()), |cause| Err(ChunkError::Poisoned(cause.to_owned())))
    }

    /// Remembers an error that ends all writing.
    fn note(&self, error: ChunkError) -> ChunkError {
        match error {
            ChunkError::Poisoned(cause) => ChunkError::Poisoned(self.poison.set(cause).to_owned()),
            other => other,
        }
    }

    fn count_duplicate(&self) -> Result<Stored, ChunkError> {
        self.counters.duplicates.fetch_add(1, Ordering::Relaxed);
        self.check()?;
        Ok(Stored::Present)
    }

    fn put(&self, digest: &Digest, bytes: &[u8]) -> Result<Stored, ChunkError> {
        if bytes.len() > CHUNK_LEN_MAX {
            return Err(ChunkError::TooLarge(bytes.len()));
        }
        let mut writer = self.writer()?;
        if self.index().chunks.contains_key(digest) {
            return self.count_duplicate();
        }
        let header = RecordHeader { kind: Kind::Chunk, len: bytes.len() as u32, digest: *digest };
        self.space.check(header.record_len()).map_err(ChunkError::io("look at free space"))??;
        let place = self.append(&mut writer, &Append { header, payload: bytes })?;
        self.index_mut().insert(*digest, Located { place, len: header.len });
        self.counters.puts.fetch_add(1, Ordering::Relaxed);
        Ok(Stored::New)
    }

    /// Appends to the newest segment, beginning another when it is full.
    pub(crate) fn append(
        &self,
        writer: &mut Writer,
        append: &Append<'_>,
    ) -> Result<crate::chunks::segment::Place, ChunkError> {
        if writer.is_full_for(append, self.config.segment_bytes) {
            self.roll(writer)?;
        }
        let place = writer.append(append).map_err(|error| self.note(error))?;
        if let Some(segment) = self.index_mut().segments.get_mut(&place.segment) {
            segment.total = writer.end;
        }
        writer.records.extend(append.record(place));
        Ok(place)
    }

    /// Begins another segment.
    pub(crate) fn roll(&self, writer: &mut Writer) -> Result<(), ChunkError> {
        let before = writer.id;
        let ended = writer.roll().map_err(|error| self.note(error))?;
        if let Some(segment) = self.index_mut().segments.get_mut(&before) {
            segment.total = ended;
        }
        let segment = crate::chunks::index::Segment {
            file: Arc::clone(&writer.file),
            salt: writer.salt,
            total: writer.end,
            live: 0,
        };
        self.index_mut().segments.insert(writer.id, segment);
        Ok(())
    }

    pub(crate) fn sync(&self) -> Result<(), ChunkError> {
        self.counters.syncs.fetch_add(1, Ordering::Relaxed);
        let wanted = self.writer()?.appended;
        self.group.wait(wanted, || self.sync_all()).map(drop)
    }

    /// Makes all appends durable and returns how many those are.
    fn sync_all(&self) -> Result<u64, ChunkError> {
        let (files, reached) = {
            let writer = self.writer()?;
            let older = writer.unsynced.iter().map(|(id, file)| (*id, Arc::clone(file)));
            let files: Vec<_> = older.chain([(writer.id, Arc::clone(&writer.file))]).collect();
            (files, writer.appended)
        };
        for (_, file) in &files {
            self.counters.disk_syncs.fetch_add(1, Ordering::Relaxed);
            let synced = file.sync();
            let synced = synced.map_err(|error| ChunkError::Poisoned(format!("sync segment: {error}")));
            synced.map_err(|error| self.note(error))?;
        }
        // The newest of them may have been left for another meanwhile: it stays on the list then,
        // because appends may have followed the sync.
        let newest = files.last().map(|(id, _)| *id);
        self.writer()?.unsynced.retain(|(id, _)| Some(*id) >= newest);
        Ok(reached)
    }

    fn get(&self, digest: &Digest) -> Result<Option<Bytes>, ChunkError> {
        let Some((file, located)) = self.index().find(digest) else { return Ok(None) };
        match read_verified(&*file, digest, located) {
            Ok(bytes) => {
                self.counters.gets.fetch_add(1, Ordering::Relaxed);
                Ok(Some(bytes))
            }
            Err(ChunkError::Corrupt(_)) => Err(self.quarantine(&*file, digest, located)),
            Err(other) => Err(other),
        }
    }

    /// Puts a damaged chunk aside, so that a good copy can be put in its place.
    pub(crate) fn quarantine(&self, file: &dyn DiskFile, digest: &Digest, located: Located) -> ChunkError {
        self.counters.corrupt.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(%digest, "damaged chunk put aside");
        let kept = self.data.disk().list(&self.damaged).map_or(EVIDENCE_MAX, |kept| kept.len());
        let mut bytes = vec![0; located.len as usize];
        let offset = u64::from(located.place.offset) + RECORD_HEADER;
        if kept < EVIDENCE_MAX && file.read_exact_at(&mut bytes, offset).is_ok() {
            let path = self.damaged.join(format!("chunk-{digest}"));
            if let Err(error) = self.data.disk().create(&path).and_then(|copy| copy.write_at(&bytes, 0)) {
                tracing::debug!(%error, "no copy kept of a damaged chunk");
            }
        }
        if let Ok(mut writer) = self.writer() {
            let is_there = self.index().chunks.get(digest) == Some(&located);
            if is_there {
                // A mark that cannot be written costs another look at the damage after a restart, no more.
                let _ = self.bury(&mut writer, digest, located);
            }
        }
        self.index_mut().remove_at(digest, located.place);
        ChunkError::Corrupt(*digest)
    }

    fn remove(&self, digest: &Digest) -> Result<Removed, ChunkError> {
        let mut writer = self.writer()?;
        let Some(located) = self.index().chunks.get(digest).copied() else { return Ok(Removed::Absent) };
        match self.bury(&mut writer, digest, located) {
            // On a full disk removal is the way out: the chunk may come back after a crash, no more.
            Ok(()) | Err(ChunkError::NoSpace { .. }) => {}
            Err(error) => return Err(error),
        }
        self.index_mut().remove_at(digest, located.place);
        Ok(Removed::Gone)
    }

    /// Appends the mark that a record is dead.
    fn bury(&self, writer: &mut Writer, digest: &Digest, located: Located) -> Result<(), ChunkError> {
        let header = RecordHeader { kind: Kind::Tombstone, len: TOMBSTONE_LEN, digest: *digest };
        let payload = encode_tombstone(located.place, digest);
        self.append(writer, &Append { header, payload: &payload }).map(drop)
    }
}

/// Reads a chunk and checks it against its name.
pub(crate) fn read_verified(file: &dyn DiskFile, digest: &Digest, located: Located) -> Result<Bytes, ChunkError> {
    let mut bytes = vec![0; located.len as usize];
    let offset = u64::from(located.place.offset) + RECORD_HEADER;
    match file.read_exact_at(&mut bytes, offset) {
        Ok(()) if Digest::of(&bytes) == *digest => Ok(Bytes::from(bytes)),
        Ok(()) => Err(ChunkError::Corrupt(*digest)),
        // A sector that does not read and a file that ends early are damage like any other.
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => Err(ChunkError::Corrupt(*digest)),
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error()) => {
            Err(ChunkError::Corrupt(*digest))
        }
        Err(error) => Err(ChunkError::io("read chunk")(error)),
    }
}
