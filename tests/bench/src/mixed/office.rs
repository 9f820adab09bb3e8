//! An office's file server, as `dbench` plays it.
//!
//! The shares are those of the counts that `dbench` prints after a run of its usual recording (ten clients, a thousand seconds): 9.81
//! million times a file was opened, of which 7.20 were closed again; the rest asked for what was not there. Of those opened so many are
//! new as are unlinked. Reads and writes are of 1 to 30 KiB: 15 on average, what that run's megabytes make.

use super::draw::{place, weighted};
use crate::bytes::fresh;
use anyhow::{Context, Result, ensure};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rustix::fs::{FlockOperation, Timespec, Timestamps, fcntl_lock, futimens, statvfs};
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Files that a worker begins with.
const FILES: usize = 40;
/// Their length; what is read and written lies within it.
const LEN: usize = 64 << 10;
/// Most bytes read or written at once.
const PIECE_MAX: usize = 30 << 10;
/// Most files that a worker has open: further ones are opened when another was closed.
const OPEN_MAX: usize = 30;
/// Of a hundred files that are opened so many are new.
const NEW_PERCENT: u32 = 27;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Act {
    Read,
    Write,
    Stat,
    Open,
    Close,
    List,
    AskForMissing,
    Unlink,
    StatVolume,
    StatOpen,
    SetTimes,
    Sync,
    Rename,
    Lock,
}

/// How often each comes, in thousands of that run.
const MIX: [(Act, u32); 14] = [
    (Act::Read, 15_370),
    (Act::Stat, 8_888),
    (Act::Open, 7_203),
    (Act::Close, 7_203),
    (Act::Write, 4_887),
    (Act::List, 3_436),
    (Act::AskForMissing, 2_602),
    (Act::Unlink, 1_980),
    (Act::StatVolume, 1_630),
    (Act::StatOpen, 1_557),
    (Act::SetTimes, 799),
    (Act::Sync, 687),
    (Act::Rename, 415),
    (Act::Lock, 32),
];

struct Worker<'a> {
    directory: &'a Path,
    random: StdRng,
    /// Files that are closed, and those that are open.
    closed: Vec<PathBuf>,
    open: Vec<(PathBuf, File)>,
    made: usize,
    piece: Vec<u8>,
}

/// What a worker finds.
pub(super) fn prepare(directory: &Path) -> Result<()> {
    let mut bytes = vec![0; LEN];
    let mut random = fresh();
    for number in 0..FILES {
        random.fill(&mut bytes[..]);
        fs::write(directory.join(format!("file-{number}")), &bytes)?;
    }
    Ok(())
}

/// So many operations of one worker.
pub(super) fn work(directory: &Path, worker: usize, operations: usize) -> Result<()> {
    let mut worker = Worker {
        directory,
        random: StdRng::seed_from_u64(worker as u64),
        closed: (0..FILES).map(|number| directory.join(format!("file-{number}"))).collect(),
        open: Vec::new(),
        made: FILES,
        piece: vec![0; PIECE_MAX],
    };
    fresh().fill(&mut worker.piece[..]);
    for _ in 0..operations {
        let act = weighted(&mut worker.random, &MIX);
        worker.act(act).with_context(|| format!("{act:?}"))?;
    }
    Ok(())
}

impl Worker<'_> {
    fn act(&mut self, act: Act) -> Result<()> {
        match act {
            Act::Open => self.open(),
            Act::Close => self.close(),
            Act::AskForMissing => self.ask_for_missing(),
            Act::List => Ok(fs::read_dir(self.directory)?.try_for_each(|entry| entry.map(drop))?),
            Act::StatVolume => Ok(statvfs(self.directory).map(drop)?),
            Act::Stat | Act::Unlink | Act::Rename => self.act_on_closed(act),
            Act::Read | Act::Write | Act::StatOpen | Act::SetTimes | Act::Sync | Act::Lock => self.act_on_open(act),
        }
    }

    fn open(&mut self) -> Result<()> {
        if self.open.len() >= OPEN_MAX {
            self.close()?;
        }
        let known = place(&mut self.random, &self.closed).filter(|_| self.random.random_range(0..100) >= NEW_PERCENT);
        let path = match known {
            Some(known) => self.closed.swap_remove(known),
            None => self.new_path(),
        };
        let file = File::options().read(true).write(true).create(true).truncate(false).open(&path)?;
        self.open.push((path, file));
        Ok(())
    }

    fn close(&mut self) -> Result<()> {
        let Some(which) = place(&mut self.random, &self.open) else { return self.open() };
        let (path, file) = self.open.swap_remove(which);
        drop(file);
        self.closed.push(path);
        Ok(())
    }

    fn ask_for_missing(&mut self) -> Result<()> {
        let name = format!("missing-{}", self.random.random_range(0..1_000));
        let found = File::open(self.directory.join(name)).map(drop).map_err(|error| error.kind());
        ensure!(
            found == Err(ErrorKind::NotFound),
            "a file that was never made is there, or it cannot be told: {found:?}"
        );
        Ok(())
    }

    fn act_on_closed(&mut self, act: Act) -> Result<()> {
        let Some(which) = place(&mut self.random, &self.closed) else { return self.close() };
        match act {
            Act::Unlink => fs::remove_file(self.closed.swap_remove(which))?,
            Act::Rename => {
                let new = self.new_path();
                fs::rename(&self.closed[which], &new)?;
                self.closed[which] = new;
            }
            _ => fs::metadata(&self.closed[which]).map(drop)?,
        }
        Ok(())
    }

    fn act_on_open(&mut self, act: Act) -> Result<()> {
        let Some(which) = place(&mut self.random, &self.open) else { return self.open() };
        let len = self.random.random_range(1..=PIECE_MAX);
        let at = self.random.random_range(0..=LEN - len) as u64;
        let file = &self.open[which].1;
        match act {
            Act::Read => drop(file.read_at(&mut self.piece[..len], at)?),
            Act::Write => file.write_all_at(&self.piece[..len], at)?,
            Act::SetTimes => {
                let time = Timespec { tv_sec: 1_700_000_000 + at as i64, tv_nsec: 0 };
                futimens(file, &Timestamps { last_access: time, last_modification: time })?;
            }
            Act::Sync => file.sync_all()?,
            Act::Lock => {
                fcntl_lock(file, FlockOperation::LockExclusive)?;
                fcntl_lock(file, FlockOperation::Unlock)?;
            }
            _ => file.metadata().map(drop)?,
        }
        Ok(())
    }

    fn new_path(&mut self) -> PathBuf {
        self.made += 1;
        self.directory.join(format!("file-{}", self.made - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_is_done_and_about_as_many_files_are_there_as_before() {
        let directory = tempfile::tempdir().unwrap();
        prepare(directory.path()).unwrap();
        work(directory.path(), 1, 3_000).unwrap();
        let files = fs::read_dir(directory.path()).unwrap().count();
        assert!((FILES / 2..3 * FILES).contains(&files), "{files} files are left");
    }
}
