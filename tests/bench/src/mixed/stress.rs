//! All that may be done with files, as `fsstress` does it.
//!
//! The shares are the program's own, without what only some disks' file systems can, direct and asynchronous transfers, maps, and `sync` of
//! everything (which would sync what others on the machine write); `writev` counts as a write, `readv` as a read. Lengths and places are as there: up to 128 KiB, up to a
//! MiB beyond the end.

use super::draw::{place, weighted};
use crate::bytes::fresh;
use anyhow::{Context, Result};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rustix::fs::{AtFlags, FallocateFlags, FileType, Mode, XattrFlags};
use rustix::fs::{CWD, chownat, copy_file_range, fallocate, getxattr, mknodat, setxattr};
use rustix::process::{Gid, Uid};
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};

/// Most bytes moved at once.
const PIECE_MAX: usize = 128 << 10;
/// How far beyond the end of a file something may begin.
const BEYOND: u64 = 1 << 20;
/// Most bytes of a file: where it is longer, what follows falls within.
const LEN_MAX: u64 = 8 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Act {
    Write,
    Create,
    CopyRange,
    Chown,
    Mkdir,
    MakePipe,
    Symlink,
    Rename,
    Truncate,
    Read,
    SetAttribute,
    Stat,
    Attribute,
    Allocate,
    Link,
    List,
    ReadLink,
    Rmdir,
    Sync,
    SyncData,
    Unlink,
}

const MIX: [(Act, u32); 21] = [
    (Act::Write, 8),
    (Act::Create, 4),
    (Act::CopyRange, 4),
    (Act::Chown, 3),
    (Act::Mkdir, 2),
    (Act::MakePipe, 2),
    (Act::Symlink, 2),
    (Act::Rename, 2),
    (Act::Truncate, 2),
    (Act::Read, 2),
    (Act::SetAttribute, 2),
    (Act::Stat, 2),
    (Act::Attribute, 1),
    (Act::Allocate, 1),
    (Act::Link, 1),
    (Act::List, 1),
    (Act::ReadLink, 1),
    (Act::Rmdir, 1),
    (Act::Sync, 1),
    (Act::SyncData, 1),
    (Act::Unlink, 1),
];

struct Worker {
    random: StdRng,
    directories: Vec<PathBuf>,
    files: Vec<PathBuf>,
    symlinks: Vec<PathBuf>,
    made: usize,
    piece: Vec<u8>,
}

/// So many operations of one worker.
pub(super) fn work(directory: &Path, worker: usize, operations: usize) -> Result<()> {
    let mut worker = Worker {
        random: StdRng::seed_from_u64(1_000 + worker as u64),
        directories: vec![directory.to_owned()],
        files: Vec::new(),
        symlinks: Vec::new(),
        made: 0,
        piece: vec![0; PIECE_MAX],
    };
    fresh().fill(&mut worker.piece[..]);
    for _ in 0..operations {
        let act = weighted(&mut worker.random, &MIX);
        worker.act(act).with_context(|| format!("{act:?}"))?;
    }
    Ok(())
}

impl Worker {
    fn act(&mut self, act: Act) -> Result<()> {
        match act {
            Act::Create | Act::Mkdir | Act::MakePipe | Act::Symlink => self.make(act),
            Act::ReadLink => self.read_link(),
            Act::Rmdir => self.rmdir(),
            Act::List => {
                let directory = place(&mut self.random, &self.directories).map(|which| &self.directories[which]);
                let directory = directory.context("its own is always there")?;
                Ok(fs::read_dir(directory)?.try_for_each(|entry| entry.map(drop))?)
            }
            Act::Link | Act::Rename | Act::Unlink => self.act_on_name(act),
            Act::Chown | Act::SetAttribute | Act::Attribute | Act::Stat => self.act_on_attributes(act),
            Act::Write | Act::Read | Act::Truncate | Act::Sync | Act::SyncData | Act::Allocate | Act::CopyRange => {
                self.act_on_contents(act)
            }
        }
    }

    /// A name in one of the directories that nothing has.
    fn new_path(&mut self) -> PathBuf {
        self.made += 1;
        let which = self.random.random_range(0..self.directories.len());
        self.directories[which].join(format!("name-{}", self.made))
    }

