//! Takes out of a log what does not belong to history. Nothing is lost by it: copies lie in `damaged/`, as long as that has room.

use super::inspection::Gap;
use crate::directory::sync_directory;
use crate::error::OpenError;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// Most of a tail that is kept for the curious, in bytes.
const TAIL_KEPT_MAX: u64 = 64 << 20;
/// Most files kept as evidence; past it the newest are not kept.
const EVIDENCE_MAX: usize = 16;

/// Takes everything from a gap on out of the log. A copy of what is cut must have been kept.
pub(crate) fn set_aside(gap: &Gap, damaged: &Path) -> Result<(), OpenError> {
    // The newest goes first: a crash in between leaves the gap where it is, for the next try.
    for path in gap.later.iter().rev() {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let aside = free_name(damaged, &format!("log-{name}"));
        std::fs::rename(path, &aside).map_err(OpenError::io("set aside", path))?;
    }
    cut(gap)?;
    gap.path.parent().map_or(Ok(()), sync_directory)
}

/// Cuts a file, or removes it if nothing of it counts, and makes that durable.
fn cut(gap: &Gap) -> Result<(), OpenError> {
    let cut = || {
        if gap.at == 0 {
            return std::fs::remove_file(&gap.path);
        }
        let file = OpenOptions::new().write(true).open(&gap.path)?;
        file.set_len(gap.at)?;
        file.sync_all()
    };
    cut().map_err(OpenError::io("cut log", &gap.path))
}

/// A path in a directory where nothing is.
pub(crate) fn free_name(directory: &Path, name: &str) -> PathBuf {
    let numbered = (1..).map(|number: u32| directory.join(format!("{name}.{number}")));
    let mut names = std::iter::once(directory.join(name)).chain(numbered);
    names.find(|path| !path.exists()).unwrap_or_else(|| directory.join(name))
}

/// Keeps a copy of what is written behind a gap in its file.
pub(crate) fn keep_evidence(gap: &Gap, damaged: &Path) -> Result<(), OpenError> {
    let stem = gap.path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let path = damaged.join(format!("log-{stem}-{}.tail", gap.at));
    let kept = std::fs::read_dir(damaged).map_err(OpenError::io("list", damaged))?.count();
    if kept >= EVIDENCE_MAX {
        return Ok(());
    }
    let copy = || {
        let mut source = File::open(&gap.path)?;
        source.seek(SeekFrom::Start(gap.at))?;
        let mut tail = source.take((gap.written_until - gap.at).min(TAIL_KEPT_MAX));
        std::io::copy(&mut tail, &mut File::create(&path)?)
    };
    // A full disk must not stop the store from opening for the sake of a copy nobody may need.
    if let Err(error) = copy() {
        tracing::warn!(%error, "no copy kept of the tail of a log file");
    }
    Ok(())
}
