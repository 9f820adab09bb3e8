//! Takes out of a log what does not belong to history. Nothing is lost by it: copies lie in `damaged/`, as long as that has room.

use super::inspection::Gap;
use crate::error::OpenError;
use std::ops::Range;
use std::path::{Path, PathBuf};
use wayfs_disk::{Disk, DiskFile};

/// Most of a tail that is kept for the curious, in bytes.
const TAIL_KEPT_MAX: u64 = 64 << 20;
/// Most files kept as evidence; past it the newest are not kept.
const EVIDENCE_MAX: usize = 16;

/// Takes everything from a gap on out of the log. A copy of what is cut must have been kept.
pub(crate) fn set_aside(disk: &dyn Disk, gap: &Gap, damaged: &Path) -> Result<(), OpenError> {
    // The newest goes first: a crash in between leaves the gap where it is, for the next try.
    for path in gap.later.iter().rev() {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let aside = free_name(disk, damaged, &format!("log-{name}"));
        disk.rename(path, &aside).map_err(OpenError::io("set aside", path))?;
    }
    cut(disk, gap)?;
    let Some(log) = gap.path.parent() else { return Ok(()) };
    disk.sync_directory(log).map_err(OpenError::io("sync directory", log))
}

/// Cuts a file, or removes it if nothing of it counts, and makes that durable.
fn cut(disk: &dyn Disk, gap: &Gap) -> Result<(), OpenError> {
    let cut = || {
        if gap.at == 0 {
            return disk.remove(&gap.path);
        }
        let file = disk.open(&gap.path)?;
        file.set_size(gap.at)?;
        file.sync()
    };
    cut().map_err(OpenError::io("cut log", &gap.path))
}

/// A path in a directory where nothing is.
pub(crate) fn free_name(disk: &dyn Disk, directory: &Path, name: &str) -> PathBuf {
    let taken = disk.list(directory).unwrap_or_default();
    let numbered = (1..).map(|number: u32| directory.join(format!("{name}.{number}")));
    let mut names = std::iter::once(directory.join(name)).chain(numbered);
    names.find(|path| !taken.contains(path)).unwrap_or_else(|| directory.join(name))
}

/// Keeps a copy of what is written behind a gap in its file.
pub(crate) fn keep_evidence(disk: &dyn Disk, gap: &Gap, damaged: &Path) -> Result<(), OpenError> {
    let stem = gap.path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let path = damaged.join(format!("log-{stem}-{}.tail", gap.at));
    let kept = disk.list(damaged).map_err(OpenError::io("list", damaged))?.len();
    if kept >= EVIDENCE_MAX {
        return Ok(());
    }
    let copy = || {
        let (source, copy) = (disk.open(&gap.path)?, disk.create(&path)?);
        copy_piece(&*source, &*copy, gap.at..gap.written_until.min(gap.at + TAIL_KEPT_MAX))
    };
    // A full disk must not stop the store from opening for the sake of a copy nobody may need.
    if let Err(error) = copy() {
        tracing::warn!(%error, "no copy kept of the tail of a log file");
    }
    Ok(())
}

/// Copies a piece of a file to the beginning of another, or what there is of it.
fn copy_piece(source: &dyn DiskFile, copy: &dyn DiskFile, piece: Range<u64>) -> std::io::Result<()> {
    let (mut at, mut buffer) = (piece.start, vec![0; 1 << 16]);
    while at < piece.end {
        let wanted = (piece.end - at).min(buffer.len() as u64) as usize;
        let read = source.read_at(&mut buffer[..wanted], at)?;
        if read == 0 {
            break;
        }
        copy.write_at(&buffer[..read], at - piece.start)?;
        at += read as u64;
    }
    Ok(())
}