    fn make(&mut self, act: Act) -> Result<()> {
        let path = self.new_path();
        match act {
            Act::Mkdir => {
                fs::create_dir(&path)?;
                self.directories.push(path);
            }
            Act::MakePipe => mknodat(CWD, &path, FileType::Fifo, Mode::from_raw_mode(0o644), 0)?,
            Act::Symlink => {
                symlink("somewhere/else", &path)?;
                self.symlinks.push(path);
            }
            _ => {
                File::create_new(&path)?;
                self.files.push(path);
            }
        }
        Ok(())
    }

    fn read_link(&mut self) -> Result<()> {
        match place(&mut self.random, &self.symlinks) {
            Some(which) => Ok(fs::read_link(&self.symlinks[which]).map(drop)?),
            None => self.make(Act::Symlink),
        }
    }

    /// One that has something in it stays, as with the program.
    fn rmdir(&mut self) -> Result<()> {
        let Some(which) = place(&mut self.random, &self.directories[1..]) else { return self.make(Act::Mkdir) };
        match fs::remove_dir(&self.directories[which + 1]) {
            Ok(()) => drop(self.directories.swap_remove(which + 1)),
            Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    fn act_on_name(&mut self, act: Act) -> Result<()> {
        let Some(which) = place(&mut self.random, &self.files) else { return self.make(Act::Create) };
        let new = self.new_path();
        match act {
            Act::Link => {
                fs::hard_link(&self.files[which], &new)?;
                self.files.push(new);
            }
            Act::Rename => {
                fs::rename(&self.files[which], &new)?;
                self.files[which] = new;
            }
            _ => fs::remove_file(self.files.swap_remove(which))?,
        }
        Ok(())
    }

    fn act_on_attributes(&mut self, act: Act) -> Result<()> {
        let Some(which) = place(&mut self.random, &self.files) else { return self.make(Act::Create) };
        let path = &self.files[which];
        match act {
            Act::Chown => {
                let id = self.random.random_range(1..1_000);
                chownat(CWD, path, Some(Uid::from_raw(id)), Some(Gid::from_raw(id)), AtFlags::empty())?;
            }
            Act::SetAttribute => {
                let value = self.random.random::<[u8; 32]>();
                setxattr(path, "user.stress", &value, XattrFlags::empty())?;
            }
            // Most files have none.
            Act::Attribute => drop(getxattr(path, "user.stress", &mut [0; 64][..])),
            _ => fs::metadata(path).map(drop)?,
        }
        Ok(())
    }

    fn act_on_contents(&mut self, act: Act) -> Result<()> {
        let Some(which) = place(&mut self.random, &self.files) else { return self.make(Act::Create) };
        let file = File::options().read(true).write(true).open(&self.files[which])?;
        let at = self.random.random_range(0..(file.metadata()?.len() + BEYOND).min(LEN_MAX));
        let len = self.random.random_range(1..=PIECE_MAX);
        match act {
            Act::Write => file.write_all_at(&self.piece[..len], at)?,
            Act::Read => drop(file.read_at(&mut self.piece[..len], at)?),
            Act::Truncate => file.set_len(at)?,
            Act::Sync => file.sync_all()?,
            Act::SyncData => file.sync_data()?,
            Act::Allocate => fallocate(&file, FallocateFlags::empty(), at, len as u64)?,
            _ => self.copy_range(&file, at, len)?,
        }
        Ok(())
    }

    /// From a file to one, perhaps the same, where what is copied does not overlap.
    fn copy_range(&mut self, to: &File, at: u64, len: usize) -> Result<()> {
        let which = self.random.random_range(0..self.files.len());
        let from = File::open(&self.files[which])?;
        let (mut read, mut write) = (0, at.max(len as u64));
        copy_file_range(from, Some(&mut read), to, Some(&mut write), len)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_is_done_and_something_is_left_of_each_kind() {
        let directory = tempfile::tempdir().unwrap();
        work(directory.path(), 1, 1_000).unwrap();
        let kinds: Vec<_> =
            fs::read_dir(directory.path()).unwrap().map(|it| it.unwrap().file_type().unwrap()).collect();
        assert!(kinds.iter().any(|kind| kind.is_dir()) && kinds.iter().any(|kind| kind.is_file()));
        assert!(kinds.iter().any(|kind| kind.is_symlink()));
    }
}
