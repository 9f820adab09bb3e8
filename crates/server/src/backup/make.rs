//! Making a backup of a volume that is being served.

use super::sinks::{Archive, Directory, Sink as BackupSink};
use super::tables::Writer;
use super::{FACTS, FORMAT, Facts, IDENTITY, SERVERS, TABLES, VOLUME};
use crate::served::Served;
use crate::shared::Shared;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Seek as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;
use wayfs_control::report::BackupReport;
use wayfs_control::{ControlError, CopyForm, Progress, Sink};
use wayfs_node::{ContentsError, LiveReplica, clock};
use wayfs_types::{Digest, StorageError};

/// Longest wait for the disk before the tables are read.
const SYNC_MAX: Duration = Duration::from_secs(60);
/// Chunks listed at once.
const PAGE: usize = 4096;
/// Bytes gathered for one write of a stream.
const WRITE_LEN: usize = 256 * 1024;

/// Why a backup was not made. What an earlier one left is untouched.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BackupError {
    /// The path is relative.
    #[error("the directory of a backup must be given from the root")]
    Relative,
    /// The directory holds something else.
    #[error("{} is neither empty nor a backup of this volume", .0.display())]
    Occupied(PathBuf),
    /// The tables could not be read.
    #[error("read the volume's tables: {0}")]
    Tables(#[from] StorageError),
    /// A chunk could not be read.
    #[error("read contents: {0}")]
    Contents(#[from] ContentsError),
    /// The backup could not be written.
    #[error("write the backup: {0}")]
    Write(#[from] io::Error),
    /// The volume is stopped.
    #[error("the volume has stopped")]
    Stopped,
    /// The tool that asked is gone.
    #[error(transparent)]
    Control(#[from] ControlError),
}

/// Makes a backup of a volume in a directory of this machine, or as an archive through a stream.
pub(crate) fn run(
    server: &Shared,
    served: &Served,
    (to, form): (&Path, CopyForm),
    out: &mut dyn Sink,
) -> Result<BackupReport, BackupError> {
    let mut sink: Box<dyn BackupSink> = match form {
        CopyForm::Directory => Box::new(directory(served, to)?),
        CopyForm::Tar => {
            let stream = wayfs_control::stream::to_write(out)?;
            Box::new(Archive::new(BufWriter::with_capacity(WRITE_LEN, stream)))
        }
    };
    let directory = server.layout.volume(served.id);
    sink.small(VOLUME, &std::fs::read(directory.join(VOLUME))?)?;
    sink.small(IDENTITY, &std::fs::read(server.layout.identity())?)?;
    // By it the restored home finds out whether the one that it is a copy of still runs.
    if let Ok(servers) = std::fs::read(server.layout.store(served.id).join(SERVERS)) {
        sink.small(SERVERS, &servers)?;
    }
    Making { served, sink: &mut *sink, report: BackupReport::default(), out }.run(&directory)
}

/// A directory that is new, empty, or holds an earlier backup of the same volume.
fn directory(served: &Served, to: &Path) -> Result<Directory, BackupError> {
    if !to.is_absolute() {
        return Err(BackupError::Relative);
    }
    let earlier = crate::durable_file::read::<Facts>(&to.join(FACTS)).unwrap_or_default();
    let is_empty = std::fs::read_dir(to).map_or(true, |mut entries| entries.next().is_none());
    // A first backup that was cut short left its volume's file.
    let begun = crate::durable_file::read::<crate::layout::VolumeFile>(&to.join(VOLUME)).unwrap_or_default();
    let is_ours = earlier.is_some_and(|facts| facts.volume == served.id.to_string())
        || begun.is_some_and(|file| file.ids().is_some_and(|(id, _)| id == served.id));
    if !is_empty && !is_ours {
        return Err(BackupError::Occupied(to.to_owned()));
    }
    Ok(Directory::open(to)?)
}

struct Making<'a> {
    served: &'a Served,
    sink: &'a mut dyn BackupSink,
    report: BackupReport,
    out: &'a mut dyn Sink,
}

impl Making<'_> {
    fn run(mut self, scratch: &Path) -> Result<BackupReport, BackupError> {
        let volume = &self.served.volume;
        // From here on no chunk goes, so all that the tables name is still there when it is copied.
        let _held = volume.contents().hold();
        volume.sync(SYNC_MAX)?;
        let made_unix_ms = clock::wall().as_nanos() / 1_000_000;
        let tables = format!("{TABLES}{made_unix_ms}");
        let look = |replica: &LiveReplica| (replica.store().snapshot(), replica.progress().versions_missing);
        let (snapshot, versions_missing) = volume.look(look).ok_or(BackupError::Stopped)?;
        let mut writer = Writer::new(BufWriter::new(scratch_file(scratch)?))?;
        for row in snapshot.rows() {
            let (key, value) = row?;
            writer.row(&key, &value)?;
        }
        drop(snapshot);
        let (file, tables_digest, rows) = writer.end()?;
        self.chunks()?;
        let mut file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.rewind()?;
        self.sink.tables(&tables, &mut file)?;
        let facts = Facts {
            format: FORMAT,
            volume: self.served.id.to_string(),
            name: self.served.name().to_owned(),
            made_unix_ms,
            tables,
            tables_digest,
            rows,
            chunks: self.report.chunks,
            chunk_bytes: self.report.chunk_bytes,
            versions_missing,
        };
        let is_needed = |digest: &Digest| self.served.volume.contents().has(digest);
        let bytes = serde_json::to_vec_pretty(&facts).map_err(io::Error::other)?;
        self.report.removed_chunks = self.sink.facts(&bytes, &facts.tables, &is_needed)?;
        self.report.volume = facts.name;
        self.report.versions_missing = versions_missing;
        self.report.made_unix_ms = made_unix_ms;
        Ok(self.report)
    }

    fn chunks(&mut self) -> Result<(), BackupError> {
        let contents = self.served.volume.contents();
        let total_bytes = contents.bytes();
        let mut after: Option<Digest> = None;
        loop {
            let page = contents.list(after.as_ref(), PAGE)?;
            let Some((last, _)) = page.last() else { return Ok(()) };
            after = Some(*last);
            for (digest, len) in page {
                self.chunk(&digest, len)?;
                self.tell(total_bytes)?;
            }
        }
    }

    fn chunk(&mut self, digest: &Digest, len: u32) -> Result<(), BackupError> {
        self.report.chunks += 1;
        self.report.chunk_bytes += u64::from(len);
        if self.sink.has(digest, len) {
            return Ok(());
        }
        match self.served.volume.contents().get(digest) {
            Ok(bytes) => {
                self.sink.chunk(digest, &bytes)?;
                self.report.written_chunks += 1;
                self.report.written_bytes += bytes.len() as u64;
                Ok(())
            }
            // One damaged chunk must not stand in the way of all others. It is named.
            Err(ContentsError::Damaged(_)) => {
                self.report.damaged_chunks += 1;
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    fn tell(&mut self, total_bytes: u64) -> Result<(), ControlError> {
        let progress = Progress {
            what: "contents".to_owned(),
            done_bytes: self.report.chunk_bytes,
            total_bytes: total_bytes.max(self.report.chunk_bytes),
            done_items: self.report.chunks,
            total_items: 0,
        };
        if self.out.progress(&progress).is_err() || self.out.is_gone() {
            let next = "What was written stays, and the next backup goes on from it.";
            return Err(ControlError::new(
                wayfs_control::ErrorKind::NotTrue,
                "the caller left before the backup was whole",
                next,
            ));
        }
        Ok(())
    }
}

/// A file without a name: it goes with the process.
fn scratch_file(directory: &Path) -> io::Result<File> {
    let path = directory.join("backup.new");
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create(true).truncate(true).mode(0o600).open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}
